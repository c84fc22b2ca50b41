/* Lookups of the values of a dictionary. */
#include "kernels.h"

/* Short items of a small dictionary are copied from a table, always SHORT bytes. The next item
 * overwrites the surplus; the surplus of the last item goes into SLACK. */
#define MAX_SHORT 256
#define SHORT SLACK

typedef struct {
    uint8_t texts[MAX_SHORT * SHORT];
    int32_t lengths[MAX_SHORT];
} Table;

/* Fill a table; return whether the items fit it. The caller has checked their offsets. */
static int fill_table(Table *table, const int32_t *offsets, const uint8_t *data, int64_t items) {
    if (items > MAX_SHORT)
        return 0;
    for (int64_t item = 0; item < items; item++) {
        const int32_t length = offsets[item + 1] - offsets[item];
        if (length > SHORT)
            return 0;
        memset(table->texts + item * SHORT, 0, SHORT);
        memcpy(table->texts + item * SHORT, data + offsets[item], (size_t)length);
        table->lengths[item] = length;
    }
    return 1;
}

/* Tell whether the offsets of all items ascend within the data. */
static int is_sound(const int32_t *offsets, int64_t size, int64_t items) {
    if (offsets[0] < 0 || offsets[items] > size)
        return 0;
    for (int64_t item = 0; item < items; item++)
        if (offsets[item + 1] < offsets[item])
            return 0;
    return 1;
}

/* Check the offsets and the indices; return the size of the looked-up strings. */
KERNEL(take_strings_size, const int32_t *offsets, int64_t size, int64_t items,
       const int32_t *indices, const uint8_t *valid, int64_t count) {
    int64_t total = 0;
    if (!is_sound(offsets, size, items))
        return DAMAGED;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = (uint32_t)indices[i];
        if (index >= items)
            return DAMAGED;
        if (valid == NULL || valid[i])
            total += (int64_t)offsets[index + 1] - offsets[index];
    }
    return total;
}

static int64_t take_short(const Table *table, int64_t items, const int32_t *indices,
                          const uint8_t *valid, int64_t count, int32_t *ends, uint8_t *text,
                          int64_t text_size) {
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = (uint32_t)indices[i];
        if (index >= items)
            return DAMAGED;
        memcpy(text + at, table->texts + index * SHORT, SHORT);
        at += valid == NULL || valid[i] ? table->lengths[index] : 0;
        if (at > text_size)
            return DAMAGED;
        ends[i] = (int32_t)at;
    }
    return at == text_size ? 0 : DAMAGED;
}

/* Look up strings of `text_size` bytes in all; `text` has room for that and for SLACK. */
KERNEL(take_strings, const int32_t *offsets, const uint8_t *data, int64_t size, int64_t items,
       const int32_t *indices, const uint8_t *valid, int64_t count, int32_t *text_offsets,
       uint8_t *text, int64_t text_size) {
    int32_t *const ends = text_offsets + 1;
    Table table;
    text_offsets[0] = 0;
    if (!is_sound(offsets, size, items))
        return DAMAGED;
    if (fill_table(&table, offsets, data, items))
        return take_short(&table, items, indices, valid, count, ends, text, text_size);
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = (uint32_t)indices[i];
        if (index >= items)
            return DAMAGED;
        if (valid == NULL || valid[i]) {
            const int64_t length = (int64_t)offsets[index + 1] - offsets[index];
            if (length > text_size - at)
                return DAMAGED;
            memcpy(text + at, data + offsets[index], (size_t)length);
            at += length;
        }
        ends[i] = (int32_t)at;
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

/* Look up values of `width` bytes by unsigned indices. */
KERNEL(take, const uint8_t *items, int64_t item_count, int64_t width, const uint8_t *indices,
       int64_t index_width, int64_t count, uint8_t *out) {
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
