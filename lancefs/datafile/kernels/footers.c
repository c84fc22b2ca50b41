/* The pages of columns of many small files; see footers.py. */
#include "wire.h"

#define FOOTER 40 /* bytes */
#define ENTRY 16  /* bytes of the position and size of a column's metadata, or of a global buffer */
#define MAX_BUFFERS 3
#define MAX_ROWS ((uint64_t)1 << 48)
#define DISTINCT 16 /* descriptions of a column that the next one is compared with at first */

/* The columns of the table of pages, as in footers.py. */
enum { ROWS, BUFFERS, FIRST, DESCRIPTION = FIRST + 2 * MAX_BUFFERS, DESCRIPTION_END, ENCODING };
enum { ENCODING_END = ENCODING + 1, LIKE, NUMBERS };

typedef struct {
    const uint8_t *data;
    int64_t size;
    const uint8_t *columns; /* the table of the metadata of columns */
    int64_t column_count;
} File;

/* As in wire.h, the functions return 0 for bytes that are damaged, or not known to be sound. */

/* Check a table of positions and sizes, each within the file. */
static int check_table(const uint8_t *data, int64_t size, uint64_t position, int64_t count) {
    if (position > (uint64_t)size || count > (size - (int64_t)position) / ENTRY)
        return 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *entry = data + position + i * ENTRY;
        const uint64_t at = load(entry, 8), length = load(entry + 8, 8);
        if (at > (uint64_t)size || length > (uint64_t)size - at)
            return 0;
    }
    return 1;
}

static int open_file(const uint8_t *data, int64_t size, File *file, int64_t *version) {
    if (size < FOOTER)
        return 0;
    const uint8_t *footer = data + size - FOOTER;
    if (memcmp(footer + 36, "LANC", 4) != 0)
        return 0;
    const uint64_t columns = load(footer + 8, 8), buffers = load(footer + 16, 8);
    const int64_t buffer_count = (int64_t)load(footer + 24, 4);
    version[0] = (int64_t)load(footer + 32, 2);
    version[1] = (int64_t)load(footer + 34, 2);
    *file = (File){data, size, NULL, (int64_t)load(footer + 28, 4)};
    if (!check_table(data, size, columns, file->column_count) ||
        !check_table(data, size, buffers, buffer_count))
        return 0;
    file->columns = data + columns;
    return 1;
}

static int check_any(reader message) {
    tag field;
    reader part;
    while (message.at < message.end) {
        if (!read_tag(&message, &field) || field.type != BYTES || !read_bytes(&message, &part))
            return 0;
        if (field.number != 1 && field.number != 2)
            return 0;
        if (field.number == 1 && !is_ascii(part.at, part.end - part.at))
            return 0;
    }
    return 1;
}

/* Read an `Encoding`; `description->at` is NULL where it says that there is none. */
static int read_encoding(reader message, reader *description) {
    tag field;
    reader part;
    description->at = description->end = NULL;
    if (message.at == message.end)
        return 1;
    if (!read_tag(&message, &field) || field.type != BYTES || !read_bytes(&message, &part))
        return 0;
    if (message.at < message.end)
        return 0;
    if (field.number == 3)
        return part.at == part.end;
    if (field.number != 2 || !read_tag(&part, &field) || field.number != 1 || field.type != BYTES)
        return 0;
    return read_bytes(&part, description) && part.at == part.end && check_any(*description);
}

/* Read packed numbers; return how many there are, -1 for too many. */
static int64_t read_numbers(reader packed, uint64_t *numbers) {
    int64_t count = 0;
    while (packed.at < packed.end)
        if (count == MAX_BUFFERS || !read_varint(&packed, &numbers[count++]))
            return -1;
    return count;
}

static int read_page(const File *file, reader message, int64_t *page) {
    uint64_t starts[MAX_BUFFERS], sizes[MAX_BUFFERS], value, rows = 0;
    int64_t start_count = -1, size_count = -1;
    int has_description = 0;
    reader part, description = {NULL, NULL};
    tag field;
    while (message.at < message.end) {
        if (!read_tag(&message, &field))
            return 0;
        if (field.type == VARINT && (field.number == 3 || field.number == 5)) {
            if (!read_varint(&message, &value))
                return 0;
            if (field.number == 3)
                rows = value;
            continue;
        }
        if (field.type != BYTES || !read_bytes(&message, &part))
            return 0;
        if (field.number == 1 && start_count < 0) {
            if ((start_count = read_numbers(part, starts)) < 0)
                return 0;
        } else if (field.number == 2 && size_count < 0) {
            if ((size_count = read_numbers(part, sizes)) < 0)
                return 0;
        } else if (field.number == 4 && !has_description) {
            if (!read_encoding(part, &description) || description.at == NULL)
                return 0;
            has_description = 1;
        } else {
            return 0;
        }
    }
    const int64_t count = start_count < 0 ? 0 : start_count;
    if (rows >= MAX_ROWS || !has_description || count != (size_count < 0 ? 0 : size_count))
        return 0;
    const uint64_t size = (uint64_t)file->size;
    for (int64_t i = 0; i < count; i++) {
        if (starts[i] > size || sizes[i] > size - starts[i])
            return 0;
        page[FIRST + 2 * i] = (int64_t)starts[i];
        page[FIRST + 2 * i + 1] = (int64_t)(starts[i] + sizes[i]);
    }
    page[ROWS] = (int64_t)rows;
    page[BUFFERS] = count;
    page[DESCRIPTION] = description.at - file->data;
    page[DESCRIPTION_END] = description.end - file->data;
    return 1;
}

