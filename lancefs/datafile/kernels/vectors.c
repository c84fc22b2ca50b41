/* Vectors that are compared: differences, products, and bits that differ. */
#include "kernels.h"
#include <math.h>

/* Sums that are kept apart, as LANES in vectors.py: what follows each other in a vector need not wait
 * for each other, and is added by one instruction. */
#define LANES 16

/* Bytes of vectors that stay in the nearest cache while all queries are compared with them. */
#define NEAR (16 * 1024)

/* Numbers whose squared differences are no more than 32 bits together. */
#define SHORT 32768

/* Add the lanes: the upper half to the lower one, until one is left. */
static inline float total(float *lanes) {
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            lanes[lane] += lanes[lane + half];
    return lanes[0];
}

/* Define what compares a vector with a query; `TERM` is a number of their sum, of `left` and
 * `right`. Each lane is added in the order of the numbers, as NumPy does. */
#define DEFINE_COMPARE(NAME, ATTRIBUTE, NUMBER, TERM)                                              \
    ATTRIBUTE static float NAME(const NUMBER *vector, const float *query, int64_t dimension) {     \
        float lanes[LANES] = {0};                                                                  \
        int64_t at = 0;                                                                            \
        for (; at + LANES <= dimension; at += LANES)                                               \
            for (int lane = 0; lane < LANES; lane++) {                                             \
                const float left = (float)vector[at + lane], right = query[at + lane];             \
                const float term = TERM;                                                           \
                lanes[lane] += term;                                                               \
            }                                                                                      \
        for (int lane = 0; at + lane < dimension; lane++) {                                        \
            const float left = (float)vector[at + lane], right = query[at + lane];                 \
            const float term = TERM;                                                               \
            lanes[lane] += term;                                                                   \
        }                                                                                          \
        return total(lanes);                                                                       \
    }

/* Define what compares vectors, for processors that have the instructions of `ATTRIBUTE`. */
#define DEFINE_COMPARISONS(KIND, ATTRIBUTE)                                                        \
    DEFINE_COMPARE(squared_distance_##KIND, ATTRIBUTE, float, (left - right) * (left - right))     \
    DEFINE_COMPARE(product_##KIND, ATTRIBUTE, float, (left * right))                               \
    DEFINE_COMPARE(product_of_codes_##KIND, ATTRIBUTE, uint8_t, (left * right))                    \
    /* Widen bytes to floats. */                                                                   \
    ATTRIBUTE static void widen_##KIND(const uint8_t *codes, int64_t count, float *found) {        \
        for (int64_t at = 0; at < count; at++)                                                     \
            found[at] = (float)codes[at];                                                          \
    }                                                                                              \
    /* Return the squared distance of two vectors of bytes. */                                     \
    ATTRIBUTE static float distance_of_codes_##KIND(const uint8_t *code, const uint8_t *query,     \
                                                    int64_t dimension) {                           \
        uint64_t sum = 0;                                                                          \
        for (int64_t start = 0; start < dimension; start += SHORT) {                               \
            const int64_t end = dimension - start < SHORT ? dimension : start + SHORT;             \
            int32_t part = 0;                                                                      \
            for (int64_t at = start; at < end; at++) {                                             \
                const int16_t difference = (int16_t)(code[at] - query[at]);                        \
                part += (int32_t)difference * difference;                                          \
            }                                                                                      \
            sum += (uint32_t)part;                                                                 \
        }                                                                                          \
        return (float)sum;                                                                         \
    }                                                                                              \
    /* Add to each number of a table the square of what `rest` is apart from it, or the product. */\
    ATTRIBUTE static void add_terms_##KIND(const float *book, float rest, int64_t is_product,      \
                                           int64_t codes, float *table) {                          \
        if (is_product)                                                                            \
            for (int64_t code = 0; code < codes; code++) {                                         \
                const float term = book[code] * rest;                                              \
                table[code] += term;                                                               \
            }                                                                                      \
        else                                                                                       \
            for (int64_t code = 0; code < codes; code++) {                                         \
                const float apart = book[code] - rest;                                             \
                const float term = apart * apart;                                                  \
                table[code] += term;                                                               \
            }                                                                                      \
    }

