/* The offsets of strings that are stored together, as strings.c, slots.c and texts.c read them. */
#ifndef LANCEFS_STRINGS_H
#define LANCEFS_STRINGS_H

#include "kernels.h"

/* Where strings of a chunk are: their offsets, and where their bytes begin and end. */
typedef struct {
    const uint8_t *from;
    uint64_t low, high;
} Strings;

/* Find `taken` strings of a chunk of `count` from the one at position `within` on. */
static inline int find_strings(const uint8_t *chunk, int64_t size, int64_t width, int64_t count,
                               int64_t within, int64_t taken, Strings *found) {
    if (count >= size / width)
        return DAMAGED;
    const uint8_t *const from = chunk + within * width;
    *found = (Strings){from, load(from, width), load(from + taken * width, width)};
    return found->low < (uint64_t)((count + 1) * width) || found->high < found->low ||
                   found->high > (uint64_t)size
               ? DAMAGED
               : 0;
}

/* Write where strings end, counted from the first one, which begins at `base`; return whether they
 * ascend from where `find_strings` found the first one to begin to where it found the last one to end:
 * a file that is rewritten meanwhile may tell another place. A loop for each pair of widths has no
 * branch. */
#define REBASE(NAME, STORED, WRITTEN)                                                              \
    static inline int NAME(Strings found, int64_t count, int64_t base, WRITTEN *to) {              \
        const uint8_t *const from = found.from;                                                    \
        STORED first, previous;                                                                    \
        uint64_t descends = 0;                                                                     \
        memcpy(&first, from, sizeof first);                                                        \
        previous = first;                                                                          \
        for (int64_t i = 1; i <= count; i++) {                                                     \
            STORED offset;                                                                         \
            memcpy(&offset, from + (size_t)i * sizeof offset, sizeof offset);                      \
            descends |= offset < previous;                                                         \
            to[i - 1] = (WRITTEN)(offset - first + (STORED)base);                                  \
            previous = offset;                                                                     \
        }                                                                                          \
        return !descends && first == found.low && previous == found.high;                          \
    }

REBASE(rebase_4_4, uint32_t, uint32_t)
REBASE(rebase_8_4, uint64_t, uint32_t)
REBASE(rebase_8_8, uint64_t, uint64_t)

static inline int rebase_4_8(Strings found, int64_t count, int64_t base, uint64_t *to) {
    uint32_t previous = (uint32_t)found.low, descends = 0;
    const uint64_t shift = (uint64_t)base - previous;
    for (int64_t i = 1; i <= count; i++) {
        const uint32_t offset = (uint32_t)load(found.from + i * 4, 4);
        descends |= offset < previous;
        to[i - 1] = offset + shift;
        previous = offset;
    }
    return !descends && previous == found.high;
}

static inline int rebase(Strings found, int64_t stored, int64_t count, int64_t base, void *to,
                         int64_t written) {
    if (written == 4)
        return stored == 4 ? rebase_4_4(found, count, base, to) : rebase_8_4(found, count, base, to);
    return stored == 4 ? rebase_4_8(found, count, base, to) : rebase_8_8(found, count, base, to);
}

#endif
