"""Reading whole small files of one directory, with the metadata that identifies their contents.

Of thousands of small files, the calls of the system take less time than Python takes to make them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from lancefs.datafile.buffers import Ints, empty
from lancefs.datafile.kernels.calls import c_function, twin_of
from lancefs.storage import READ_PLAIN, Bytes, identity_numbers, read_plain

_IDENTITY = 4  # numbers that tell a file from others, as in files.c
_LONGEST_NAME = 255


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
    memory = np.zeros(int(sizes.sum()), np.uint8)
    identities = np.zeros((len(sizes), _IDENTITY), np.int64)
    done = 0
    for number, (name, size) in enumerate(zip(_names(data, starts, ends), sizes, strict=True)):
        part = memory[done : done + int(size)]
        identity = None if name is None else read_plain(name, part.data, folder)
        if identity is None:
            return None
        identities[number] = identity
        done += int(size)
    return memory, identities


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
    identities = np.zeros((len(starts), _IDENTITY), np.int64)
    for number, name in enumerate(_names(data, starts, ends)):
        found = None
        with suppress(OSError):
            if name is not None:
                found = identity_numbers(os.stat(name, dir_fd=folder, follow_symlinks=False))
        if found is None:
            return None
        identities[number] = found
    return identities


def _names(data: Bytes, starts: Ints, ends: Ints) -> Sequence[bytes | None]:
    """Return names; None for one that no file of a directory can have."""
    names = [
        data[start:end].tobytes() if 0 <= start < end <= len(data) else b""
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return [
        None if not 0 < len(name) <= _LONGEST_NAME or b"\0" in name or b"/" in name else name
        for name in names
    ]


_c_read_files = c_function("read_files", "number number bytes number ints ints ints number out out")
_c_identify_files = c_function("identify_files", "number bytes number ints ints number out")


@twin_of(read_files)
def _compiled_read_files(
    folder: int, data: Bytes, starts: Ints, ends: Ints, sizes: Ints
) -> tuple[Bytes, Ints] | None:
    count = len(sizes)
    memory = empty(int(sizes.sum()), np.uint8)
    identities = np.empty((count, _IDENTITY), np.int64)
    names = data, len(data), starts, ends
    done = _c_read_files(folder, READ_PLAIN, *names, sizes, count, memory, identities)
    return (memory, identities) if done == count else None


@twin_of(identify_files)
def _compiled_identify_files(folder: int, data: Bytes, starts: Ints, ends: Ints) -> Ints | None:
    count = len(starts)
    identities = np.empty((count, _IDENTITY), np.int64)
    done = _c_identify_files(folder, data, len(data), starts, ends, count, identities)
    return identities if done == count else None
