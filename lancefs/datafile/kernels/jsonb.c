/* JSONB values as JSON text; see jsonb.py. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "utf8.h"

enum { SCALAR = 1, OBJECT = 2, ARRAY = 4 };
enum { NULL_ENTRY = 0, STRING, NUMBER, FALSE_ENTRY, TRUE_ENTRY, CONTAINER };
enum { ZERO = 0x00, NOT_A_NUMBER = 0x10, INFINITE = 0x20, MINUS_INFINITE = 0x30, INT = 0x40,
       UINT = 0x50, FLOAT = 0x60 };

/* Containers within each other that are written here. */
#define DEEPEST 100
/* Digits of a number that tell it from all others, and those that different numbers may share. */
#define MOST_DIGITS 17
#define SAFE_DIGITS 15

/* The text. What does not fit is counted, and not written. */
typedef struct {
    uint8_t *out;
    int64_t size, capacity;
} writer;

/* Those that are exact, so that a quotient of one of them and a whole number below 2^53 is rounded
 * once, as the text of the quotient is when it is read. */
static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
#define LARGEST_WHOLE 9007199254740992.0 /* 2^53 */
#define MOST_PLACES 19                   /* of a unit that 64 bits hold */

static inline void put(writer *to, const void *text, int64_t size) {
    if (to->size + size <= to->capacity)
        memcpy(to->out + to->size, text, (size_t)size);
    to->size += size;
}

static inline void put_byte(writer *to, uint8_t byte) {
    if (to->size < to->capacity)
        to->out[to->size] = byte;
    to->size++;
}

