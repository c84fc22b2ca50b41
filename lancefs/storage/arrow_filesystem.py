"""Filesystems of pyarrow as filesystems of fsspec."""

from __future__ import annotations

from typing import Any

import pyarrow.fs
from fsspec import AbstractFileSystem
from fsspec.implementations.arrow import ArrowFSWrapper


class ArrowFileSystem(ArrowFSWrapper):  # type: ignore[misc]  # fsspec: no types
    """A filesystem of pyarrow, read by byte ranges."""

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Read a range; the wrapper of fsspec seeks in a stream where a range begins at 0."""
        data: bytes = AbstractFileSystem.cat_file(self, path, start, end, **kwargs)
        return data


def as_fsspec(filesystem: Any) -> AbstractFileSystem:
    """Return a filesystem as one of fsspec.

    Raises:
        TypeError: It is neither of fsspec nor of pyarrow.
    """
    if isinstance(filesystem, pyarrow.fs.PyFileSystem):
        handler = filesystem.handler
        if isinstance(handler, pyarrow.fs.FSSpecHandler):  # whose rules for links and clones count
            return handler.fs
    if isinstance(filesystem, AbstractFileSystem):
        return filesystem
    if isinstance(filesystem, pyarrow.fs.FileSystem):
        return ArrowFileSystem(filesystem)
    kind = type(filesystem)  # and not what it looks like, which may show a secret
    advice = ""
    if kind.__module__.partition(".")[0] == "obstore":
        advice = ", such as obstore.fsspec.FsspecStore, which takes the same options"
    name = kind.__qualname__
    raise TypeError(f"filesystem is a {name}; one of fsspec or pyarrow was expected{advice}")
