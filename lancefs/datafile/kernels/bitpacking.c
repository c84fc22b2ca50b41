/* Bit unpacking in the FastLanes order; see bitpacking.py for the layout of a block. */
#include "bitpacking.h"

/* The loops over the lanes of a row have a constant length and stride, so the compiler vectorizes
 * them although the width is a variable. */
#define DEFINE_UNPACK(NAME, TARGET, BITS, WORD)                                                    \
    TARGET static void NAME##_##BITS(const uint8_t *restrict packed, int width,                    \
                                     WORD *restrict out) {                                         \
        enum { LANES = BLOCK / BITS };                                                             \
        const WORD mask = (WORD)((WORD) ~(WORD)0 >> (BITS - width));                               \
        for (int row = 0; row < BITS; row++) {                                                     \
            const int word = row * width / BITS, shift = row * width % BITS;                       \
            const uint8_t *restrict low = packed + (size_t)word * (BLOCK / 8);                     \
            WORD *restrict to = out + UNPACK_ORDER[row / 8] * 16 + row % 8 * 128;                  \
            if (shift + width <= BITS) {                                                           \
                for (int lane = 0; lane < LANES; lane++) {                                         \
                    WORD value;                                                                    \
                    memcpy(&value, low + (size_t)lane * sizeof value, sizeof value);               \
                    to[lane] = (WORD)((WORD)(value >> shift) & mask);                              \
                }                                                                                  \
                continue;                                                                          \
            }                                                                                      \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                WORD value, next;                                                                  \
                memcpy(&value, low + (size_t)lane * sizeof value, sizeof value);                   \
                memcpy(&next, low + BLOCK / 8 + (size_t)lane * sizeof next, sizeof next);          \
                value = (WORD)((value >> shift) | (WORD)(next << (BITS - shift)));                 \
                to[lane] = (WORD)(value & mask);                                                   \
            }                                                                                      \
        }                                                                                          \
    }

#define DEFINE_UNPACK_BLOCK(NAME, TARGET)                                                          \
    DEFINE_UNPACK(NAME, TARGET, 8, uint8_t)                                                        \
    DEFINE_UNPACK(NAME, TARGET, 16, uint16_t)                                                      \
    DEFINE_UNPACK(NAME, TARGET, 32, uint32_t)                                                      \
    DEFINE_UNPACK(NAME, TARGET, 64, uint64_t)                                                      \
    static void NAME(const uint8_t *packed, int width, int64_t bits, void *out) {                  \
        switch (bits) {                                                                            \
        case 8:                                                                                    \
            NAME##_8(packed, width, out);                                                          \
            break;                                                                                 \
        case 16:                                                                                   \
            NAME##_16(packed, width, out);                                                         \
            break;                                                                                 \
        case 32:                                                                                   \
            NAME##_32(packed, width, out);                                                         \
            break;                                                                                 \
        default:                                                                                   \
            NAME##_64(packed, width, out);                                                         \
            break;                                                                                 \
        }                                                                                          \
    }

DEFINE_UNPACK_BLOCK(unpack_anywhere, )

/* The same loops for processors with AVX2, in registers of twice the length. */
#ifdef HAS_AVX2_TWIN
DEFINE_UNPACK_BLOCK(unpack_avx2, __attribute__((target("avx2"))))
#endif

void unpack_block(const uint8_t *packed, int width, int64_t bits, void *out) {
    if (width == 0) {
        memset(out, 0, (size_t)(BLOCK / 8 * bits));
        return;
    }
#ifdef HAS_AVX2_TWIN
    if (__builtin_cpu_supports("avx2")) {
        unpack_avx2(packed, width, bits, out);
        return;
    }
#endif
    unpack_anywhere(packed, width, bits, out);
}

/* Unpack blocks of up to 1024 values. `out` has room for `room` values and is aligned to them. */
KERNEL(unpack, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *widths,
       const int64_t *counts, int64_t blocks, int64_t bits, uint8_t *out, int64_t room) {
    uint64_t whole[LARGEST_BLOCK / 8];
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t start = starts[block], width = widths[block], count = counts[block];
        if (width < 0 || width > bits || count < 0 || count > BLOCK || count > room)
            return DAMAGED;
        if (start < 0 || start > size || width * (BLOCK / 8) > size - start)
            return DAMAGED;
        if (count == BLOCK) {
            unpack_block(data + start, (int)width, bits, out);
        } else {
            unpack_block(data + start, (int)width, bits, whole);
            memcpy(out, whole, (size_t)(count * (bits / 8)));
        }
        out += count * (bits / 8);
        room -= count;
    }
    return 0;
}

