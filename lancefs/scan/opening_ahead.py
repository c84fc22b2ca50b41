"""Opening the files of a small remote table while its indices are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import call

from lancefs.table.open_version import OpenVersion
from lancefs.threads import Threads, submit

# Fragments of a remote table whose files are opened while its indices are read, at most: the last
# 64 KiB of each data file are read.
_FRAGMENTS = 8
# Most files of these fragments, deletion files included.
_FILES = 16


@contextmanager
def opening_files(version: OpenVersion) -> Iterator[None]:
    """Open the files of a small remote table in the meantime.

    The rows that indices name lie in some of them, and are read a round of requests earlier. A
    file that cannot be opened fails the read that needs it, which opens it again.

    Args:
        version: The version; nothing is opened of a local or a large one.
    """
    closed = _closed_files(version)
    if not 0 < len(closed) <= _FILES:
        yield
        return
    with Threads(len(closed), "lancefs-open") as pool:
        for open_one in closed:
            submit(pool, call, open_one)
        yield


def _closed_files(version: OpenVersion) -> list[Callable[[], object]]:
    readers = version.readers
    if version.files.store.is_local or len(readers) > _FRAGMENTS:
        return []
    return [open_one for reader in readers for open_one in reader.closed_files()]