DEFINE_COMPARISONS(anywhere, )

/* The same sums in registers of twice the length, where the processor has them. */
#ifdef HAS_AVX2_TWIN
DEFINE_COMPARISONS(avx2, __attribute__((target("avx2"))))
#define CHOSEN(NAME) (__builtin_cpu_supports("avx2") ? NAME##_avx2 : NAME##_anywhere)
#else
#define CHOSEN(NAME) NAME##_anywhere
#endif

/* Return how many vectors are compared with all queries at a time. */
static int64_t vectors_near(int64_t bytes) {
    return bytes < NEAR ? NEAR / (bytes ? bytes : 1) : 1;
}

/* Write for each of `count` queries its products with `rows` vectors, or its squared distances. */
KERNEL(compare_floats, const float *vectors, int64_t rows, int64_t dimension, const float *queries,
       int64_t count, int64_t is_product, float *found) {
    float (*const compare)(const float *, const float *, int64_t) =
        is_product ? CHOSEN(product) : CHOSEN(squared_distance);
    const int64_t step = vectors_near(dimension * (int64_t)sizeof(float));
    for (int64_t start = 0; start < rows; start += step) {
        const int64_t end = rows - start < step ? rows : start + step;
        for (int64_t number = 0; number < count; number++)
            for (int64_t row = start; row < end; row++)
                found[number * rows + row] =
                    compare(vectors + row * dimension, queries + number * dimension, dimension);
    }
    return 0;
}

/* Write for each of `count` queries its products with `rows` vectors of bytes. */
KERNEL(multiply_codes, const uint8_t *codes, int64_t rows, int64_t dimension, const float *queries,
       int64_t count, float *found) {
    float (*const multiply)(const uint8_t *, const float *, int64_t) = CHOSEN(product_of_codes);
    float (*const multiply_wide)(const float *, const float *, int64_t) = CHOSEN(product);
    void (*const widen)(const uint8_t *, int64_t, float *) = CHOSEN(widen);
    float wide[NEAR / sizeof(float)];
    const int64_t step = vectors_near(dimension * (int64_t)sizeof(float));
    /* Several queries share what is widened. */
    const int is_shared = count > 1 && dimension * (int64_t)sizeof(float) <= NEAR;
    for (int64_t start = 0; start < rows; start += step) {
        const int64_t end = rows - start < step ? rows : start + step;
        if (is_shared)
            widen(codes + start * dimension, (end - start) * dimension, wide);
        for (int64_t number = 0; number < count; number++) {
            const float *const query = queries + number * dimension;
            for (int64_t row = start; row < end; row++)
                found[number * rows + row] =
                    is_shared ? multiply_wide(wide + (row - start) * dimension, query, dimension)
                              : multiply(codes + row * dimension, query, dimension);
        }
    }
    return 0;
}

/* Write the squared distance of each of `count` queries of bytes to `rows` vectors of bytes. */
KERNEL(compare_codes, const uint8_t *codes, int64_t rows, int64_t dimension,
       const uint8_t *queries, int64_t count, float *found) {
    float (*const compare)(const uint8_t *, const uint8_t *, int64_t) = CHOSEN(distance_of_codes);
    const int64_t step = vectors_near(dimension);
    for (int64_t start = 0; start < rows; start += step) {
        const int64_t end = rows - start < step ? rows : start + step;
        for (int64_t number = 0; number < count; number++)
            for (int64_t row = start; row < end; row++)
                found[number * rows + row] =
                    compare(codes + row * dimension, queries + number * dimension, dimension);
    }
    return 0;
}

/* Write for each of `count` vectors the squared distances of its parts to all codes, or their
 * products. The codebook has for each number of a part those of all codes of all parts. */
