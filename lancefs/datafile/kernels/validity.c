/* Which rows of chunks are valid, by their levels; for points.c, plain.c and texts.c. */
#include "points.h"

/* Write which of up to 1024 rows from `at` on are valid, by their levels of 16 bits each, which nobody
 * else changes; return how many are null. */
static int64_t write_levels(const uint8_t *levels, int64_t count, int64_t at, uint8_t *validity) {
    uint16_t all = 0, nulls = 0;
    for (int64_t i = 0; i < count; i++) {
        uint16_t level;
        memcpy(&level, levels + i * LEVEL, LEVEL);
        all |= level;
        nulls = (uint16_t)(nulls + level);
    }
    if (all > 1)
        return DAMAGED;
    if (nulls == 0) {
        set_bits(validity, at, at + count);
        return 0;
    }
    /* The product has the lowest bits of four levels next to each other, from bit 48 on. */
    const uint64_t join = (uint64_t)1 << 48 | (uint64_t)1 << 33 | (uint64_t)1 << 18 | 1 << 3;
    int64_t i = 0;
    for (; i < count && (at + i) % 8; i++)
        if (load(levels + i * LEVEL, LEVEL) == 0)
            set_bit(validity, at + i);
    for (; i + 8 <= count; i += 8) {
        const uint64_t low = load(levels + i * LEVEL, 8) * join >> 48 & 15;
        const uint64_t high = load(levels + (i + 4) * LEVEL, 8) * join >> 48 & 15;
        validity[(at + i) / 8] = (uint8_t) ~(low | high << 4);
    }
    for (; i < count; i++)
        if (load(levels + i * LEVEL, LEVEL) == 0)
            set_bit(validity, at + i);
    return nulls;
}

/* Write the same of levels of a file, which may be rewritten meanwhile: then there would be other nulls
 * than are counted. */
static int64_t write_raw_levels(const uint8_t *levels, int64_t count, int64_t at,
                                uint8_t *validity) {
    uint8_t copied[BLOCK * LEVEL];
    memcpy(copied, levels, (size_t)(count * LEVEL));
    return write_levels(copied, count, at, validity);
}

/* Levels that are packed in one width, a whole block after the other. Those after the last whole
 * block may be stored raw. */
typedef struct {
    const uint8_t *data;
    int64_t width, whole;
    int is_raw;
} Apart;

static int open_apart(Buffer buffer, int64_t width, int64_t count, Apart *apart) {
    const int64_t is_raw = has_raw_tail(buffer, width, count);
    *apart = (Apart){buffer.data, width, count / BLOCK, is_raw > 0};
    return is_raw < 0 ? DAMAGED : 0;
}

static int64_t apart_level(Apart apart, int64_t within) {
    const uint8_t *at = apart.data + within / BLOCK * apart.width * (BLOCK / 8);
    if (apart.is_raw && within / BLOCK == apart.whole)
        return (int64_t)load(at + within % BLOCK * LEVEL, LEVEL);
    return (int64_t)value_at(at, (int)apart.width, 8 * LEVEL, (int)(within % BLOCK));
}

/* Write which of `count` rows that follow each other are valid, as `write_levels` does; the first
 * is at position `within` of the chunk. */
static int64_t write_apart(Apart apart, int64_t within, int64_t count, int64_t at,
                           uint8_t *validity) {
    uint64_t unpacked[BLOCK * LEVEL / 8];
    int64_t nulls = 0;
    for (int64_t stop = within + count, end; within < stop; at += end - within, within = end) {
        const int64_t block = within / BLOCK;
        const uint8_t *const stored = apart.data + block * apart.width * (BLOCK / 8);
        const uint8_t *levels = (const uint8_t *)unpacked;
        end = (block + 1) * BLOCK < stop ? (block + 1) * BLOCK : stop;
        if (apart.is_raw && block == apart.whole)
            memcpy(unpacked, stored, (size_t)((end - block * BLOCK) * LEVEL));
        else
            unpack_block(stored, (int)apart.width, 8 * LEVEL, unpacked);
        levels += within % BLOCK * LEVEL;
        const int64_t found = write_levels(levels, end - within, at, validity);
        if (found < 0)
            return DAMAGED;
        nulls += found;
    }
    return nulls;
}

/* Write which of the wanted rows of a chunk are valid, from runs of levels; return how many are
 * null. The last runs may reach beyond the chunk. */
static int64_t write_runs(Buffer buffer, int64_t count, int64_t first, const int64_t *rows,
                          int64_t start, int64_t stop, uint8_t *validity) {
    Runs runs;
    if (open_runs(buffer, &runs))
        return DAMAGED;
    int64_t nulls = 0, end = 0, i = start;
    for (int64_t run = 0; run < runs.count; run++) {
        const uint64_t level = load(runs.levels + run * LEVEL, LEVEL);
        end += runs.lengths[run];
        for (; i < stop && rows[i] - first < end; i++) {
            if (level > 1)
                return DAMAGED;
            if (level == 0)
                set_bit(validity, i);
            nulls += (int64_t)level;
        }
    }
    return end < count ? DAMAGED : nulls;
}

