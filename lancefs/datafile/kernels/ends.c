/* Where strings and lists end, as data files 2.0 store it; see ends.py. */
#include "kernels.h"

#define BLOCK 512 /* offsets that are compared while the processor has them at hand */

/* Write the offsets of `count` rows, one or more, if none of them is null, and they have less than 2^31
 * bytes in all; `before` is where the first one begins. Return whether this is so, and they ascend. */
static int rebase(const uint8_t *restrict ends, int64_t count, uint64_t before, uint64_t added,
                  int32_t *restrict offsets) {
    uint64_t seen = 0, wide = 0;
    uint32_t descends = 0;
    offsets[0] = 0;
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t some = count - at < BLOCK ? count - at : BLOCK;
        int32_t *const to = offsets + at + 1;
        for (int64_t i = 0; i < some; i++) {
            uint64_t end;
            memcpy(&end, ends + 8 * (at + i), sizeof end);
            seen |= end | (added - 1 - end);
            wide |= end - before;
            to[i] = (int32_t)(uint32_t)(end - before);
        }
        /* Not the ends, as the file may be rewritten meanwhile. */
        for (int64_t i = 0; i < some; i++)
            descends |= to[i] < to[i - 1];
    }
    return !(seen >> 63 || wide >> 31 || descends);
}

/* Write the offsets of `count` rows, from 0 on and modulo 2^32, and which rows are valid if some are
 * not. `ends` has a number of 8 bytes for each row, and before them that of the row before the first
 * one if `has_previous`. Those of nulls have the adjustment added. `found` gets where the first row
 * begins, and the number of nulls. Return the last offset, DAMAGED if the ends descend. */
KERNEL(decode_ends, const uint8_t *ends, int64_t count, int64_t has_previous, int64_t adjustment,
       int32_t *offsets, uint8_t *valid, int64_t *found) {
    const uint64_t added = (uint64_t)adjustment;
    uint64_t before = 0, all = 0, descends = 0;
    int64_t nulls = 0;
    if (has_previous) {
        all = before = load(ends, 8);
        before -= before >= added ? added : 0;
        ends += 8;
    }
    const uint64_t base = before;
    found[0] = (int64_t)base;
    found[1] = 0;
    offsets[0] = 0;
    if (count == 0)
        return all >> 63 ? DAMAGED : 0;
    if (!(all >> 63) && rebase(ends, count, base, added, offsets))
        return offsets[count];
    for (int64_t i = 0; i < count; i++) {
        uint64_t end;
        memcpy(&end, ends + 8 * i, sizeof end);
        all |= end;
        const int is_null = end >= added;
        end -= is_null ? added : 0;
        descends |= end < before;
        valid[i] = !is_null;
        nulls += is_null;
        offsets[i + 1] = (int32_t)(uint32_t)(end - base);
        before = end;
    }
    if (descends || all >> 63)
        return DAMAGED;
    found[1] = nulls;
    return (int64_t)(before - base);
}