KERNEL(compare_parts, const float *codebook, int64_t length, int64_t parts, int64_t codes,
       const float *vectors, int64_t count, int64_t is_product, float *tables) {
    void (*const add_terms)(const float *, float, int64_t, int64_t, float *) = CHOSEN(add_terms);
    memset(tables, 0, (size_t)(count * parts * codes) * sizeof(float));
    for (int64_t number = 0; number < count; number++)
        for (int64_t part = 0; part < parts; part++) {
            const float *const rest = vectors + (number * parts + part) * length;
            float *const table = tables + (number * parts + part) * codes;
            for (int64_t at = 0; at < length; at++)
                add_terms(codebook + (at * parts + part) * codes, rest[at], is_product, codes,
                          table);
        }
    return 0;
}

/* Return how many bits of 8 bytes are set. */
static inline uint64_t bits_set(uint64_t word) {
    word -= (word >> 1) & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + ((word >> 2) & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (word * 0x0101010101010101u) >> 56;
}

/* Write for each of `count` queries how many bits of each of `rows` vectors differ from it. */
KERNEL(differing_bits, const uint8_t *vectors, int64_t rows, int64_t dimension,
       const uint8_t *queries, int64_t count, float *found) {
    const int64_t step = vectors_near(dimension);
    for (int64_t start = 0; start < rows; start += step) {
        const int64_t end = rows - start < step ? rows : start + step;
        for (int64_t number = 0; number < count; number++) {
            const uint8_t *const query = queries + number * dimension;
            for (int64_t row = start; row < end; row++) {
                const uint8_t *const vector = vectors + row * dimension;
                uint64_t sum = 0;
                int64_t at = 0;
                for (; at + 8 <= dimension; at += 8)
                    sum += bits_set(load(vector + at, 8) ^ load(query + at, 8));
                for (; at < dimension; at++)
                    sum += bits_set((uint64_t)(vector[at] ^ query[at]));
                found[number * rows + row] = (float)sum;
            }
        }
    }
    return 0;
}

/* Write numbers of 16 bits as numbers of 32: the exponent is moved, and multiplied by what it is
 * less there, which also makes whole numbers of those without a leading bit. */
KERNEL(widen_halves, const uint16_t *halves, int64_t count, float *found) {
    const uint32_t scale_bits = (uint32_t)(127 + 127 - 15) << 23;
    float scale;
    memcpy(&scale, &scale_bits, 4);
    for (int64_t at = 0; at < count; at++) {
        const uint32_t half = halves[at];
        const uint32_t bits = (half & 0x7fff) << 13;
        float value;
        memcpy(&value, &bits, 4);
        value *= scale;
        uint32_t widened;
        memcpy(&widened, &value, 4);
        /* Of infinity and NaN the exponent is the highest. */
        const uint32_t is_high = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
        widened |= is_high | (half & 0x8000) << 16;
        memcpy(found + at, &widened, 4);
    }
    return 0;
}

/* Put the vectors of a partition among the `k` nearest ones of each of `count` queries, which are in
 * the order of their distances, those of one distance in that of their numbers. `kept`, `kept_numbers`
 * and `sizes` hold them, and are changed. */
KERNEL(keep_nearest, const float *distances, const uint8_t *numbers, int64_t rows, int64_t count,
       int64_t k, float *kept, uint64_t *kept_numbers, int64_t *sizes) {
    for (int64_t query = 0; query < count; query++) {
        const float *const found = distances + query * rows;
        float *const near = kept + query * k;
        uint64_t *const own = kept_numbers + query * k;
        int64_t size = sizes[query];
        if (size < 0 || size > k || k < 1)
            return DAMAGED;
        float worst = size == k ? near[k - 1] : INFINITY;
        for (int64_t row = 0; row < rows; row++) {
            const float distance = found[row];
            if (!(distance <= worst)) /* or NaN */
                continue;
            const uint64_t number = load(numbers + row * 8, 8);
            if (size < k)
                size++;
            else if (distance == worst && number >= own[k - 1])
                continue;
            int64_t at = size - 1;
            for (; at > 0; at--) {
                const float before = near[at - 1];
                if (before < distance || (before == distance && own[at - 1] <= number))
                    break;
                near[at] = before;
                own[at] = own[at - 1];
            }
            near[at] = distance;
            own[at] = number;
            if (size == k)
                worst = near[k - 1];
        }
        sizes[query] = size;
    }
    return 0;
}
