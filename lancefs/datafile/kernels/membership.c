/* Strings and numbers that are one of some, and the distinct ones of some strings. */
#include "kernels.h"

static inline uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/* Return a number that is the same for the same bytes. */
static inline uint64_t hash_of(const uint8_t *text, int64_t size) {
    uint64_t hash = (uint64_t)size, word = 0;
    if (size >= 8) {
        for (int64_t i = 0; i + 8 < size; i += 8)
            hash = mixed(hash, load(text + i, 8));
        word = load(text + size - 8, 8);
    } else if (size >= 4) {
        word = load(text, 4) | load(text + size - 4, 4) << 32;
    } else if (size > 0) {
        word = text[0] | (uint64_t)text[size / 2] << 8 | (uint64_t)text[size - 1] << 16;
    }
    hash = mixed(hash, word);
    return mixed(hash, hash >> 32);
}

/* Return the slot of the key that is some text, or the free slot where it would be. */
static inline int64_t slot_of(const uint8_t *text, int64_t size, uint64_t hash,
                              const int64_t *key_offsets, const uint8_t *key_data,
                              const int32_t *slots, int64_t mask) {
    int64_t slot = (int64_t)hash & mask;
    for (; slots[slot]; slot = (slot + 1) & mask) {
        const int64_t first = key_offsets[slots[slot] - 1];
        if (key_offsets[slots[slot]] - first == size &&
            memcmp(key_data + first, text, (size_t)size) == 0)
            break;
    }
    return slot;
}

/* Set `found` for the strings that are one of some keys. `offsets` has `count` + 1 numbers,
 * `key_offsets` one more than there are keys.
 *
 * `bits` has a bit for each number of `bits_mask` + 1, a power of two: most strings meet none that
 * is set. `slots` has `slots_mask` + 1 places, a power of two and more than there are keys, in which
 * the numbers of the keys are put, from 1 on. In the first call for some keys both are filled with
 * zeros, and `added` is the number of keys; in later calls they come as that one left them, and
 * `added` is 0. */
KERNEL(among, const int32_t *offsets, int64_t count, const uint8_t *data, int64_t size,
       const int64_t *key_offsets, int64_t added, const uint8_t *key_data, uint8_t *bits,
       int64_t bits_mask, int32_t *slots, int64_t slots_mask, uint8_t *found) {
    for (int64_t key = 0; key < added; key++) {
        const uint8_t *text = key_data + key_offsets[key];
        const int64_t length = key_offsets[key + 1] - key_offsets[key];
        const uint64_t hash = hash_of(text, length);
        const int64_t bit = (int64_t)(hash >> 32) & bits_mask;
        bits[bit >> 3] |= (uint8_t)(1 << (bit & 7));
        /* A key that comes again takes no slot of its own: many would make a long way for each. */
        const int64_t slot =
            slot_of(text, length, hash, key_offsets, key_data, slots, slots_mask);
        slots[slot] = (int32_t)(key + 1);
    }
    int64_t start = offsets[0];
    if (start < 0)
        return DAMAGED;
    for (int64_t row = 0; row < count; row++) {
        const int64_t end = offsets[row + 1], length = end - start;
        if (length < 0 || end > size)
            return DAMAGED;
        const uint8_t *text = data + start;
        const uint64_t hash = hash_of(text, length);
        start = end;
        const int64_t bit = (int64_t)(hash >> 32) & bits_mask;
        if (!(bits[bit >> 3] >> (bit & 7) & 1))
            continue;
        const int64_t slot =
            slot_of(text, length, hash, key_offsets, key_data, slots, slots_mask);
        found[row] = slots[slot] != 0;
    }
    return 0;
}

/* Return the slot of a number, or the free slot where it would be. */
static inline int64_t slot_of_number(int64_t number, uint64_t hash, const int64_t *keys,
                                     const int32_t *slots, int64_t mask) {
    int64_t slot = (int64_t)(hash >> 8) & mask;
    while (slots[slot] && keys[slots[slot] - 1] != number)
        slot = (slot + 1) & mask;
    return slot;
}

