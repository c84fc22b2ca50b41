"""What a filesystem that never writes answers to those who try."""

from __future__ import annotations

import errno
import os
from typing import Any, NoReturn

from fsspec.spec import AbstractFileSystem


class ReadOnlyFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Refuses all that would change something, with OSError(EROFS)."""

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Refused."""
        refuse(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Refused."""
        refuse(path)

    def rmdir(self, path: str) -> None:
        """Refused."""
        refuse(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Refused."""
        refuse(path)

    def rm_file(self, path: str) -> None:
        """Refused."""
        refuse(path)

    def _rm(self, path: str) -> None:
        refuse(path)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Refused."""
        refuse(path2)

    def copy(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> None:
        """Refused."""
        refuse(path2)

    def mv(self, path1: Any, path2: Any, *args: Any, **kwargs: Any) -> None:
        """Refused."""
        refuse(path1)

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Refused."""
        refuse(path)

    def put(self, lpath: Any, rpath: Any, *args: Any, **kwargs: Any) -> None:
        """Refused."""
        refuse(rpath)

    def put_file(self, lpath: str, rpath: str, *args: Any, **kwargs: Any) -> None:
        """Refused."""
        refuse(rpath)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Refused."""
        refuse(path)


def refuse(path: Any) -> NoReturn:
    """Refuse to write.

    Args:
        path: Where.

    Raises:
        OSError: With EROFS, always.
    """
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
