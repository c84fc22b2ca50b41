/* Rows in a row of many plain columns; see plain.py for what is read. */
#include "rows.h"

/* The columns of the table of leaves, as in plain.py. */
enum { FIRST_PAGE, PAGES, MEMORY, OUT, VALIDITY, END, LEAF_COLUMNS };

/* Where the rows of a leaf are written. */
typedef struct {
    uint8_t *out, *validity;
} Written;

static int64_t read_chunk(void *to, const int64_t *page, const uint8_t *chunk, int64_t length,
                          int64_t count, int64_t within, int64_t taken, int64_t at) {
    const Written *const written = to;
    return read_dense_chunk(page, chunk, length, count, within, taken, written->out, at,
                            written->validity);
}

/* Read rows of leaves: from `rows[0]` on, up to `rows[1]`. `memories` has the addresses of what they are
 * written to. `nulls` gets the number of nulls of each leaf, then the bytes that were looked at, and
 * their places. */
KERNEL(read_plain, const uint8_t *tables, int64_t tables_size, const uint8_t *data, int64_t size,
       int64_t descriptor, int64_t shift, const int64_t *pages, const int64_t *leaves,
       int64_t leaf_count, const int64_t *rows, const int64_t *memories, uint8_t *scratch,
       int64_t *nulls) {
    const File file = {{tables, tables_size}, {data, size}, descriptor, shift, scratch};
    const Rows wanted = {rows[0], rows[1]};
    int64_t *const seen = nulls + leaf_count;
    seen[0] = seen[1] = 0;
    for (int64_t i = 0; i < leaf_count; i++) {
        const int64_t *leaf = leaves + i * LEAF_COLUMNS;
        uint8_t *const memory = (uint8_t *)(uintptr_t)memories[leaf[MEMORY]];
        Written written = {memory + leaf[OUT], leaf[VALIDITY] < 0 ? NULL : memory + leaf[VALIDITY]};
        if (leaf[PAGES] < 1)
            return DAMAGED;
        const int64_t *const page = pages + leaf[FIRST_PAGE] * PAGE_COLUMNS;
        const int64_t bytes = page[BITS] == 1 ? 0 : (rows[1] - rows[0]) * page[BITS] / 8;
        memset(written.out + bytes, 0, (size_t)(leaf[END] - leaf[OUT] - bytes));
        nulls[i] = read_rows(&file, page, leaf[PAGES], wanted, read_chunk, NULL, &written, seen);
        if (nulls[i] < 0)
            return DAMAGED;
    }
    return 0;
}
