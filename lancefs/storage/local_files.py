"""Files of the local filesystem: recognize their paths, list directories, map files into memory.

Local tables are opened without fsspec: importing fsspec takes as long as importing lancefs.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import TYPE_CHECKING

import numpy as np

from lancefs.errors import MissingFile, ReadFailed
from lancefs.storage.byte_ranges import Bytes
from lancefs.storage.links import Confines

if TYPE_CHECKING:
    import fsspec


def is_local(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether a filesystem is fsspec's local filesystem."""
    from fsspec.implementations.local import LocalFileSystem

    return isinstance(fs, LocalFileSystem)


def local_filesystem() -> fsspec.AbstractFileSystem:
    """Return fsspec's local filesystem."""
    from fsspec.implementations.local import LocalFileSystem

    return LocalFileSystem()


def local_path(url: str) -> str | None:
    """Return the local path that a URL without a protocol names.

    Returns:
        The absolute path, equal to the path that fsspec derives from the URL; None for a URL that
        only fsspec can interpret: one with a protocol or a home directory, and any on Windows.
    """
    if os.sep != "/" or ":" in url or url.startswith("~"):
        return None
    path = url if url.startswith("/") else f"{os.getcwd()}/{_relative(url)}"
    return path.rstrip("/") or "/"


def _relative(url: str) -> str:
    return "" if url == "." else url.removeprefix("./")


def list_directory(path: str) -> list[tuple[str, dict[str, object]]]:
    """Return (name, info) of each entry of a directory; `info` has the keys of fsspec's `info`.

    A symbolic link has the type and the size (in bytes) of its target; a dangling link has the type
    "other".

    Raises:
        OSError: The directory does not exist, or cannot be listed.
    """
    with os.scandir(path) as listing:
        return [(entry.name, _info(entry)) for entry in listing]


def _info(entry: os.DirEntry[str]) -> dict[str, object]:
    try:
        status = entry.stat()
    except OSError:  # a dangling link
        return {"name": entry.path, "type": "other", "size": 0}
    kind = "file" if stat.S_ISREG(status.st_mode) else "other"
    kind = "directory" if stat.S_ISDIR(status.st_mode) else kind
    return {"name": entry.path, "type": kind, "size": status.st_size}


def map_file(path: str, confines: Confines | None = None) -> Bytes:
    """Map a file into memory.

    Args:
        path: The file.
        confines: What symbolic links may lead to; None for anything.

    Returns:
        The bytes of the file, read-only. The mapping lives as long as arrays refer to it.

    Raises:
        MissingFile: The file does not exist.
        ReadFailed: The operating system refused to open or to map the file.
        UnsupportedFeature: The file is a symbolic link that leads out of the confines.
    """
    try:
        with open(path, "rb", opener=None if confines is None else confines.open) as file:
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
