/* What the compiled kernels share.
 *
 * A kernel is the compiled twin of a NumPy function in the Python file of the same name. It checks
 * every width, offset, index and length of a file against the sizes of the buffers, and returns
 * DAMAGED at the first violation. The sizes and counts of the arrays are trusted: the caller made
 * the arrays. A kernel allocates nothing, knows nothing of Python, and keeps no state; therefore it
 * runs without the GIL.
 *
 * Numbers in files are little-endian; `library.py` loads the kernels on such machines only.
 */
#ifndef LANCEFS_KERNELS_H
#define LANCEFS_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Add 1 whenever a kernel is added or the parameters of a kernel change, here and in `library.py`,
 * which refuses a library with another number. */
#define LANCEFS_INTERFACE 50

#if defined(_WIN32)
#define API __declspec(dllexport)
#elif defined(__GNUC__)
#define API __attribute__((visibility("default")))
#else
#define API
#endif

/* Declare a kernel and begin its definition.
 *
 * Each parameter is an int64_t, a pointer to const (an input) or another pointer (an output). The
 * Python declaration, `twin_of` in calls.py, names the parameters in the same order. */
#define KERNEL(name, ...)                                                                          \
    API int64_t lancefs_##name(__VA_ARGS__);                                                       \
    int64_t lancefs_##name(__VA_ARGS__)

#define DAMAGED (-1)

/* End a kernel with a macro of the type of numbers that have `width` bytes, which is negative of
 * unsigned ones. The macro returns. */
#define OF_WIDTH(width, MACRO)                                                                     \
    switch (width) {                                                                               \
    case 1:                                                                                        \
        MACRO(int8_t)                                                                              \
    case 2:                                                                                        \
        MACRO(int16_t)                                                                             \
    case 4:                                                                                        \
        MACRO(int32_t)                                                                             \
    case 8:                                                                                        \
        MACRO(int64_t)                                                                             \
    case -1:                                                                                       \
        MACRO(uint8_t)                                                                             \
    case -2:                                                                                       \
        MACRO(uint16_t)                                                                            \
    case -4:                                                                                       \
        MACRO(uint32_t)                                                                            \
    case -8:                                                                                       \
        MACRO(uint64_t)                                                                            \
    default:                                                                                       \
        return DAMAGED;                                                                            \
    }

/* Where loops may be compiled a second time, for processors with AVX2, and the processor be asked. */
#if defined(__GNUC__) && defined(__x86_64__)
#define HAS_AVX2_TWIN
#endif

/* Bytes that a kernel may write beyond the end of a text, so that it copies short strings whole. */
#define SLACK 32

/* Read an unsigned number of 1, 2, 4 or 8 bytes from any address. */
static inline uint64_t load(const uint8_t *at, int64_t width) {
    switch (width) {
    case 1:
        return at[0];
    case 2: {
        uint16_t value;
        memcpy(&value, at, 2);
        return value;
    }
    case 4: {
        uint32_t value;
        memcpy(&value, at, 4);
        return value;
    }
    default: {
        uint64_t value;
        memcpy(&value, at, 8);
        return value;
    }
    }
}

#endif
