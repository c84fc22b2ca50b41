/* Contiguous rows of many plain columns; see plain.py for what is read. */
#include "decimals.h"
#include "rows.h"

/* The columns of the table of leaves, and of the table of items of pages, as in plain.py. */
enum { FIRST_PAGE, PAGES, MEMORY, OUT, VALIDITY, END, BITS_OUT, LEAF_COLUMNS };
enum { HAS_ITEMS, ADDRESS, COUNT, ITEM_COLUMNS };

/* Where the rows of a leaf are written; what is known of all pages; and the bytes of a value. */
typedef struct {
    const int64_t *pages, *items;
    uint8_t *out, *validity;
    int64_t width;
} Leaf;

#define LOOK_UP(BYTES)                                                                             \
    for (int64_t i = 0; i < count; i++)                                                            \
        memcpy(out + i * (BYTES), items + (size_t)indices[i] * (size_t)(BYTES), (size_t)(BYTES));  \
    break;

static void look_up(const uint8_t *items, int64_t width, const uint32_t *indices, int64_t count,
                    uint8_t *out) {
    switch (width) {
    case 1:
        LOOK_UP(1)
    case 2:
        LOOK_UP(2)
    case 4:
        LOOK_UP(4)
    case 8:
        LOOK_UP(8)
    case 16:
        LOOK_UP(16)
    default:
        LOOK_UP(width)
    }
}

/* Read rows of a chunk of indices, as `read_dense_chunk` does those of a chunk of values. */
static int64_t read_indices(const Leaf *leaf, const int64_t *page, const int64_t *items,
                            const uint8_t *chunk, int64_t length, int64_t count, int64_t within,
                            int64_t taken, int64_t at) {
    uint32_t indices[BLOCK];
    const uint8_t *const all = (const uint8_t *)(uintptr_t)items[ADDRESS];
    uint8_t *const out = leaf->out + at * leaf->width;
    Chunk opened;
    if ((page[VALUES] != PACKED && !length_width(page)) ||
        open_chunk(page, chunk, length, count, leaf->validity != NULL, &opened))
        return DAMAGED;
    const int64_t nulls = read_validity(page, opened, count, within, taken, at, leaf->validity);
    if (nulls < 0)
        return DAMAGED;
    if (page[VALUES] == PACKED) {
        if (unpack_indices(opened.values, page[BITS], count, within, taken, items[COUNT], indices))
            return DAMAGED;
        look_up(all, leaf->width, indices, taken, out);
        return nulls;
    }
    Repeats repeats;
    if (open_repeats(page, opened, count, within, &repeats))
        return DAMAGED;
    for (int64_t done = 0, some; done < taken; done += some) {
        some = taken - done < BLOCK ? taken - done : BLOCK;
        if (repeat_indices(&repeats, some, items[COUNT], indices))
            return DAMAGED;
        look_up(all, leaf->width, indices, some, out + done * leaf->width);
    }
    return nulls;
}

/* Read rows of a chunk of plain numbers, and give their low halves. Below a null may be any number. */
static int64_t read_decimal64(const Leaf *leaf, const int64_t *page, const uint8_t *chunk,
                           int64_t length, int64_t count, int64_t within, int64_t taken,
                           int64_t at) {
    Chunk opened;
    uint64_t wide = 0;
    int64_t low;
    if (open_chunk(page, chunk, length, count, leaf->validity != NULL, &opened))
        return DAMAGED;
    const int64_t nulls = read_validity(page, opened, count, within, taken, at, leaf->validity);
    if (nulls < 0 || count > opened.values.size / WIDE)
        return DAMAGED;
    const uint8_t *const numbers = opened.values.data + within * WIDE;
    uint8_t *const out = leaf->out + at * (int64_t)sizeof low;
    for (int64_t i = 0; i < taken; i++) {
        wide |= is_wide(numbers + i * WIDE, &low);
        memcpy(out + i * (int64_t)sizeof low, &low, sizeof low);
    }
    if (wide == 0)
        return nulls;
    for (int64_t i = 0; i < taken; i++) {
        const int is_null =
            nulls > 0 && !(leaf->validity[(at + i) / 8] >> ((at + i) % 8) & 1);
        if (!is_null && is_wide(numbers + i * WIDE, &low))
            return DAMAGED;
    }
    return nulls;
}

static int64_t read_chunk(void *to, const int64_t *page, const uint8_t *chunk, int64_t length,
                          int64_t count, int64_t within, int64_t taken, int64_t at) {
    const Leaf *const leaf = to;
    const int64_t *const items = leaf->items + (page - leaf->pages) / PAGE_COLUMNS * ITEM_COLUMNS;
    if (items[HAS_ITEMS])
        return read_indices(leaf, page, items, chunk, length, count, within, taken, at);
    if (page[VALUES] == DECIMAL64)
        return read_decimal64(leaf, page, chunk, length, count, within, taken, at);
    return read_dense_chunk(page, chunk, length, count, within, taken, leaf->out, at,
                            leaf->validity);
}

/* Read rows of leaves: from `rows[0]` on, up to `rows[1]`. `memories` has the addresses of what they are
 * written to. `nulls` gets the number of nulls of each leaf, then the bytes that were looked at, and
 * their places. */
KERNEL(read_plain, const uint8_t *tables, int64_t tables_size, const uint8_t *data, int64_t size,
       int64_t descriptor, int64_t shift, const int64_t *pages, const int64_t *items,
       const int64_t *leaves, int64_t leaf_count, const int64_t *rows, const int64_t *memories,
       uint8_t *scratch, int64_t *nulls) {
    const File file = {{tables, tables_size}, {data, size}, descriptor, shift, scratch};
    const Rows wanted = {rows[0], rows[1]};
    int64_t *const seen = nulls + leaf_count;
    seen[0] = seen[1] = 0;
    for (int64_t i = 0; i < leaf_count; i++) {
        const int64_t *leaf = leaves + i * LEAF_COLUMNS;
        uint8_t *const memory = (uint8_t *)(uintptr_t)memories[leaf[MEMORY]];
        Leaf to = {pages, items, memory + leaf[OUT], NULL, leaf[BITS_OUT] / 8};
        to.validity = leaf[VALIDITY] < 0 ? NULL : memory + leaf[VALIDITY];
        const int64_t bytes = (rows[1] - rows[0]) * to.width; /* none of bits, which are set */
        memset(to.out + bytes, 0, (size_t)(leaf[END] - leaf[OUT] - bytes));
        nulls[i] = read_rows(&file, pages + leaf[FIRST_PAGE] * PAGE_COLUMNS, leaf[PAGES], wanted,
                             read_chunk, NULL, &to, seen);
        if (nulls[i] < 0)
            return DAMAGED;
    }
    return 0;
}
