/* The levels of one layer of lists; see lists.py for what they say. */
#include "kernels.h"

API int64_t lancefs_split_lists(const uint16_t *rep, const uint16_t *definition, int64_t items,
                                const int64_t *meanings, int64_t room, int64_t *offsets,
                                uint8_t *valid, uint16_t *outer_rep, uint16_t *outer_definition,
                                int64_t *nulls);

/* `room` lists begin, and the outputs have room for one more. First it is noted where they begin,
 * every item written and the next one over it where none does: a branch would be guessed wrong at
 * every other list. Then only the lists are gone through. Returns how many lists there are. */
int64_t lancefs_split_lists(const uint16_t *rep, const uint16_t *definition, int64_t items,
                            const int64_t *meanings, int64_t room, int64_t *offsets,
                            uint8_t *valid, uint16_t *outer_rep, uint16_t *outer_definition,
                            int64_t *nulls) {
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
