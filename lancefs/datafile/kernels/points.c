/* Values at a few rows of many pages; see points.py for what is read. */
#include "points.h"
#include "utf8.h"

#define TEXT_ALIGN 64 /* bytes, as in points.py */

/* The columns of the table of leaves, as in points.py. */
enum { FIRST_PAGE, PAGES, OUT, VALIDITY, FIRST_WANTED, WANTED, LEAF_COLUMNS };

/* Copy bits to a place whose bits are 0. */
static void copy_bits(uint8_t *out, int64_t at, const uint8_t *bits, int64_t from, int64_t count) {
    const int64_t stop = at + count;
    for (; at < stop && at % 8; at++, from++)
        if (bits[from / 8] >> (from % 8) & 1)
            set_bit(out, at);
    const int shift = (int)(from % 8);
    const int64_t bytes = (stop - at) / 8;
    const uint8_t *const whole = bits + from / 8;
    if (shift == 0)
        memcpy(out + at / 8, whole, (size_t)bytes);
    else
        for (int64_t i = 0; i < bytes; i++)
            out[at / 8 + i] = (uint8_t)(whole[i] >> shift | whole[i + 1] << (8 - shift));
    for (at += 8 * bytes, from += 8 * bytes; at < stop; at++, from++)
        if (bits[from / 8] >> (from % 8) & 1)
            set_bit(out, at);
}

/* The strings of a dictionary: their offsets, each of `width` bytes, and their bytes. */
typedef struct {
    const uint8_t *offsets, *text;
    int64_t width, count, size;
} Items;

/* Read the header of a dictionary of strings; see `block_header` in strings.py. */
static int open_items(Buffer buffer, int64_t count, Items *items) {
    const uint8_t *head = buffer.data;
    if (buffer.size < 9)
        return DAMAGED;
    const int old = head[1] || head[2] || head[3];
    const uint64_t bits = old ? head[0] : load(head, 4);
    if (bits != 32 && bits != 64)
        return DAMAGED;
    const int64_t width = (int64_t)bits / 8, at = old ? 1 + width : width, begin = at + width;
    if (begin > buffer.size)
        return DAMAGED;
    const uint64_t end = load(head + at, width);
    if (end > (uint64_t)buffer.size || (int64_t)end < begin || count < 0 ||
        count >= ((int64_t)end - begin) / width)
        return DAMAGED;
    *items = (Items){head + begin, head + end, width, count, buffer.size - (int64_t)end};
    return 0;
}

/* Write where the strings of the wanted rows of a chunk are. */
static int write_strings(Piece piece, int64_t width, Buffer buffer, int64_t count,
                         int64_t first, const int64_t *rows, int64_t start, int64_t stop,
                         uint8_t *out) {
    if (count >= buffer.size / width)
        return DAMAGED;
    for (int64_t i = start; i < stop; i++) {
        const uint8_t *at = buffer.data + (rows[i] - first) * width;
        const uint64_t low = load(at, width), high = load(at + width, width);
        if (low < (uint64_t)((count + 1) * width) || high < low || high > (uint64_t)buffer.size)
            return DAMAGED;
        const int64_t base = piece.start + (buffer.data - piece.data);
        const Span span = {base + (int64_t)low, base + (int64_t)high};
        memcpy(out + i * (int64_t)sizeof span, &span, sizeof span);
    }
    return 0;
}

