/* Levels of a few rows of many pages; see levels.py for what is read. */
#include "points.h"

/* The columns of the table of levels, as in levels.py. */
enum { INDEX, INDEX_END, STRIDE, REP, REP_WIDTH, DEF, DEF_WIDTH, TOP, SHOWN, HIGHEST, MEANINGS };
enum { FIRST_VALUE = MEANINGS + 1, VALUE_COUNT, LEVEL_COLUMNS };

#define MAX_MEANINGS 16 /* levels that have a meaning of four bits each */
#define STEP 64          /* levels that are passed at once if no wanted row is among them */

/* Levels of a chunk, of which a block at a time is decoded. */
typedef struct {
    int64_t stored, width, left; /* not decoded yet */
    int raw;                     /* whether the values after the last whole block are plain */
    Buffer buffer;
    const uint8_t *at, *lengths, *end; /* of runs: the next level, its length, the last length */
    int64_t run;                       /* what is left of the last run, of level `level` */
    uint16_t level;
} Levels;

/* Check a buffer of levels, and stand at the first one. */
static int open_levels(int64_t stored, int64_t width, Buffer buffer, int64_t count,
                       Levels *levels) {
    *levels = (Levels){stored, width, count, 0, buffer, buffer.data, NULL, NULL, 0, 0};
    switch (stored) {
    case NONE:
        return 0;
    case FLAT:
        return count * LEVEL > buffer.size ? DAMAGED : 0;
    case PACKED:
        levels->width = inline_width(buffer, 8 * LEVEL, count);
        levels->at = buffer.data + LEVEL;
        return levels->width < 0 ? DAMAGED : 0;
    case PACKED_APART: {
        const int64_t is_raw = has_raw_tail(buffer, width, count);
        levels->raw = is_raw > 0;
        return is_raw < 0 ? DAMAGED : 0;
    }
    case RUNS: {
        Runs runs;
        if (open_runs(buffer, &runs))
            return DAMAGED;
        levels->at = runs.levels;
        levels->lengths = runs.lengths;
        levels->end = runs.lengths + runs.count;
        return 0;
    }
    default:
        return DAMAGED;
    }
}

/* Decode the next runs; return DAMAGED where there are too few. */
static int next_runs(Levels *levels, int64_t count, uint16_t *out) {
    for (int64_t done = 0; done < count;) {
        while (levels->run == 0) {
            if (levels->lengths == levels->end)
                return DAMAGED;
            levels->run = *levels->lengths++;
            levels->level = (uint16_t)load(levels->at, LEVEL);
            levels->at += LEVEL;
        }
        const int64_t own = levels->run < count - done ? levels->run : count - done;
        for (int64_t i = 0; i < own; i++)
            out[done + i] = levels->level;
        done += own;
        levels->run -= own;
    }
    return 0;
}

/* Decode the next block of levels, the last of which may be short. */
static int next_levels(Levels *levels, uint16_t *out) {
    const int64_t count = levels->left < BLOCK ? levels->left : BLOCK;
    levels->left -= count;
    switch (levels->stored) {
    case NONE:
        memset(out, 0, (size_t)(count * LEVEL));
        return 0;
    case RUNS:
        return next_runs(levels, count, out);
    case PACKED:
    case PACKED_APART:
        if (!(levels->raw && count < BLOCK)) {
            unpack_block(levels->at, (int)levels->width, 8 * LEVEL, out);
            levels->at += levels->width * (BLOCK / 8);
            return 0;
        }
    }
    memcpy(out, levels->at, (size_t)(count * LEVEL));
    levels->at += count * LEVEL;
    return 0;
}

/* What is written of a leaf, and how far; counts go on where there is no more room. */
typedef struct {
    uint16_t *rep, *def;
    int64_t *positions;
    int64_t room, items, values;
} Output;

