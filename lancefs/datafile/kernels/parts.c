/* Strings that hold a text. */
#include "kernels.h"

#define BLOCK 64
/* Bytes of texts, and of the part, that are looked at before a search. */
#define SAMPLE (4 * 1024)
#define LOOKED 32

/* A byte that is searched for: one that is this byte once the bits of `either` are set. */
typedef struct {
    uint8_t byte, either;
    int64_t place;
} wanted_t;

/* What is searched for, with two of its bytes that texts rarely have together. */
typedef struct {
    const uint8_t *bytes;
    int64_t size;
    int any_case;
    wanted_t rare, other;
} part_t;

/* The bit that tells small letters of ASCII from capital ones, for the small ones. */
static inline uint8_t case_bit(uint8_t byte, int any_case) {
    return any_case && byte >= 'a' && byte <= 'z' ? 0x20 : 0;
}

static inline int is_byte(uint8_t byte, wanted_t wanted) {
    return (byte | wanted.either) == wanted.byte;
}

static wanted_t wanted_at(const uint8_t *bytes, int64_t place, int any_case) {
    return (wanted_t){bytes[place], case_bit(bytes[place], any_case), place};
}

/* Return how often a sample has two bytes as far from each other as they are wanted. */
static int64_t together(const uint8_t *sample, int64_t size, wanted_t one, wanted_t other) {
    const int64_t first = one.place < other.place ? one.place : other.place;
    const int64_t behind = one.place + other.place - 2 * first;
    int64_t found = 0;
    for (int64_t i = 0; i + behind < size; i++)
        found += is_byte(sample[i + one.place - first], one) &
                 is_byte(sample[i + other.place - first], other);
    return found;
}

/* Choose the bytes by a sample: that which it has least, and the one that it has least beside. */
static part_t part_of(const uint8_t *bytes, int64_t size, int any_case, const uint8_t *sample,
                      int64_t sampled) {
    const wanted_t start = wanted_at(bytes, 0, any_case);
    const int64_t looked = size < LOOKED ? size : LOOKED;
    part_t part = {bytes, size, any_case, start, start};
    int64_t least = together(sample, sampled, start, start);
    for (int64_t i = 1; i < looked; i++) {
        const wanted_t byte = wanted_at(bytes, i, any_case);
        const int64_t found = together(sample, sampled, byte, byte);
        if (found < least) {
            part.rare = byte;
            least = found;
        }
    }
    part.other = part.rare;
    for (int64_t i = 0; i < looked; i++) {
        const wanted_t byte = wanted_at(bytes, i, any_case);
        const int64_t found = together(sample, sampled, part.rare, byte);
        if (found < least || part.other.place == part.rare.place) {
            part.other = byte;
            least = found;
        }
    }
    return part;
}

/* Tell whether one of the BLOCK positions from `at` may begin the part: both bytes are where they
 * would be. Loops of constant length are vectorized. */
static inline int may_begin(const uint8_t *at, wanted_t rare, wanted_t other) {
    const uint8_t *rares = at + rare.place, *others = at + other.place;
    uint8_t any = 0;
    for (int i = 0; i < BLOCK; i++)
        any |= (uint8_t)(is_byte(rares[i], rare) & is_byte(others[i], other));
    return any;
}

/* Tell for each of the BLOCK positions whether it may begin the part. */
static inline void which_may(const uint8_t *at, wanted_t rare, wanted_t other, uint8_t *begins) {
    const uint8_t *rares = at + rare.place, *others = at + other.place;
    for (int i = 0; i < BLOCK; i++)
        begins[i] = (uint8_t)(is_byte(rares[i], rare) & is_byte(others[i], other));
}

/* Tell whether the part stands at a position. */
static inline int is_at(const uint8_t *at, const part_t *part) {
    if (!part->any_case)
        return memcmp(at, part->bytes, (size_t)part->size) == 0;
    for (int64_t i = 0; i < part->size; i++)
        if ((at[i] | case_bit(part->bytes[i], 1)) != part->bytes[i])
            return 0;
    return 1;
}

static inline int64_t max64(int64_t one, int64_t other) {
    return one > other ? one : other;
}

/* Where a search is. */
typedef struct {
    const int32_t *offsets;
    uint8_t *found;
    int64_t row;
    int64_t from; /* what stands before belongs to strings of which enough is known */
} search_t;

/* Note the string that holds the part at a position, unless it ends in another one. */
static inline void compare(const uint8_t *data, int64_t at, const part_t *part,
                           search_t *search) {
    if (at < search->from || !is_at(data + at, part))
        return;
    int64_t row = search->row;
    while (search->offsets[row + 1] <= at)
        row++;
    search->row = row;
    if (at + part->size <= search->offsets[row + 1]) {
        search->found[row] = 1;
        search->from = search->offsets[row + 1];
    }
}

/* Set `found` for the strings that hold `part`; with `any_case`, its small letters of ASCII stand
 * for the capital ones, too. `offsets` has `count` + 1 numbers.
 *
 * The joined text is searched: most strings hold no such text, and are not looked at one by one. */
KERNEL(holds, const int32_t *offsets, int64_t count, const uint8_t *data, int64_t size,
       const uint8_t *part, int64_t part_size, int64_t any_case, uint8_t *found) {
    if (offsets[0] < 0 || offsets[count] > size)
        return DAMAGED;
    int descends = 0;
    for (int64_t i = 0; i < count; i++)
        descends |= offsets[i + 1] < offsets[i];
    if (descends)
        return DAMAGED;
    if (part_size == 0) {
        memset(found, 1, (size_t)count);
        return 0;
    }
    const int64_t stop = offsets[count];
    const int64_t few = (stop - offsets[0]) / 16, sampled = few < SAMPLE ? few : SAMPLE;
    const part_t wanted = part_of(part, part_size, any_case != 0, data + offsets[0], sampled);
    search_t search = {offsets, found, 0, offsets[0]};
    int64_t at = offsets[0];
    for (; at + BLOCK + part_size - 1 <= stop; at = max64(at + BLOCK, search.from)) {
        if (!may_begin(data + at, wanted.rare, wanted.other))
            continue;
        uint8_t begins[BLOCK];
        which_may(data + at, wanted.rare, wanted.other, begins);
        for (int i = 0; i < BLOCK; i += 8) {
            uint64_t some;
            memcpy(&some, begins + i, sizeof some);
            for (; some; some &= some - 1) /* a byte of each is 1 */
                compare(data, at + i + (__builtin_ctzll(some) >> 3), &wanted, &search);
        }
    }
    for (; at + part_size <= stop; at++)
        compare(data, at, &wanted, &search);
    return 0;
}
