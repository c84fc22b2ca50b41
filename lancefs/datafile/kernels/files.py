"""Reading whole small files of one directory, with the metadata that identifies their contents.

Of thousands of small files, the calls of the system take less time than Python takes to make them.
Without the library, files are read in another way.
"""

from __future__ import annotations

import numpy as np

from lancefs.datafile.buffers import Ints, empty
from lancefs.datafile.kernels.calls import c_function
from lancefs.storage import READ_PLAIN, Bytes

_IDENTITY = 4  # numbers that tell a file from others, as in files.c

_c_read_files = c_function("read_files", "number number bytes number ints ints ints number out out")
_c_identify_files = c_function("identify_files", "number bytes number ints ints number out")


def read_files(
    folder: int, data: Bytes, starts: Ints, ends: Ints, sizes: Ints
) -> tuple[Bytes, Ints] | None:
    """Read whole files of a directory.

    Args:
        folder: Descriptor of the directory.
        data: Bytes that hold the names of the files.
        starts: Where these begin.
        ends: Where they end.
        sizes: Bytes of each file.

    Returns:
        The bytes of the files, one after the other, and numbers that tell each file from others, of
        shape (files, 4). None if a file is missing, a link, has another size, is being rewritten,
        or cannot be read.
    """
    count = len(sizes)
    memory = empty(int(sizes.sum()), np.uint8)
    identities = np.empty((count, _IDENTITY), np.int64)
    names = data, len(data), starts, ends
    done = _c_read_files(folder, READ_PLAIN, *names, sizes, count, memory, identities)
    return (memory, identities) if done == count else None


def identify_files(folder: int, data: Bytes, starts: Ints, ends: Ints) -> Ints | None:
    """Return what tells files of a directory from others.

    Args:
        folder: Descriptor of the directory.
        data: Bytes that hold the names of the files.
        starts: Where these begin.
        ends: Where they end.

    Returns:
        Numbers as `read_files` gives them; None if a file is missing, or no regular file.
    """
    count = len(starts)
    identities = np.empty((count, _IDENTITY), np.int64)
    done = _c_identify_files(folder, data, len(data), starts, ends, count, identities)
    return identities if done == count else None