/* Write where the items that indices point at are. */
static int write_items(Piece piece, const int64_t *page, Buffer buffer, int64_t count,
                       int64_t first, const int64_t *rows, int64_t start, int64_t stop,
                       uint8_t *out) {
    const int64_t bits = page[BITS], width = inline_width(buffer, bits, count);
    if (width < 0 || page[ITEMS] < 0 || page[ITEMS] > page[ITEMS_END] ||
        page[ITEMS_END] > piece.size)
        return DAMAGED;
    const Buffer stored = {piece.data + page[ITEMS], page[ITEMS_END] - page[ITEMS]};
    Items items;
    if (open_items(stored, page[ITEM_COUNT], &items))
        return DAMAGED;
    const uint8_t *const packed = buffer.data + bits / 8;
    const int is_dense = in_a_row(rows, start, stop) > 0;
    uint64_t whole[LARGEST_BLOCK / 8];
    if (is_dense)
        unpack_block(packed, (int)width, bits, whole);
    for (int64_t i = start; i < stop; i++) {
        const int64_t within = rows[i] - first;
        const uint64_t index = is_dense
                                   ? load((const uint8_t *)whole + within * (bits / 8), bits / 8)
                                   : value_at(packed, (int)width, (int)bits, (int)within);
        if (index >= (uint64_t)items.count)
            return DAMAGED;
        const uint8_t *at = items.offsets + (int64_t)index * items.width;
        const uint64_t low = load(at, items.width), high = load(at + items.width, items.width);
        if (high < low || high > (uint64_t)items.size)
            return DAMAGED;
        const int64_t base = piece.start + (items.text - piece.data);
        const Span span = {base + (int64_t)low, base + (int64_t)high};
        memcpy(out + i * (int64_t)sizeof span, &span, sizeof span);
    }
    return 0;
}

/* Widen numbers to 32 bits; return whether one is not below the limit. The loop has no branch. */
#define WIDEN(STORED)                                                                              \
    {                                                                                              \
        STORED most = 0;                                                                           \
        for (int64_t i = 0; i < taken; i++) {                                                      \
            STORED number;                                                                         \
            memcpy(&number, from + (size_t)i * sizeof number, sizeof number);                      \
            most = number > most ? number : most;                                                  \
            indices[i] = (uint32_t)number;                                                         \
        }                                                                                          \
        return (uint64_t)most < (uint64_t)limit ? 0 : DAMAGED;                                     \
    }

int unpack_indices(Buffer buffer, int64_t bits, int64_t count, int64_t within, int64_t taken,
                   int64_t limit, uint32_t *indices) {
    uint64_t whole[LARGEST_BLOCK / 8];
    const int64_t width = inline_width(buffer, bits, count), bytes = bits / 8;
    if (width < 0)
        return DAMAGED;
    unpack_block(buffer.data + bytes, (int)width, bits, whole);
    const uint8_t *const from = (const uint8_t *)whole + within * bytes;
    OF_WIDTH(-bytes, WIDEN)
}

/* Join the bytes of one of `count` values that are byte-stream split. */
static inline void join_value(Buffer buffer, int64_t count, int64_t within, int64_t bytes,
                              uint8_t *out) {
    for (int64_t i = 0; i < bytes; i++)
        out[i] = buffer.data[i * count + within];
}

/* Tell whether a buffer has the bytes of `count` values; by those of split ones, streams begin. */
static int has_room(const int64_t *page, int64_t count, Buffer buffer) {
    const int64_t size = (count * page[BITS] + 7) / 8;
    return page[VALUES] == SPLIT ? size == buffer.size : size <= buffer.size;
}

/* Write the values of `taken` rows of a chunk from the row at position `within` on. */
static int write_dense_values(const int64_t *page, Chunk chunk, int64_t count, int64_t within,
                              int64_t taken, uint8_t *out, int64_t at) {
    const int64_t bits = page[BITS], bytes = bits / 8;
    const Buffer buffer = chunk.values;
    if (length_width(page)) {
        Repeats repeats;
        if (open_repeats(page, chunk, count, within, &repeats))
            return DAMAGED;
        return repeat_values(&repeats, taken, out + at * bytes);
    }
    if (page[VALUES] == PACKED) {
        const int64_t width = inline_width(buffer, bits, count);
        if (width < 0)
            return DAMAGED;
        const uint8_t *const packed = buffer.data + bytes;
        uint8_t *const to = out + at * bytes;
        if (taken == BLOCK && (uintptr_t)to % (uintptr_t)bytes == 0) {
            unpack_block(packed, (int)width, bits, to);
            return 0;
        }
        uint64_t whole[LARGEST_BLOCK / 8];
        unpack_block(packed, (int)width, bits, whole);
        memcpy(to, (const uint8_t *)whole + within * bytes, (size_t)(taken * bytes));
        return 0;
    }
    if (!has_room(page, count, buffer))
        return DAMAGED;
    if (page[VALUES] == SPLIT)
        for (int64_t i = 0; i < taken; i++)
            join_value(buffer, count, within + i, bytes, out + (at + i) * bytes);
    else if (bits > 1)
        memcpy(out + at * bytes, buffer.data + within * bytes, (size_t)(taken * bytes));
    else
        copy_bits(out, at, buffer.data, within, taken);
    return 0;
}

