/* A few rows of pages without chunks, as data files 2.0 have them; see whole.py for what is read. */
#include "points.h"

#define NEAR (64 * 1024) /* bytes of a buffer that are one place, as in whole.py */

/* What is looked at in a buffer from its begin to its end. */
typedef struct {
    int64_t bytes, places, last;
} Looked;

static void look(Looked *looked, int64_t at, int64_t size) {
    looked->bytes += size;
    looked->places += at / NEAR != looked->last;
    looked->last = at / NEAR;
}

static int find_buffer(Piece piece, const int64_t *page, int begin, Buffer *found) {
    const int64_t start = page[begin], end = page[begin + 1];
    if (start < 0 || start > end || end > piece.size)
        return DAMAGED;
    *found = (Buffer){piece.data + start, end - start};
    return 0;
}

/* Note values of one size that follow each other. */
static void look_along(Looked *looked, int64_t at, int64_t size, int64_t count) {
    const int64_t places = (at + (count - 1) * size) / NEAR - at / NEAR + 1;
    looked->bytes += count * size;
    looked->places += places < count ? places : count;
}

static int is_set(Buffer bits, int64_t position) {
    return bits.data[position / 8] >> (position % 8) & 1;
}

/* Write values of a fixed width. The table of the page has a bit for each row that is valid. */
static int64_t read_values(Piece piece, const int64_t *page, const int64_t *rows, int64_t start,
                           int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen) {
    const int64_t bits = page[BITS], bytes = bits / 8, first = page[FIRST_ROW];
    const int64_t last = rows[stop - 1] - first;
    const int has_bits = page[LEVELS] != NONE;
    Looked values_seen = {0, 0, -1}, bits_seen = {0, 0, -1};
    Buffer values, valid;
    int64_t nulls = 0;
    if (find_buffer(piece, page, CHUNKS, &values) || find_buffer(piece, page, TABLE, &valid))
        return DAMAGED;
    if ((bits == 1 ? last / 8 >= values.size : last >= values.size / bytes) ||
        (has_bits && (validity == NULL || last / 8 >= valid.size)))
        return DAMAGED;
    const int64_t dense = bits == 1 ? 0 : in_a_row(rows, start, stop);
    if (dense) {
        const int64_t at = (last - dense + 1) * bytes;
        memcpy(out + start * bytes, values.data + at, (size_t)(dense * bytes));
        look_along(&values_seen, at, bytes, dense);
    }
    for (int64_t i = start; i < stop && !dense; i++) {
        const int64_t within = rows[i] - first;
        if (bits == 1) {
            if (is_set(values, within))
                set_bit(out, i);
            look(&values_seen, within / 8, 1);
        } else {
            memcpy(out + i * bytes, values.data + within * bytes, (size_t)bytes);
            look(&values_seen, within * bytes, bytes);
        }
    }
    for (int64_t i = start; i < stop && validity != NULL; i++) {
        const int64_t within = rows[i] - first;
        const int is_valid = !has_bits || is_set(valid, within);
        if (has_bits)
            look(&bits_seen, within / 8, 1);
        if (is_valid)
            set_bit(validity, i);
        nulls += !is_valid;
    }
    seen[0] += values_seen.bytes + bits_seen.bytes;
    seen[1] += values_seen.places + bits_seen.places;
    return nulls;
}

/* Strings: where each ends in the text, with a number added to the ends of nulls. */
typedef struct {
    Buffer ends, text;
    int64_t width, adjustment;
} Strings;

/* Find where a string begins and ends in the text; return whether it is null. */
static int find_string(const Strings *strings, int64_t at, uint64_t *low, uint64_t *high) {
    const uint64_t adjustment = (uint64_t)strings->adjustment;
    if (at >= strings->ends.size / strings->width)
        return DAMAGED;
    const uint8_t *const end = strings->ends.data + at * strings->width;
    *low = at ? load(end - strings->width, strings->width) : 0;
    *high = load(end, strings->width);
    if (*low > (uint64_t)INT64_MAX || *high > (uint64_t)INT64_MAX)
        return DAMAGED;
    const int is_null = *high >= adjustment;
    if (at && *low >= adjustment)
        *low -= adjustment;
    *high -= is_null ? adjustment : 0;
    return *low > *high || *high > (uint64_t)strings->text.size ? DAMAGED : is_null;
}

