// Checks for the C++ tests: a failed check ends the program with a line that shows its position.

#ifndef CHECK_HPP
#define CHECK_HPP

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(what)                                                          \
    do {                                                                     \
        if (!(what)) {                                                       \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);  \
            std::exit(1);                                                    \
        }                                                                    \
    } while (false)

// Runs one test and prints its name.
#define RUN(test)               \
    do {                        \
        test();                 \
        std::puts("ok " #test); \
    } while (false)

inline constexpr std::chrono::milliseconds soon{50};

// Waits until `is_so` returns true.
template <class IsSo>
void wait_until(IsSo is_so) {
    for (int times = 0; times < 20'000; ++times) {
        if (is_so()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(!"it does not come to be");
}

#endif
