/* Decimals of 128 bits that take no more than 64. */
#include "decimals.h"

/* Copy the low words of numbers of 16 bytes, which lie in segments that `gather_size` has checked and
 * that have whole numbers; `out` has room for them. Return 1 if each high word is the sign of its low
 * word, which then is the number; else 0. */
KERNEL(to_decimal64, const uint8_t *data, const int64_t *starts, const int64_t *ends, int64_t count,
       int64_t *out) {
    uint64_t others = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *const words = data + starts[i];
        const size_t numbers = (size_t)(ends[i] - starts[i]) / WIDE;
        for (size_t n = 0; n < numbers; n++)
            others |= is_wide(words + n * WIDE, out + n);
        out += numbers;
    }
    return others == 0;
}
