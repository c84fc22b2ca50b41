/* Expansion of runs of equal values. */
#include "kernels.h"

/* Values that are written at once: most runs are no longer. How long each one is cannot be predicted, so
 * that a loop of its length takes several times as long. */
#define AT_ONCE 16

#define FILL(WORD)                                                                                 \
    {                                                                                              \
        WORD value;                                                                                \
        memcpy(&value, from, sizeof value);                                                        \
        if (times <= AT_ONCE && room >= AT_ONCE) { /* the next runs overwrite what is too much */  \
            for (int64_t i = 0; i < AT_ONCE; i++)                                                  \
                memcpy(to + (size_t)i * sizeof value, &value, sizeof value);                       \
            break;                                                                                 \
        }                                                                                          \
        for (int64_t i = 0; i < times; i++)                                                        \
            memcpy(to + (size_t)i * sizeof value, &value, sizeof value);                           \
        break;                                                                                     \
    }

/* Write a value `times` times; there is room for `room` values, which are no fewer. */
static inline void fill(uint8_t *to, const uint8_t *from, int64_t width, int64_t times,
                        int64_t room) {
    switch (width) {
    case 1:
        FILL(uint8_t)
    case 2:
        FILL(uint16_t)
    case 4:
        FILL(uint32_t)
    case 8:
        FILL(uint64_t)
    default:
        for (int64_t i = 0; i < times; i++)
            memcpy(to + i * width, from, (size_t)width);
    }
}

/* Repeat each value by the length of its run. The last runs of a chunk may reach beyond it. */
KERNEL(expand, const uint8_t *values, int64_t width, const uint8_t *lengths, int64_t length_width,
       int64_t total_runs, const int64_t *runs, const int64_t *counts, int64_t chunks, uint8_t *out,
       int64_t room) {
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        int64_t left = counts[chunk];
        if (left < 0 || left > room || runs[chunk] < 0 || runs[chunk] > total_runs)
            return DAMAGED;
        total_runs -= runs[chunk];
        for (int64_t run = 0; run < runs[chunk] && left > 0; run++) {
            const uint64_t length =
                length_width == 1 ? lengths[run] : load(lengths + run * length_width, length_width);
            const int64_t times = length > (uint64_t)left ? left : (int64_t)length;
            fill(out, values + run * width, width, times, room);
            out += times * width;
            left -= times;
            room -= times;
        }
        if (left > 0)
            return DAMAGED;
        values += runs[chunk] * width;
        lengths += runs[chunk] * length_width;
    }
    return 0;
}
