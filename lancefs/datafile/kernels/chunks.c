/* The headers of mini-block chunks; see chunks.py for what they say. */
#include "kernels.h"

#define ALIGN 8

/* The bytes of a header: the number of levels, and the sizes of the buffers. */
static int64_t header_size(const int64_t *widths, int64_t buffers) {
    int64_t header = 2;
    for (int64_t i = 0; i < buffers; i++)
        header += widths[i];
    return header;
}

/* Reads the header of the chunk at `start`, which has `length` bytes that are in the data, and no
 * fewer than the header. Number i of its buffers is told at `begins[i * chunks]`. */
static int read_header(const uint8_t *data, int64_t start, int64_t length, int64_t header,
                       const int64_t *widths, int64_t buffers, int64_t chunks, int64_t *levels,
                       int64_t *begins, int64_t *ends) {
    const uint8_t *head = data + start;
    int64_t position = (header + ALIGN - 1) / ALIGN * ALIGN;
    *levels = (int64_t)load(head, 2);
    head += 2;
    for (int64_t i = 0; i < buffers; i++) {
        const int64_t end = position + (int64_t)load(head, widths[i] == 2 ? 2 : 4);
        if (end > length)
            return DAMAGED;
        begins[i * chunks] = start + position;
        ends[i * chunks] = start + end;
        position = (end + ALIGN - 1) / ALIGN * ALIGN;
        head += widths[i];
    }
    return 0;
}

/* Reads the `entries` entries of a page whose chunks are `data[start:limit]`; like `read_header`, it
 * tells the first of their buffers at `begins` and `ends`. */
static int open_page(const uint8_t *table, int64_t entries, int width, const uint8_t *data,
                     int64_t start, int64_t limit, int64_t items, int64_t header,
                     const int64_t *widths, int64_t buffers, int64_t chunks, int64_t *counts,
                     int64_t *levels, int64_t *begins, int64_t *ends) {
    for (int64_t i = 0; i < entries; i++) {
        const int64_t word = (int64_t)load(table + i * width, width);
        const int64_t length = ((word >> 4) + 1) * ALIGN;
        const int64_t count = i == entries - 1 ? items : (int64_t)1 << (word & 15);
        if (count > items || length > limit - start || length < header)
            return DAMAGED;
        if (read_header(data, start, length, header, widths, buffers, chunks, levels + i,
                        begins + i, ends + i))
            return DAMAGED;
        counts[i] = count;
        items -= count;
        start += length;
    }
    return 0;
}

API int64_t lancefs_open_chunks(const uint8_t *tables, int64_t tables_size, int width,
                                const uint8_t *data, int64_t size, const int64_t *pages,
                                int64_t count, const int64_t *widths, int64_t buffers,
                                int64_t *counts, int64_t *levels, int64_t *begins, int64_t *ends);

/* `pages` has the bytes of the table, those of the chunks, and the values of each page. There is
 * room for as many chunks as the tables have entries. */
int64_t lancefs_open_chunks(const uint8_t *tables, int64_t tables_size, int width,
                            const uint8_t *data, int64_t size, const int64_t *pages, int64_t count,
                            const int64_t *widths, int64_t buffers, int64_t *counts,
                            int64_t *levels, int64_t *begins, int64_t *ends) {
    const int64_t header = header_size(widths, buffers), chunks = tables_size / width;
    int64_t first = 0, start = 0;
    for (int64_t page = 0; page < count; page++) {
        const int64_t entries = pages[3 * page] / width, bytes = pages[3 * page + 1];
        if (pages[3 * page] % width || entries < 1 || entries > chunks - first ||
            bytes < 0 || bytes > size - start)
            return DAMAGED;
        if (open_page(tables + first * width, entries, width, data, start, start + bytes,
                      pages[3 * page + 2], header, widths, buffers, chunks, counts + first,
                      levels + first, begins + first, ends + first))
            return DAMAGED;
        first += entries;
        start += bytes;
    }
    return first == chunks ? 0 : DAMAGED;
}

API int64_t lancefs_find_buffers(const uint8_t *data, int64_t size, const int64_t *starts,
                                 const int64_t *sizes, int64_t chunks, const int64_t *widths,
                                 int64_t buffers, int64_t *levels, int64_t *begins, int64_t *ends);

/* `begins` and `ends` have a row of `chunks` numbers for each buffer. */
int64_t lancefs_find_buffers(const uint8_t *data, int64_t size, const int64_t *starts,
                             const int64_t *sizes, int64_t chunks, const int64_t *widths,
                             int64_t buffers, int64_t *levels, int64_t *begins, int64_t *ends) {
    const int64_t header = header_size(widths, buffers);
    int64_t last = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t start = starts[chunk], length = sizes[chunk];
        if (start < last || start > size || length < header || length > size - start)
            return DAMAGED;
        last = start + header;
        if (read_header(data, start, length, header, widths, buffers, chunks, levels + chunk,
                        begins + chunk, ends + chunk))
            return DAMAGED;
    }
    return 0;
}
