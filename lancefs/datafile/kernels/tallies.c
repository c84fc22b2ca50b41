/* Counts of rows by the positions of their values. */
#include "kernels.h"

#define ADD_POSITIONS(NUMBER)                                                                      \
    for (int64_t row = 0; row < rows; row++) {                                                     \
        NUMBER number;                                                                             \
        memcpy(&number, numbers + (size_t)row * sizeof number, sizeof number);                     \
        const uint64_t place = (uint64_t)number - (uint64_t)base;                                  \
        if (place >= (uint64_t)known || positions[place] < 0)                                      \
            return row;                                                                            \
        found[row] = sums[row] + positions[place];                                                 \
    }                                                                                              \
    return rows;

/* Write to `found` each sum and what `positions` has for the number of its row; return the first row
 * without a position: one that is negative, or whose number is outside of the table. `base` is the
 * number of the first position. Numbers have `width` bytes, which is negative of unsigned ones. */
KERNEL(add_positions, const uint8_t *numbers, int64_t width, int64_t rows, int64_t base,
       const int32_t *positions, int64_t known, const int32_t *sums, int32_t *found) {
    OF_WIDTH(width, ADD_POSITIONS)
}

/* Rows that follow each other are counted apart: those with the same sum would wait for each other
 * else. */
#define APART 4

/* Count rows by their sums, which are all known to be in `counts`, which has APART numbers a sum. */
KERNEL(count_sums, const int32_t *sums, int64_t rows, int64_t *counts) {
    int64_t row = 0;
    for (; row + APART <= rows; row += APART)
        for (int64_t each = 0; each < APART; each++)
            counts[(int64_t)sums[row + each] * APART + each]++;
    for (; row < rows; row++)
        counts[(int64_t)sums[row] * APART]++;
    return 0;
}
