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

API int64_t lancefs_open_chunks(const uint8_t *table, int64_t chunks, int width,
                                const uint8_t *data, int64_t size, int64_t items,
                                const int64_t *widths, int64_t buffers, int64_t *counts,
                                int64_t *levels, int64_t *begins, int64_t *ends);

/* The table has `chunks` entries of `width` bytes. */
int64_t lancefs_open_chunks(const uint8_t *table, int64_t chunks, int width,
                            const uint8_t *data, int64_t size, int64_t items,
                            const int64_t *widths, int64_t buffers, int64_t *counts,
                            int64_t *levels, int64_t *begins, int64_t *ends) {
    const int64_t header = header_size(widths, buffers);
    int64_t start = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t word = (int64_t)load(table + chunk * width, width);
        const int64_t length = ((word >> 4) + 1) * ALIGN;
        const int64_t count = chunk == chunks - 1 ? items : (int64_t)1 << (word & 15);
        if (count > items || length > size - start || length < header)
            return DAMAGED;
        if (read_header(data, start, length, header, widths, buffers, chunks, levels + chunk,
                        begins + chunk, ends + chunk))
            return DAMAGED;
        counts[chunk] = count;
        items -= count;
        start += length;
    }
    return 0;
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