/* Where a walk over the chunks of a page is. */
typedef struct {
    const int64_t *rows;  /* all wanted rows */
    int64_t next, stop;   /* wanted rows of the page that were not begun yet */
    int64_t row;          /* that was begun last */
    int64_t started;      /* rows that began in the chunk */
    int64_t value, shown; /* position of the next value; values of the chunk */
    int is_wanted;        /* whether the row that was begun last is wanted */
} Walk;

/* Count the rows that begin, and the values, among some levels. */
static inline void tally(const uint16_t *rep, const uint16_t *def, int64_t count, uint16_t top,
                         uint16_t shown, int64_t *begun, int64_t *values) {
    uint16_t starts = 0, visible = 0;
    for (int64_t i = 0; i < count; i++) {
        starts = (uint16_t)(starts + (rep[i] == top));
        visible = (uint16_t)(visible + (def[i] <= shown));
    }
    *begun = starts;
    *values = visible;
}

/* Go over some levels, and write those of wanted rows. */
static void write_levels(const int64_t *page, const uint16_t *rep, const uint16_t *def,
                         int64_t count, Walk *walk, Output *out) {
    const uint64_t meanings = (uint64_t)page[MEANINGS];
    for (int64_t i = 0; i < count; i++) {
        if (rep[i] == page[TOP]) {
            walk->row++;
            walk->started++;
            walk->is_wanted = walk->next < walk->stop && walk->rows[walk->next] == walk->row;
            walk->next += walk->is_wanted;
        }
        const int is_shown = def[i] <= page[SHOWN];
        if (walk->is_wanted) {
            if (out->items < out->room) {
                out->rep[out->items] = rep[i];
                out->def[out->items] = (uint16_t)(meanings >> (4 * def[i]) & 15);
                if (is_shown)
                    out->positions[out->values] = walk->value;
            }
            out->items++;
            out->values += is_shown;
        }
        walk->value += is_shown;
        walk->shown += is_shown;
    }
}

/* Go over a block of levels; most of them are of rows that are not wanted. */
static int read_block(const int64_t *page, const uint16_t *rep, const uint16_t *def, int64_t count,
                      Walk *walk, Output *out) {
    uint16_t top = 0, highest = 0;
    for (int64_t i = 0; i < count; i++) {
        top = rep[i] > top ? rep[i] : top;
        highest = def[i] > highest ? def[i] : highest;
    }
    if (top > page[TOP] || highest > page[HIGHEST])
        return DAMAGED;
    for (int64_t at = 0, step; at < count; at += step) {
        int64_t begun, values;
        step = count - at < STEP ? count - at : STEP;
        tally(rep + at, def + at, step, (uint16_t)page[TOP], (uint16_t)page[SHOWN], &begun, &values);
        const int has_wanted =
            walk->next < walk->stop && walk->rows[walk->next] <= walk->row + begun;
        if (walk->is_wanted || has_wanted) {
            write_levels(page, rep + at, def + at, step, walk, out);
            continue;
        }
        walk->row += begun;
        walk->started += begun;
        walk->value += values;
        walk->shown += values;
    }
    return 0;
}

/* Go over the rows of a chunk without levels, each of which is a value; no byte tells that there are as
 * many as the page says, so that those which are not wanted are not counted one by one. */
static void pass_rows(const int64_t *page, int64_t values, Walk *walk, Output *out) {
    const int64_t first = walk->row + 1, value = walk->value;
    for (; walk->next < walk->stop && walk->rows[walk->next] - first < values; walk->next++) {
        if (out->items < out->room) {
            out->rep[out->items] = 0;
            out->def[out->items] = (uint16_t)(page[MEANINGS] & 15);
            out->positions[out->values] = value + (walk->rows[walk->next] - first);
        }
        out->items++;
        out->values++;
    }
    walk->row += values;
    walk->started += values;
    walk->value += values;
    walk->shown += values;
    walk->is_wanted = 0; /* the last row ends with its value */
}

