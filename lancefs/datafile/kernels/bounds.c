/* The least and the greatest text of zones; see bounds.py for what is compared. */
#include "kernels.h"

#define WORDS 4 /* of 8 bytes: KEY_BYTES in bounds.py */

/* Read a big-endian number, which orders as its bytes do. */
static inline uint64_t big_endian(const uint8_t *at) {
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | at[i];
    return number;
}

/* Return the first 8 of the `left` > 0 bytes of a text, zeros behind them. `room` bytes can be read. */
static inline uint64_t word_of(const uint8_t *at, int64_t left, int64_t room) {
    uint8_t last[8] = {0};
    if (room < 8) {
        memcpy(last, at, (size_t)left);
        at = last;
    }
    const uint64_t word = big_endian(at);
    return left >= 8 ? word : word & ~UINT64_C(0) << 8 * (8 - left);
}

/* Return a word of the key of a text of `length` bytes. */
static inline uint64_t key_word(const uint8_t *text, int64_t length, int64_t room, int k) {
    const int64_t at = 8 * k;
    return at < length ? word_of(text + at, length - at, room - at) : 0;
}

/* Compare the text with a key that begins with the same word: below 0 for a text before the key,
 * above 0 for one behind it. */
static int compare_rest(const uint8_t *text, int64_t length, int64_t room, const uint64_t *key) {
    for (int k = 1; k < WORDS; k++) {
        const uint64_t word = key_word(text, length, room, k);
        if (word != key[k])
            return word < key[k] ? -1 : 1;
    }
    return 0;
}

static void write_key(const uint8_t *text, int64_t length, int64_t room, uint64_t *key) {
    for (int k = 0; k < WORDS; k++)
        key[k] = key_word(text, length, room, k);
}

static void store(const uint64_t *words, uint8_t *to) {
    for (int i = 0; i < WORDS * 8; i++)
        to[i] = (uint8_t)(words[i / 8] >> 8 * (7 - i % 8));
}

/* Write the least and the greatest key of each zone. `starts` has `zones` + 1 positions of texts;
 * `offsets`, of `width` bytes each, has one more than there are texts. */
KERNEL(text_bounds, const uint8_t *offsets, int64_t width, const uint8_t *data, int64_t size,
       const uint8_t *valid, const int64_t *starts, int64_t zones, uint8_t *low, uint8_t *high) {
    for (int64_t zone = 0; zone < zones; zone++) {
        uint64_t least[WORDS], most[WORDS];
        memset(least, 0xFF, sizeof least);
        memset(most, 0, sizeof most);
        for (int64_t i = starts[zone]; i < starts[zone + 1]; i++) {
            if (valid && !valid[i])
                continue;
            const uint64_t begin = load(offsets + i * width, width);
            const uint64_t end = load(offsets + (i + 1) * width, width);
            if (begin > end || end > (uint64_t)size)
                return DAMAGED;
            const uint8_t *text = data + begin;
            const int64_t length = (int64_t)(end - begin), room = size - (int64_t)begin;
            const uint64_t word = key_word(text, length, room, 0); /* which mostly tells */
            if (word < least[0] ||
                (word == least[0] && compare_rest(text, length, room, least) < 0))
                write_key(text, length, room, least);
            if (word > most[0] ||
                (word == most[0] && compare_rest(text, length, room, most) > 0))
                write_key(text, length, room, most);
        }
        store(least, low + zone * WORDS * 8);
        store(most, high + zone * WORDS * 8);
    }
    return 0;
}
