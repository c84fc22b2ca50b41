/* Values that are stored in runs of the same value. */
#include "points.h"

/* Come to a run with values that are not passed; return DAMAGED where none is left. */
static inline int next_repeats(Repeats *repeats) {
    while (repeats->left == 0) {
        if (repeats->run == repeats->count)
            return DAMAGED;
        repeats->value = load(repeats->values + repeats->run * repeats->width, repeats->width);
        repeats->left = (int64_t)load(
            repeats->lengths + repeats->run++ * repeats->length_width, repeats->length_width);
    }
    return 0;
}

static int skip_repeats(Repeats *repeats, int64_t count) {
    while (count > 0) {
        if (next_repeats(repeats))
            return DAMAGED;
        const int64_t some = count < repeats->left ? count : repeats->left;
        repeats->left -= some;
        count -= some;
    }
    return 0;
}

int open_repeats(const int64_t *page, Chunk chunk, int64_t count, int64_t within, Repeats *repeats) {
    const int64_t width = page[BITS] / 8, each = length_width(page);
    int64_t values = 0;
    const int is_known = width == 1 || width == 2 || width == 4 || width == 8;
    if (!is_known || each < 1 || chunk.values.size % width || chunk.lengths.size % each)
        return DAMAGED;
    const int64_t runs = chunk.lengths.size / each;
    if (chunk.values.size / width != runs)
        return DAMAGED;
    for (int64_t run = 0; run < runs; run++) /* the last ones may reach beyond the chunk */
        values += (int64_t)load(chunk.lengths.data + run * each, each);
    *repeats = (Repeats){chunk.values.data, chunk.lengths.data, width, each, runs, 0, 0, 0};
    return values < count ? DAMAGED : skip_repeats(repeats, within);
}

#define REPEAT(WORD)                                                                               \
    for (int64_t i = 0; i < times; i++) {                                                          \
        const WORD word = (WORD)value;                                                             \
        memcpy(to + (size_t)i * sizeof word, &word, sizeof word);                                  \
    }                                                                                              \
    break;

static void repeat_value(uint8_t *to, uint64_t value, int64_t width, int64_t times) {
    switch (width) {
    case 1:
        REPEAT(uint8_t)
    case 2:
        REPEAT(uint16_t)
    case 4:
        REPEAT(uint32_t)
    default:
        REPEAT(uint64_t)
    }
}

int repeat_values(Repeats *repeats, int64_t taken, uint8_t *to) {
    for (int64_t some; taken > 0; taken -= some) {
        if (next_repeats(repeats))
            return DAMAGED;
        some = taken < repeats->left ? taken : repeats->left;
        repeat_value(to, repeats->value, repeats->width, some);
        repeats->left -= some;
        to += some * repeats->width;
    }
    return 0;
}

int repeat_indices(Repeats *repeats, int64_t taken, int64_t limit, uint32_t *indices) {
    for (int64_t some; taken > 0; taken -= some) {
        if (next_repeats(repeats) || repeats->value >= (uint64_t)limit)
            return DAMAGED;
        some = taken < repeats->left ? taken : repeats->left;
        repeat_value((uint8_t *)indices, repeats->value, sizeof *indices, some);
        repeats->left -= some;
        indices += some;
    }
    return 0;
}

int write_repeats(const int64_t *page, Chunk chunk, int64_t count, int64_t first,
                  const int64_t *rows, int64_t start, int64_t stop, uint8_t *out) {
    Repeats repeats;
    if (open_repeats(page, chunk, count, rows[start] - first, &repeats))
        return DAMAGED;
    for (int64_t i = start; i < stop; i++) {
        if ((i > start && skip_repeats(&repeats, rows[i] - rows[i - 1])) || next_repeats(&repeats))
            return DAMAGED;
        repeat_value(out + i * repeats.width, repeats.value, repeats.width, 1);
    }
    return 0;
}
