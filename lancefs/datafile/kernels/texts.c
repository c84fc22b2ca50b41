/* Contiguous rows of many columns of strings; see texts.py for what is read. */
#include "fsst.h"
#include "rows.h"
#include "strings.h"
#include "utf8.h"

#define MEMORY_ALIGN 64 /* bytes, of the text of a leaf */

/* The columns of the table of leaves, as in texts.py. */
enum { FIRST_PAGE, PAGES, MEMORY, OUT, VALIDITY, WIDTH_OUT, IS_TEXT, LEAF_COLUMNS };
/* The columns of the table of memories. */
enum { ADDRESS, TEXT_START, MEMORY_SIZE, MEMORY_COLUMNS };
/* The columns of the table of what is known of pages beside their plans. */
enum { KIND, FIRST, SECOND, COUNT, LONGEST, IS_UTF8, PART_COLUMNS };
enum { PLAIN, SYMBOLS, DICTIONARY };
/* The columns of what is found of leaves. */
enum { NULLS, TEXT, SIZE, FOUND_UTF8, FOUND_COLUMNS };

/* Where the strings of a leaf are written. While there is room for them, `size` bytes are written of
 * their text; after that bytes are counted only. */
typedef struct {
    const int64_t *pages, *parts; /* of all leaves */
    uint8_t *offsets, *validity, *text;
    int64_t width, room, size; /* bytes of an offset; and of the text, without SLACK */
    int has_room, is_utf8;
} Leaf;

static void put_offset(const Leaf *leaf, int64_t index, int64_t offset) {
    if (leaf->width == 4)
        ((int32_t *)(void *)leaf->offsets)[index] = (int32_t)(uint32_t)(uint64_t)offset;
    else
        ((int64_t *)(void *)leaf->offsets)[index] = offset;
}

/* Tell whether there is room for more bytes of text, which from then on are counted only if not. */
static int fit(Leaf *leaf, int64_t size) {
    if (size > leaf->room - leaf->size)
        leaf->has_room = 0;
    return leaf->has_room;
}

/* Write plain strings of a chunk. */
static int write_plain(Leaf *leaf, Buffer buffer, int64_t width, int64_t count, int64_t within,
                       int64_t taken, int64_t at) {
    Strings found;
    if (find_strings(buffer.data, buffer.size, width, count, within, taken, &found))
        return DAMAGED;
    uint8_t *const to = leaf->offsets + (at + 1) * leaf->width;
    if (!rebase(found, width, taken, leaf->size, to, leaf->width))
        return DAMAGED;
    const int64_t size = (int64_t)(found.high - found.low);
    if (fit(leaf, size))
        memcpy(leaf->text + leaf->size, buffer.data + found.low, (size_t)size);
    leaf->size += size;
    return 0;
}

/* Write up to BLOCK strings that are compressed with FSST, of `size` bytes in all. */
static int append_codes(Leaf *leaf, const int64_t *part, const uint8_t *codes, int64_t size,
                        const int32_t *ends, int64_t count, int64_t at) {
    const uint8_t *const symbols = (const uint8_t *)(uintptr_t)part[FIRST];
    const uint8_t *const lengths = (const uint8_t *)(uintptr_t)part[SECOND];
    int32_t text_ends[BLOCK + 1];
    int64_t written = size * LONGEST_SYMBOL; /* at most */
    if (!leaf->has_room || written > leaf->room - leaf->size) {
        written = spelled_size(codes, size, lengths);
        if (written < 0)
            return DAMAGED;
    }
    if (fit(leaf, written)) {
        written = spell(codes, size, ends, count, symbols, lengths, leaf->text + leaf->size, written,
                        text_ends);
        if (written < 0)
            return DAMAGED;
        for (int64_t i = 1; i <= count; i++)
            put_offset(leaf, at + i, leaf->size + text_ends[i]);
    } else {
        int64_t sizes[BLOCK]; /* which finds strings that end in an escape */
        if (spelled_lengths(codes, size, ends, count, lengths, sizes))
            return DAMAGED;
    }
    leaf->size += written;
    return 0;
}