/* Write the values of the wanted rows of a chunk, whose first row is `first`. */
static int write_values(const int64_t *page, Chunk chunk, int64_t count, int64_t first,
                        const int64_t *rows, int64_t start, int64_t stop, uint8_t *out) {
    const int64_t bits = page[BITS], bytes = bits / 8, dense = in_a_row(rows, start, stop);
    const Buffer buffer = chunk.values;
    if (dense)
        return write_dense_values(page, chunk, count, rows[start] - first, dense, out, start);
    if (length_width(page))
        return write_repeats(page, chunk, count, first, rows, start, stop, out);
    if (page[VALUES] == PACKED) {
        const int64_t width = inline_width(buffer, bits, count);
        if (width < 0)
            return DAMAGED;
        const uint8_t *const packed = buffer.data + bytes;
        for (int64_t i = start; i < stop; i++) {
            const uint64_t value = value_at(packed, (int)width, (int)bits, (int)(rows[i] - first));
            memcpy(out + i * bytes, &value, (size_t)bytes);
        }
        return 0;
    }
    if (!has_room(page, count, buffer))
        return DAMAGED;
    for (int64_t i = start; i < stop; i++) {
        const int64_t within = rows[i] - first;
        if (page[VALUES] == SPLIT)
            join_value(buffer, count, within, bytes, out + i * bytes);
        else if (bits > 1)
            memcpy(out + i * bytes, buffer.data + within * bytes, (size_t)bytes);
        else if (buffer.data[within / 8] >> (within % 8) & 1)
            set_bit(out, i);
    }
    return 0;
}

int open_chunk(const int64_t *page, const uint8_t *chunk, int64_t length, int64_t count,
               int is_nullable, Chunk *opened) {
    const int is_skipped = page[LEVELS] == SKIPPED, has_levels = page[LEVELS] != NONE;
    const int64_t buffers = is_skipped ? page[WIDTH] : has_levels; /* of levels */
    if (buffers < 0 || buffers > 2 || (is_skipped && is_nullable))
        return DAMAGED;
    const int has_runs = length_width(page) > 0;
    const int64_t sizes = 2 + LEVEL * buffers, header = sizes + (1 + has_runs) * page[ENTRY];
    if (length < header)
        return DAMAGED;
    int64_t at = align(header);
    opened->levels = (Buffer){NULL, 0};
    opened->has_levels = has_levels && !is_skipped;
    if (is_skipped) {
        for (int64_t i = 0; i < buffers; i++)
            at = align(at + (int64_t)load(chunk + 2 + LEVEL * i, LEVEL));
    } else if (has_levels) {
        opened->levels = (Buffer){chunk + at, (int64_t)load(chunk + 2, LEVEL)};
        if (at + opened->levels.size > length || (int64_t)load(chunk, 2) != count || !is_nullable)
            return DAMAGED;
        at = align(at + opened->levels.size);
    }
    const int64_t size = (int64_t)load(chunk + sizes, page[ENTRY]);
    opened->values = (Buffer){chunk + at, size};
    opened->lengths = (Buffer){NULL, 0};
    if (has_runs) {
        const int64_t runs = (int64_t)load(chunk + sizes + page[ENTRY], page[ENTRY]);
        const int64_t behind = align(at + size);
        opened->lengths = (Buffer){chunk + behind, runs};
        return behind + runs > length ? DAMAGED : 0;
    }
    return at + size > length ? DAMAGED : 0;
}

int64_t read_dense_chunk(const int64_t *page, const uint8_t *chunk, int64_t length, int64_t count,
                         int64_t within, int64_t taken, uint8_t *out, int64_t at,
                         uint8_t *validity) {
    Chunk opened;
    if (open_chunk(page, chunk, length, count, validity != NULL, &opened))
        return DAMAGED;
    const int64_t nulls = read_validity(page, opened, count, within, taken, at, validity);
    if (nulls < 0 || write_dense_values(page, opened, count, within, taken, out, at))
        return DAMAGED;
    return nulls;
}