/* Write which of `taken` rows from the one at position `within` of a chunk on are valid, as
 * `write_runs` does. */
static int64_t write_dense_runs(Buffer buffer, int64_t count, int64_t within, int64_t taken,
                                int64_t at, uint8_t *validity) {
    Runs runs;
    if (open_runs(buffer, &runs))
        return DAMAGED;
    const int64_t stop = within + taken;
    int64_t nulls = 0, end = 0;
    for (int64_t run = 0; run < runs.count; run++) {
        end += runs.lengths[run];
        if (within == stop || within >= end)
            continue;
        const uint64_t level = load(runs.levels + run * LEVEL, LEVEL);
        const int64_t until = end < stop ? end : stop;
        if (level > 1)
            return DAMAGED;
        if (level == 0)
            set_bits(validity, at, at + until - within);
        else
            nulls += until - within;
        at += until - within;
        within = until;
    }
    return end < count ? DAMAGED : nulls;
}

/* Check levels that are packed, or runs or plain; of packed ones, tell where they are. */
static int open_levels(const int64_t *page, Buffer buffer, int64_t count, Apart *apart) {
    *apart = (Apart){buffer.data, 0, 0, 0};
    switch (page[LEVELS]) {
    case RUNS:
        return 0;
    case PACKED: /* a block, behind its width */
        apart->width = inline_width(buffer, 8 * LEVEL, count);
        apart->data += LEVEL;
        return apart->width < 0 ? DAMAGED : 0;
    case FLAT:
        return count * LEVEL > buffer.size ? DAMAGED : 0;
    default:
        return open_apart(buffer, page[WIDTH], count, apart);
    }
}

/* Write which of `taken` rows from the one at position `within` of a chunk on are valid; return how
 * many are null. */
static int64_t write_dense_validity(const int64_t *page, Buffer buffer, int64_t count,
                                    int64_t within, int64_t taken, int64_t at,
                                    uint8_t *validity) {
    Apart apart;
    if (open_levels(page, buffer, count, &apart))
        return DAMAGED;
    if (page[LEVELS] == RUNS)
        return write_dense_runs(buffer, count, within, taken, at, validity);
    if (page[LEVELS] != FLAT)
        return write_apart(apart, within, taken, at, validity);
    int64_t nulls = 0;
    for (int64_t done = 0; done < taken; done += BLOCK) {
        const int64_t some = taken - done < BLOCK ? taken - done : BLOCK;
        const uint8_t *const levels = buffer.data + (within + done) * LEVEL;
        const int64_t found = write_raw_levels(levels, some, at + done, validity);
        if (found < 0)
            return DAMAGED;
        nulls += found;
    }
    return nulls;
}

/* Write which of the wanted rows of a chunk are valid; return how many are null. */
static int64_t write_validity(const int64_t *page, Buffer buffer, int64_t count, int64_t first,
                              const int64_t *rows, int64_t start, int64_t stop,
                              uint8_t *validity) {
    const int64_t dense = in_a_row(rows, start, stop), stored = page[LEVELS];
    if (dense) {
        const int64_t within = rows[start] - first;
        return write_dense_validity(page, buffer, count, within, dense, start, validity);
    }
    if (stored == RUNS)
        return write_runs(buffer, count, first, rows, start, stop, validity);
    Apart apart;
    int64_t nulls = 0;
    if (open_levels(page, buffer, count, &apart))
        return DAMAGED;
    for (int64_t i = start; i < stop; i++) {
        const int64_t within = rows[i] - first;
        const int64_t level = stored == FLAT ? (int64_t)load(buffer.data + within * LEVEL, LEVEL)
                                             : apart_level(apart, within);
        if (level < 0 || level > 1)
            return DAMAGED;
        if (level == 0)
            set_bit(validity, i);
        nulls += level;
    }
    return nulls;
}

int64_t read_validity(const int64_t *page, Chunk chunk, int64_t count, int64_t within,
                      int64_t taken, int64_t at, uint8_t *validity) {
    if (chunk.has_levels)
        return write_dense_validity(page, chunk.levels, count, within, taken, at, validity);
    if (validity != NULL) /* another page of the leaf has levels */
        set_bits(validity, at, at + taken);
    return 0;
}

int64_t pick_validity(const int64_t *page, Chunk chunk, int64_t count, int64_t first,
                      const int64_t *rows, int64_t start, int64_t stop, uint8_t *validity) {
    if (chunk.has_levels)
        return write_validity(page, chunk.levels, count, first, rows, start, stop, validity);
    if (validity != NULL) /* another page of the leaf has levels */
        set_bits(validity, start, stop);
    return 0;
}