/* Write where a string is, and whether it is null; a null is no bytes at the begin of the piece. */
static int put_string(Piece piece, const Strings *strings, uint64_t low, uint64_t high, int is_null,
                      int64_t i, uint8_t *out, uint8_t *validity) {
    const int64_t base = is_null ? 0 : strings->text.data - piece.data;
    const Span span = {piece.start + base + (is_null ? 0 : (int64_t)low),
                       piece.start + base + (is_null ? 0 : (int64_t)high)};
    memcpy(out + i * (int64_t)sizeof span, &span, sizeof span);
    if (validity == NULL)
        return is_null ? DAMAGED : 0;
    if (!is_null)
        set_bit(validity, i);
    return 0;
}

/* Write where strings are, of which the table of the page has the ends. */
static int64_t read_strings(Piece piece, const int64_t *page, const int64_t *rows, int64_t start,
                            int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen) {
    Strings strings = {.width = page[BITS] / 8, .adjustment = page[ENTRY]};
    Looked ends_seen = {0, 0, -1}, text_seen = {0, 0, -1};
    int64_t nulls = 0;
    uint64_t before = 0, low, high;
    if (find_buffer(piece, page, TABLE, &strings.ends) ||
        find_buffer(piece, page, CHUNKS, &strings.text))
        return DAMAGED;
    for (int64_t i = start; i < stop; i++) {
        const int64_t within = rows[i] - page[FIRST_ROW];
        const int is_null = find_string(&strings, within, &low, &high);
        if (is_null < 0 || low < before ||
            put_string(piece, &strings, low, high, is_null, i, out, validity))
            return DAMAGED;
        look(&ends_seen, within * strings.width, 2 * strings.width);
        look(&text_seen, (int64_t)low, (int64_t)(high - low));
        before = high;
        nulls += is_null;
    }
    seen[0] += ends_seen.bytes + text_seen.bytes;
    seen[1] += ends_seen.places + text_seen.places;
    return nulls;
}

/* Write where the strings of a dictionary are that indices point at: 0 is null, 1 the first one. The
 * table of the page has the indices, the chunks are the ends of the strings. */
static int64_t read_indexed(Piece piece, const int64_t *page, const int64_t *rows, int64_t start,
                            int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen) {
    Strings strings = {.width = page[WIDTH] / 8, .adjustment = page[ENTRY]};
    const int64_t bytes = page[BITS] / 8, first = page[FIRST_ROW];
    Looked looked = {0, 0, -1};
    Buffer indices;
    int64_t nulls = 0;
    if (find_buffer(piece, page, TABLE, &indices) ||
        find_buffer(piece, page, CHUNKS, &strings.ends) ||
        find_buffer(piece, page, ITEMS, &strings.text) ||
        rows[stop - 1] - first >= indices.size / bytes || page[ITEM_COUNT] < 0)
        return DAMAGED;
    for (int64_t i = start; i < stop; i++) {
        const int64_t at = (rows[i] - first) * bytes;
        const uint64_t index = load(indices.data + at, bytes);
        uint64_t low = 0, high = 0;
        if (index > (uint64_t)page[ITEM_COUNT])
            return DAMAGED;
        const int is_null = index ? find_string(&strings, (int64_t)index - 1, &low, &high) : 1;
        if (is_null < 0 || put_string(piece, &strings, low, high, is_null, i, out, validity))
            return DAMAGED;
        look(&looked, at, bytes);
        if (index)
            looked.bytes += 2 * strings.width + (int64_t)(high - low);
        nulls += is_null;
    }
    seen[0] += looked.bytes;
    seen[1] += looked.places + 2; /* the ends and the text of the dictionary */
    return nulls;
}

int64_t read_whole_page(Piece piece, const int64_t *page, const int64_t *rows, int64_t start,
                        int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen) {
    switch (page[VALUES]) {
    case WHOLE:
        return read_values(piece, page, rows, start, stop, out, validity, seen);
    case ENDS:
        return read_strings(piece, page, rows, start, stop, out, validity, seen);
    default:
        return read_indexed(piece, page, rows, start, stop, out, validity, seen);
    }
}