/* Write strings of a chunk that are compressed with FSST, BLOCK of them at a time. */
static int write_codes(Leaf *leaf, const int64_t *part, Buffer buffer, int64_t width, int64_t count,
                       int64_t within, int64_t taken, int64_t at) {
    int32_t ends[BLOCK + 1];
    for (const int64_t stop = within + taken; within < stop;) {
        const int64_t some = stop - within < BLOCK ? stop - within : BLOCK;
        Strings found;
        if (find_strings(buffer.data, buffer.size, width, count, within, some, &found))
            return DAMAGED;
        const int64_t size = (int64_t)(found.high - found.low);
        ends[0] = 0;
        if (size > INT32_MAX / LONGEST_SYMBOL ||
            !rebase(found, width, some, 0, ends + 1, sizeof *ends) ||
            append_codes(leaf, part, buffer.data + found.low, size, ends, some, at))
            return DAMAGED;
        within += some;
        at += some;
    }
    return 0;
}

/* Copy items, each of at most SIZE bytes, which are written whole. */
#define COPY_ITEMS(SIZE, OFFSET)                                                                   \
    do {                                                                                           \
        OFFSET *const ends = (OFFSET *)(void *)leaf->offsets + at + 1;                             \
        for (int64_t i = 0; i < count; i++) {                                                      \
            memcpy(to + size, text + items[indices[i]], SIZE);                                     \
            size += lengths[i];                                                                    \
            ends[i] = (OFFSET)size;                                                                \
        }                                                                                          \
    } while (0)

static void copy_items(Leaf *leaf, const int64_t *part, const uint32_t *indices,
                       const int32_t *lengths, int64_t count, int64_t at) {
    const int32_t *const items = (const int32_t *)(uintptr_t)part[FIRST];
    const uint8_t *const text = (const uint8_t *)(uintptr_t)part[SECOND];
    uint8_t *const to = leaf->text;
    int64_t size = leaf->size;
    if (part[LONGEST] <= SLACK / 2 && leaf->width == 4)
        COPY_ITEMS(SLACK / 2, int32_t);
    else if (part[LONGEST] <= SLACK && leaf->width == 4)
        COPY_ITEMS(SLACK, int32_t);
    else if (leaf->width == 4)
        COPY_ITEMS(lengths[i] > SLACK ? (size_t)lengths[i] : SLACK, int32_t);
    else
        COPY_ITEMS(lengths[i] > SLACK ? (size_t)lengths[i] : SLACK, int64_t);
    leaf->size = size;
}

/* Write the items that up to BLOCK indices point at; a null has no bytes. */
static void write_indexed(Leaf *leaf, const int64_t *part, const uint32_t *indices, int64_t taken,
                          int64_t at, int64_t nulls) {
    int32_t lengths[BLOCK];
    const int32_t *const items = (const int32_t *)(uintptr_t)part[FIRST];
    int64_t size = 0;
    for (int64_t i = 0; i < taken; i++) {
        const int64_t row = at + i, is_valid = !nulls || leaf->validity[row / 8] >> (row % 8) & 1;
        lengths[i] = is_valid ? items[indices[i] + 1] - items[indices[i]] : 0;
        size += lengths[i];
    }
    if (fit(leaf, size))
        copy_items(leaf, part, indices, lengths, taken, at);
    else
        leaf->size += size;
}

/* Write the items that indices of a chunk point at. */
static int write_items(Leaf *leaf, const int64_t *page, const int64_t *part, Chunk chunk,
                       int64_t count, int64_t within, int64_t taken, int64_t at, int64_t nulls) {
    uint32_t indices[BLOCK];
    const int64_t limit = part[COUNT];
    if (part[KIND] != DICTIONARY)
        return DAMAGED;
    if (!length_width(page)) {
        if (unpack_indices(chunk.values, page[BITS], count, within, taken, limit, indices))
            return DAMAGED;
        write_indexed(leaf, part, indices, taken, at, nulls);
        return 0;
    }
    Repeats repeats;
    if (open_repeats(page, chunk, count, within, &repeats))
        return DAMAGED;
    for (int64_t done = 0, some; done < taken; done += some) {
        some = taken - done < BLOCK ? taken - done : BLOCK;
        if (repeat_indices(&repeats, some, limit, indices))
            return DAMAGED;
        write_indexed(leaf, part, indices, some, at + done, nulls);
    }
    return 0;
}

