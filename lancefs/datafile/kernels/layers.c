/* The layers of leaves, from their levels; see layers.py for what levels mean. */
#include "kernels.h"

/* The bits of the kind of a layer. */
#define LIST 1
#define NULLABLE 2
#define EMPTYABLE 4

/* What a leaf has: see `LeafLevels`. STARTS is how many items begin a list. */
enum { ITEMS, VALUES, LAYERS, HAS_LISTS, HAS_REP, HAS_DEF, STARTS, LEAF_COLUMNS };

/* What is written of a layer: its slots and nulls, and where its offsets and validity begin. */
enum { LENGTH, NULLS, OFFSETS, VALID, LAYER_COLUMNS };

static int64_t levels_of(int64_t kind) {
    return !!(kind & NULLABLE) + !!(kind & EMPTYABLE);
}

/* Return the number of definition levels of layers up to the next list. */
static int64_t levels_before_list(const int64_t *kinds, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count && !(kinds[i] & LIST); i++)
        total += levels_of(kinds[i]);
    return total;
}

/* Slots counted together: the count fits 16 bits, the width of a level, so that loops vectorize. */
#define BLOCK 512

/* Write which items are valid, those up to level `limit`, where each is a slot; return the nulls. */
static int64_t test_items(const uint16_t *definition, int64_t items, int64_t limit,
                          uint8_t *valid) {
    const uint16_t most = (uint16_t)limit;
    int64_t found = 0;
    for (int64_t i = 0; i < items; i += BLOCK) {
        const int64_t end = items - i < BLOCK ? items : i + BLOCK;
        uint16_t here = 0;
        for (int64_t j = i; j < end; j++) {
            valid[j] = definition[j] <= most;
            here = (uint16_t)(here + (definition[j] <= most));
        }
        found += here;
    }
    return items - found;
}

/* Write which slots of an item layer are valid; return their number.
 *
 * Items above level `most` are no slots, and those up to `limit` are valid. Each item is written,
 * and overwritten by the next one if it is no slot: a branch would often be mispredicted. */
static int64_t split_items(const uint16_t *definition, int64_t items, int64_t limit, int64_t most,
                           uint8_t *valid, int64_t *nulls) {
    int64_t count = 0, missing = 0;
    for (int64_t i = 0; i < items; i++) {
        const int64_t shown = definition[i] <= most, is_null = definition[i] > limit;
        valid[count] = (uint8_t)!is_null;
        count += shown;
        missing += shown & is_null;
    }
    *nulls = missing;
    return count;
}

/* Split levels into the lists of one layer; return their number.
 *
 * null, empty: the levels at which a list is null or empty, 0 if none is. Above `upper` a list is
 * null because a layer around it is; above `highest` there is no list, because an outer list has
 * no items. `starts` items begin a list; `outer_rep` and `outer_definition`, which may be the levels
 * themselves, get the levels of these in the layer around.
 *
 * The first loop collects the items that begin a list. It writes every item and lets the next one
 * overwrite an item that begins no list: a branch would be mispredicted at every other list. */
static int64_t split_lists(const uint16_t *rep, const uint16_t *definition, int64_t items,
                           int64_t null, int64_t empty, int64_t upper, int64_t highest,
                           int64_t *starts, int64_t *offsets, uint8_t *valid, uint16_t *outer_rep,
                           uint16_t *outer_definition, int64_t *nulls) {
    const int64_t room = *starts;
    int64_t begun = 0, lists = 0, absent = 0, missing = 0;
    for (int64_t i = 0; i < items; i++) {
        offsets[begun] = i;
        begun += rep[i] != 0;
        if (begun > room)
            return DAMAGED;
    }
    for (int64_t i = 0; i < begun; i++) {
        const int64_t start = offsets[i];
        outer_rep[i] = (uint16_t)(rep[start] - 1);
        if (definition == NULL)
            continue;
        const int64_t level = definition[start];
        const int64_t shown = level <= highest;
        const int64_t is_null = shown & (((null > 0) & (level == null)) | (level > upper));
        const int64_t is_empty = (empty > 0) & (level == empty);
        outer_definition[i] = (uint16_t)level;
        offsets[lists] = start - absent;
        valid[lists] = (uint8_t)!is_null;
        lists += shown;
        missing += is_null;
        absent += (1 - shown) | is_null | is_empty;
    }
    if (definition == NULL)
        lists = begun;
    offsets[lists] = items - absent;
    *starts = begun;
    *nulls = missing;
    return lists;
}

/* Write the layers of leaves, whose levels follow each other.
 *
 * leaves: LEAF_COLUMNS numbers each. kinds: of the layers of each leaf, innermost first.
 * offsets, valid: room for one more than each layer has at most: its items, after a list its STARTS.
 * scratch: twice the largest number of STARTS, and 2.
 * found: LAYER_COLUMNS numbers for each layer. */
KERNEL(unravel, const uint16_t *rep, const uint16_t *definition, const int64_t *leaves,
       int64_t leaf_count, const int64_t *kinds, int64_t *offsets, uint8_t *valid,
       uint16_t *scratch, int64_t *found) {
    int64_t offset = 0, slot = 0, first = 0;
    for (const int64_t *leaf = leaves; leaf < leaves + leaf_count * LEAF_COLUMNS;
         leaf += LEAF_COLUMNS) {
        const uint16_t *own_rep = leaf[HAS_REP] ? rep + first : NULL;
        const uint16_t *own_definition = leaf[HAS_DEF] ? definition + first : NULL;
        uint16_t *const outer_rep = scratch, *const outer_definition = scratch + leaf[STARTS] + 1;
        int64_t items = leaf[ITEMS], count = leaf[VALUES], below = 0, room = leaf[ITEMS];
        for (int64_t k = 0; k < leaf[LAYERS]; k++, found += LAYER_COLUMNS) {
            const int64_t kind = kinds[k], rest = leaf[LAYERS] - k - 1;
            found[NULLS] = 0;
            found[OFFSETS] = offset;
            found[VALID] = slot;
            if (!(kind & LIST)) {
                const int64_t most = below + levels_before_list(kinds + k, rest + 1);
                found[LENGTH] = count;
                if (!(kind & NULLABLE) || own_definition == NULL) {
                    /* all are valid */
                } else if (!leaf[HAS_LISTS]) {
                    found[LENGTH] = items;
                    found[NULLS] = test_items(own_definition, items, below, valid + slot);
                } else {
                    found[LENGTH] = split_items(own_definition, items, below, most, valid + slot,
                                                found + NULLS);
                }
                below += levels_of(kind);
                slot += room + 1;
                continue;
            }
            if (own_rep == NULL)
                return DAMAGED;
            const int64_t null = kind & NULLABLE ? below + 1 : 0;
            const int64_t empty = kind & EMPTYABLE ? (null ? null : below) + 1 : 0;
            int64_t starts = leaf[STARTS];
            below += levels_of(kind);
            const int64_t highest = below + levels_before_list(kinds + k + 1, rest);
            const int64_t lists = split_lists(own_rep, own_definition, items, null, empty, below,
                                              highest, &starts, offsets + offset, valid + slot,
                                              outer_rep, outer_definition, found + NULLS);
            if (lists < 0 || offsets[offset] != 0 || offsets[offset + lists] != count)
                return DAMAGED;
            own_rep = outer_rep;
            own_definition = own_definition == NULL ? NULL : outer_definition;
            found[LENGTH] = count = lists;
            items = starts;
            room = leaf[STARTS];
            offset += room + 1;
            slot += room + 1;
        }
        first += leaf[ITEMS];
        kinds += leaf[LAYERS];
    }
    return 0;
}
