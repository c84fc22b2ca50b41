/* Contiguous rows of the pages of a leaf, chunk by chunk. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#include "rows.h"

#if defined(__unix__) || defined(__APPLE__)
#include <errno.h>
#include <unistd.h>
#define HAS_PREAD
#endif

int read_file(const File *file, int64_t at, int64_t size) {
#ifdef HAS_PREAD
    for (int64_t done = 0; done < size;) {
        const ssize_t count = pread((int)file->descriptor, file->scratch + done,
                                    (size_t)(size - done), (off_t)(file->shift + at + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return 0;
        done += count;
    }
    return 1;
#else
    (void)file, (void)at, (void)size;
    return 0;
#endif
}

/* Return the bytes of the chunks from an entry on, whose first row is `first`, up to the one with the
 * last wanted row: as many as there is room for. */
static int64_t run_bytes(ChunkTable table, int64_t entry, int64_t first, int64_t stop, int64_t room) {
    int64_t bytes = 0;
    for (; entry < table.count && first < stop; entry++) {
        const ChunkSize size = chunk_size(table, entry);
        if (size.length > room - bytes)
            break;
        bytes += size.length;
        first += size.count;
    }
    return bytes;
}

/* Read the wanted rows that a page has; return how many are null. */
static int64_t read_page(const File *file, const int64_t *page, Rows rows, ReadChunk *read, void *to,
                         int64_t *seen) {
    const int64_t limit = page[CHUNKS_END];
    ChunkTable table;
    if (open_table(page, file->tables, file->data.size, &table))
        return DAMAGED;
    int64_t at = page[CHUNKS], first = page[FIRST_ROW], left = page[ROWS], nulls = 0;
    int64_t run = 0, run_end = 0, done = rows.start > first ? rows.start : first;
    int is_read = 0;
    seen[0] += table.count * table.width;
    seen[1] += 2; /* the table, and the chunks */
    for (int64_t entry = 0; entry < table.count; entry++) {
        ChunkSize size;
        if (next_chunk(table, entry, left, limit - at, &size))
            return DAMAGED;
        const int64_t length = size.length, count = size.count;
        const int64_t end = first + count, until = end < rows.stop ? end : rows.stop;
        if (until > done) {
            if (file->descriptor >= 0 && at >= run_end) {
                const int64_t most = limit - at < SCRATCH ? limit - at : SCRATCH;
                run = at;
                run_end = at + run_bytes(table, entry, first, rows.stop, most);
                is_read = run_end > run && read_file(file, run, run_end - run);
            }
            /* The table may be rewritten between `run_bytes` and here. */
            const uint8_t *const chunk = is_read && length <= run_end - at
                                             ? file->scratch + (at - run)
                                             : file->data.data + at;
            const int64_t found = read(to, page, chunk, length, count, done - first, until - done,
                                       done - rows.start);
            if (found < 0)
                return DAMAGED;
            nulls += found;
            seen[0] += length;
            done = until;
        }
        at += length;
        first = end;
        left -= count;
    }
    const int64_t page_end = page[FIRST_ROW] + page[ROWS];
    return done == (page_end < rows.stop ? page_end : rows.stop) ? nulls : DAMAGED;
}

int64_t read_rows(const File *file, const int64_t *pages, int64_t count, Rows rows, ReadChunk *read,
                  ReadZipped *zipped, void *to, int64_t *seen) {
    if (count < 1)
        return DAMAGED;
    const int64_t *const last = pages + count * PAGE_COLUMNS;
    const int64_t *page = find_page(pages, count, rows.start);
    int64_t row = rows.start, nulls = 0;
    for (; page < last && row < rows.stop; page += PAGE_COLUMNS) {
        if (page[ROWS] == 0) /* nobody asks it for a row */
            continue;
        if (page[FIRST_ROW] > row || page[FIRST_ROW] + page[ROWS] <= row)
            return DAMAGED;
        int64_t found = DAMAGED;
        if (page[VALUES] != ZIPPED)
            found = read_page(file, page, rows, read, to, seen);
        else if (zipped != NULL)
            found = zipped(to, file, page, rows, seen);
        if (found < 0)
            return DAMAGED;
        nulls += found;
        row = page[FIRST_ROW] + page[ROWS];
    }
    return row < rows.stop ? DAMAGED : nulls;
}
