/* Whole small files of one directory; see files.py. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#if defined(__APPLE__)
#define _DARWIN_C_SOURCE /* for st_mtimespec */
#endif
#include "kernels.h"

#if defined(__unix__) || defined(__APPLE__)
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#define HAS_FOLDERS
#endif

#define IDENTITY 4       /* numbers that tell a file from others, as in files.py */
#define LONGEST_NAME 255 /* bytes */

#ifdef HAS_FOLDERS
/* Names of files, one after the other or with other bytes between them. */
typedef struct {
    const uint8_t *data;
    int64_t size;
    const int64_t *starts, *ends;
} Names;

/* Copy a name with a zero behind it; return whether it is one of a file in a directory. */
static int copy_name(const Names *names, int64_t number, char *name) {
    const int64_t start = names->starts[number], end = names->ends[number], length = end - start;
    if (start < 0 || end > names->size || start >= end || length > LONGEST_NAME)
        return 0;
    memcpy(name, names->data + start, (size_t)length);
    name[length] = 0;
    return !memchr(name, 0, (size_t)length) && !memchr(name, '/', (size_t)length);
}

/* Write what tells a file from others; return whether it is a regular one. */
static int identify(const struct stat *status, int64_t *identity) {
#if defined(__APPLE__)
    const struct timespec modified = status->st_mtimespec;
#else
    const struct timespec modified = status->st_mtim;
#endif
    identity[0] = (int64_t)status->st_dev;
    identity[1] = (int64_t)status->st_ino;
    identity[2] = (int64_t)status->st_size;
    identity[3] = (int64_t)modified.tv_sec * 1000000000 + modified.tv_nsec;
    return S_ISREG(status->st_mode);
}

/* Read a whole file; return whether it has the size, and is the same before and after. */
static int read_whole(int descriptor, int64_t size, uint8_t *out, int64_t *identity) {
    struct stat status;
    int64_t after[IDENTITY];
    if (fstat(descriptor, &status) || !identify(&status, identity) || identity[2] != size)
        return 0;
    for (int64_t done = 0; done < size;) {
        const ssize_t count = pread(descriptor, out + done, (size_t)(size - done), (off_t)done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return 0;
        done += count;
    }
    return !fstat(descriptor, &status) && identify(&status, after) &&
           !memcmp(identity, after, sizeof after);
}
#endif

/* Returns how many of the files were read, up to the first one that was not. */
KERNEL(read_files, int64_t folder, int64_t flags, const uint8_t *data, int64_t size,
       const int64_t *starts, const int64_t *ends, const int64_t *sizes, int64_t count,
       uint8_t *out, int64_t *identities) {
#ifdef HAS_FOLDERS
    const Names names = {data, size, starts, ends};
    char name[LONGEST_NAME + 1];
    for (int64_t number = 0; number < count; number++) {
        if (!copy_name(&names, number, name))
            return number;
        const int descriptor = openat((int)folder, name, (int)flags);
        if (descriptor < 0)
            return number;
        const int is_read =
            read_whole(descriptor, sizes[number], out, identities + number * IDENTITY);
        close(descriptor);
        if (!is_read)
            return number;
        out += sizes[number];
    }
    return count;
#else
    (void)folder, (void)flags, (void)data, (void)size, (void)starts, (void)ends, (void)sizes;
    (void)count, (void)out, (void)identities;
    return 0;
#endif
}

/* Returns how many of the files there are, up to the first one that is missing or not regular. */
KERNEL(identify_files, int64_t folder, const uint8_t *data, int64_t size, const int64_t *starts,
       const int64_t *ends, int64_t count, int64_t *identities) {
#ifdef HAS_FOLDERS
    const Names names = {data, size, starts, ends};
    char name[LONGEST_NAME + 1];
    struct stat status;
    for (int64_t number = 0; number < count; number++) {
        if (!copy_name(&names, number, name) ||
            fstatat((int)folder, name, &status, AT_SYMLINK_NOFOLLOW) ||
            !identify(&status, identities + number * IDENTITY))
            return number;
    }
    return count;
#else
    (void)folder, (void)data, (void)size, (void)starts, (void)ends, (void)count, (void)identities;
    return 0;
#endif
}
