/* Decompression of lz4 blocks.
 *
 * Source: the description of the LZ4 block format, "lz4_Block_format.md". The end of a block is
 * checked as strictly as the lz4 library does: the last sequence has literals only, at least five,
 * and no match begins within the last twelve bytes.
 */
#include "kernels.h"

#define MIN_MATCH 4
#define LAST_LITERALS 5
#define LAST_MATCH 12
#define WIDE 16

/* Return a length: four bits and, if all are set, the bytes that follow, of which `left` remain. */
static inline int64_t lengthened(const uint8_t **at, int64_t left, int64_t length) {
    uint8_t more = 255;
    if (length != 15)
        return length;
    for (; more == 255; left--) {
        if (left <= 0)
            return DAMAGED;
        more = *(*at)++;
        length += more;
    }
    return length;
}

/* Copy `length` bytes from `offset` bytes before `to`; the two ranges may overlap. */
static inline void repeat(uint8_t *to, int64_t offset, int64_t length, int64_t room) {
    const uint8_t *from = to - offset;
    if (offset >= WIDE && room - length >= WIDE) {
        for (int64_t i = 0; i < length; i += WIDE)
            memcpy(to + i, from + i, WIDE);
    } else if (offset >= 8 && room - length >= 8) {
        for (int64_t i = 0; i < length; i += 8)
            memcpy(to + i, from + i, 8);
    } else if (offset == 1) {
        memset(to, *from, (size_t)length);
    } else {
        for (int64_t i = 0; i < length; i++)
            to[i] = from[i];
    }
}

/* Decompress one block to `size` bytes. */
static int64_t decompress(const uint8_t *in, const uint8_t *in_end, uint8_t *out, int64_t size) {
    uint8_t *to = out, *const end = out + size;
    if (!size)
        return in_end - in == 1 && !*in ? 0 : DAMAGED;
    while (in < in_end) {
        const int token = *in++;
        const int64_t literals = lengthened(&in, in_end - in, token >> 4);
        if (literals < 0 || literals > in_end - in || literals > end - to)
            return DAMAGED;
        if (literals <= WIDE && in_end - in >= WIDE && end - to >= WIDE)
            memcpy(to, in, WIDE);
        else
            memcpy(to, in, (size_t)literals);
        in += literals;
        to += literals;
        if (in == in_end)
            return to == end ? 0 : DAMAGED;
        if (end - to < LAST_MATCH || in_end - in < 2 + 1 + LAST_LITERALS)
            return DAMAGED;
        const int64_t offset = (int64_t)load(in, 2);
        in += 2;
        const int64_t left = in_end - in - (LAST_LITERALS - 1);
        const int64_t more = lengthened(&in, left, token & 15);
        if (more < 0 || !offset || offset > to - out)
            return DAMAGED;
        if (more > end - to - LAST_LITERALS - MIN_MATCH)
            return DAMAGED;
        repeat(to, offset, more + MIN_MATCH, end - to);
        to += more + MIN_MATCH;
    }
    return DAMAGED;
}

/* Decompress blocks. `sizes` has the raw sizes of the blocks; their sum is `room`. */
KERNEL(decompress_lz4, const uint8_t *data, int64_t size, const int64_t *starts,
       const int64_t *ends, const int64_t *sizes, int64_t count, uint8_t *out, int64_t room) {
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        if (starts[i] < 0 || ends[i] < starts[i] || ends[i] > size)
            return DAMAGED;
        if (sizes[i] < 0 || sizes[i] > room - at)
            return DAMAGED;
        if (decompress(data + starts[i], data + ends[i], out + at, sizes[i]))
            return DAMAGED;
        at += sizes[i];
    }
    return at == room ? 0 : DAMAGED;
}
