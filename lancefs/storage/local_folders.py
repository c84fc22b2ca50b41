"""Whole small files of local directories, of which a table may have thousands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from lancefs.storage.byte_ranges import Bytes
from lancefs.storage.file import File
from lancefs.storage.links import HAS_FOLDERS
from lancefs.storage.local_files import READ
from lancefs.storage.open_files import read_plain
from lancefs.storage.store import Store


def read_joined(files: Sequence[File], memory: Bytes, holds: bool) -> None:
    """Read whole small local files, one after the other.

    Args:
        files: The files, of known sizes.
        memory: What the bytes are written to, as long as all files together.
        holds: Whether the bytes of each file are held as well, for later reads.

    Raises:
        MissingFile: A file does not exist.
        CorruptFile: A file is shorter than its known size.
        ReadFailed: A file was rewritten meanwhile, or cannot be read.
        UnsupportedFeature: A file is a symbolic link that leads out of the confines.
    """
    view, start = memory.data, 0
    for file in files:
        end = start + file.size
        if holds or not file.local.read_into(view[start:end]):
            memory[start:end] = file.local.read([(0, end - start)])[0]
            file.verify()
        start = end


def read_folder(
    store: Store, folder: str, names: Sequence[str], sizes: Sequence[int], memory: Bytes
) -> None:
    """Read whole small files of a local directory, one after the other; nothing is held.

    Of many files, this takes half of the time of `read_joined`.

    Args:
        store: The directory that the folder is in.
        folder: Path of the folder, relative to that directory.
        names: Names of files in the folder.
        sizes: Bytes of each file.
        memory: What the bytes are written to, as long as all files together.

    Raises:
        LanceError: As `read_joined` does.
    """
    path, view, start = f"{store.full(folder)}/", memory.data, 0
    if store.confines is not None:
        store.confines.check_directory(path[:-1])
    for name, size in zip(names, sizes, strict=True):
        end = start + size
        if not read_plain(path + name, view[start:end]):
            read_joined([store.file(f"{folder}/{name}", size)], memory[start:end], False)
        start = end


@contextmanager
def opened_folder(store: Store, folder: str) -> Iterator[int]:
    """Open a directory of a local store for a while.

    Args:
        store: The directory that the folder is in.
        folder: Path of the folder, relative to that directory.

    Yields:
        A descriptor of the directory; -1 where the system has none, or refuses.

    Raises:
        UnsupportedFeature: A symbolic link leads out of the confines.
    """
    path, descriptor = store.full(folder), -1
    if store.confines is not None:
        store.confines.check_directory(path)
    if HAS_FOLDERS:
        with suppress(OSError):
            descriptor = os.open(path, READ | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)
