/* Pages of several files, as points.c and levels.c read them. */
#ifndef LANCEFS_POINTS_H
#define LANCEFS_POINTS_H

#include "bitpacking.h"
#include "chunk_table.h"

/* The columns of the table of pages, as in pages.py. */
enum { FIRST_ROW, ROWS, TABLE, TABLE_END, CHUNKS, CHUNKS_END, ENTRY, VALUES, BITS, LEVELS, WIDTH };
enum { ITEMS = WIDTH + 1, ITEMS_END, ITEM_COUNT, PAGE_COLUMNS };
/* How values and levels are stored. */
enum { NONE, FLAT, PACKED, PACKED_APART, RUNS, LONG_RUNS, DECIMAL64, SPLIT };
enum { STRINGS = SPLIT + 1, LOOKED_UP, ZIPPED, SKIPPED };
enum { WHOLE = SKIPPED + 1, ENDS, INDEXED };

#define LEVEL 2 /* bytes of a level */

/* A buffer of a page or chunk. */
typedef struct {
    const uint8_t *data;
    int64_t size;
} Buffer;

/* Bytes that lie in several places; positions count through all of them. Piece i has the positions
 * from ends[i - 1] to ends[i]. */
typedef struct {
    const int64_t *addresses, *ends;
    int64_t count;
} Pieces;

/* A piece, and the position of its first byte. */
typedef struct {
    const uint8_t *data;
    int64_t size, start;
} Piece;

/* Return the first piece that ends behind a position; without bytes where there is none. */
static inline Piece find_piece(Pieces pieces, int64_t position) {
    int64_t low = 0, high = pieces.count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (pieces.ends[middle] > position)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == pieces.count)
        return (Piece){NULL, 0, 0};
    const int64_t start = low ? pieces.ends[low - 1] : 0;
    return (Piece){(const uint8_t *)(uintptr_t)pieces.addresses[low], pieces.ends[low] - start,
                   start};
}

/* Where a string is, as positions in all pieces. */
typedef struct {
    int64_t start, end;
} Span;

/* The levels of a chunk, its values, and the lengths of runs of these. */
typedef struct {
    Buffer levels, values, lengths;
    int has_levels;
} Chunk;

/* Runs of values, of which those before `run` are passed but for `left` values of the last one. */
typedef struct {
    const uint8_t *values, *lengths;
    int64_t width, length_width, count, run, left;
    uint64_t value;
} Repeats;

/* Return the bytes of the length of a run of values; 0 for values that are not in runs. */
static inline int64_t length_width(const int64_t *page) {
    return page[VALUES] == RUNS ? 1 : page[VALUES] == LONG_RUNS ? 2 : 0;
}

/* Find the chunk table of a page in `tables`; return whether it is there, and the chunks of the page are
 * within the `size` bytes that have them. */
static inline int open_table(const int64_t *page, Buffer tables, int64_t size, ChunkTable *table) {
    const int64_t start = page[TABLE], end = page[TABLE_END], width = page[ENTRY];
    if (start < 0 || start > end || end > tables.size || page[CHUNKS] < 0 ||
        page[CHUNKS] > page[CHUNKS_END] || page[CHUNKS_END] > size || width < 1)
        return DAMAGED; /* the last one of a page that has no chunks */
    *table = (ChunkTable){tables.data + start, width, (end - start) / width};
    return (end - start) % width || table->count < 1 ? DAMAGED : 0;
}

/* Find the buffers of a chunk of `length` bytes. */
int open_chunk(const int64_t *page, const uint8_t *chunk, int64_t length, int64_t count,
               int is_nullable, Chunk *opened);

/* Write which of `taken` rows of a chunk from the row at position `within` on are valid, as bits from
 * `at` on; return how many are null. `validity` is NULL where no page of the leaf has levels. */
int64_t read_validity(const int64_t *page, Chunk chunk, int64_t count, int64_t within,
                      int64_t taken, int64_t at, uint8_t *validity);

/* Write which of the wanted rows of a chunk, `rows[start:stop]`, are valid, as bits from `start` on;
 * return how many are null. The first row of the chunk is `first`. `validity` as above. */
int64_t pick_validity(const int64_t *page, Chunk chunk, int64_t count, int64_t first,
                      const int64_t *rows, int64_t start, int64_t stop, uint8_t *validity);

/* Write `taken` rows of a chunk of plain or packed values from the row at position `within` on, as
 * the rows from `at` on; return how many are null. The chunk has `length` bytes and `count` rows, no
 * fewer than are taken. `validity` is NULL where no page of the leaf has levels. */
int64_t read_dense_chunk(const int64_t *page, const uint8_t *chunk, int64_t length, int64_t count,
                         int64_t within, int64_t taken, uint8_t *out, int64_t at,
                         uint8_t *validity);

/* Find the runs of the `count` values of a chunk, and pass over `within` of them. */
int open_repeats(const int64_t *page, Chunk chunk, int64_t count, int64_t within, Repeats *repeats);

/* Write the next `taken` values of runs. */
int repeat_values(Repeats *repeats, int64_t taken, uint8_t *to);

/* Write the values of the wanted rows of a chunk of runs, whose first row is `first`. */
int write_repeats(const int64_t *page, Chunk chunk, int64_t count, int64_t first,
                  const int64_t *rows, int64_t start, int64_t stop, uint8_t *out);

/* Write the next `taken` indices of runs, which are below `limit`. */
int repeat_indices(Repeats *repeats, int64_t taken, int64_t limit, uint32_t *indices);

