/* The raw sizes in the headers of zstd frames.
 *
 * Source: RFC 8878, section 3.1.1 "Zstandard Frames".
 */
#include "kernels.h"

#define PREFIX 8
#define HEAD 5 /* the magic number and the descriptor */
#define SHORTEST (PREFIX + HEAD + 3)
#define MAGIC 0xFD2FB528u

/* Return the raw size of the frame in a buffer of `length` bytes; −1 where it is not plain. */
static int64_t raw_size(const uint8_t *at, int64_t length) {
    if (length < SHORTEST)
        return -1;
    const uint8_t descriptor = at[PREFIX + HEAD - 1];
    const int flag = descriptor >> 6, is_single = (descriptor >> 5) & 1;
    if (load(at + PREFIX, 4) != MAGIC || (descriptor & 0x0B) || (!flag && !is_single))
        return -1;
    /* In a frame of several segments, a byte for the window precedes the size. */
    const int64_t head = PREFIX + HEAD + !is_single, width = (int64_t)1 << flag;
    if (head + width > length)
        return -1;
    const uint64_t size = load(at + head, width) + (flag == 1 ? 256 : 0);
    return size == load(at, PREFIX) && size <= INT64_MAX ? (int64_t)size : -1;
}

/* Write the raw size of each buffer, −1 for one that is not plain. */
KERNEL(frame_sizes, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
       int64_t count, int64_t *sizes) {
    int64_t before = 0;
    for (int64_t i = 0; i < count; i++) {
        const int is_within = starts[i] >= 0 && starts[i] >= before && ends[i] >= starts[i];
        const int is_sound = is_within && ends[i] <= size;
        sizes[i] = is_sound ? raw_size(data + starts[i], ends[i] - starts[i]) : -1;
        before = ends[i];
    }
    return 0;
}
