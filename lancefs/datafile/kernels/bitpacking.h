/* Bit-packed blocks; see bitpacking.py for the layout of a block. */
#ifndef LANCEFS_BITPACKING_H
#define LANCEFS_BITPACKING_H

#include "kernels.h"

#define BLOCK 1024
#define LARGEST_BLOCK (BLOCK * 8) /* bytes of an unpacked block */

static const int UNPACK_ORDER[8] = {0, 4, 2, 6, 1, 5, 3, 7};

/* Return the value at position `within` of a block; UNPACK_ORDER is its own inverse. */
static inline uint64_t value_at(const uint8_t *packed, int width, int bits, int within) {
    if (width == 0)
        return 0;
    const int lanes = BLOCK / bits, bytes = bits / 8, group = within % (BLOCK / 8) / lanes;
    const int bit = (UNPACK_ORDER[group * lanes / 16] * 8 + within / (BLOCK / 8)) * width;
    const int shift = bit % bits;
    const uint8_t *at = packed + bit / bits * (BLOCK / 8) + within % lanes * bytes;
    uint64_t value = load(at, bytes) >> shift;
    if (shift + width > bits)
        value |= load(at + BLOCK / 8, bytes) << (bits - shift);
    return value & (UINT64_MAX >> (64 - width));
}

/* Unpack a block of 1024 values of 8, 16, 32 or 64 bits; `out` is aligned to them. The caller has
 * checked that the width is at most `bits`, and that the block has so many bytes. */
void unpack_block(const uint8_t *packed, int width, int64_t bits, void *out);

#endif
