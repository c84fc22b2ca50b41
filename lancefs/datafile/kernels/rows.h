/* Contiguous rows of the pages of a leaf, as plain.c and texts.c read them. */
#ifndef LANCEFS_ROWS_H
#define LANCEFS_ROWS_H

#include "points.h"

#define SCRATCH (128 * 1024) /* bytes that are read from a file at once, at most */

/* The chunk tables of pages; the bytes that have their chunks; and a descriptor of the file that has
 * these bytes from `shift` on, or -1. */
typedef struct {
    Buffer tables, data;
    int64_t descriptor, shift;
    uint8_t *scratch; /* of SCRATCH bytes */
} File;

/* The rows from `start` on, up to `stop`. */
typedef struct {
    int64_t start, stop;
} Rows;

/* Read `taken` rows of a chunk from the row at position `within` on, which are the wanted ones from
 * `at` on; return how many are null. The chunk has `length` bytes and `count` rows, no fewer than are
 * taken. */
typedef int64_t ReadChunk(void *to, const int64_t *page, const uint8_t *chunk, int64_t length,
                          int64_t count, int64_t within, int64_t taken, int64_t at);

/* Read the rows of a full-zip page that are wanted; return how many are null. `seen` as below. */
typedef int64_t ReadZipped(void *to, const File *file, const int64_t *page, Rows rows,
                           int64_t *seen);

/* Read bytes of the file, from position `at` of its data on, into its scratch memory, which has room for
 * them; return whether all of them are there. What cannot be read is looked at where it is mapped. */
int read_file(const File *file, int64_t at, int64_t size);

/* Read rows of a leaf with `count` pages; return how many are null. `zipped` is NULL where no page may be
 * a full-zip one. `seen` counts the bytes that were looked at, and their places. */
int64_t read_rows(const File *file, const int64_t *pages, int64_t count, Rows rows, ReadChunk *read,
                  ReadZipped *zipped, void *to, int64_t *seen);

#endif