/* Write the wanted rows of a chunk of `length` bytes; return how many are null. */
static int64_t read_chunk(Piece piece, const int64_t *page, const uint8_t *chunk, int64_t length,
                          int64_t count, int64_t first, const int64_t *rows, int64_t start,
                          int64_t stop, uint8_t *out, uint8_t *validity) {
    Chunk opened;
    if (open_chunk(page, chunk, length, count, validity != NULL, &opened))
        return DAMAGED;
    const Buffer values = opened.values;
    const int64_t nulls =
        pick_validity(page, opened, count, first, rows, start, stop, validity);
    if (nulls < 0)
        return DAMAGED;
    int refused;
    if (page[VALUES] == STRINGS)
        refused =
            write_strings(piece, page[BITS] / 8, values, count, first, rows, start, stop, out);
    else if (page[VALUES] == LOOKED_UP)
        refused = write_items(piece, page, values, count, first, rows, start, stop, out);
    else
        refused = write_values(page, opened, count, first, rows, start, stop, out);
    return refused ? DAMAGED : nulls;
}

/* Write the wanted rows of a page, `rows[start:stop]`, whose buffers lie in a piece; return how many
 * are null. `seen` counts the bytes that were looked at, and their places. */
static int64_t read_page(Piece piece, const int64_t *page, const int64_t *rows, int64_t start,
                         int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen) {
    ChunkTable table;
    if (open_table(page, (Buffer){piece.data, piece.size}, piece.size, &table))
        return DAMAGED;
    int64_t at = page[CHUNKS], first = page[FIRST_ROW], left = page[ROWS], nulls = 0, last = -1;
    /* The kernel that read the levels has counted what is looked at here. */
    const int64_t counts = page[LEVELS] != SKIPPED;
    seen[0] += counts * table.count * table.width;
    seen[1] += counts;
    for (int64_t entry = 0; entry < table.count; entry++) {
        ChunkSize size;
        if (next_chunk(table, entry, left, page[CHUNKS_END] - at, &size))
            return DAMAGED;
        const int64_t length = size.length, count = size.count;
        const int64_t end = rows_below(rows, start, stop, first + count);
        if (end > start) {
            const int64_t found = read_chunk(piece, page, piece.data + at, length, count, first,
                                             rows, start, end, out, validity);
            if (found < 0)
                return DAMAGED;
            nulls += found;
            seen[0] += counts * length;
            seen[1] += counts * (last != at); /* chunks that follow each other are one place */
            last = at + length;
            start = end;
        }
        at += length;
        first += count;
        left -= count;
    }
    return start == stop ? nulls : DAMAGED;
}

/* Write the wanted rows of a full-zip page of strings, as `read_page` does. */
static int64_t read_zipped(Piece piece, const int64_t *page, const int64_t *rows, int64_t start,
                           int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen) {
    const int64_t width = page[ENTRY], prefix = page[BITS] / 8, index = page[TABLE];
    const int64_t size = page[CHUNKS_END] - page[CHUNKS], bytes = page[TABLE_END] - index;
    if (index < 0 || bytes < 0 || page[TABLE_END] > piece.size || page[CHUNKS] < 0 || size < 0 ||
        page[CHUNKS_END] > piece.size || bytes % width || bytes / width != page[ROWS] + 1)
        return DAMAGED;
    const int has_levels = page[LEVELS] != NONE;
    const int64_t word = !has_levels ? 0 : page[WIDTH] <= 8 ? 1 : 2;
    const uint64_t mask = ((uint64_t)1 << page[WIDTH]) - 1;
    const uint8_t *const items = piece.data + page[CHUNKS];
    int64_t nulls = 0, last = -1;
    seen[1]++;
    for (int64_t i = start; i < stop; i++) {
        const uint8_t *const entry = piece.data + index + (rows[i] - page[FIRST_ROW]) * width;
        const uint64_t low = load(entry, width), high = load(entry + width, width);
        if (low > high || high > (uint64_t)size || high - low < (uint64_t)word)
            return DAMAGED;
        const uint64_t level = has_levels ? load(items + low, word) & mask : 0;
        uint64_t begin = low + (uint64_t)word, length = 0;
        if (level > 1)
            return DAMAGED;
        if (level == 0) {
            if (high - begin < (uint64_t)prefix)
                return DAMAGED;
            length = load(items + begin, prefix);
            begin += (uint64_t)prefix;
            if (validity != NULL)
                set_bit(validity, i);
        } else if (validity == NULL) {
            return DAMAGED;
        }
        if (length != high - begin)
            return DAMAGED;
        const int64_t base = piece.start + page[CHUNKS] + (int64_t)begin;
        const Span span = {base, base + (int64_t)length};
        memcpy(out + i * (int64_t)sizeof span, &span, sizeof span);
        nulls += (int64_t)level;
        seen[0] += 2 * width + (int64_t)(high - low);
        seen[1] += last != (int64_t)low; /* rows that follow each other are one place */
        last = (int64_t)high;
    }
    return nulls;
}

