"""Files of a destination: whole or not there, on any fsspec store."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import fsspec
from fsspec.implementations.local import LocalFileSystem

from lancefs.errors import ReadFailed
from lancefs.masking import mask_secrets
from lancefs.spark.stores import absolute, reaching

# Files that one request to the store may name.
_AT_ONCE = 1000


class Files:
    """The files below a directory.

    A file that is being written is not seen by others before it is complete: on a local disk it has
    another name until then, and object stores show what was uploaded when the upload ends.

    Args:
        url: The directory.
        storage: For fsspec.
    """

    def __init__(self, url: str, storage: Mapping[str, Any] | None = None) -> None:
        self.url = absolute(url)
        self.storage = dict(storage or {})
        with reaching(self.url):
            self.fs, root = fsspec.core.url_to_fs(self.url, **self.storage)
        self.root = str(root).rstrip("/")
        self.is_local = isinstance(self.fs, LocalFileSystem)

    @property
    def shown(self) -> str:
        """The address without secrets, for messages."""
        return mask_secrets(self.url)

    def full(self, path: str) -> str:
        """The path of a file, as the filesystem spells it."""
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str) -> bytes | None:
        """Read a file; None where there is none."""
        try:
            data: bytes = self.fs.cat_file(self.full(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ReadFailed(f"{self.url}/{path}: {error}") from error
        return data

    def read_all(self, paths: list[str]) -> list[bytes]:
        """Read small files, many at once where the store can; those that are gone are left out."""
        found: list[bytes] = []
        for start in range(0, len(paths), _AT_ONCE):
            some = [self.full(path) for path in paths[start : start + _AT_ONCE]]
            whole = [0] * len(some), [None] * len(some)
            got = self.fs.cat_ranges(some, *whole, on_error="return")
            found += [data for data in got if isinstance(data, bytes)]
        return found

    def write(self, path: str, data: bytes) -> None:
        """Write a file in one step, in place of the one that may be there."""
        if self.is_local:
            with self.create(path) as file:
                file.write(data)
        else:
            self.fs.pipe_file(self.full(path), data)

    @contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        """Open a file to write; it appears when the block ends, and never if the block fails."""
        full = self.full(path)
        if self.is_local:
            with _local(full) as file:
                yield file
            return
        remote = self.fs.open(full, "wb", autocommit=False)
        try:
            yield remote
        except BaseException:
            remote.discard()
            raise
        remote.close()
        remote.commit()

    def names(self, directory: str = "") -> dict[str, int]:
        """List the files below a directory, at any depth, with their sizes."""
        self.fs.invalidate_cache()
        found = self.fs.find(self.full(directory), detail=True)
        start = len(self.full("x")) - 1
        return {name[start:]: int(info["size"] or 0) for name, info in found.items()}

    def remove(self, paths: list[str]) -> None:
        """Remove files; those that are gone already do not matter."""
        for start in range(0, len(paths), _AT_ONCE):
            some = [self.full(path) for path in paths[start : start + _AT_ONCE]]
            try:
                self.fs.rm(some)
            except FileNotFoundError:  # one of them; or a name was taken for a pattern
                for path in some:
                    with suppress(FileNotFoundError):
                        self.fs.rm_file(path)


@contextmanager
def _local(full: str) -> Iterator[BinaryIO]:
    directory, name = os.path.split(full)
    os.makedirs(directory, exist_ok=True)
    unfinished = os.path.join(directory, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(unfinished, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, full)
    except BaseException:
        if os.path.exists(unfinished):
            os.remove(unfinished)
        raise
