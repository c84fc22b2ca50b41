/* Validation of UTF-8 and ASCII. */
#ifndef LANCEFS_UTF8_H
#define LANCEFS_UTF8_H

#include "kernels.h"

/* Return 1 if all strings are UTF-8, else 0. `offsets` has `count` + 1 numbers of 4 or 8 bytes. */
int64_t are_utf8(const void *offsets, int64_t width, int64_t count, const uint8_t *data,
                 int64_t size);

#define ASCII_STEP 256 /* bytes */

/* Tell whether all bytes are ASCII.
 *
 * The loop of constant length is unrolled: a loop over all bytes may take twice as long, depending
 * on its address. */
static inline int is_ascii(const uint8_t *text, int64_t size) {
    uint8_t any = 0;
    int64_t at = 0;
    for (; size - at >= ASCII_STEP; at += ASCII_STEP) {
        uint8_t here = 0;
        for (int i = 0; i < ASCII_STEP; i++)
            here |= text[at + i];
        any |= here;
    }
    for (; at < size; at++)
        any |= text[at];
    return any < 0x80;
}

#endif
