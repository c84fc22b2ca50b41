/* Documents that several tokens have, and the places of their words. */
#include "kernels.h"

/* Numbers that are compared together. */
#define GROUP 8

/* Documents whose places are requested of the memory before they are needed. */
#define AHEAD 8

/* Request a number of the memory, if there is one. */
static inline void prefetch(const int64_t *numbers, int64_t at, int64_t count) {
#if defined(__GNUC__)
    if (at >= 0 && at < count)
        __builtin_prefetch(numbers + at);
#else
    (void)numbers, (void)at, (void)count;
#endif
}

static inline uint32_t number_at(const uint8_t *numbers, int64_t at) {
    return (uint32_t)load(numbers + 4 * at, 4);
}

/* Return the first place from `at` on whose number is not below a number: steps that double, and
 * then halves of the last step. */
static int64_t first_from(const uint8_t *numbers, int64_t at, int64_t count, uint32_t number) {
    int64_t step = 1;
    while (at + step < count && number_at(numbers, at + step) < number) {
        at += step;
        step *= 2;
    }
    int64_t left = count - at < step + 1 ? count - at : step + 1;
    while (left > 0) {
        const int64_t half = left / 2;
        const int is_below = number_at(numbers, at + half) < number;
        at += is_below ? half + 1 : 0;
        left = is_below ? left - half - 1 : half;
    }
    return at;
}

/* The same where the place is near: whole groups are passed, and what is below in the last one is
 * counted, without a branch for each number. */
static int64_t first_near(const uint8_t *numbers, int64_t at, int64_t count, uint32_t number) {
    while (at + GROUP <= count) {
        if (number_at(numbers, at + GROUP - 1) < number) {
            at += GROUP;
            continue;
        }
        uint32_t below = 0;
        for (int i = 0; i < GROUP; i++)
            below += number_at(numbers, at + i) < number;
        return at + below;
    }
    while (at < count && number_at(numbers, at) < number)
        at++;
    return at;
}

/* Find the numbers of 32 bits that are in both of two ascending sequences, the first of which is
 * not longer; return how many there are. A place in each of them is written for each number. */
KERNEL(find_common, const uint8_t *few, int64_t few_count, const uint8_t *many, int64_t many_count,
       int64_t *few_places, int64_t *many_places) {
    int64_t found = 0, own = 0, at = 0;
    const int is_near = few_count >= many_count / 32;
    if (few_count < many_count / 4) {
        for (; own < few_count; own++) {
            const uint32_t number = number_at(few, own);
            at = (is_near ? first_near : first_from)(many, at, many_count, number);
            if (at == many_count)
                break;
            few_places[found] = own;
            many_places[found] = at;
            found += number_at(many, at) == number;
        }
        return found;
    }
    while (own < few_count && at < many_count) {
        const uint32_t left = number_at(few, own), right = number_at(many, at);
        few_places[found] = own;
        many_places[found] = at;
        found += left == right;
        own += left <= right;
        at += right <= left;
    }
    return found;
}

/* Find where words of documents follow others; see phrases.py.
 *
 * numbers: how many lists of places there are, how many places, how many of the documents, how many
 * `before_places`, what is taken off a place, and the slop. `before_starts` is NULL where all words
 * count. `out_places` has room for all places. */
KERNEL(follow_words, const int64_t *starts, const int64_t *places, const int64_t *documents,
       const int64_t *before_starts, const int64_t *before_places, const int64_t *numbers,
       int64_t *out_starts, int64_t *out_places) {
    const int64_t lists = numbers[0], size = numbers[1], count = numbers[2];
    const int64_t before_size = numbers[3];
    const uint64_t shift = (uint64_t)numbers[4], slop = (uint64_t)numbers[5];
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i + 2 * AHEAD < count) {
            const int64_t next = documents[i + AHEAD];
            prefetch(starts, documents[i + 2 * AHEAD], lists);
            if (next >= 0 && next < lists)
                prefetch(places, starts[next], size);
        }
        const int64_t document = documents[i];
        if (document < 0 || document >= lists)
            return DAMAGED;
        int64_t at = starts[document];
        const int64_t end = starts[document + 1];
        if (at < 0 || at > end || end > size)
            return DAMAGED;
        if (end - at > size - found)
            return DAMAGED;
        out_starts[i] = found;
        if (!before_starts) {
            for (; at < end; at++)
                out_places[found++] = (int64_t)((uint64_t)places[at] - shift);
            continue;
        }
        int64_t last = before_starts[i];
        const int64_t before_end = before_starts[i + 1];
        if (last < 0 || last > before_end || before_end > before_size)
            return DAMAGED;
        if (last == before_end)
            continue;
        for (; at < end; at++) {
            const int64_t place = (int64_t)((uint64_t)places[at] - shift);
            while (last + 1 < before_end && before_places[last + 1] <= place)
                last++;
            const int64_t before = before_places[last];
            out_places[found] = place;
            found += before <= place && (uint64_t)place - (uint64_t)before <= slop;
        }
    }
    out_starts[count] = found;
    return found;
}
