// What every program needs: the server's address, and an end with an error.

#ifndef SHOW_H
#define SHOW_H

#include <stdio.h>
#include <stdlib.h>

static inline const char *server_host(void) { return getenv("HOST"); }
static inline int server_port(void) { return atoi(getenv("PORT")); }

// Ends the program with what went wrong.
static inline void must(int good, const char *problem) {
    if (!good) {
        fprintf(stderr, "Error: %s\n", problem);
        exit(1);
    }
}

#endif