static int64_t read_chunk(void *to, const int64_t *page, const uint8_t *chunk, int64_t length,
                          int64_t count, int64_t within, int64_t taken, int64_t at) {
    Leaf *const leaf = to;
    const int64_t *const part = leaf->parts + (page - leaf->pages) / PAGE_COLUMNS * PART_COLUMNS;
    Chunk opened;
    if (open_chunk(page, chunk, length, count, leaf->validity != NULL, &opened))
        return DAMAGED;
    const int64_t nulls = read_validity(page, opened, count, within, taken, at, leaf->validity);
    const int64_t width = page[BITS] / 8;
    int refused = DAMAGED;
    if (nulls < 0)
        return DAMAGED;
    const int is_coded = page[VALUES] == PACKED || page[VALUES] == LOOKED_UP || length_width(page);
    leaf->is_utf8 &= is_coded && part[IS_UTF8];
    if (is_coded)
        refused = write_items(leaf, page, part, opened, count, within, taken, at, nulls);
    else if (page[VALUES] == STRINGS && part[KIND] == SYMBOLS)
        refused = write_codes(leaf, part, opened.values, width, count, within, taken, at);
    else if (page[VALUES] == STRINGS)
        refused = write_plain(leaf, opened.values, width, count, within, taken, at);
    return refused ? DAMAGED : nulls;
}

/* The rows of a full-zip page, and where each of up to BLOCK of them begins and ends. */
typedef struct {
    const uint8_t *items;
    int64_t prefix, word; /* bytes of a length and of a level */
    uint64_t mask;        /* the bits of a level */
    uint64_t bounds[BLOCK + 1];
} Zipped;

/* Write up to BLOCK rows of a full-zip page; return how many are null. The bytes of the strings are moved
 * to `room`, one after the other; those of a single row may stay where they are, if it is NULL. The
 * bounds of the rows are those that were checked, as the file may be rewritten meanwhile. */
static int64_t write_zipped(Leaf *leaf, const int64_t *part, const Zipped *rows, uint8_t *room,
                            int64_t count, int64_t at) {
    const uint64_t low = rows->bounds[0], word = (uint64_t)rows->word;
    const uint64_t prefix = (uint64_t)rows->prefix;
    const uint8_t *strings = room;
    int32_t ends[BLOCK + 1];
    int64_t nulls = 0, size = 0;
    ends[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t begin = rows->bounds[i] - low, length = 0;
        const uint64_t end = rows->bounds[i + 1] - low;
        if (end - begin < word)
            return DAMAGED;
        const uint64_t level = word ? load(rows->items + begin, rows->word) & rows->mask : 0;
        begin += word;
        if (level > 1 || (level == 1 && leaf->validity == NULL))
            return DAMAGED;
        if (level == 0) {
            if (end - begin < prefix)
                return DAMAGED;
            length = load(rows->items + begin, rows->prefix);
            begin += prefix;
            if (length > INT32_MAX / LONGEST_SYMBOL)
                return DAMAGED;
            if (leaf->validity != NULL)
                leaf->validity[(at + i) / 8] |= (uint8_t)(1u << ((at + i) % 8));
        }
        if (length != end - begin)
            return DAMAGED;
        if (room != NULL)
            memmove(room + size, rows->items + begin, (size_t)length);
        else
            strings = rows->items + begin;
        nulls += (int64_t)level;
        size += (int64_t)length;
        ends[i + 1] = (int32_t)size;
    }
    if (part[KIND] == SYMBOLS)
        return append_codes(leaf, part, strings, size, ends, count, at) ? DAMAGED : nulls;
    for (int64_t i = 1; i <= count; i++)
        put_offset(leaf, at + i, leaf->size + ends[i]);
    if (fit(leaf, size) && size > 0)
        memcpy(leaf->text + leaf->size, strings, (size_t)size);
    leaf->size += size;
    return nulls;
}

