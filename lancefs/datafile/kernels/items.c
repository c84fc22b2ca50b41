/* The items of full-zip rows: each has a control word, and most a value after it. */
#include "kernels.h"

API int64_t lancefs_find_items(const uint8_t *data, int64_t size, const int64_t *starts,
                               const int64_t *ends, int64_t rows, const int64_t *form,
                               int64_t *found, int64_t room);

/* Find where the items of rows begin; return how many there are.
 *
 * form: bytes of a control word (1, 2 or 4), bits of it that are the definition level, the highest
 * level of an item that has a value, bytes of a value or of the length before it (1, 2, 4 or 8), and
 * whether all values have as many. found: NULL to count the items only; else there is `room`. */
int64_t lancefs_find_items(const uint8_t *data, int64_t size, const int64_t *starts,
                           const int64_t *ends, int64_t rows, const int64_t *form,
                           int64_t *found, int64_t room) {
    const int word = (int)form[0];
    const uint64_t mask = ((uint64_t)1 << form[1]) - 1, shown = (uint64_t)form[2];
    const int64_t width = form[3], is_fixed = form[4];
    int64_t count = 0, last = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = starts[row];
        const int64_t end = ends[row];
        if (at < last || end < at || end > size)
            return DAMAGED;
        last = end;
        while (at < end) {
            int64_t left = end - at - word;
            if (left < 0)
                return DAMAGED;
            if (found) {
                if (count == room)
                    return DAMAGED;
                found[count] = at;
            }
            count++;
            at += word;
            if ((load(data + at - word, word) & mask) > shown)
                continue;
            if (left < width)
                return DAMAGED;
            left -= width;
            if (!is_fixed) {
                const uint64_t length = load(data + at, (int)width);
                if (length > (uint64_t)left)
                    return DAMAGED;
                at += (int64_t)length;
            }
            at += width;
        }
    }
    return count;
}
