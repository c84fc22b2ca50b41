/* Compiled twins of the NumPy references in lancefs/datafile/kernels.
 *
 * Every function checks all that it reads out of a file (widths, offsets, indices, lengths) against
 * the sizes that it is given, and returns DAMAGED at the first thing that does not fit. Sizes and
 * counts themselves come from the caller, who made the arrays, and are trusted. Nothing here
 * allocates, knows Python, or keeps state, so that the functions run without the interpreter lock.
 *
 * Numbers in files are little-endian, and so must be the machine; the loader sees to that.
 */
#ifndef LANCEFS_KERNELS_H
#define LANCEFS_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Grows with every change of a signature; `compiled.py` refuses a library of another one. */
#define LANCEFS_INTERFACE 12

#if defined(_WIN32)
#define API __declspec(dllexport)
#elif defined(__GNUC__)
#define API __attribute__((visibility("default")))
#else
#define API
#endif

#define DAMAGED (-1)

/* Bytes that may be written beyond the end of a text, so that short strings are copied whole. */
#define SLACK 32

static inline uint64_t load(const uint8_t *at, int width) {
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
