/* Values of a dictionary, looked up. */
#include "kernels.h"

API int64_t lancefs_measure_strings(const int32_t *offsets, int64_t size, int64_t items,
                                    const uint32_t *indices, const uint8_t *valid, int64_t count);
API int64_t lancefs_take_strings(const int32_t *offsets, const uint8_t *data, int64_t size,
                                 int64_t items, const uint32_t *indices, const uint8_t *valid,
                                 int64_t count, int32_t *text_offsets, uint8_t *text,
                                 int64_t text_size);
API int64_t lancefs_take_fixed(const uint8_t *items, int64_t item_count, int64_t width,
                               const uint8_t *indices, int index_width, int64_t count,
                               uint8_t *out);

/* Return the bytes of the items that indices point at. */
int64_t lancefs_measure_strings(const int32_t *offsets, int64_t size, int64_t items,
                                const uint32_t *indices, const uint8_t *valid, int64_t count) {
    int64_t total = 0;
    if (offsets[0] < 0 || offsets[items] > size)
        return DAMAGED;
    for (int64_t item = 0; item < items; item++)
        if (offsets[item + 1] < offsets[item])
            return DAMAGED;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = indices[i];
        if (index >= items)
            return DAMAGED;
        if (valid == NULL || valid[i])
            total += (int64_t)offsets[index + 1] - offsets[index];
    }
    return total;
}

/* Spell out items that were measured; `text` has room for them and for SLACK. */
int64_t lancefs_take_strings(const int32_t *offsets, const uint8_t *data, int64_t size,
                             int64_t items, const uint32_t *indices, const uint8_t *valid,
                             int64_t count, int32_t *text_offsets, uint8_t *text,
                             int64_t text_size) {
    int64_t at = 0;
    text_offsets[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = indices[i];
        if (index >= items)
            return DAMAGED;
        if (valid == NULL || valid[i]) {
            const int64_t start = offsets[index], length = (int64_t)offsets[index + 1] - start;
            if (start < 0 || length < 0 || start + length > size || length > text_size - at)
                return DAMAGED;
            /* Most items are short: a copy of a fixed length takes no branch on the length. */
            if (length <= SLACK && start + SLACK <= size)
                memcpy(text + at, data + start, SLACK);
            else
                memcpy(text + at, data + start, (size_t)length);
            at += length;
        }
        text_offsets[i + 1] = (int32_t)at;
    }
    return at == text_size ? 0 : DAMAGED;
}

#define TAKE(INDEX, BYTES)                                                                         \
    for (int64_t i = 0; i < count; i++) {                                                          \
        INDEX index;                                                                               \
        memcpy(&index, indices + (size_t)i * sizeof index, sizeof index);                          \
        if (index >= (uint64_t)item_count)                                                         \
            return DAMAGED;                                                                        \
        memcpy(out + (size_t)i * (size_t)(BYTES), items + (size_t)index * (size_t)(BYTES),         \
               (size_t)(BYTES));                                                                   \
    }                                                                                              \
    return 0;

#define TAKE_WIDTHS(INDEX)                                                                         \
    switch (width) {                                                                               \
    case 1:                                                                                        \
        TAKE(INDEX, 1)                                                                             \
    case 2:                                                                                        \
        TAKE(INDEX, 2)                                                                             \
    case 4:                                                                                        \
        TAKE(INDEX, 4)                                                                             \
    case 8:                                                                                        \
        TAKE(INDEX, 8)                                                                             \
    case 16:                                                                                       \
        TAKE(INDEX, 16)                                                                            \
    default:                                                                                       \
        TAKE(INDEX, width)                                                                         \
    }

/* Look values of `width` bytes up by unsigned indices. */
int64_t lancefs_take_fixed(const uint8_t *items, int64_t item_count, int64_t width,
                           const uint8_t *indices, int index_width, int64_t count,
                           uint8_t *out) {
    switch (index_width) {
    case 1:
        TAKE_WIDTHS(uint8_t)
    case 2:
        TAKE_WIDTHS(uint16_t)
    case 4:
        TAKE_WIDTHS(uint32_t)
    default:
        TAKE_WIDTHS(uint64_t)
    }
}
