/* The repetition and definition levels of lists; see lists.py for their meaning. */
#include "kernels.h"

/* Items counted together: the count fits 16 bits, the width of a level, so that loops vectorize. */
#define BLOCK 512

/* Return the number of levels that are at most `most`. */
static int64_t tally(const uint16_t *levels, int64_t count, uint16_t most) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t end = count - i < BLOCK ? count : i + BLOCK;
        uint16_t here = 0;
        for (int64_t j = i; j < end; j++)
            here = (uint16_t)(here + (levels[j] <= most));
        found += here;
    }
    return found;
}

/* Write the number of levels of each part that are at most `limit`. */
KERNEL(tally_parts, const uint16_t *levels, int64_t count, const int64_t *sizes, int64_t parts,
       int64_t limit, int64_t *found) {
    const uint16_t most = (uint16_t)(limit > UINT16_MAX ? UINT16_MAX : limit);
    int64_t start = 0;
    for (int64_t part = 0; part < parts; part++) {
        const int64_t size = sizes[part];
        if (size < 0 || size > count - start)
            return DAMAGED;
        found[part] = tally(levels + start, size, most);
        start += size;
    }
    return 0;
}

/* Find the first items of rows, whose numbers ascend. A block that holds no wanted row is skipped
 * after its rows are counted. */
KERNEL(find_rows, const uint16_t *rep, int64_t items, int64_t top, const int64_t *rows,
       int64_t count, int64_t *found) {
    int64_t item = 0, row = 0;
    for (int64_t i = 0; i < count; i++) {
        while (items - item >= BLOCK) {
            uint16_t here = 0;
            for (int64_t j = item; j < item + BLOCK; j++)
                here = (uint16_t)(here + (rep[j] == (uint16_t)top));
            if (row + here > rows[i])
                break;
            row += here;
            item += BLOCK;
        }
        while (item < items && (rep[item] != top || row < rows[i]))
            row += rep[item++] == top;
        if (row != rows[i])
            return DAMAGED;
        found[i] = item;
    }
    return 0;
}
