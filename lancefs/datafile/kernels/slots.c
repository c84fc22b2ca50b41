/* Ranges of bytes in any order, and what the offsets of values say; see slots.py. */
#include "strings.h"

#define MOST ((uint64_t)1 << 62) /* as in slots.py */

/* Check that ranges lie within `size` bytes; return their total size. `gather` copies them. */
KERNEL(ranges_size, int64_t size, const int64_t *starts, const int64_t *ends, int64_t count) {
    uint64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        if (starts[i] < 0 || starts[i] > ends[i] || ends[i] > size)
            return DAMAGED;
        total += (uint64_t)(ends[i] - starts[i]);
        if (total > MOST)
            return DAMAGED;
    }
    return (int64_t)total;
}

/* Write the offsets of the values of all ranges, from 0 on and modulo 2^32, and the first and the last
 * stored offset of each range. `offsets` has room for one more than `values`. Return the number of
 * bytes, or items, of all values; DAMAGED if offsets descend, or leave the data or the limit. */
KERNEL(find_spans, const uint8_t *data, int64_t size, const int64_t *places, const int64_t *counts,
       int64_t ranges, int64_t width, int64_t limit, int64_t values, uint32_t *offsets,
       int64_t *starts, int64_t *ends) {
    const uint64_t most = width == 4 && limit > INT32_MAX ? INT32_MAX : (uint64_t)limit;
    uint64_t total = 0;
    offsets[0] = 0;
    for (int64_t i = 0; i < ranges; i++) {
        const int64_t count = counts[i], place = places[i];
        if (count < 0 || count > values || place < 0 || place > size ||
            count >= (size - place) / width)
            return DAMAGED;
        const uint8_t *stored = data + place;
        const uint64_t first = load(stored, width), last = load(stored + width * count, width);
        const Strings found = {stored, first, last};
        if (first > last || last > most ||
            !rebase(found, width, count, (int64_t)total, offsets + 1, sizeof *offsets))
            return DAMAGED;
        starts[i] = (int64_t)first;
        ends[i] = (int64_t)last;
        total += last - first;
        if (total > MOST)
            return DAMAGED;
        offsets += count;
        values -= count;
    }
    return values == 0 ? (int64_t)total : DAMAGED;
}
