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

    def _refuse(self, *paths: Any, **named: Any) -> NoReturn:
        """Raise `OSError(EROFS)` about the first path."""
        refuse([*paths, *named.values()][0])

    def _refuse_target(self, *paths: Any, **named: Any) -> NoReturn:
        """Raise `OSError(EROFS)` about the path that would be written, the second one."""
        refuse([*paths, *named.values()][1])

    mkdir = makedirs = rmdir = rm = rm_file = _rm = mv = pipe_file = touch = _refuse
    cp_file = copy = put = put_file = _refuse_target


def refuse(path: Any) -> NoReturn:
    """Raise the error of a write to a read-only filesystem.

    Args:
        path: The path that would be modified.

    Raises:
        OSError: Always, with `errno.EROFS`.
    """
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