/* Read the rows of a full-zip page, as many at a time as the scratch memory has room for. */
static int64_t read_zipped(void *to, const File *file, const int64_t *page, Rows rows,
                           int64_t *seen) {
    Leaf *const leaf = to;
    const int64_t *const part = leaf->parts + (page - leaf->pages) / PAGE_COLUMNS * PART_COLUMNS;
    const int64_t width = page[ENTRY], bytes = page[TABLE_END] - page[TABLE], all = file->data.size;
    const int64_t size = page[CHUNKS_END] - page[CHUNKS], last = page[FIRST_ROW] + page[ROWS];
    if (page[TABLE] < 0 || bytes < 0 || page[TABLE_END] > all || page[CHUNKS] < 0 || size < 0 ||
        page[CHUNKS_END] > all || bytes % width || bytes / width != page[ROWS] + 1)
        return DAMAGED;
    Zipped zipped; /* not set to zeros: it has many bounds, which are written first */
    zipped.prefix = page[BITS] / 8;
    zipped.word = page[LEVELS] == NONE ? 0 : page[WIDTH] <= 8 ? 1 : 2;
    zipped.mask = ((uint64_t)1 << page[WIDTH]) - 1;
    leaf->is_utf8 = 0;
    seen[1] += 2; /* the index, and the rows */
    int64_t row = rows.start > page[FIRST_ROW] ? rows.start : page[FIRST_ROW], nulls = 0;
    if (zipped.word == 0 && leaf->validity != NULL) { /* another page of the leaf has levels */
        const int64_t stop = last < rows.stop ? last : rows.stop;
        for (int64_t at = row - rows.start; at < stop - rows.start; at++)
            leaf->validity[at / 8] |= (uint8_t)(1u << (at % 8));
    }
    for (int64_t count = 0; row < last && row < rows.stop; row += count) {
        const uint8_t *const entries =
            file->data.data + page[TABLE] + (row - page[FIRST_ROW]) * width;
        const uint64_t low = zipped.bounds[0] = load(entries, width);
        uint64_t end = low;
        for (count = 0; count < BLOCK && row + count < last && row + count < rows.stop; count++) {
            const uint64_t high = load(entries + (count + 1) * width, width);
            if (high < end || high > (uint64_t)size)
                return DAMAGED;
            if (high - low > SCRATCH && count > 0)
                break;
            end = zipped.bounds[count + 1] = high;
        }
        const int64_t span = (int64_t)(end - low), at = page[CHUNKS] + (int64_t)low;
        const int is_read = file->descriptor >= 0 && span <= SCRATCH && read_file(file, at, span);
        zipped.items = is_read ? file->scratch : file->data.data + at;
        const int64_t found = write_zipped(leaf, part, &zipped, span <= SCRATCH ? file->scratch : NULL,
                                           count, row - rows.start);
        if (found < 0)
            return DAMAGED;
        nulls += found;
        seen[0] += 2 * width * count + span;
    }
    return nulls;
}

/* Read rows of leaves: from `rows[0]` on, up to `rows[1]`. Leaves of a memory follow each other; their
 * texts are written one after the other behind the offsets and the validity of all of them, each as far
 * as there is room for it and for SLACK. `found` gets what is found of each leaf, then the bytes that
 * were looked at, and their places. */
KERNEL(read_texts, const uint8_t *tables, int64_t tables_size, const uint8_t *data, int64_t size,
       int64_t descriptor, int64_t shift, const int64_t *pages, const int64_t *parts,
       const int64_t *leaves, int64_t leaf_count, const int64_t *rows, const int64_t *memories,
       uint8_t *scratch, int64_t *found) {
    const File file = {{tables, tables_size}, {data, size}, descriptor, shift, scratch};
    const Rows wanted = {rows[0], rows[1]};
    const int64_t count = rows[1] - rows[0];
    int64_t *const seen = found + leaf_count * FOUND_COLUMNS;
    int64_t at = 0;
    seen[0] = seen[1] = 0;
    for (int64_t i = 0; i < leaf_count; i++) {
        const int64_t *const leaf = leaves + i * LEAF_COLUMNS;
        int64_t *const own = found + i * FOUND_COLUMNS;
        const int64_t *const memory = memories + leaf[MEMORY] * MEMORY_COLUMNS;
        uint8_t *const base = (uint8_t *)(uintptr_t)memory[ADDRESS];
        if (i == 0 || leaf[MEMORY] != leaf[MEMORY - LEAF_COLUMNS])
            at = memory[TEXT_START];
        Leaf to = {.pages = pages, .parts = parts, .offsets = base + leaf[OUT], .is_utf8 = 1};
        to.validity = leaf[VALIDITY] < 0 ? NULL : base + leaf[VALIDITY];
        to.width = leaf[WIDTH_OUT];
        to.room = memory[MEMORY_SIZE] - at - SLACK;
        to.has_room = to.room >= 0;
        to.text = base + (to.has_room ? at : 0);
        put_offset(&to, 0, 0);
        if (to.validity != NULL)
            memset(to.validity, 0, (size_t)((count + 7) / 8));
        own[NULLS] = read_rows(&file, pages + leaf[FIRST_PAGE] * PAGE_COLUMNS, leaf[PAGES], wanted,
                               read_chunk, read_zipped, &to, seen);
        if (own[NULLS] < 0)
            return DAMAGED;
        own[TEXT] = to.has_room ? at : -1;
        own[SIZE] = to.size;
        own[FOUND_UTF8] = 1;
        if (to.has_room && leaf[IS_TEXT] && !to.is_utf8)
            own[FOUND_UTF8] = are_utf8(to.offsets, to.width, count, to.text, to.size);
        if (own[FOUND_UTF8] < 0)
            return DAMAGED;
        if (to.has_room)
            at = (at + to.size + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
    }
    return 0;
}
