/* Validation of UTF-8, as utf8.c and texts.c do it. */
#ifndef LANCEFS_UTF8_H
#define LANCEFS_UTF8_H

#include "kernels.h"

/* Return 1 if all strings are UTF-8, else 0. `offsets` has `count` + 1 numbers of 4 or 8 bytes. */
int64_t are_utf8(const void *offsets, int64_t width, int64_t count, const uint8_t *data,
                 int64_t size);

#endif
