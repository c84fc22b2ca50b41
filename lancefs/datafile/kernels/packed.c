/* Chunks whose values are compressed as a whole; see packed.py for what becomes of them. */
#include "points.h"

/* The columns of the table of leaves and of that of chunks, as in packed.py. */
enum { FIRST_PAGE, PAGES, FIRST_WANTED, WANTED, LEAF_COLUMNS };
enum { PAGE, NUMBER, VALUE_COUNT, VALUES_START, VALUES_END, AT, LENGTH, CHUNK_COLUMNS };

#define RESTORED_ENTRY 4 /* bytes */

/* Find the buffers of a chunk. */
static int open_packed(const int64_t *page, const uint8_t *chunk, int64_t length, int64_t count,
                       Chunk *opened) {
    const int is_nullable = page[LEVELS] != NONE && page[LEVELS] != SKIPPED;
    return open_chunk(page, chunk, length, count, is_nullable, opened);
}

/* Write a row for each chunk that holds rows of a page; return their number. */
static int64_t find_in_page(Piece piece, const int64_t *page, int64_t number, const int64_t *rows,
                            int64_t start, int64_t stop, int64_t *found, int64_t room) {
    ChunkTable table;
    if ((page[ENTRY] != 2 && page[ENTRY] != 4) ||
        open_table(page, (Buffer){piece.data, piece.size}, piece.size, &table))
        return DAMAGED;
    int64_t at = page[CHUNKS], first = page[FIRST_ROW], left = page[ROWS], chunks = 0;
    for (int64_t entry = 0; entry < table.count; entry++) {
        ChunkSize size;
        if (next_chunk(table, entry, left, page[CHUNKS_END] - at, &size))
            return DAMAGED;
        const int64_t length = size.length, count = size.count;
        const int64_t end = rows_below(rows, start, stop, first + count);
        if (end > start) {
            Chunk opened;
            if (chunks == room || open_packed(page, piece.data + at, length, count, &opened))
                return DAMAGED;
            const int64_t values = piece.start + (opened.values.data - piece.data);
            const int64_t row[] = {number, entry,  count, values, values + opened.values.size,
                                   piece.start + at, length};
            memcpy(found + chunks * CHUNK_COLUMNS, row, sizeof row);
            chunks++;
            start = end;
        }
        at += length;
        first += count;
        left -= count;
    }
    return start == stop ? chunks : DAMAGED;
}

/* Find the chunks with compressed values that hold the wanted rows of leaves, at most `room`; return
 * their number. */
KERNEL(find_packed, const int64_t *addresses, const int64_t *ends, int64_t piece_count,
       const int64_t *pages, const int64_t *leaves, int64_t leaf_count, const int64_t *rows,
       int64_t count, const uint8_t *is_packed, int64_t *found, int64_t room) {
    const Pieces pieces = {addresses, ends, piece_count};
    int64_t chunks = 0;
    for (int64_t i = 0; i < leaf_count; i++) {
        const int64_t *const leaf = leaves + i * LEAF_COLUMNS, wanted = leaf[WANTED];
        if (leaf[FIRST_WANTED] < 0 || wanted < 0 || wanted > count - leaf[FIRST_WANTED])
            return DAMAGED;
        const int64_t *const own = rows + leaf[FIRST_WANTED];
        if (!ascend(own, wanted))
            return DAMAGED;
        for (int64_t start = 0, stop; start < wanted; start = stop) {
            const int64_t *const page = page_of(pages + leaf[FIRST_PAGE] * PAGE_COLUMNS, leaf[PAGES],
                                                own, start, wanted, &stop);
            if (page == NULL)
                return DAMAGED;
            const int64_t number = (page - pages) / PAGE_COLUMNS;
            if (!is_packed[number])
                continue;
            int64_t in_piece[PAGE_COLUMNS];
            const Piece piece = piece_of(pieces, page, in_piece);
            if (piece.data == NULL)
                return DAMAGED;
            const int64_t some = find_in_page(piece, in_piece, number, own, start, stop,
                                              found + chunks * CHUNK_COLUMNS, room - chunks);
            if (some < 0)
                return DAMAGED;
            chunks += some;
        }
    }
    return chunks;
}

static void store(uint8_t *to, int64_t number, int64_t width) {
    memcpy(to, &number, (size_t)width);
}

/* Write a buffer, and zeros up to the next one; return where that begins. */
static int64_t put(uint8_t *out, int64_t at, Buffer buffer) {
    const int64_t end = at + buffer.size;
    if (buffer.size)
        memcpy(out + at, buffer.data, (size_t)buffer.size);
    memset(out + end, 0, (size_t)(align(end) - end));
    return align(end);
}

