/* Segments of a buffer, joined. */
#include "kernels.h"

/* Check that segments ascend within a buffer of `size` bytes; return their total size. */
KERNEL(gather_size, int64_t size, const int64_t *starts, const int64_t *ends, int64_t count) {
    int64_t total = 0, last = 0;
    for (int64_t i = 0; i < count; i++) {
        if (starts[i] < last || ends[i] < starts[i])
            return DAMAGED;
        last = ends[i];
        total += ends[i] - starts[i];
    }
    return last > size ? DAMAGED : total;
}

/* Copy segments that `gather_size`, or `ranges_size`, has checked; `out` has room for them. */
KERNEL(gather, const uint8_t *data, const int64_t *starts, const int64_t *ends, int64_t count,
       uint8_t *out) {
    for (int64_t i = 0; i < count; i++) {
        const size_t length = (size_t)(ends[i] - starts[i]);
        memcpy(out, data + starts[i], length);
        out += length;
    }
    return 0;
}
