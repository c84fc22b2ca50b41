/* Messages in protobuf's wire format, read without protobuf if they have the known structure: bytes are
 * only passed over if protobuf is sure to accept them.
 *
 * Format: https://protobuf.dev/programming-guides/encoding/ */
#ifndef LANCEFS_WIRE_H
#define LANCEFS_WIRE_H

#include "utf8.h"

/* Bytes of a message that are not read yet. */
typedef struct {
    const uint8_t *at, *end;
} reader;

/* What stands before a field's value. */
typedef struct {
    int64_t number, type;
} tag;

enum { VARINT = 0, EIGHT_BYTES = 1, BYTES = 2, FOUR_BYTES = 5 };

/* The functions below return 0 for bytes that are damaged, or that are not known to be sound: then
 * protobuf has the last word. */

static inline int read_varint(reader *from, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && from->at < from->end; shift += 7) {
        const uint8_t byte = *from->at++;
        if (shift == 63 && byte > 1)
            return 0;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 1;
    }
    return 0;
}

/* Read a varint in its shortest form, below a limit. */
static inline int read_short(reader *from, uint64_t limit, int64_t *value) {
    uint64_t number;
    const uint8_t *const start = from->at;
    if (!read_varint(from, &number) || number >= limit)
        return 0;
    *value = (int64_t)number;
    return from->at - start == 1 || from->at[-1] != 0;
}

static inline int read_tag(reader *from, tag *found) {
    int64_t value;
    if (!read_short(from, 1 << 14, &value) || value < 8)
        return 0;
    found->number = value >> 3;
    found->type = value & 7;
    return 1;
}

/* Read the length of a field, and pass over its bytes. */
static inline int read_bytes(reader *from, reader *bytes) {
    int64_t length;
    if (!read_short(from, (uint64_t)1 << 31, &length) || length > from->end - from->at)
        return 0;
    bytes->at = from->at;
    from->at = bytes->end = from->at + length;
    return 1;
}

/* Read a field of a number or of bytes: its tag, and its value. */
static inline int read_field(reader *from, tag *found, uint64_t *value, reader *bytes) {
    if (!read_tag(from, found))
        return 0;
    if (found->type == VARINT)
        return read_varint(from, value);
    return found->type == BYTES && read_bytes(from, bytes);
}

static inline int skip_varints(reader bytes) {
    uint64_t value;
    while (bytes.at < bytes.end)
        if (!read_varint(&bytes, &value))
            return 0;
    return 1;
}

#endif
