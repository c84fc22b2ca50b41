/* The headers of mini-block chunks; see chunks.py for the layout. */
#include "chunk_table.h"

/* Where headers are read from, and the outputs. The outputs have a row of `chunks` numbers each;
 * `begins` and `ends` have a row for each buffer of a chunk. */
typedef struct {
    const uint8_t *data;
    const int64_t *widths; /* bytes of the size of each buffer: 2 or 4 */
    int64_t buffers, chunks;
    int64_t header; /* bytes of a header: the number of levels (2 bytes), the size of each buffer */
    int64_t *levels, *begins, *ends;
} Headers;

static Headers headers_of(const uint8_t *data, const int64_t *widths, int64_t buffers,
                          int64_t chunks, int64_t *out) {
    int64_t *const begins = out + chunks;
    Headers headers = {data, widths, buffers, chunks, 2, out, begins, begins + buffers * chunks};
    for (int64_t i = 0; i < buffers; i++)
        headers.header += widths[i];
    return headers;
}

/* Read the header of a chunk of `length` bytes at `start`. The caller has checked that the chunk is
 * in the data and is not shorter than its header. */
static inline int read_header(Headers headers, int64_t chunk, int64_t start, int64_t length) {
    const uint8_t *head = headers.data + start;
    int64_t position = align(headers.header);
    headers.levels[chunk] = (int64_t)load(head, 2);
    head += 2;
    for (int64_t i = 0; i < headers.buffers; i++) {
        const int64_t width = headers.widths[i], at = i * headers.chunks + chunk;
        const int64_t end = position + (int64_t)load(head, width == 2 ? 2 : 4);
        if (end > length)
            return DAMAGED;
        headers.begins[at] = start + position;
        headers.ends[at] = start + end;
        position = align(end);
        head += width;
    }
    return 0;
}

/* Read the tables of all chunks of pages, and the headers of the chunks.
 *
 * pages: for each page the bytes of its table, the bytes of its chunks and its number of values.
 * out: the number of values in each chunk, then the outputs of `find_buffers`. */
KERNEL(open_chunks, const uint8_t *tables, int64_t tables_size, int64_t width, const uint8_t *data,
       int64_t size, const int64_t *pages, int64_t page_count, const int64_t *widths,
       int64_t buffers, int64_t *out) {
    const int64_t chunks = tables_size / width;
    const Headers headers = headers_of(data, widths, buffers, chunks, out + chunks);
    int64_t chunk = 0, start = 0;
    for (int64_t page = 0; page < page_count; page++) {
        const int64_t table = pages[3 * page], bytes = pages[3 * page + 1];
        const int64_t entries = table / width;
        int64_t items = pages[3 * page + 2];
        if (table % width || entries < 1 || entries > chunks - chunk || bytes < 0 ||
            bytes > size - start)
            return DAMAGED;
        const int64_t limit = start + bytes, last = chunk + entries - 1;
        const ChunkTable sizes = {tables, width, last + 1};
        int64_t at = start;
        for (; chunk <= last; chunk++) {
            ChunkSize size_of_chunk;
            if (next_chunk(sizes, chunk, items, limit - at, &size_of_chunk) ||
                size_of_chunk.length < headers.header ||
                read_header(headers, chunk, at, size_of_chunk.length))
                return DAMAGED;
            out[chunk] = size_of_chunk.count;
            items -= size_of_chunk.count;
            at += size_of_chunk.length;
        }
        start = limit;
    }
    return chunk == chunks ? 0 : DAMAGED;
}

/* Read the headers of chunks.
 *
 * out: a row with the number of levels of each chunk; then for each buffer a row that says where it
 * begins in each chunk; then for each buffer a row that says where it ends. */
KERNEL(find_buffers, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *sizes,
       int64_t chunks, const int64_t *widths, int64_t buffers, int64_t *out) {
    const Headers headers = headers_of(data, widths, buffers, chunks, out);
    int64_t last = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t start = starts[chunk], length = sizes[chunk];
        if (start < last || start > size || length < headers.header || length > size - start)
            return DAMAGED;
        last = start + headers.header;
        if (read_header(headers, chunk, start, length))
            return DAMAGED;
    }
    return 0;
}