/* Read a page whose buffers are given as positions in all pieces. */
static int64_t read_page_of(Pieces pieces, const int64_t *page, const int64_t *rows, int64_t start,
                            int64_t stop, uint8_t *out, uint8_t *validity, int64_t *seen) {
    int64_t own[PAGE_COLUMNS];
    const Piece piece = piece_of(pieces, page, own);
    if (piece.data == NULL)
        return DAMAGED;
    if (page[VALUES] == ZIPPED)
        return read_zipped(piece, own, rows, start, stop, out, validity, seen);
    if (page[VALUES] >= WHOLE)
        return read_whole_page(piece, own, rows, start, stop, out, validity, seen);
    return read_page(piece, own, rows, start, stop, out, validity, seen);
}

/* Return the bytes of the values of a leaf, which all are written but for those of single bits. */
static int64_t written_bytes(const int64_t *pages, const int64_t *leaf, int64_t count) {
    if (leaf[PAGES] < 1)
        return 0;
    const int64_t *page = pages + leaf[FIRST_PAGE] * PAGE_COLUMNS;
    if (page[VALUES] >= STRINGS && page[VALUES] != WHOLE)
        return count * (int64_t)sizeof(Span);
    return page[BITS] == 1 ? 0 : count * page[BITS] / 8;
}

/* Read the values of leaves, each at ascending rows of its own. Leaves ascend in `out`, of `size`
 * bytes, and the validity of a leaf is behind its values. `nulls` gets the number of nulls of each
 * leaf, then the bytes that were looked at, and their places. */
KERNEL(take_points, const int64_t *addresses, const int64_t *ends, int64_t piece_count,
       const int64_t *pages, const int64_t *leaves, int64_t leaf_count, const int64_t *rows,
       int64_t count, uint8_t *out, int64_t size, int64_t *nulls) {
    const Pieces pieces = {addresses, ends, piece_count};
    int64_t *const seen = nulls + leaf_count;
    seen[0] = seen[1] = 0;
    for (int64_t i = 0; i < leaf_count; i++) {
        const int64_t *leaf = leaves + i * LEAF_COLUMNS, wanted = leaf[WANTED];
        if (leaf[FIRST_WANTED] < 0 || wanted < 0 || wanted > count - leaf[FIRST_WANTED])
            return DAMAGED;
        const int64_t *own = rows + leaf[FIRST_WANTED];
        /* The leaf before may have been at the same rows. */
        if (i == 0 || leaf[FIRST_WANTED] != leaf[FIRST_WANTED - LEAF_COLUMNS] ||
            wanted != leaf[WANTED - LEAF_COLUMNS])
            if (!ascend(own, wanted))
                return DAMAGED;
        uint8_t *values = out + leaf[OUT], *validity = leaf[VALIDITY] < 0 ? NULL : out + leaf[VALIDITY];
        const int64_t zeros = leaf[OUT] + written_bytes(pages, leaf, wanted);
        memset(out + zeros, 0,
               (size_t)((i + 1 < leaf_count ? leaf[LEAF_COLUMNS + OUT] : size) - zeros));
        nulls[i] = 0;
        for (int64_t start = 0, stop; start < wanted; start = stop) {
            const int64_t *const page = page_of(pages + leaf[FIRST_PAGE] * PAGE_COLUMNS, leaf[PAGES],
                                                own, start, wanted, &stop);
            if (page == NULL)
                return DAMAGED;
            const int64_t found =
                read_page_of(pieces, page, own, start, stop, values, validity, seen);
            if (found < 0)
                return DAMAGED;
            nulls[i] += found;
        }
    }
    return 0;
}

