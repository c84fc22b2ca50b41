/* Strings that hold a text. */
#include "kernels.h"

#define BLOCK 64

/* Tell whether one of the BLOCK positions from `at` may begin a text: its first byte is there, and
 * so is its last, `last` bytes behind. The loop of constant length is vectorized. */
static inline int may_begin(const uint8_t *at, int64_t last, uint8_t first, uint8_t end) {
    uint8_t any = 0;
    for (int i = 0; i < BLOCK; i++)
        any |= (uint8_t)((at[i] == first) & (at[i + last] == end));
    return any;
}

/* Return the first position from `at` on where `part` stands before `stop`; `stop` for none. */
static int64_t find(const uint8_t *data, int64_t at, int64_t stop, const uint8_t *part,
                    int64_t size) {
    const int64_t last = size - 1;
    const uint8_t first = part[0], end = part[last];
    while (at + last < stop) {
        int64_t length = stop - last - at;
        if (length > BLOCK) {
            length = BLOCK;
            if (!may_begin(data + at, last, first, end)) {
                at += BLOCK;
                continue;
            }
        }
        for (const int64_t to = at + length; at < to; at++)
            if (data[at] == first && data[at + last] == end &&
                memcmp(data + at, part, (size_t)size) == 0)
                return at;
    }
    return stop;
}

/* Set `found` for the strings that hold `part`. `offsets` has `count` + 1 numbers.
 *
 * The joined text is searched: most strings hold no such text, and are not looked at one by one. */
KERNEL(holds, const int32_t *offsets, int64_t count, const uint8_t *data, int64_t size,
       const uint8_t *part, int64_t part_size, uint8_t *found) {
    if (offsets[0] < 0 || offsets[count] > size)
        return DAMAGED;
    int descends = 0;
    for (int64_t i = 0; i < count; i++)
        descends |= offsets[i + 1] < offsets[i];
    if (descends)
        return DAMAGED;
    if (part_size == 0) {
        memset(found, 1, (size_t)count);
        return 0;
    }
    const int64_t stop = offsets[count];
    int64_t at = offsets[0], row = 0;
    while ((at = find(data, at, stop, part, part_size)) < stop) {
        while (offsets[row + 1] <= at)
            row++;
        const int64_t next = offsets[row + 1];
        if (at + part_size <= next) {
            found[row] = 1;
            at = next;
        } else {
            at++;
        }
    }
    return 0;
}
