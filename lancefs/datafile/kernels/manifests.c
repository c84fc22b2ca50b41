/* The fragments in the message of a manifest; see manifests.py for the columns. */
#include "wire.h"

/* Rows that a fragment can have. */
#define MAX_ROWS ((uint64_t)1 << 32)
/* Bytes of a data file, and parts of its version. */
#define MAX_BYTES ((uint64_t)1 << 48)
#define MAX_VERSION 0xffff

static int check_data_file(reader file) {
    tag field;
    reader bytes;
    uint64_t value;
    while (file.at < file.end) {
        if (!read_field(&file, &field, &value, &bytes))
            return 0;
        if (field.type == BYTES) {
            const int is_text = field.number == 1 && is_ascii(bytes.at, bytes.end - bytes.at);
            const int is_numbers = field.number == 2 || field.number == 3;
            if (!is_text && !(is_numbers && skip_varints(bytes)))
                return 0;
        } else if (field.number < 4 || field.number > 7) {
            return 0;
        }
    }
    return 1;
}

static int read_deletion_file(reader file, int64_t *deleted) {
    tag field;
    uint64_t value, count = 0;
    while (file.at < file.end) {
        if (!read_tag(&file, &field) || field.type != VARINT || !read_varint(&file, &value))
            return 0;
        if (field.number == 5 || field.number == 6 || field.number > 7)
            return 0;
        if (field.number == 4)
            count = value;
    }
    *deleted = count == 0 ? -1 : (int64_t)count;
    return count <= MAX_ROWS;
}

/* Read a fragment: its id, rows and deleted rows. */
static int read_fragment(reader message, int64_t *id, int64_t *rows, int64_t *deleted) {
    tag field;
    reader bytes;
    uint64_t value;
    int deletion_files = 0;
    *id = *rows = *deleted = 0;
    while (message.at < message.end) {
        if (!read_field(&message, &field, &value, &bytes))
            return 0;
        if (field.type == VARINT) {
            if (field.number == 1)
                *id = (int64_t)value;
            else if (field.number == 4 && value <= MAX_ROWS)
                *rows = (int64_t)value;
            else if (field.number != 15)
                return 0;
            continue;
        }
        switch (field.number) {
        case 2:
            if (!check_data_file(bytes))
                return 0;
            break;
        case 3:
            if (deletion_files++ || !read_deletion_file(bytes, deleted))
                return 0;
            break;
        case 5:
        case 7:
        case 9:
            break;
        default:
            return 0;
        }
    }
    return 1;
}

/* What tells how the file of a fragment is read. */
typedef struct {
    reader path, fields, columns;
    uint64_t major, minor, size;
} data_file;

/* Whether a path is a plain name: of letters, digits and a few signs, not hidden. */
static int is_plain(reader path) {
    if (path.at == path.end || *path.at == '.')
        return 0;
    for (; path.at < path.end; path.at++) {
        const uint8_t sign = *path.at, letter = sign | 0x20;
        const int is_letter = letter >= 'a' && letter <= 'z', is_digit = sign >= '0' && sign <= '9';
        if (!is_letter && !is_digit && sign != '-' && sign != '.' && sign != '_')
            return 0;
    }
    return 1;
}

static int read_data_file(reader message, data_file *file) {
    reader *const parts[] = {&file->path, &file->fields, &file->columns};
    uint64_t *const numbers[] = {&file->major, &file->minor, &file->size};
    int seen = 0;
    tag field;
    reader bytes;
    uint64_t value = 0; /* of a field of bytes */
    memset(file, 0, sizeof *file);
    while (message.at < message.end) {
        if (!read_field(&message, &field, &value, &bytes))
            return 0;
        if (field.number > 6 || seen >> field.number & 1)
            return 0;
        seen |= 1 << field.number;
        if ((field.type == BYTES) != (field.number <= 3))
            return 0;
        if (field.type == BYTES)
            *parts[field.number - 1] = bytes;
        else
            *numbers[field.number - 4] = value;
    }
    if (file->size >= MAX_BYTES || file->major > MAX_VERSION || file->minor > MAX_VERSION)
        return 0;
    return is_plain(file->path) && skip_varints(file->fields) && skip_varints(file->columns);
}

