"""A folder of files that nobody but the user can have written: caches trust its files.

The folder and its files are opened once and then asked what they are, so that a folder or a link
that somebody puts in their place in between is not followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lancefs.storage.local_files import open_regular

# Windows has neither owners that a mode tells nor folders as descriptors.
_HAS_OWNERS = hasattr(os, "geteuid") and os.open in os.supports_dir_fd
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CHECKSUM_BYTES = 32


class InvalidContent(Exception):
    """The content of a file is not what a cache wrote; the message says what is wrong."""


def seal(magic: bytes, content: bytes) -> bytes:
    """Return the bytes of a file that `unseal` checks: a magic, a SHA-256, and the content."""
    return magic + hashlib.sha256(content).digest() + content


def unseal(magic: bytes, data: bytes) -> bytes:
    """Return the content of a file.

    Args:
        magic: What the file begins with.
        data: The file.

    Raises:
        InvalidContent: It begins otherwise, or is damaged.
    """
    if not data.startswith(magic):
        raise InvalidContent("it has another beginning")
    start = len(magic) + _CHECKSUM_BYTES
    content = data[start:]
    if hashlib.sha256(content).digest() != data[len(magic) : start]:
        raise InvalidContent("its checksum does not match")
    return content


class PrivateFolder:
    """A folder that belongs to the user, or to root, and that others cannot write.

    Args:
        path: The folder; it is created at the first `write`, for the user alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, name: str, most: int) -> bytes:
        """Read a file.

        Args:
            name: Name of the file in the folder.
            most: Bytes of the largest file that is read.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: The folder or the file is not the user's own, is no regular file, is too large,
                or cannot be read.
        """
        with self._opened() as folder:
            descriptor, status = open_regular(*self._place(name, folder), _NO_LINK)
            with os.fdopen(descriptor, "rb") as file:
                _check_owner(status, self.path / name)
                if status.st_size > most:
                    raise OSError(errno.EFBIG, f"{status.st_size} bytes, at most {most} are read")
                return file.read(most)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, or replace it, as a whole: readers see all of it or nothing.

        Raises:
            OSError: The folder is not the user's own, or the file cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        unfinished = f".{secrets.token_hex(8)}.unfinished"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | _NO_LINK
        with self._opened() as folder:
            path, at = self._place(unfinished, folder)
            descriptor = os.open(path, flags, 0o600, dir_fd=at)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                target, _ = self._place(name, folder)
                os.replace(path, target, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                with suppress(OSError):  # the error that is raised says more
                    os.unlink(path, dir_fd=at)
                raise

    def remove(self, name: str) -> None:
        """Remove a file, or the link or special file of its name, if there is one.

        Raises:
            OSError: It cannot be removed.
        """
        with self._opened() as folder, suppress(FileNotFoundError):
            path, at = self._place(name, folder)
            os.unlink(path, dir_fd=at)

    def keep_newest(self, suffix: str, most: int) -> None:
        """Remove the files that were written longest ago, if there are too many.

        Args:
            suffix: How the names of the files end.
            most: How many are kept.

        Raises:
            OSError: The folder is not the user's own, or a file cannot be removed.
        """
        with self._opened() as folder:
            names = [
                name
                for name in os.listdir(self.path if folder is None else folder)
                if name.endswith(suffix)
            ]
            if len(names) <= most:
                return
            written = []
            for name in names:
                path, at = self._place(name, folder)
                with suppress(FileNotFoundError):  # another process makes room, too
                    status = os.stat(path, dir_fd=at, follow_symlinks=False)
                    written.append((status.st_mtime_ns, path, at))
            for _, path, at in sorted(written, key=lambda each: each[0])[:-most]:
                with suppress(FileNotFoundError):
                    os.unlink(path, dir_fd=at)

    def _place(self, name: str, folder: int | None) -> tuple[str, int | None]:
        """Return how a file is named in calls: below the open folder, or by its whole path."""
        return (str(self.path / name), None) if folder is None else (name, folder)

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """Open the folder for the calls inside; None where folders cannot be opened."""
        if not _HAS_OWNERS:
            yield None
            return
        link = os.lstat(self.path)
        if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "a link that belongs to another user")
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _check_owner(os.fstat(folder), self.path)
            yield folder
        finally:
            os.close(folder)


def _check_owner(status: os.stat_result, path: Path) -> None:
    if not _HAS_OWNERS:
        return
    if status.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
    if status.st_mode & _OTHERS_WRITE:
        raise PermissionError(
            errno.EPERM, f"others can write it; chmod go-w {path} makes it yours", str(path)
        )