#define AMONG_NUMBERS(TYPE)                                                                        \
    for (int64_t i = 0; i < count; i++) {                                                          \
        TYPE value;                                                                                \
        memcpy(&value, numbers + (size_t)i * sizeof value, sizeof value);                          \
        const int64_t number = (int64_t)value;                                                     \
        const uint64_t hash = (uint64_t)number * 0x9E3779B97F4A7C15u;                              \
        const int64_t bit = (int64_t)(hash >> 32) & bits_mask;                                     \
        found[i] = bits[bit >> 3] >> (bit & 7) & 1;                                                \
        if (found[i])                                                                              \
            found[i] = slots[slot_of_number(number, hash, keys, slots, slots_mask)] != 0;          \
    }                                                                                              \
    return 0;

/* Tell which numbers are one of some keys. They have `width` bytes, which is negative of unsigned
 * ones. `bits` and `slots` are as for `among`. */
KERNEL(among_numbers, const uint8_t *numbers, int64_t width, int64_t count, const int64_t *keys,
       int64_t added, uint8_t *bits, int64_t bits_mask, int32_t *slots, int64_t slots_mask,
       uint8_t *found) {
    for (int64_t key = 0; key < added; key++) {
        const uint64_t hash = (uint64_t)keys[key] * 0x9E3779B97F4A7C15u;
        const int64_t bit = (int64_t)(hash >> 32) & bits_mask;
        bits[bit >> 3] |= (uint8_t)(1 << (bit & 7));
        slots[slot_of_number(keys[key], hash, keys, slots, slots_mask)] = (int32_t)(key + 1);
    }
    OF_WIDTH(width, AMONG_NUMBERS)
}

/* Return whether two strings of the same size are the same. */
static inline int is_same(const uint8_t *one, const uint8_t *other, int64_t size) {
    if (size < 8)
        return memcmp(one, other, (size_t)size) == 0;
    for (int64_t i = 0; i + 8 < size; i += 8)
        if (load(one + i, 8) != load(other + i, 8))
            return 0;
    return load(one + size - 8, 8) == load(other + size - 8, 8);
}

/* Write the number of each string, those of distinct ones ascending from 0 on, and the first row of
 * each of these; return how many there are, or `most` + 1 where there are more than `most`.
 *
 * `slots` has `slots_mask` + 1 zeros, a power of two and more than `most`. In one that is taken, the
 * upper half is that of a hash, the lower one a number, from 1 on. */
KERNEL(number_texts, const int32_t *offsets, int64_t count, const uint8_t *data, int64_t size,
       const uint8_t *valid, uint64_t *slots, int64_t slots_mask, int64_t most, int32_t *numbers,
       int64_t *firsts) {
    int64_t found = 0;
    for (int64_t row = 0; row < count; row++) {
        numbers[row] = 0;
        if (valid && !valid[row])
            continue;
        const int64_t start = offsets[row], length = offsets[row + 1] - start;
        if (start < 0 || length < 0 || start + length > size)
            return DAMAGED;
        const uint8_t *text = data + start;
        const uint64_t hash = hash_of(text, length), upper = hash >> 32 << 32;
        int64_t slot = (int64_t)hash & slots_mask, number = -1;
        for (; slots[slot]; slot = (slot + 1) & slots_mask) {
            if ((slots[slot] ^ upper) >> 32)
                continue;
            const int64_t known = (int64_t)(slots[slot] & UINT32_MAX) - 1;
            const int64_t first = offsets[firsts[known]];
            if (offsets[firsts[known] + 1] - first == length &&
                is_same(data + first, text, length)) {
                number = known;
                break;
            }
        }
        if (number < 0) {
            if (found == most)
                return most + 1;
            number = found++;
            firsts[number] = row;
            slots[slot] = upper | (uint64_t)found;
        }
        numbers[row] = (int32_t)number;
    }
    return found;
}
