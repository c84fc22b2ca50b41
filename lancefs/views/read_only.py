"""`ReadOnlyFileSystem`: the base of fsspec filesystems that refuse every write."""

from __future__ import annotations

import errno
import os
from typing import Any, NoReturn

from fsspec.spec import AbstractFileSystem


class ReadOnlyFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """An fsspec filesystem whose modifying methods raise `OSError(EROFS)`.

    Subclasses must refuse write modes in `_open`, for instance with `refuse`.
    """

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path)

    def rmdir(self, path: str) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path)

    def rm_file(self, path: str) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path)

    def _rm(self, path: str) -> None:
        refuse(path)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path2)

    def copy(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path2)

    def mv(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path1)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path)

    def put(self, lpath: Any, rpath: Any, *args: Any, **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(rpath)

    def put_file(self, lpath: str, rpath: str, *args: Any, **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(rpath)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Raise `OSError(EROFS)`."""
        refuse(path)


def refuse(path: Any) -> NoReturn:
    """Raise the error of a write to a read-only filesystem.

    Args:
        path: The path that would be modified.

    Raises:
        OSError: Always, with `errno.EROFS`.
    """
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
