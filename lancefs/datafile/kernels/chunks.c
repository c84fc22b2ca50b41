/* The headers of mini-block chunks; see chunks.py for what they say. */
#include "kernels.h"

#define ALIGN 8

API int64_t lancefs_find_buffers(const uint8_t *data, int64_t size, const int64_t *starts,
                                 const int64_t *sizes, int64_t chunks, const int64_t *widths,
                                 int64_t buffers, int64_t *levels, int64_t *begins, int64_t *ends);

/* `begins` and `ends` have a row of `chunks` numbers for each buffer. */
int64_t lancefs_find_buffers(const uint8_t *data, int64_t size, const int64_t *starts,
                             const int64_t *sizes, int64_t chunks, const int64_t *widths,
                             int64_t buffers, int64_t *levels, int64_t *begins, int64_t *ends) {
    int64_t header = 2, last = 0;
    for (int64_t i = 0; i < buffers; i++)
        header += widths[i];
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t start = starts[chunk], length = sizes[chunk];
        if (start < last || start > size || length < header || length > size - start)
            return DAMAGED;
        last = start + header;
        const uint8_t *head = data + start;
        int64_t position = (header + ALIGN - 1) / ALIGN * ALIGN;
        levels[chunk] = (int64_t)load(head, 2);
        head += 2;
        for (int64_t i = 0; i < buffers; i++) {
            const int64_t end = position + (int64_t)load(head, widths[i] == 2 ? 2 : 4);
            if (end > length)
                return DAMAGED;
            begins[i * chunks + chunk] = start + position;
            ends[i * chunks + chunk] = start + end;
            position = (end + ALIGN - 1) / ALIGN * ALIGN;
            head += widths[i];
        }
    }
    return 0;
}
