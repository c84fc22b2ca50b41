/* Validation of UTF-8. */
#include "utf8.h"

#define BATCH 4096

/* Tell whether a byte continues a character. */
static inline int continues(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/* Return the size of the character that `text` begins with; 0 if the bytes are not UTF-8. */
static int64_t character(const uint8_t *text, int64_t size) {
    const uint8_t lead = text[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2)
        return 0;
    if (lead < 0xE0)
        return size >= 2 && continues(text[1]) ? 2 : 0;
    if (lead < 0xF0) {
        if (size < 3 || !continues(text[1]) || !continues(text[2]))
            return 0;
        if (lead == 0xE0 && text[1] < 0xA0) /* overlong: two bytes suffice */
            return 0;
        return lead == 0xED && text[1] >= 0xA0 ? 0 : 3; /* 0: a surrogate */
    }
    if (lead > 0xF4 || size < 4)
        return 0;
    if (!continues(text[1]) || !continues(text[2]) || !continues(text[3]))
        return 0;
    if (lead == 0xF0 && text[1] < 0x90) /* overlong: three bytes suffice */
        return 0;
    return lead == 0xF4 && text[1] >= 0x90 ? 0 : 4; /* 0: beyond U+10FFFF */
}

/* Return an offset of 4 or 8 bytes. */
static int64_t offset_at(const void *offsets, int64_t width, int64_t index) {
    return width == 4 ? ((const int32_t *)offsets)[index] : ((const int64_t *)offsets)[index];
}

int64_t are_utf8(const void *offsets, int64_t width, int64_t count, const uint8_t *data,
                 int64_t size) {
    const int64_t start = offset_at(offsets, width, 0), end = offset_at(offsets, width, count);
    if (start < 0 || end < start || end > size)
        return DAMAGED;
    int64_t at = start;
    int ascii = 1;
    while (at < end) {
        const int64_t batch = end - at < BATCH ? end - at : BATCH;
        if (is_ascii(data + at, batch)) {
            at += batch;
            continue;
        }
        ascii = 0;
        const int64_t stop = at + batch;
        while (at < stop) {
            const int64_t length = character(data + at, end - at);
            if (length == 0)
                return 0;
            at += length;
        }
    }
    if (ascii)
        return 1;
    /* The joined text is UTF-8; a string is not if it begins inside a character. */
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = offset_at(offsets, width, i);
        if (first < start || first > end)
            return DAMAGED;
        if (first < end && continues(data[first]))
            return 0;
    }
    return 1;
}

/* Return 1 if all strings are UTF-8, else 0. `offsets` has `count` + 1 numbers. */
KERNEL(is_utf8, const int32_t *offsets, int64_t count, const uint8_t *data, int64_t size) {
    return are_utf8(offsets, 4, count, data, size);
}