/* Unpack `taken` indices of a block from the one at position `within` on, which are below `limit`. */
int unpack_indices(Buffer buffer, int64_t bits, int64_t count, int64_t within, int64_t taken,
                   int64_t limit, uint32_t *indices);

/* Write the wanted rows, `rows[start:stop]` and at least one, of a page without chunks; return how many
 * are null. `seen` counts the bytes that were looked at, and their places. */
int64_t read_whole_page(Piece piece, const int64_t *page, const int64_t *rows, int64_t start,
                        int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen);

static inline void set_bit(uint8_t *bits, int64_t position) {
    bits[position / 8] |= (uint8_t)(1u << (position % 8));
}

static inline void set_bits(uint8_t *bits, int64_t start, int64_t stop) {
    for (; start < stop && start % 8; start++)
        set_bit(bits, start);
    const int64_t bytes = (stop - start) / 8;
    memset(bits + start / 8, 0xff, (size_t)bytes);
    for (start += 8 * bytes; start < stop; start++)
        set_bit(bits, start);
}

/* Check a packed block that begins with its width; return the width. */
static inline int64_t inline_width(Buffer buffer, int64_t bits, int64_t count) {
    const int64_t word = bits / 8;
    if (count > BLOCK || buffer.size < word)
        return DAMAGED;
    const uint64_t width = load(buffer.data, word);
    if (width > (uint64_t)bits || (int64_t)width * (BLOCK / 8) != buffer.size - word)
        return DAMAGED;
    return (int64_t)width;
}

/* Check a buffer of levels that are packed in one width; return whether those after the last whole
 * block are stored raw. */
static inline int64_t has_raw_tail(Buffer buffer, int64_t width, int64_t count) {
    if (width < 0 || width > 8 * LEVEL)
        return DAMAGED;
    const int64_t block = width * (BLOCK / 8), whole = count / BLOCK, tail = count % BLOCK;
    if (tail > 0 && buffer.size == whole * block + tail * LEVEL)
        return 1;
    return (whole + (tail > 0)) * block == buffer.size ? 0 : DAMAGED;
}

/* Runs of levels, and the length of each, of one byte. */
typedef struct {
    const uint8_t *levels, *lengths;
    int64_t count;
} Runs;

static inline int open_runs(Buffer buffer, Runs *runs) {
    if (buffer.size < 8)
        return DAMAGED;
    const uint64_t size = load(buffer.data, 8);
    if (size > (uint64_t)buffer.size - 8 || size % LEVEL)
        return DAMAGED;
    *runs = (Runs){buffer.data + 8, buffer.data + 8 + size, (int64_t)size / LEVEL};
    return buffer.size - 8 - (int64_t)size == runs->count ? 0 : DAMAGED;
}

/* Rows of a chunk that are wanted, if no row between them is left out and they are worth the
 * unpacking of a whole block; else 0. */
#define FEW 16
static inline int64_t in_a_row(const int64_t *rows, int64_t start, int64_t stop) {
    const int64_t count = stop - start;
    return count >= FEW && rows[stop - 1] - rows[start] == count - 1 ? count : 0;
}

/* Return where the rows from `limit` on begin in `rows[start:stop]`, which ascend, each once. Rows
 * that follow each other are not looked at one by one. */
static inline int64_t rows_below(const int64_t *rows, int64_t start, int64_t stop, int64_t limit) {
    if (start == stop || rows[start] >= limit)
        return start;
    /* No more rows lie below the limit than there are numbers from the first row on. */
    const int64_t left = limit - rows[start];
    int64_t end = stop - start < left ? stop : start + left;
    if (rows[end - 1] < limit)
        return end;
    for (end = start + 1; rows[end] < limit; end++)
        ;
    return end;
}

/* Return the last page whose first row is at most `row`; `pages` is not empty. */
static inline const int64_t *find_page(const int64_t *pages, int64_t count, int64_t row) {
    int64_t low = 0, high = count;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (pages[middle * PAGE_COLUMNS + FIRST_ROW] <= row)
            low = middle;
        else
            high = middle;
    }
    return pages + low * PAGE_COLUMNS;
}

/* Return the page that has the row `rows[start]`, NULL if none does; and the first of the wanted rows,
 * up to `stop`, that are behind the page. */
static inline const int64_t *page_of(const int64_t *pages, int64_t count, const int64_t *rows,
                                     int64_t start, int64_t stop, int64_t *behind) {
    if (count < 1)
        return NULL;
    const int64_t *const page = find_page(pages, count, rows[start]);
    const int64_t end = page[FIRST_ROW] + page[ROWS];
    if (rows[start] < page[FIRST_ROW] || rows[start] >= end)
        return NULL;
    *behind = rows_below(rows, start, stop, end);
    return page;
}

/* Tell whether numbers ascend, each once. */
static inline int ascend(const int64_t *numbers, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        if (numbers[i] <= numbers[i - 1])
            return 0;
    return 1;
}

/* Return the piece that holds a page, and give the columns of the page with the positions in the
 * piece in place of those in all pieces; without bytes where there is none. */
static inline Piece piece_of(Pieces pieces, const int64_t *page, int64_t *own) {
    static const int positions[] = {TABLE, TABLE_END, CHUNKS, CHUNKS_END, ITEMS, ITEMS_END};
    const Piece piece = find_piece(pieces, page[TABLE]);
    memcpy(own, page, PAGE_COLUMNS * sizeof *own);
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) /* which may be anything */
        own[positions[i]] = (int64_t)((uint64_t)page[positions[i]] - (uint64_t)piece.start);
    return piece;
}

#endif
