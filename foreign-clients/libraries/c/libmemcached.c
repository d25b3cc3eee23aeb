// libmemcached: cache, counters, compare and set, many keys; over the text or the binary protocol.

#include <libmemcached/memcached.h>
#include <string.h>

#include "show.h"

static memcached_st *client;

static void show(const char *what, memcached_return_t code) {
    printf("%s: %s\n", what, memcached_strerror(client, code));
}

static void got(const char *key) {
    size_t length;
    uint32_t flags;
    memcached_return_t code;
    char *value = memcached_get(client, key, strlen(key), &length, &flags, &code);
    printf("get %s: %s %.*s %u\n", key, memcached_strerror(client, code),
           value ? (int)length : 0, value ? value : "", value ? flags : 0);
    free(value);
}

int main(int count, char **arguments) {
    (void)count;
    client = memcached_create(NULL);
    int binary = strstr(arguments[0], "binary") != NULL;
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, binary);
    memcached_behavior_set(client, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
    memcached_server_add(client, server_host(), server_port());
    show("set", memcached_set(client, "a", 1, "one", 3, 60, 7));
    got("a");
    show("add", memcached_add(client, "a", 1, "two", 3, 60, 0));
    show("append", memcached_append(client, "a", 1, "!", 1, 0, 0));
    got("a");
    uint64_t number = 0;
    show("set", memcached_set(client, "n", 1, "5", 1, 0, 0));
    show("incr", memcached_increment(client, "n", 1, 4, &number));
    printf("number: %llu\n", (unsigned long long)number);
    show("touch", memcached_touch(client, "n", 1, 30));
    const char *keys[] = {"a", "none", "n"};
    size_t lengths[] = {1, 4, 1};
    show("mget", memcached_mget(client, keys, lengths, 3));
    memcached_return_t code;
    memcached_result_st *found;
    uint64_t version = 0;
    while ((found = memcached_fetch_result(client, NULL, &code)) != NULL) {
        // Neither ends with a zero.
        printf("found: %.*s %.*s\n", (int)memcached_result_key_length(found),
               memcached_result_key_value(found), (int)memcached_result_length(found),
               memcached_result_value(found));
        version = memcached_result_cas(found);
        memcached_result_free(found);
    }
    show("cas", memcached_cas(client, "n", 1, "6", 1, 0, 0, version));
    show("cas again", memcached_cas(client, "n", 1, "7", 1, 0, 0, version));
    show("delete", memcached_delete(client, "n", 1, 0));
    got("n");
    memcached_free(client);
    return 0;
}