/* Read the metadata of a column, which has one page. */
static int read_column(const File *file, int64_t column, int64_t *page) {
    if (column < 0 || column >= file->column_count)
        return 0;
    const uint8_t *entry = file->columns + column * ENTRY;
    const uint64_t at = load(entry, 8), length = load(entry + 8, 8), size = (uint64_t)file->size;
    if (at > size || length > size - at) /* checked before, but the file may have been rewritten */
        return 0;
    const uint8_t *start = file->data + at;
    reader metadata = {start, start + length}, part, encoding = {NULL, NULL};
    tag field;
    int64_t pages = 0;
    int has_encoding = 0;
    while (metadata.at < metadata.end) {
        if (!read_tag(&metadata, &field) || field.type != BYTES || !read_bytes(&metadata, &part))
            return 0;
        if (field.number == 1 && !has_encoding) {
            if (!read_encoding(part, &encoding))
                return 0;
            has_encoding = 1;
        } else if (field.number == 2) {
            if (pages++ || !read_page(file, part, page))
                return 0;
        } else if ((field.number != 3 && field.number != 4) || part.at < part.end) {
            return 0;
        }
    }
    if (encoding.at != NULL) {
        page[ENCODING] = encoding.at - file->data;
        page[ENCODING_END] = encoding.end - file->data;
    }
    return pages == 1;
}

static int are_equal(const uint8_t *data, const int64_t *one, const int64_t *other) {
    const int64_t size = one[DESCRIPTION_END] - one[DESCRIPTION];
    return size == other[DESCRIPTION_END] - other[DESCRIPTION] &&
           memcmp(data + one[DESCRIPTION], data + other[DESCRIPTION], (size_t)size) == 0;
}

/* Find for each page of a column the first one with the same description. */
static void compare(const uint8_t *data, int64_t *pages, int64_t count) {
    int64_t distinct[DISTINCT], known = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t *const page = pages + i * NUMBERS;
        page[LIKE] = i;
        for (int64_t j = 0; j < known && page[LIKE] == i; j++)
            if (are_equal(data, pages + distinct[j] * NUMBERS, page))
                page[LIKE] = distinct[j];
        if (page[LIKE] != i)
            continue;
        if (known < DISTINCT) {
            distinct[known++] = i;
            continue;
        }
        for (int64_t j = distinct[DISTINCT - 1] + 1; j < i && page[LIKE] == i; j++)
            if (pages[j * NUMBERS + LIKE] == j && are_equal(data, pages + j * NUMBERS, page))
                page[LIKE] = j;
    }
}

/* Find the pages of columns that have one page in each of several files. */
KERNEL(find_pages, const uint8_t *data, int64_t size, const int64_t *files, int64_t file_count,
       const int64_t *columns, int64_t column_count, int64_t *pages, int64_t *versions) {
    for (int64_t i = 0; i < file_count; i++) {
        const int64_t start = files[2 * i], end = files[2 * i + 1];
        if (start < 0 || start > end || end > size)
            return DAMAGED;
        File file;
        if (!open_file(data + start, end - start, &file, versions + 2 * i))
            return DAMAGED;
        int64_t stored = 0;
        for (int64_t j = 0; j < column_count; j++) {
            int64_t *const page = pages + (j * file_count + i) * NUMBERS;
            memset(page, 0, NUMBERS * sizeof *page);
            if (!read_column(&file, columns[j], page))
                return DAMAGED;
            for (int64_t at = FIRST; at < FIRST + 2 * page[BUFFERS]; at += 2) {
                stored += page[at + 1] - page[at];
                page[at] += start;
                page[at + 1] += start;
            }
            page[DESCRIPTION] += start;
            page[DESCRIPTION_END] += start;
            if (page[ENCODING_END] > 0) {
                page[ENCODING] += start;
                page[ENCODING_END] += start;
            }
            if (stored > end - start)
                return DAMAGED; /* pages that share bytes */
        }
    }
    for (int64_t j = 0; j < column_count; j++)
        compare(data, pages + j * file_count * NUMBERS, file_count);
    return 0;
}
