/* The strings of chunks; see strings.py for the layout of a chunk. */
#include "strings.h"

/* Join the strings of chunks; return their size. `offsets` has room for `values` + 1 numbers. */
KERNEL(join_chunks, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
       const int64_t *counts, int64_t chunks, int64_t width, int32_t *offsets, int64_t values,
       uint8_t *text, int64_t room) {
    int64_t at = 0, previous = 0;
    offsets[0] = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t start = starts[chunk], end = ends[chunk], count = counts[chunk];
        if (start < previous || end < start || end > size || count < 0 || count > values)
            return DAMAGED;
        Strings found;
        if (find_strings(data + start, end - start, width, count, 0, count, &found))
            return DAMAGED;
        const uint64_t length = found.high - found.low;
        if (length > (uint64_t)(room - at) || !rebase(found, width, count, at, offsets + 1, 4))
            return DAMAGED;
        memcpy(text + at, data + start + found.low, (size_t)length);
        at += (int64_t)length;
        offsets += count;
        values -= count;
        previous = end;
    }
    return values == 0 ? at : DAMAGED;
}

/* Whether the offsets of a chunk ascend by one from `first` on. */
static int ascend_by_one(const uint8_t *from, int64_t count, int64_t width, uint64_t first) {
    if (width == 4) {
        uint32_t wrong = 0;
        for (int64_t i = 0; i <= count; i++) {
            uint32_t offset;
            memcpy(&offset, from + i * 4, 4);
            wrong |= offset ^ ((uint32_t)first + (uint32_t)i);
        }
        return wrong == 0;
    }
    uint64_t wrong = 0;
    for (int64_t i = 0; i <= count; i++)
        wrong |= load(from + i * 8, 8) ^ (first + (uint64_t)i);
    return wrong == 0;
}

/* Join the strings of chunks if each is a byte; return whether they are, and no chunk is damaged.
 * `letters` has room for `values` of them. */
KERNEL(join_letters, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
       const int64_t *counts, int64_t chunks, int64_t width, uint8_t *letters, int64_t values) {
    int64_t previous = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t start = starts[chunk], end = ends[chunk], count = counts[chunk];
        if (start < previous || end < start || end > size || count < 0 || count > values)
            return 0;
        if (count >= (end - start) / width) /* a chunk has `count` + 1 offsets */
            return 0;
        const uint8_t *from = data + start;
        const uint64_t first = load(from, width), length = (uint64_t)(end - start);
        if (first < (uint64_t)((count + 1) * width) || first > length ||
            (uint64_t)count > length - first || !ascend_by_one(from, count, width, first))
            return 0;
        memcpy(letters, from + first, (size_t)count);
        letters += count;
        values -= count;
        previous = end;
    }
    return values == 0;
}

/* Find single strings. `wanted` has ascending positions among the strings of all chunks.
 *
 * found: where the bytes of each wanted string begin, then where they end. */
KERNEL(find_strings, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
       const int64_t *counts, int64_t chunks, int64_t width, const int64_t *wanted, int64_t strings,
       int64_t *found) {
    int64_t *const begins = found, *const stops = found + strings;
    int64_t chunk = 0, first = 0, last = -1, previous = 0;
    for (int64_t i = 0; i < chunks; i++) {
        if (starts[i] < previous || ends[i] < starts[i] || ends[i] > size)
            return DAMAGED;
        if (counts[i] < 0 || counts[i] >= (ends[i] - starts[i]) / width)
            return DAMAGED;
        previous = ends[i];
    }
    for (int64_t i = 0; i < strings; i++) {
        if (wanted[i] <= last)
            return DAMAGED;
        last = wanted[i];
        for (; chunk < chunks && last - first >= counts[chunk]; chunk++)
            first += counts[chunk];
        if (chunk == chunks)
            return DAMAGED;
        const uint8_t *offsets = data + starts[chunk] + (last - first) * width;
        const uint64_t low = load(offsets, width), high = load(offsets + width, width);
        if (low < (uint64_t)((counts[chunk] + 1) * width) || high < low ||
            high > (uint64_t)(ends[chunk] - starts[chunk]))
            return DAMAGED;
        begins[i] = starts[chunk] + (int64_t)low;
        stops[i] = starts[chunk] + (int64_t)high;
    }
    return 0;
}