static inline uint32_t word(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The functions below return 0 for a value that Python is to write, or to refuse. */

static void put_string(writer *to, const uint8_t *text, int64_t size) {
    static const char HEX[] = "0123456789abcdef";
    /* What stands for a control character behind a backslash; 0 where it is written in digits. */
    static const uint8_t LETTERS[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    put_byte(to, '"');
    int64_t from = 0;
    for (int64_t at = 0; at < size; at++) {
        const uint8_t byte = text[at];
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        put(to, text + from, at - from);
        from = at + 1;
        put_byte(to, '\\');
        const uint8_t letter = byte < 0x20 ? LETTERS[byte] : byte;
        if (letter) {
            put_byte(to, letter);
        } else {
            put(to, "u00", 3);
            put_byte(to, (uint8_t)HEX[byte >> 4]);
            put_byte(to, (uint8_t)HEX[byte & 15]);
        }
    }
    put(to, text + from, size - from);
    put_byte(to, '"');
}

static void put_integer(writer *to, uint64_t value, int64_t least_digits) {
    uint8_t digits[20];
    int64_t at = 20;
    while (value || 20 - at < least_digits) {
        digits[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    }
    put(to, digits + at, 20 - at);
}

static void put_fixed(writer *to, uint64_t number, int places) {
    for (; places && number % 10 == 0; places--)
        number /= 10;
    const uint64_t unit = (uint64_t)POWERS[places];
    put_integer(to, number / unit, 1);
    put_byte(to, '.');
    put_integer(to, number % unit, places ? places : 1);
}

/* Write a number between 0.00001 and 10^15 if it has up to 16 digits, of which the text is told by
 * arithmetic; else return the digits that it has at least.
 *
 * Of the numbers with 15 digits, the nearest one is the only one that may read back. Those with 16
 * digits may be several; if just one of them does, it is the one. */
static int put_short_double(writer *to, double value, uint64_t bits) {
    if (value >= 1e15 || value < 1e-5)
        return SAFE_DIGITS;
    const int power = (int)(bits >> 52 & 0x7FF) - 1023;
    int places = 14 - ((power * 1233 + (1 << 20)) / 4096 - (1 << 8)); /* by log10(2) */
    while (places > 0 && value * POWERS[places] >= 1e15)
        places--;
    while (value * POWERS[places + 1] < 1e15)
        places++;
    const double whole = floor(value * POWERS[places] + 0.5);
    if (places >= MOST_PLACES)
        return SAFE_DIGITS;
    if (whole / POWERS[places] == value) {
        put_fixed(to, (uint64_t)whole, places);
        return 0;
    }
    places++;
    const double low = floor(value * POWERS[places]) - 1;
    if (low + 3 > LARGEST_WHOLE)
        return SAFE_DIGITS + 1;
    int count = 0;
    uint64_t found = 0;
    for (int step = 0; step < 4; step++)
        if ((low + step) / POWERS[places] == value) {
            found = (uint64_t)(low + step);
            count++;
        }
    if (count != 1)
        return count ? SAFE_DIGITS + 1 : MOST_DIGITS;
    put_fixed(to, found, places);
    return 0;
}

/* Write the digits of a number of the size 10^exponent. */
static void put_digits(writer *to, const uint8_t *digits, int64_t count, int64_t exponent) {
    if (exponent < -5 || exponent > 15) {
        put_byte(to, digits[0]);
        if (count > 1) {
            put_byte(to, '.');
            put(to, digits + 1, count - 1);
        }
        put(to, exponent < 0 ? "e-" : "e+", 2);
        put_integer(to, (uint64_t)(exponent < 0 ? -exponent : exponent), 1);
        return;
    }
    if (exponent < 0) {
        put(to, "0.00000", 1 - exponent);
        put(to, digits, count);
        return;
    }
    const int64_t whole = count < exponent + 1 ? count : exponent + 1;
    put(to, digits, whole);
    for (int64_t i = whole; i <= exponent; i++)
        put_byte(to, '0');
    put_byte(to, '.');
    if (count > whole)
        put(to, digits + whole, count - whole);
    else
        put_byte(to, '0');
}

/* Write a number by the fewest digits that read back, of which there are `least` at least. */
static int put_long_double(writer *to, double value, uint64_t bits, int least) {
    const uint64_t fraction = bits & 0xFFFFFFFFFFFFF, power = bits >> 52 & 0x7FF;
    if (power == 0 || fraction == 0) /* the nearest short number may not be the one that reads back */
        return 0;
    for (int count = least; count <= MOST_DIGITS; count++) {
        char text[40];
        snprintf(text, sizeof text, "%.*e", count - 1, value);
        if (count < MOST_DIGITS && strtod(text, NULL) != value)
            continue;
        uint8_t digits[MOST_DIGITS];
        int64_t found = 0;
        const char *at = text;
        for (; *at != 'e'; at++) /* passes over a point in any language */
            if (*at >= '0' && *at <= '9' && found < MOST_DIGITS)
                digits[found++] = (uint8_t)*at;
        while (found > 1 && digits[found - 1] == '0')
            found--;
        put_digits(to, digits, found, strtol(at + 1, NULL, 10));
        return 1;
    }
    return 0;
}

static int put_double(writer *to, const uint8_t *data) {
    const uint64_t bits = (uint64_t)word(data) << 32 | word(data + 4);
    double value;
    memcpy(&value, &bits, 8);
    if (!isfinite(value)) {
        put(to, "null", 4);
        return 1;
    }
    if (bits >> 63)
        put_byte(to, '-');
    value = fabs(value);
    if (value == 0) {
        put(to, "0.0", 3);
        return 1;
    }
    const int least = put_short_double(to, value, bits);
    return least == 0 || put_long_double(to, value, bits, least);
}

static int put_number(writer *to, const uint8_t *data, int64_t size) {
    if (size < 1)
        return 0;
    const uint8_t sort = *data++;
    size--;
    if ((sort == INT || sort == UINT) && (size == 1 || size == 2 || size == 4 || size == 8)) {
        uint64_t value = sort == INT && data[0] >> 7 ? UINT64_MAX : 0;
        const int is_negative = value != 0;
        for (int64_t i = 0; i < size; i++)
            value = value << 8 | data[i];
        if (is_negative)
            put_byte(to, '-');
        put_integer(to, is_negative ? 0 - value : value, 1);
        return 1;
    }
    if (sort == FLOAT && size == 8)
        return put_double(to, data);
    if (sort == ZERO && size == 0) {
        put_byte(to, '0');
        return 1;
    }
    if ((sort == NOT_A_NUMBER || sort == INFINITE || sort == MINUS_INFINITE) && size == 0) {
        put(to, "null", 4);
        return 1;
    }
    return 0;
}

static int put_container(writer *to, const uint8_t *data, int64_t size, int depth);

static int put_member(writer *to, uint32_t kind, const uint8_t *data, int64_t size, int depth) {
    switch (kind) {
    case NULL_ENTRY:
        put(to, "null", 4);
        return 1;
    case FALSE_ENTRY:
        put(to, "false", 5);
        return 1;
    case TRUE_ENTRY:
        put(to, "true", 4);
        return 1;
    case STRING:
        put_string(to, data, size);
        return 1;
    case NUMBER:
        return put_number(to, data, size);
    case CONTAINER:
        return depth < DEEPEST && put_container(to, data, size, depth + 1);
    default:
        return 0;
    }
}

static int put_container(writer *to, const uint8_t *data, int64_t size, int depth) {
    if (size < 4)
        return 0;
    const uint32_t header = word(data), kind = header >> 29;
    const int is_object = kind == OBJECT, is_scalar = kind == SCALAR;
    if (!is_object && !is_scalar && kind != ARRAY)
        return 0;
    const int64_t count = is_scalar ? 1 : header & 0x1FFFFFFF;
    const int64_t entries = is_object ? 2 * count : count;
    if (entries > (size - 4) / 4)
        return 0;
    const uint8_t *const keys = data + 4, *const values = keys + 4 * (entries - count);
    int64_t key = 4 + 4 * entries, at = key;
    for (int64_t i = 0; is_object && i < count; i++) {
        const uint32_t entry = word(keys + 4 * i);
        if (entry >> 28 != STRING)
            return 0;
        at += entry & 0xFFFFFFF;
    }
    if (at > size)
        return 0;
    const int64_t first_value = at;
    if (!is_scalar)
        put_byte(to, is_object ? '{' : '[');
    for (int64_t i = 0; i < count; i++) {
        if (i)
            put_byte(to, ',');
        if (is_object) {
            const int64_t length = word(keys + 4 * i) & 0xFFFFFFF;
            if (length > first_value - key) /* a mapped file changed meanwhile */
                return 0;
            put_string(to, data + key, length);
            put_byte(to, ':');
            key += length;
        }
        const uint32_t entry = word(values + 4 * i), sort = entry >> 28;
        const int64_t length = entry & 0xFFFFFFF;
        if (length > size - at || (is_scalar && sort == CONTAINER))
            return 0;
        if (!put_member(to, sort, data + at, length, depth))
            return 0;
        at += length;
    }
    if (!is_scalar)
        put_byte(to, is_object ? '}' : ']');
    return at == size;
}

/* Write the texts of `count` values, of which `valid` tells the ones that are not null; `offsets`
 * and `ends` have `count` + 1 numbers. `is_left` marks the values that Python is to write, which
 * have no text here. Return the bytes of the texts: if they are more than `capacity`, not all of
 * them were written. */
KERNEL(write_json, const int64_t *offsets, int64_t count, const uint8_t *data, int64_t size,
       const uint8_t *valid, uint8_t *out, int64_t capacity, int64_t *ends, uint8_t *is_left) {
    writer to = {out, 0, capacity};
    ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t start = offsets[i], end = offsets[i + 1];
        is_left[i] = 0;
        if (start < 0 || end < start || end > size)
            return DAMAGED;
        if (valid == NULL || valid[i]) {
            if (start == end)
                put(&to, "null", 4);
            else if (!put_container(&to, data + start, end - start, 0)) {
                to.size = ends[i];
                is_left[i] = 1;
            }
        }
        ends[i + 1] = to.size;
    }
    /* All else is ASCII, so that strings are UTF-8 where all of it is. */
    if (to.size <= capacity && are_utf8(ends, 8, count, out, to.size) != 1)
        return DAMAGED;
    return to.size;
}
