/* FSST decompression, as fsst.c and texts.c use it. */
#ifndef LANCEFS_FSST_H
#define LANCEFS_FSST_H

#include "kernels.h"

#define LONGEST_SYMBOL 8 /* bytes */

/* Return the decompressed size of codes; DAMAGED if a code has no symbol or the last one is an
 * escape. */
int64_t spelled_size(const uint8_t *codes, int64_t size, const uint8_t *lengths);

/* Decode the codes of strings; return the size of their text, and write where each string ends. `text`
 * has `room` bytes and SLACK; DAMAGED if they do not suffice. */
int64_t spell(const uint8_t *codes, int64_t size, const int32_t *offsets, int64_t strings,
              const uint8_t *symbols, const uint8_t *lengths, uint8_t *text, int64_t room,
              int32_t *text_offsets);

/* Write the decompressed size of each string; return DAMAGED as `spell` does, else 0. */
int64_t spelled_lengths(const uint8_t *codes, int64_t size, const int32_t *offsets,
                        int64_t strings, const uint8_t *lengths, int64_t *found);

#endif