static int read_only_file(reader message, data_file *file) {
    tag field;
    reader bytes;
    uint64_t value;
    int files = 0;
    while (message.at < message.end) {
        if (!read_field(&message, &field, &value, &bytes))
            return 0;
        if (field.type == VARINT) {
            if (field.number != 1 && field.number != 4 && field.number != 15)
                return 0;
        } else if (field.number == 2) {
            if (files++ || !read_data_file(bytes, file))
                return 0;
        } else if (field.number != 3 && field.number != 5 && field.number != 7 &&
                   field.number != 9) {
            return 0;
        }
    }
    return files == 1;
}

static int have_equal_bytes(reader one, reader other) {
    const size_t size = (size_t)(one.end - one.at);
    return other.end - other.at == one.end - one.at &&
           (size == 0 || memcmp(one.at, other.at, size) == 0);
}

static int are_alike(const data_file *one, const data_file *other) {
    return one->major == other->major && one->minor == other->minor &&
           have_equal_bytes(one->fields, other->fields) &&
           have_equal_bytes(one->columns, other->columns);
}

/* Find the data files of fragments that have one each. `table` has a column of `count` numbers for
 * each attribute, in the order of `FileColumns`. */
KERNEL(find_data_files, const uint8_t *data, int64_t size, const int64_t *starts,
       const int64_t *ends, int64_t count, int64_t *table) {
    int64_t kind = -1;
    data_file file, last = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t *const column = table + i;
        const int is_inside = 0 <= starts[i] && starts[i] <= ends[i] && ends[i] <= size;
        if (!is_inside || !read_only_file((reader){data + starts[i], data + ends[i]}, &file)) {
            column[0] = column[count] = column[2 * count] = 0;
            column[3 * count] = -1;
            continue;
        }
        if (kind < 0 || !are_alike(&file, &last))
            kind = i;
        last = file;
        column[0] = file.path.at - data;
        column[count] = file.path.end - data;
        column[2 * count] = (int64_t)file.size;
        column[3 * count] = kind;
    }
    return 0;
}

/* Find the fragments in the message of a manifest, and the bytes between them.
 *
 * counts: the number of fragments, then of the ranges of other bytes. `table` has a column of `room`
 * numbers for each attribute, in the order of `FragmentColumns`. If it is NULL, all is only counted.
 */
KERNEL(find_fragments, const uint8_t *data, int64_t size, int64_t *counts, int64_t *table,
       int64_t room, int64_t *others, int64_t other_room) {
    int64_t fragments = 0, ranges = 0, end_of_range = -1, is_field_range = 0;
    reader message = {data, data + size}, bytes;
    while (message.at < message.end) {
        const int64_t start = message.at - data;
        tag field;
        uint64_t value;
        if (!read_tag(&message, &field))
            return DAMAGED;
        if (field.type == BYTES) {
            if (!read_bytes(&message, &bytes))
                return DAMAGED;
        } else if (field.type == VARINT) {
            if (!read_varint(&message, &value))
                return DAMAGED;
        } else {
            const int64_t width = field.type == EIGHT_BYTES ? 8 : 4;
            if (field.type != EIGHT_BYTES && field.type != FOUR_BYTES)
                return DAMAGED;
            if (message.end - message.at < width)
                return DAMAGED;
            message.at += width;
        }
        if (field.number == 2 && field.type == BYTES) {
            if (table != NULL) {
                if (fragments >= room)
                    return DAMAGED;
                int64_t *const column = table + fragments;
                column[0] = bytes.at - data;
                column[room] = bytes.end - data;
                int64_t *const id = column + 2 * room, *const rows = column + 3 * room;
                int64_t *const deleted = column + 4 * room;
                column[5 * room] = read_fragment(bytes, id, rows, deleted);
                if (!column[5 * room])
                    *id = *rows = *deleted = 0;
            }
            fragments++;
            continue;
        }
        const int64_t is_field = field.number == 1 && field.type == BYTES;
        const int64_t is_new = start != end_of_range || is_field != is_field_range;
        end_of_range = message.at - data;
        is_field_range = is_field;
        ranges += is_new;
        if (table != NULL) {
            if (ranges > other_room)
                return DAMAGED;
            int64_t *const range = others + 3 * (ranges - 1);
            if (is_new)
                range[0] = start;
            range[1] = end_of_range;
            range[2] = is_field;
        }
    }
    counts[0] = fragments;
    counts[1] = ranges;
    return 0;
}
