/* Comparisons of numbers of 128 bits with two bounds. */
#include "kernels.h"

/* Tell which signed 128-bit numbers are between two bounds, inclusive.
 *
 * A number is an unsigned low word and a signed high word. bounds: the lowest number, then
 * the highest. */
KERNEL(within, const uint8_t *words, int64_t count, const int64_t *bounds, uint8_t *out) {
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
