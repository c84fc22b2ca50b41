/* The items of full-zip rows; see items.py for the layout. */
#include "kernels.h"

/* Find where the items of rows begin; return the number of items.
 *
 * form: the fields of `ItemForm`. found: NULL to count the items only, else `room` numbers. */
KERNEL(find_items, const uint8_t *data, int64_t size, const int64_t *starts, const int64_t *ends,
       int64_t rows, const int64_t *form, int64_t *found, int64_t room) {
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
            int64_t left = end - at - word; /* bytes of the row after the control word */
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
