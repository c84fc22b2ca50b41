/* The chunk table of a mini-block page: an entry of 2 or 4 bytes for each chunk.
 *
 * The lower four bits of an entry are the logarithm to base 2 of the number of values in the chunk,
 * but for the last chunk, which has the values that are left. The other bits are the length of the
 * chunk in units of ALIGN bytes, less 1. */
#ifndef LANCEFS_CHUNK_TABLE_H
#define LANCEFS_CHUNK_TABLE_H

#include "kernels.h"

#define ALIGN 8 /* bytes: chunks, and the buffers in them, begin at multiples */

static inline int64_t align(int64_t position) {
    return (position + ALIGN - 1) / ALIGN * ALIGN;
}

typedef struct {
    const uint8_t *entries;
    int64_t width, count; /* bytes of an entry; number of chunks */
} ChunkTable;

/* What an entry says of its chunk: its length in bytes, and how many values it has. */
typedef struct {
    int64_t length, count;
} ChunkSize;

/* Return the size of a chunk, if it is not the last one. */
static inline ChunkSize chunk_size(ChunkTable table, int64_t number) {
    const int64_t entry = (int64_t)load(table.entries + number * table.width, table.width);
    return (ChunkSize){((entry >> 4) + 1) * ALIGN, (int64_t)1 << (entry & 15)};
}

/* Find the size of a chunk, where `values` of the page and `bytes` of its chunks are left; return
 * whether the chunk has more of either. */
static inline int next_chunk(ChunkTable table, int64_t number, int64_t values, int64_t bytes,
                             ChunkSize *size) {
    *size = chunk_size(table, number);
    if (number == table.count - 1)
        size->count = values;
    return size->count > values || size->length > bytes;
}

#endif
