/* Scores of documents, from the postings of tokens. */
#include "kernels.h"

/* Add what a token adds to the scores of its documents.
 *
 * `documents` and `frequencies` have `count` numbers of 32 bits; `numbers` is the factor of the
 * token and the saturation; `norms` and `total` have a number for each of `size` documents. Each
 * step is a statement of its own, so that no compiler joins two of them to one rounding. */
KERNEL(add_scores, const uint8_t *documents, const uint8_t *frequencies, int64_t count,
       const float *numbers, const float *norms, int64_t size, float *total) {
    const float factor = numbers[0], saturation = numbers[1];
    for (int64_t at = 0; at < count; at++) {
        const int64_t document = (int64_t)load(documents + 4 * at, 4);
        if (document >= size)
            return DAMAGED;
        const float frequency = (float)load(frequencies + 4 * at, 4);
        const float above = saturation * frequency;
        const float below = frequency + norms[document];
        const float share = above / below;
        const float score = factor * share;
        total[document] += score;
    }
    return 0;
}
