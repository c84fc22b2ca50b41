/* Byte-stream split; see streams.py for the layout. */
#include "kernels.h"

#define SCATTER(WIDTH)                                                                             \
    for (int64_t i = 0; i < count; i++)                                                            \
        for (int byte = 0; byte < (WIDTH); byte++)                                                 \
            out[i * (WIDTH) + byte] = from[byte * count + i];

/* Join the bytes of values: byte j of value i of a chunk is byte i of stream j of the chunk. */
KERNEL(join_streams, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
       const int64_t *counts, int64_t chunks, int64_t width, uint8_t *restrict out, int64_t room) {
    int64_t previous = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t start = starts[chunk], end = ends[chunk], count = counts[chunk];
        if (start < previous || end < start || end > size || count < 0 || count > room)
            return DAMAGED;
        if (count > (end - start) / width || count * width != end - start)
            return DAMAGED;
        const uint8_t *restrict from = data + start;
        switch (width) {
        case 4:
            SCATTER(4)
            break;
        case 8:
            SCATTER(8)
            break;
        default:
            SCATTER((int)width)
            break;
        }
        out += count * width;
        room -= count;
        previous = end;
    }
    return 0;
}