/* Go over the levels of a chunk of `length` bytes, which has so many values. */
static int read_levels(const int64_t *page, int64_t entry, const uint8_t *chunk, int64_t length,
                       int64_t values, int continues, Walk *walk, Output *out) {
    const int64_t has_rep = page[REP] != NONE, has_def = page[DEF] != NONE;
    const int64_t header = 2 + LEVEL * (has_rep + has_def) + entry;
    if (length < header)
        return DAMAGED;
    Buffer buffers[2] = {{chunk, 0}, {chunk, 0}};
    int64_t at = align(header);
    for (int64_t i = 0; i < has_rep + has_def; i++) {
        const int64_t size = (int64_t)load(chunk + 2 + LEVEL * i, LEVEL);
        buffers[has_rep ? i : 1] = (Buffer){chunk + at, size};
        if (at + size > length)
            return DAMAGED;
        at = align(at + size);
    }
    if (at + (int64_t)load(chunk + header - entry, entry) > length) /* of the values */
        return DAMAGED;
    if (!has_rep && !has_def) { /* then the chunk does not tell how many levels there would be */
        pass_rows(page, values, walk, out);
        return 0;
    }
    const int64_t count = (int64_t)load(chunk, 2);
    Levels reps, defs;
    if (open_levels(page[REP], page[REP_WIDTH], buffers[0], count, &reps) ||
        open_levels(page[DEF], page[DEF_WIDTH], buffers[1], count, &defs))
        return DAMAGED;
    uint16_t rep[BLOCK], def[BLOCK];
    for (int64_t left = count; left > 0; left -= BLOCK) {
        if (next_levels(&reps, rep) || next_levels(&defs, def))
            return DAMAGED;
        if (left == count && !continues && rep[0] != page[TOP])
            return DAMAGED;
        if (read_block(page, rep, def, left < BLOCK ? left : BLOCK, walk, out))
            return DAMAGED;
    }
    return 0;
}

/* Find the chunk table of a page, whose buffers lie in a piece, and check the numbers of the page. */
static int open_page(Piece piece, const int64_t *page, const int64_t *levels, ChunkTable *table) {
    const int64_t bytes = levels[INDEX_END] - levels[INDEX];
    if (open_table(page, (Buffer){piece.data, piece.size}, piece.size, table))
        return DAMAGED;
    if (levels[TOP] < 0 || levels[TOP] >= MAX_MEANINGS || levels[SHOWN] < 0 ||
        levels[SHOWN] > levels[HIGHEST] || levels[HIGHEST] >= MAX_MEANINGS ||
        (levels[REP] != NONE) != (levels[TOP] > 0))
        return DAMAGED;
    if (levels[REP] != NONE &&
        (levels[INDEX] < 0 || bytes < 0 || levels[INDEX_END] > piece.size || levels[STRIDE] < 2 ||
         levels[STRIDE] >= MAX_MEANINGS || bytes != table->count * levels[STRIDE] * 8))
        return DAMAGED;
    return 0;
}

/* Return how many rows begin in a chunk, as the repetition index tells; and whether the last of
 * them, or the one before them, goes on in the next chunk. */
static int64_t starting_rows(const uint8_t *index, int64_t rows, int *continues) {
    const uint64_t ended = load(index, 8), items = load(index + 8, 8);
    const uint64_t most = (uint64_t)rows + ((uint64_t)1 << 32);
    if (ended > most || items > most)
        return DAMAGED;
    const int64_t starting = (int64_t)ended + (items > 0) - *continues;
    *continues = items > 0;
    return starting;
}

/* Write the levels of the wanted rows of a page, `rows[start:stop]`. `seen` counts the bytes that
 * were looked at, and their places. */