/* Read the bit widths of chunks; a chunk is a word that holds the width, then a packed block. */
KERNEL(read_widths, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
       int64_t chunks, int64_t bits, int64_t *widths) {
    const int64_t word = bits / 8;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t start = starts[chunk], end = ends[chunk];
        if (start < 0 || start > end || end > size || end - start < word)
            return DAMAGED;
        const uint64_t width = load(data + start, word);
        if (width > (uint64_t)bits || (int64_t)width * (BLOCK / 8) != end - start - word)
            return DAMAGED;
        widths[chunk] = (int64_t)width;
    }
    return 0;
}

/* Unpack buffers of blocks of one width. Values after the last whole block may be stored raw. */
KERNEL(unpack_buffers, const uint8_t *data, int64_t size, const int64_t *starts,
       const int64_t *ends, const int64_t *counts, int64_t buffers, int64_t width, int64_t bits,
       uint8_t *out, int64_t room) {
    uint64_t last[LARGEST_BLOCK / 8];
    if (width < 0 || width > bits)
        return DAMAGED;
    const int64_t block = width * (BLOCK / 8), bytes = bits / 8;
    int64_t before = 0;
    for (int64_t buffer = 0; buffer < buffers; buffer++) {
        const int64_t start = starts[buffer], end = ends[buffer], count = counts[buffer];
        if (start < before || start > end || end > size || count < 0 || count > room)
            return DAMAGED;
        before = end;
        const int64_t whole = count / BLOCK, tail = count % BLOCK, left = end - start;
        const int raw = tail > 0 && left == whole * block + tail * bytes;
        if (!raw && (whole + (tail > 0)) * block != left)
            return DAMAGED;
        const uint8_t *packed = data + start;
        for (int64_t i = 0; i < whole; i++, packed += block, out += BLOCK * bytes)
            unpack_block(packed, (int)width, bits, out);
        if (raw) {
            memcpy(out, packed, (size_t)(tail * bytes));
        } else if (tail > 0) {
            unpack_block(packed, (int)width, bits, last);
            memcpy(out, last, (size_t)(tail * bytes));
        }
        out += tail * bytes;
        room -= count;
    }
    return 0;
}

#define UNPACK_AT(BITS)                                                                            \
    for (int64_t i = 0; i < values; i++) {                                                         \
        if (wanted[i] <= last)                                                                     \
            return DAMAGED;                                                                        \
        last = wanted[i];                                                                          \
        for (; block < blocks && last - first >= counts[block]; block++)                           \
            first += counts[block];                                                                \
        if (block == blocks)                                                                       \
            return DAMAGED;                                                                        \
        const int width = (int)widths[block], within = (int)(last - first);                        \
        const uint64_t value = value_at(data + starts[block], width, BITS, within);                \
        memcpy(out + (size_t)i * (BITS / 8), &value, BITS / 8);                                    \
    }                                                                                              \
    return 0;

/* Unpack single values. `wanted` has ascending positions among the values of all blocks. */
KERNEL(unpack_at, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *widths,
       const int64_t *counts, int64_t blocks, const int64_t *wanted, int64_t values, int64_t bits,
       uint8_t *out) {
    int64_t block = 0, first = 0, last = -1;
    for (int64_t i = 0; i < blocks; i++) {
        if (widths[i] < 0 || widths[i] > bits || counts[i] < 0 || counts[i] > BLOCK)
            return DAMAGED;
        if (starts[i] < 0 || starts[i] > size || widths[i] * (BLOCK / 8) > size - starts[i])
            return DAMAGED;
    }
    switch (bits) {
    case 8:
        UNPACK_AT(8)
    case 16:
        UNPACK_AT(16)
    case 32:
        UNPACK_AT(32)
    default:
        UNPACK_AT(64)
    }
}
