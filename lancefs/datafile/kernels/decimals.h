/* Decimals of 128 bits that take no more than 64, as decimals.c and plain.c read them. */
#ifndef LANCEFS_DECIMALS_H
#define LANCEFS_DECIMALS_H

#include "kernels.h"

#define WIDE 16 /* bytes of a stored number */

/* Give the low half of a signed number; return 0 if the high half is its sign: it is the number then. */
static inline uint64_t is_wide(const uint8_t *number, int64_t *low) {
    uint64_t halves[WIDE / sizeof(uint64_t)];
    memcpy(halves, number, sizeof halves);
    *low = (int64_t)halves[0];
    return halves[1] ^ (0 - (halves[0] >> 63));
}

#endif
