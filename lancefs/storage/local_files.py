"""Files of this machine: which paths are theirs, listing, mapping.

A local table is opened without fsspec, whose import takes as long as that of all that lancefs needs
of its own.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import TYPE_CHECKING

import numpy as np

from lancefs.errors import MissingFile, ReadFailed
from lancefs.storage.byte_ranges import Bytes

if TYPE_CHECKING:
    import fsspec


def is_local(fs: fsspec.AbstractFileSystem) -> bool:
    """Tell whether a filesystem is that of this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def local_filesystem() -> fsspec.AbstractFileSystem:
    """Return the filesystem of this machine."""
    from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem()


def local_path(url: str) -> str | None:
    """Return the path that a URL without a protocol is, as fsspec spells it.

    Returns:
        An absolute path; None where only fsspec knows what is meant.
    """
    if os.sep != "/" or ":" in url or url.startswith("~"):
        return None
    path = url if url.startswith("/") else f"{os.getcwd()}/{_within(url)}"
    return path.rstrip("/") or "/"


def _within(url: str) -> str:
    return "" if url == "." else url.removeprefix("./")


def list_directory(path: str) -> list[tuple[str, dict[str, object]]]:
    """List (name, info) of what is directly below a directory, links followed.

    Raises:
        OSError: There is no such directory, or it may not be listed.
    """
    with os.scandir(path) as listing:
        return [(entry.name, _info(entry)) for entry in listing]


def _info(entry: os.DirEntry[str]) -> dict[str, object]:
    try:
        status = entry.stat()
    except OSError:  # a link to nothing
        return {"name": entry.path, "type": "other", "size": 0}
    kind = "file" if stat.S_ISREG(status.st_mode) else "other"
    kind = "directory" if stat.S_ISDIR(status.st_mode) else kind
    return {"name": entry.path, "type": kind, "size": status.st_size}


def map_file(path: str) -> Bytes:
    """Map a file into memory.

    Raises:
        MissingFile: The file is not there.
        ReadFailed: The system refused.
    """
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return np.empty(0, dtype=np.uint8)
            return np.frombuffer(
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8
            )
    except FileNotFoundError as error:
        raise MissingFile(
            f"{path}: the file is gone; another version of the table may be complete"
        ) from error
    except OSError as error:
        raise ReadFailed(f"{path}: {error}") from error
