/* The repetition and definition levels of lists; see lists.py for their meaning. */
#include "kernels.h"

/* Items counted together: the count fits 16 bits, the width of a level, so that loops vectorize. */
#define BLOCK 512

/* Return the number of levels that are at most `most`; write the highest level to `highest`. */
static int64_t tally(const uint16_t *levels, int64_t count, uint16_t most, int64_t *highest) {
    uint16_t top = 0;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t end = count - i < BLOCK ? count : i + BLOCK;
        uint16_t here = 0;
        for (int64_t j = i; j < end; j++) {
            here = (uint16_t)(here + (levels[j] <= most));
            top = levels[j] > top ? levels[j] : top;
        }
        found += here;
    }
    *highest = top;
    return found;
}

static uint16_t as_level(int64_t limit) {
    return (uint16_t)(limit > UINT16_MAX ? UINT16_MAX : limit);
}

/* Return the number of levels that are at most `limit`; write the highest level to `highest`. */
KERNEL(tally_levels, const uint16_t *levels, int64_t count, int64_t limit, int64_t *highest) {
    const int64_t found = tally(levels, count, as_level(limit), highest);
    return limit < 0 ? 0 : found;
}

/* Write the number of levels of each part that are at most `limit`. */
KERNEL(tally_parts, const uint16_t *levels, int64_t count, const int64_t *sizes, int64_t parts,
       int64_t limit, int64_t *found) {
    int64_t start = 0, highest;
    for (int64_t part = 0; part < parts; part++) {
        const int64_t size = sizes[part];
        if (size < 0 || size > count - start)
            return DAMAGED;
        found[part] = tally(levels + start, size, as_level(limit), &highest);
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

/* Split levels into the lists of one layer; return the number of lists.
 *
 * meanings: the fields of `Meanings`. `room` items begin a list; each output has room for one more.
 * outer: the repetition levels of the layer around the lists, then its definition levels.
 *
 * The first loop collects the items that begin a list. It writes every item and lets the next one
 * overwrite an item that begins no list: a branch would be mispredicted at every other list. */
KERNEL(split_lists, const uint16_t *rep, const uint16_t *definition, int64_t items,
       const int64_t *meanings, int64_t room, int64_t *offsets, uint8_t *valid, uint16_t *outer,
       int64_t *nulls) {
    uint16_t *const outer_rep = outer, *const outer_definition = outer + room + 1;
    const int64_t null = meanings[0], empty = meanings[1];
    const int64_t upper = meanings[2], highest = meanings[3];
    int64_t starts = 0, lists = 0, absent = 0, missing = 0;
    for (int64_t i = 0; i < items; i++) {
        offsets[starts] = i;
        starts += rep[i] != 0;
        if (starts > room)
            return DAMAGED;
    }
    for (int64_t i = 0; i < starts; i++) {
        const int64_t start = offsets[i];
        outer_rep[i] = (uint16_t)(rep[start] - 1);
        if (definition == NULL)
            continue;
        const int64_t level = definition[start];
        const int64_t shown = level <= highest;
        const int64_t is_null = shown & (((null > 0) & (level == null)) | (level > upper));
        const int64_t is_empty = (empty > 0) & (level == empty);
        outer_definition[i] = definition[start];
        offsets[lists] = start - absent;
        valid[lists] = (uint8_t)!is_null;
        lists += shown;
        missing += is_null;
        absent += (1 - shown) | is_null | is_empty;
    }
    if (definition == NULL)
        lists = starts;
    offsets[lists] = items - absent;
    *nulls = missing;
    return lists;
}
