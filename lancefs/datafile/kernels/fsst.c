/* FSST decompression; see fsst.py for the meaning of the codes. */
#include "fsst.h"

#define ESCAPE 255
#define BATCH 2048

/* Tell whether one of eight codes is an escape: a zero byte in their complement. */
static inline int has_escape(uint64_t codes) {
    const uint64_t inverse = ~codes;
    return ((inverse - 0x0101010101010101u) & codes & 0x8080808080808080u) != 0;
}

int64_t spelled_size(const uint8_t *codes, int64_t size, const uint8_t *lengths) {
    /* The size of a code without a symbol: larger than the decompressed size of any buffer. */
    const int64_t none = (int64_t)1 << 48;
    int64_t sizes[256], total = 0, at = 0;
    if (size > INT32_MAX)
        return DAMAGED;
    for (int code = 0; code < 256; code++)
        sizes[code] = lengths[code] >= 1 && lengths[code] <= 8 ? lengths[code] : none;
    while (at < size && total < none) {
        uint64_t eight;
        if (size - at >= 8) {
            memcpy(&eight, codes + at, 8);
            if (!has_escape(eight)) {
                const uint8_t *c = codes + at;
                total += sizes[c[0]] + sizes[c[1]] + sizes[c[2]] + sizes[c[3]];
                total += sizes[c[4]] + sizes[c[5]] + sizes[c[6]] + sizes[c[7]];
                at += 8;
                continue;
            }
        }
        if (codes[at] != ESCAPE) {
            total += sizes[codes[at]];
            at += 1;
        } else {
            if (size - at < 2)
                return DAMAGED;
            total += 1;
            at += 2;
        }
    }
    return total >= none ? DAMAGED : total;
}

/* Return the decompressed size of codes. */
KERNEL(decode_fsst_size, const uint8_t *codes, int64_t size, const uint8_t *lengths) {
    return spelled_size(codes, size, lengths);
}

int64_t spell(const uint8_t *codes, int64_t size, const int32_t *offsets, int64_t strings,
              const uint8_t *symbols, const uint8_t *lengths, uint8_t *text, int64_t room,
              int32_t *text_offsets) {
    /* All strings are decoded as one stream: one loop for each string would mispredict a branch every
     * few codes. `before` holds where the text of each code of a batch begins; the offsets of the
     * strings are looked up in it after each batch. */
    int32_t before[BATCH + 8]; /* -1 for the byte after an escape, which is no code */
    int64_t at = 0, to = 0, string = 0;
    int32_t previous = 0;
    uint8_t unused = 0; /* whose highest bit tells of a code without a symbol */
    if (offsets[0] != 0 || offsets[strings] != size || room > INT32_MAX)
        return DAMAGED;
    while (at < size) {
        const int64_t first = at, stop = size - at < BATCH ? size : at + BATCH;
        while (at < stop) {
            uint64_t eight;
            if (stop - at >= 8 && room - to >= 64) {
                memcpy(&eight, codes + at, 8);
                if (!has_escape(eight)) {
                    int32_t *where = before + (at - first);
                    for (int i = 0; i < 8; i++) {
                        const uint8_t code = (uint8_t)(eight >> (8 * i));
                        where[i] = (int32_t)to;
                        memcpy(text + to, symbols + (size_t)code * 8, 8);
                        to += lengths[code];
                        unused |= (uint8_t)(lengths[code] - 1);
                    }
                    at += 8;
                    continue;
                }
            }
            const uint8_t code = codes[at];
            before[at - first] = (int32_t)to;
            if (code != ESCAPE) {
                memcpy(text + to, symbols + (size_t)code * 8, 8);
                to += lengths[code];
                unused |= (uint8_t)(lengths[code] - 1);
                at += 1;
            } else {
                if (size - at < 2)
                    return DAMAGED;
                before[at + 1 - first] = -1;
                text[to++] = codes[at + 1];
                at += 2;
            }
            if (to > room)
                return DAMAGED;
        }
        for (; string < strings && offsets[string] < at; string++) {
            /* Ascending offsets are at least `first`: earlier batches handled the smaller ones. */
            if (offsets[string] < previous || before[offsets[string] - first] < 0)
                return DAMAGED;
            previous = offsets[string];
            text_offsets[string] = before[offsets[string] - first];
        }
    }
    for (; string <= strings; string++) {
        if (offsets[string] != size)
            return DAMAGED;
        text_offsets[string] = (int32_t)to;
    }
    return unused & 0x80 ? DAMAGED : to;
}

/* Decode codes whose decompressed size is `text_size`; `text` has room for that and for SLACK. */
KERNEL(decode_fsst, const uint8_t *codes, int64_t size, const int32_t *offsets, int64_t strings,
       const uint8_t *symbols, const uint8_t *lengths, uint8_t *text, int64_t text_size,
       int32_t *text_offsets) {
    const int64_t found =
        spell(codes, size, offsets, strings, symbols, lengths, text, text_size, text_offsets);
    return found == text_size ? 0 : DAMAGED;
}

int64_t spelled_lengths(const uint8_t *codes, int64_t size, const int32_t *offsets,
                        int64_t strings, const uint8_t *lengths, int64_t *found) {
    /* `none` as in `spelled_size`. An escape and the byte after it give one byte. */
    const int64_t none = (int64_t)1 << 48;
    int64_t sizes[256], previous = 0, damage = 0;
    if (size > INT32_MAX || offsets[0] != 0 || offsets[strings] != size)
        return DAMAGED;
    for (int code = 0; code < ESCAPE; code++)
        sizes[code] = lengths[code] >= 1 && lengths[code] <= 8 ? lengths[code] : none;
    sizes[ESCAPE] = 1;
    for (int64_t string = 0; string < strings; string++) {
        int64_t at = previous, total = 0;
        const int64_t end = offsets[string + 1];
        if (end < at || end > size)
            return DAMAGED;
        while (at < end) {
            const uint8_t code = codes[at];
            total += sizes[code];
            at += 1 + (code == ESCAPE);
        }
        damage |= at != end || total >= none;
        found[string] = total;
        previous = end;
    }
    return damage ? DAMAGED : 0;
}

/* Return the decompressed size of each string. */
KERNEL(fsst_lengths, const uint8_t *codes, int64_t size, const int32_t *offsets, int64_t strings,
       const uint8_t *lengths, int64_t *found) {
    return spelled_lengths(codes, size, offsets, strings, lengths, found);
}
