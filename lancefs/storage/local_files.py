"""Files of the local filesystem: recognize their paths, list directories, open files.

Local tables are opened without fsspec: importing fsspec takes as long as importing lancefs.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from lancefs.storage.links import Confines

if TYPE_CHECKING:
    import fsspec

# Windows needs O_BINARY, and has none of the others.
READ = os.O_RDONLY
for _flag in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
    READ |= getattr(os, _flag, 0)
_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


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


def list_files(path: str) -> list[str]:
    """Return the names of the entries of a directory that are no directories.

    Asks the system for the names only, however many files there are.

    Raises:
        OSError: The directory does not exist, or cannot be listed.
    """
    with os.scandir(path) as listing:
        return [entry.name for entry in listing if not entry.is_dir()]


def _info(entry: os.DirEntry[str]) -> dict[str, object]:
    try:
        status = entry.stat()
    except OSError:  # a dangling link
        return {"name": entry.path, "type": "other", "size": 0}
    kind = "file" if stat.S_ISREG(status.st_mode) else "other"
    kind = "directory" if stat.S_ISDIR(status.st_mode) else kind
    return {"name": entry.path, "type": kind, "size": status.st_size}


def open_regular(
    path: str, folder: int | None = None, flags: int = 0, confines: Confines | None = None
) -> tuple[int, os.stat_result]:
    """Open a regular file for reading, without waiting.

    Opening a named pipe waits for a writer, and reading one, a terminal or a device may never end.

    Args:
        path: The file.
        folder: Descriptor of the folder that a relative path starts from; None for the working
            directory.
        flags: Flags of `os.open` in addition.
        confines: What symbolic links may lead to; None for anything.

    Returns:
        The descriptor, which the caller closes, and the file's status.

    Raises:
        OSError: The file does not exist, cannot be opened, or is no regular file.
        UnsupportedFeature: The file is a symbolic link that leads out of the confines.
    """
    try:
        if confines is None:
            descriptor = os.open(path, READ | flags, dir_fd=folder)
        else:
            descriptor = confines.open(path, READ | flags)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device without hardware
            raise _not_regular(path, os.stat(path, dir_fd=folder).st_mode) from error
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise _not_regular(path, status.st_mode)
    return descriptor, status


def _not_regular(path: str, mode: int) -> OSError:
    kind = _KINDS.get(stat.S_IFMT(mode), "special file")
    return OSError(errno.EINVAL, f"a {kind}; a regular file was expected", path)
