/* Selection of the values that a mask keeps. */
#include "kernels.h"

/* The mask of eight values that are all kept. */
#define ALL_EIGHT 0x0101010101010101u

/* Eight neighbours that are kept are copied as one: most masks keep nearly all values. Of others every
 * value is written, and the next one overwrites a value that is not kept: a branch would be
 * mispredicted at every other change of the mask. */
#define KEEP(BYTES)                                                                                \
    for (int64_t i = 0; i < count;) {                                                              \
        uint64_t mask = 0;                                                                         \
        if (count - i >= 8)                                                                        \
            memcpy(&mask, kept + i, 8);                                                            \
        if (mask == ALL_EIGHT) {                                                                   \
            memcpy(out + (size_t)row * (BYTES), values + (size_t)i * (BYTES), 8 * (BYTES));        \
            row += 8;                                                                              \
            i += 8;                                                                                \
            continue;                                                                              \
        }                                                                                          \
        for (const int64_t end = count - i >= 8 ? i + 8 : count; i < end; i++) {                   \
            memcpy(out + (size_t)row * (BYTES), values + (size_t)i * (BYTES), (BYTES));            \
            row += kept[i];                                                                        \
        }                                                                                          \
    }                                                                                              \
    break;

/* Copy the values that the mask keeps; `out` has room for them and for SLACK. */
KERNEL(keep, const uint8_t *values, int64_t width, const uint8_t *kept, int64_t count, uint8_t *out,
       int64_t room) {
    int64_t row = 0;
    switch (width) {
    case 1:
        KEEP(1)
    case 2:
        KEEP(2)
    case 4:
        KEEP(4)
    case 8:
        KEEP(8)
    case 16:
        KEEP(16)
    default:
        for (int64_t i = 0; i < count; i++)
            if (kept[i])
                memcpy(out + (size_t)row++ * (size_t)width, values + (size_t)i * (size_t)width,
                       (size_t)width);
    }
    return row == room ? 0 : DAMAGED;
}

/* Return the size of the strings that the mask keeps; a wrong one, even negative, if the offsets
 * descend. */
KERNEL(keep_strings_size, const int32_t *offsets, const uint8_t *kept, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++)
        total += ((int64_t)offsets[i + 1] - offsets[i]) & -(int64_t)kept[i];
    return total;
}

/* Copy consecutive strings, or skip them unless `is_kept`; return where the text then ends.
 *
 * Calls are inlined, with a constant number of strings. `ends` has room for the strings. */
static inline int64_t keep_run(const int32_t *offsets, int64_t strings, const uint8_t *data,
                               int64_t size, int32_t *ends, uint8_t *text, int64_t at,
                               int64_t room, int is_kept) {
    const int64_t start = offsets[0], length = offsets[strings] - start;
    int descends = 0;
    for (int64_t i = 0; i < strings; i++)
        descends |= offsets[i + 1] < offsets[i];
    if (descends || start < 0 || length > size - start)
        return DAMAGED;
    if (length <= SLACK && size - start >= SLACK) {
        memcpy(text + at, data + start, SLACK);
    } else if (is_kept) {
        if (length > room - at)
            return DAMAGED;
        memcpy(text + at, data + start, (size_t)length);
    }
    if (!is_kept)
        return at;
    for (int64_t i = 0; i < strings; i++)
        ends[i] = (int32_t)((uint32_t)(at - start) + (uint32_t)offsets[i + 1]);
    return length > room - at ? DAMAGED : at + length;
}

/* Copy the strings that the mask keeps, `text_size` bytes in all; `text` has room for that and for
 * SLACK. Most masks keep nearly all strings: eight neighbours that are kept are copied as one. */
KERNEL(keep_strings, const int32_t *offsets, const uint8_t *data, int64_t size, const uint8_t *kept,
       int64_t count, int32_t *ends, int64_t room, uint8_t *text, int64_t text_size) {
    int64_t row = 0, at = 0, i = 0;
    *ends++ = 0;
    if (offsets[0] < 0 || offsets[count] > size)
        return DAMAGED;
    while (i < count && at >= 0) {
        uint64_t mask = 0;
        if (count - i >= 8)
            memcpy(&mask, kept + i, 8);
        const int64_t strings = mask == ALL_EIGHT ? 8 : 1, taken = strings == 8 ? 8 : kept[i];
        if (taken > room - row)
            return DAMAGED;
        if (strings == 8)
            at = keep_run(offsets + i, 8, data, size, ends + row, text, at, text_size, 1);
        else
            at = keep_run(offsets + i, 1, data, size, ends + row, text, at, text_size, kept[i]);
        i += strings;
        row += taken;
    }
    return row == room && at == text_size ? 0 : DAMAGED;
}

/* Find the lists that the mask keeps, most of them: write their offsets, from 0, of which there is
 * room for `room + 1`, and for each of `items` items between the first and the last offset whether
 * it is in one of them. */
KERNEL(keep_lists, const int32_t *offsets, const uint8_t *kept, int64_t count, int32_t *ends,
       int64_t room, uint8_t *is_kept, int64_t items) {
    int64_t row = 0, total = 0, at = 0;
    *ends++ = 0;
    memset(is_kept, 1, (size_t)items);
    for (int64_t i = 0; i < count; i++) {
        const int64_t length = (int64_t)offsets[i + 1] - offsets[i];
        if (length < 0 || length > items - at)
            return DAMAGED;
        if (!kept[i]) {
            memset(is_kept + at, 0, (size_t)length);
        } else if (row < room) {
            total += length;
            ends[row++] = (int32_t)total;
        } else {
            return DAMAGED;
        }
        at += length;
    }
    return row == room && at == items ? 0 : DAMAGED;
}