/* Join the texts of spans, in any order, each of which lies in one piece. Nulls have no text. Return
 * the size of all texts, which are written whole only if there is `room` for them, and SLACK behind
 * it. `offsets` gets one number more than there are spans. */
static int64_t join_spans(Pieces pieces, const int64_t *spans, int64_t count, const uint8_t *valid,
                          int32_t *offsets, uint8_t *out, int64_t room) {
    const int64_t all = pieces.count ? pieces.ends[pieces.count - 1] : 0;
    Piece piece = {NULL, 0, 0};
    int64_t to = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t start = spans[2 * i], end = spans[2 * i + 1];
        offsets[i] = (int32_t)to;
        if (valid != NULL && !(valid[i / 8] >> (i % 8) & 1))
            continue;
        if (start < 0 || start > end || end > all)
            return DAMAGED;
        if (start == end)
            continue;
        if (start < piece.start || start >= piece.start + piece.size)
            piece = find_piece(pieces, start);
        const int64_t at = start - piece.start, left = piece.size - at, size = end - start;
        if (size > left)
            return DAMAGED;
        if (size <= SLACK && left >= SLACK && to + size <= room)
            memcpy(out + to, piece.data + at, SLACK);
        else if (size <= room - to)
            memcpy(out + to, piece.data + at, (size_t)size);
        to += size;
        if (to > INT64_MAX / 4)
            return DAMAGED;
    }
    offsets[count] = (int32_t)to;
    return to;
}

/* Join the texts of the spans of one leaf; see `join_spans`. */
KERNEL(join_texts, const int64_t *addresses, const int64_t *ends, int64_t piece_count,
       const int64_t *spans, int64_t count, const uint8_t *valid, int32_t *offsets, uint8_t *out,
       int64_t room) {
    const Pieces pieces = {addresses, ends, piece_count};
    return join_spans(pieces, spans, count, valid, offsets, out, room);
}

/* The columns of the table of leaves of strings, as in points.py, and of what is found of them. */
enum { SPANS, VALID, COUNT, OFFSETS, IS_TEXT, STRING_COLUMNS };
enum { START, SIZE, FOUND_UTF8, FOUND_COLUMNS };

/* Join the texts of the spans of leaves, which `values` has; see `join_spans`. The texts of each begin
 * at a multiple of TEXT_ALIGN. Return the bytes of all, which are written if there is room for them. */
KERNEL(join_leaves, const int64_t *addresses, const int64_t *ends, int64_t piece_count,
       const uint8_t *values, const int64_t *leaves, int64_t count, int32_t *offsets, uint8_t *out,
       int64_t room, int64_t *found) {
    const Pieces pieces = {addresses, ends, piece_count};
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t *const leaf = leaves + i * STRING_COLUMNS;
        const uint8_t *const valid = leaf[VALID] < 0 ? NULL : values + leaf[VALID];
        const int64_t *const spans = (const int64_t *)(const void *)(values + leaf[SPANS]);
        int32_t *const own = offsets + leaf[OFFSETS];
        const int64_t left = at < room ? room - at : 0;
        const int64_t size =
            join_spans(pieces, spans, leaf[COUNT], valid, own, out + (room - left), left);
        if (size < 0 || at > INT64_MAX / 4)
            return DAMAGED;
        found[START] = at;
        found[SIZE] = size;
        found[FOUND_UTF8] =
            size > left || !leaf[IS_TEXT] || are_utf8(own, 4, leaf[COUNT], out + at, size);
        if (found[FOUND_UTF8] < 0)
            return DAMAGED;
        found += FOUND_COLUMNS;
        at += (size + TEXT_ALIGN - 1) / TEXT_ALIGN * TEXT_ALIGN;
    }
    return at;
}
