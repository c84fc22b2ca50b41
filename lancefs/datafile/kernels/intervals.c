/* Numbers of 128 bits, and whether they are between two others. */
#include "kernels.h"

API int64_t lancefs_within(const uint8_t *words, int64_t count, const int64_t *bounds,
                           uint8_t *out);

/* Each number is an unsigned word and a signed one of more weight. A bound is one number. */
int64_t lancefs_within(const uint8_t *words, int64_t count, const int64_t *bounds, uint8_t *out) {
    const uint64_t low = (uint64_t)bounds[0], high = (uint64_t)bounds[2];
    const int64_t low_top = bounds[1], high_top = bounds[3];
    for (int64_t i = 0; i < count; i++) {
        uint64_t word;
        int64_t top;
        memcpy(&word, words + (size_t)i * 16, 8);
        memcpy(&top, words + (size_t)i * 16 + 8, 8);
        const int above = (top > low_top) | ((top == low_top) & (word >= low));
        const int below = (top < high_top) | ((top == high_top) & (word <= high));
        out[i] = (uint8_t)(above & below);
    }
    return 0;
}