static int read_level_page(Piece piece, const int64_t *page, const int64_t *levels,
                           const int64_t *rows, int64_t start, int64_t stop, Output *out,
                           int64_t *seen) {
    ChunkTable table;
    if (open_page(piece, page, levels, &table))
        return DAMAGED;
    Walk walk = {rows, start, stop, page[FIRST_ROW] - 1, 0, levels[FIRST_VALUE], 0, 0};
    int64_t at = page[CHUNKS], left = levels[VALUE_COUNT], last = -1;
    int64_t row = page[FIRST_ROW], value = levels[FIRST_VALUE];
    int continues = 0;
    seen[0] += page[TABLE_END] - page[TABLE];
    seen[0] += (levels[REP] != NONE) * (levels[INDEX_END] - levels[INDEX]);
    seen[1] += 1 + (levels[REP] != NONE);
    for (int64_t entry = 0; entry < table.count; entry++) {
        ChunkSize size;
        if (next_chunk(table, entry, left, page[CHUNKS_END] - at, &size))
            return DAMAGED;
        const int64_t length = size.length, count = size.count;
        const int begins_within = continues;
        int64_t starting = count;
        if (levels[REP] != NONE)
            starting = starting_rows(piece.data + levels[INDEX] + entry * levels[STRIDE] * 8,
                                     page[ROWS], &continues);
        if (starting < 0 || starting > page[FIRST_ROW] + page[ROWS] - row)
            return DAMAGED;
        walk.is_wanted &= begins_within;
        if (walk.is_wanted || (walk.next < stop && rows[walk.next] < row + starting)) {
            walk.row = row - 1;
            walk.value = value;
            walk.started = walk.shown = 0;
            if (read_levels(levels, page[ENTRY], piece.data + at, length, count, begins_within, &walk,
                            out) ||
                walk.started != starting || walk.shown != count)
                return DAMAGED;
            seen[0] += length;
            seen[1] += last != at; /* chunks that follow each other are one place */
            last = at + length;
        }
        at += length;
        row += starting;
        value += count;
        left -= count;
    }
    return walk.next == stop && left == 0 && row == page[FIRST_ROW] + page[ROWS] ? 0 : DAMAGED;
}

/* Write the levels of leaves at the same rows, which ascend, leaf by leaf, and the positions of
 * their values. `leaves` has the first page of each leaf, and their number. `numbers` gets how many
 * items and values each leaf has; then the bytes that were looked at, and their places. */
KERNEL(take_levels, const int64_t *addresses, const int64_t *ends, int64_t piece_count,
       const int64_t *pages, const int64_t *levels, const int64_t *leaves, int64_t leaf_count,
       const int64_t *rows, int64_t count, uint16_t *rep, uint16_t *def, int64_t *positions,
       int64_t room, int64_t *numbers) {
    const Pieces pieces = {addresses, ends, piece_count};
    int64_t *const seen = numbers + 2 * leaf_count;
    Output out = {rep, def, positions, room, 0, 0};
    seen[0] = seen[1] = 0;
    if (!ascend(rows, count))
        return DAMAGED;
    for (int64_t i = 0; i < leaf_count; i++) {
        const int64_t first_page = leaves[2 * i], items = out.items, values = out.values;
        for (int64_t start = 0, stop; start < count; start = stop) {
            const int64_t *const page = page_of(pages + first_page * PAGE_COLUMNS, leaves[2 * i + 1],
                                                rows, start, count, &stop);
            if (page == NULL)
                return DAMAGED;
            const int64_t *own = levels + (page - pages) / PAGE_COLUMNS * LEVEL_COLUMNS;
            int64_t moved[PAGE_COLUMNS], moved_levels[LEVEL_COLUMNS];
            const Piece piece = piece_of(pieces, page, moved);
            memcpy(moved_levels, own, sizeof moved_levels);
            moved_levels[INDEX] = (int64_t)((uint64_t)own[INDEX] - (uint64_t)piece.start);
            moved_levels[INDEX_END] = (int64_t)((uint64_t)own[INDEX_END] - (uint64_t)piece.start);
            if (piece.data == NULL || read_level_page(piece, moved, moved_levels, rows, start, stop,
                                                      &out, seen))
                return DAMAGED;
        }
        numbers[2 * i] = out.items - items;
        numbers[2 * i + 1] = out.values - values;
    }
    return out.items;
}
