/* Sums of the numbers that codes choose from tables. */
#include "kernels.h"

/* Rows whose sums stay in the nearest cache while all parts are added. */
#define ROWS 2048

/* Add for each row the numbers that its codes choose; `tables` has 256 numbers a part. */
static void add_parts(const float *tables, int64_t parts, const uint8_t *codes, int64_t stride,
                      int64_t rows, float *sums) {
    int64_t part = 0;
    for (int64_t row = 0; row < rows; row++)
        sums[row] = 0;
    /* The numbers of a row are added one after the other, as NumPy does. */
    for (; part + 4 <= parts; part += 4) {
        const float *const table = tables + part * 256;
        const uint8_t *const first = codes + part * stride;
        for (int64_t row = 0; row < rows; row++) {
            const uint8_t *const at = first + row;
            float sum = sums[row];
            sum += table[at[0]];
            sum += table[256 + at[stride]];
            sum += table[512 + at[2 * stride]];
            sum += table[768 + at[3 * stride]];
            sums[row] = sum;
        }
    }
    for (; part < parts; part++) {
        const float *const table = tables + part * 256;
        for (int64_t row = 0; row < rows; row++)
            sums[row] += table[codes[part * stride + row]];
    }
}

/* Sum for each of `count` queries the numbers of its `parts` tables of 256 that the codes of each
 * row choose; the codes of a part follow each other. */
KERNEL(sum_codes, const float *tables, int64_t count, int64_t parts, const uint8_t *codes,
       int64_t rows, float *sums) {
    for (int64_t start = 0; start < rows; start += ROWS) {
        const int64_t some = rows - start < ROWS ? rows - start : ROWS;
        for (int64_t number = 0; number < count; number++)
            add_parts(tables + number * parts * 256, parts, codes + start, rows, some,
                      sums + number * rows + start);
    }
    return 0;
}