/* Write a chunk with other values; return its length. */
static int64_t restore_chunk(const int64_t *page, const uint8_t *chunk, int64_t length,
                             int64_t count, Buffer values, uint8_t *out, int64_t room) {
    Chunk opened;
    if (open_packed(page, chunk, length, count, &opened))
        return DAMAGED;
    const int has_runs = length_width(page) > 0;
    const int64_t sizes = 2 + LEVEL * opened.has_levels;
    const int64_t header = sizes + (1 + has_runs) * RESTORED_ENTRY;
    const int64_t size = align(header) + align(opened.levels.size) + align(values.size) +
                         align(opened.lengths.size);
    if (size > room || values.size > INT32_MAX)
        return DAMAGED;
    memcpy(out, chunk, 2);
    if (opened.has_levels)
        store(out + 2, opened.levels.size, LEVEL);
    store(out + sizes, values.size, RESTORED_ENTRY);
    if (has_runs)
        store(out + sizes + RESTORED_ENTRY, opened.lengths.size, RESTORED_ENTRY);
    memset(out + header, 0, (size_t)(align(header) - header));
    const int64_t at = put(out, put(out, align(header), opened.levels), values);
    return put(out, at, opened.lengths);
}

/* Write a page with the `count` chunks of `chunks` restored, and 8 zeros in place of each other;
 * `restored` gets where its table and its chunks are. Return where it ends. */
static int64_t restore_page(Piece piece, const int64_t *page, const int64_t *chunks, int64_t count,
                            const uint8_t *raw, int64_t raw_size, const int64_t *bounds,
                            uint8_t *out, int64_t at, int64_t room, int64_t *restored) {
    const int64_t width = page[ENTRY], bytes = page[TABLE_END] - page[TABLE];
    if (page[TABLE] < 0 || bytes < 0 || page[TABLE_END] > piece.size || (width != 2 && width != 4))
        return DAMAGED;
    const int64_t entries = bytes / width;
    if (entries > (room - at) / RESTORED_ENTRY - 2)
        return DAMAGED;
    uint8_t *const table = out + at;
    restored[TABLE] = at;
    restored[TABLE_END] = at + entries * RESTORED_ENTRY;
    at = put(out, restored[TABLE_END], (Buffer){NULL, 0});
    restored[CHUNKS] = at;
    for (int64_t entry = 0; entry < entries; entry++) {
        const int64_t word = (int64_t)load(piece.data + page[TABLE] + entry * width, width);
        int64_t length = ALIGN;
        if (count && chunks[NUMBER] == entry) {
            const int64_t start = bounds[0], end = bounds[1], begin = chunks[AT] - piece.start;
            if (start < 0 || end < start || end > raw_size || begin < 0 || chunks[LENGTH] < 0 ||
                chunks[LENGTH] > piece.size - begin)
                return DAMAGED;
            length = restore_chunk(page, piece.data + begin, chunks[LENGTH], chunks[VALUE_COUNT],
                                   (Buffer){raw + start, end - start}, out + at, room - at);
            if (length < 0)
                return DAMAGED;
            chunks += CHUNK_COLUMNS;
            bounds += 2;
            count--;
        } else if (length > room - at) {
            return DAMAGED;
        } else {
            memset(out + at, 0, ALIGN);
        }
        store(table + entry * RESTORED_ENTRY, (length / ALIGN - 1) << 4 | (word & 15),
              RESTORED_ENTRY);
        at += length;
    }
    restored[CHUNKS_END] = at;
    return count ? DAMAGED : at;
}

/* Restore pages with compressed values, whose first byte has the position `first`; `restored` gets the
 * pages as they are then. Return the bytes that were written, for which there is `room`. */
KERNEL(restore_pages, const int64_t *addresses, const int64_t *ends, int64_t piece_count,
       const int64_t *pages, const int64_t *chunks, int64_t count, const uint8_t *raw,
       int64_t raw_size, const int64_t *bounds, int64_t first, int64_t *restored, uint8_t *out,
       int64_t room) {
    const Pieces pieces = {addresses, ends, piece_count};
    int64_t at = 0;
    for (int64_t i = 0, stop; i < count; i = stop) {
        const int64_t *const own = chunks + i * CHUNK_COLUMNS;
        for (stop = i + 1; stop < count && chunks[stop * CHUNK_COLUMNS + PAGE] == own[PAGE];)
            stop++;
        int64_t in_piece[PAGE_COLUMNS], *const to = restored + own[PAGE] * PAGE_COLUMNS;
        const Piece piece = piece_of(pieces, pages + own[PAGE] * PAGE_COLUMNS, in_piece);
        if (piece.data == NULL)
            return DAMAGED;
        at = restore_page(piece, in_piece, own, stop - i, raw, raw_size, bounds + 2 * i, out, at,
                          room, to);
        if (at < 0)
            return DAMAGED;
        for (int column = TABLE; column <= CHUNKS_END; column++)
            to[column] += first;
        to[ENTRY] = RESTORED_ENTRY;
        if (to[LEVELS] == SKIPPED)
            to[WIDTH] = 0;
    }
    return at;
}
