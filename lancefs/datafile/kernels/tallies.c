/* Counts of rows by the positions of their values. */
#include "kernels.h"

/* Write to `found` each sum and what `positions` has for the number of its row; return the first row
 * without a position: one that is negative, or whose number is outside of the table. `base` is the
 * number of the first position. */
#define DEFINE_ADD(NUMBER)                                                                         \
    static int64_t add_##NUMBER(const uint8_t *at, int64_t rows, uint64_t base,                    \
                                const int32_t *positions, uint64_t known, const int32_t *sums,     \
                                int32_t *found) {                                                  \
        const NUMBER *const numbers = (const NUMBER *)(const void *)at;                            \
        for (int64_t row = 0; row < rows; row++) {                                                 \
            const uint64_t place = (uint64_t)numbers[row] - base;                                  \
            if (place >= known || positions[place] < 0)                                            \
                return row;                                                                        \
            found[row] = sums[row] + positions[place];                                             \
        }                                                                                          \
        return rows;                                                                               \
    }

DEFINE_ADD(int8_t)
DEFINE_ADD(int16_t)
DEFINE_ADD(int32_t)
DEFINE_ADD(int64_t)
DEFINE_ADD(uint8_t)
DEFINE_ADD(uint16_t)
DEFINE_ADD(uint32_t)

KERNEL(add_positions, const uint8_t *numbers, int64_t width, int64_t is_signed, int64_t rows,
       int64_t base, const int32_t *positions, int64_t known, const int32_t *sums,
       int32_t *found) {
    const uint64_t first = (uint64_t)base, count = (uint64_t)known;
    switch (width) {
    case 1:
        return is_signed ? add_int8_t(numbers, rows, first, positions, count, sums, found)
                         : add_uint8_t(numbers, rows, first, positions, count, sums, found);
    case 2:
        return is_signed ? add_int16_t(numbers, rows, first, positions, count, sums, found)
                         : add_uint16_t(numbers, rows, first, positions, count, sums, found);
    case 4:
        return is_signed ? add_int32_t(numbers, rows, first, positions, count, sums, found)
                         : add_uint32_t(numbers, rows, first, positions, count, sums, found);
    default:
        return add_int64_t(numbers, rows, first, positions, count, sums, found);
    }
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
