/* Functions that rustc calls under ThreadSanitizer and the runtime of g++ 12 lacks. The plain
   functions do the same, and that runtime intercepts them. */

#include <string.h>

#ifdef __cplusplus
#define OF_C extern "C"
#else
#define OF_C
#endif

OF_C void* __tsan_memcpy(void* to, const void* from, size_t length);
OF_C void* __tsan_memmove(void* to, const void* from, size_t length);
OF_C void* __tsan_memset(void* to, int byte, size_t length);

OF_C void* __tsan_memcpy(void* to, const void* from, size_t length) {
    return memcpy(to, from, length);
}

OF_C void* __tsan_memmove(void* to, const void* from, size_t length) {
    return memmove(to, from, length);
}

OF_C void* __tsan_memset(void* to, int byte, size_t length) {
    return memset(to, byte, length);
}
