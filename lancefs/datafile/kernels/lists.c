/* The levels of one layer of lists; see lists.py for what they say. */
#include "kernels.h"

API int64_t lancefs_split_lists(const uint16_t *rep, const uint16_t *definition, int64_t items,
                                const int64_t *meanings, int64_t room, int64_t *offsets,
                                uint8_t *valid, uint16_t *outer_rep, uint16_t *outer_definition,
                                int64_t *nulls);

/* `room` lists begin; the outputs have room for one more, so that it is written without a branch,
 * which would be guessed wrong at every other list. Returns how many lists there are. */
int64_t lancefs_split_lists(const uint16_t *rep, const uint16_t *definition, int64_t items,
                            const int64_t *meanings, int64_t room, int64_t *offsets,
                            uint8_t *valid, uint16_t *outer_rep, uint16_t *outer_definition,
                            int64_t *nulls) {
    const int64_t null = meanings[0], empty = meanings[1];
    const int64_t upper = meanings[2], highest = meanings[3];
    int64_t starts = 0, lists = 0, before = 0, missing = 0;
    for (int64_t i = 0; i < items; i++) {
        const int64_t begins = rep[i] != 0;
        if (starts + begins > room)
            return DAMAGED;
        outer_rep[starts] = (uint16_t)(rep[i] - 1);
        offsets[lists] = before;
        if (definition == NULL) {
            starts += begins;
            lists += begins;
            before++;
            continue;
        }
        const int64_t level = definition[i];
        const int64_t shown = begins & (level <= highest);
        const int64_t is_null =
            shown & (((null > 0) & (level == null)) | (level > upper));
        const int64_t is_empty = (empty > 0) & (level == empty);
        outer_definition[starts] = definition[i];
        valid[lists] = (uint8_t)!is_null;
        starts += begins;
        lists += shown;
        missing += is_null;
        before += 1 - (begins & ((1 - shown) | is_null | is_empty));
    }
    offsets[lists] = before;
    *nulls = missing;
    return lists;
}
