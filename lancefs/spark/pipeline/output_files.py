"""Files of a destination: whole or not there, on any fsspec store."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple

from fsspec.implementations.local import LocalFileSystem

from lancefs.errors import ReadFailed
from lancefs.masking import mask_secrets
from lancefs.spark.stores import absolute, open_place
from lancefs.storage.retries import retry

# Files that one request to the store may name.
_AT_ONCE = 1000
# Bytes that are read at a time for a checksum.
_BLOCK = 8 * 1024 * 1024
# What filesystems call the time at which a file was written.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified")


class FileState(NamedTuple):
    """What the store says of a file.

    Attributes:
        size: In bytes.
        modified: When it was written, in ISO 8601, to the second; None if the store does not say.
    """

    size: int
    modified: str | None


class Checksum:
    """The checksum of bytes that are written to a file on their way.

    Args:
        file: The file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.blake2b(digest_size=16)
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        """Write bytes to the file."""
        view = memoryview(data)
        self._sum.update(view)
        self._file.write(view)
        self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.size

    def flush(self) -> None:
        """Do nothing: its opener flushes the file."""

    def close(self) -> None:
        """Do nothing more: its opener closes the file."""
        self.closed = True

    def text(self) -> str:
        """Return the checksum."""
        return self._sum.hexdigest()


class Files:
    """The files below a directory.

    A file that is being written is not seen by others before it is complete: on a local disk it has
    another name until then, and object stores show what was uploaded when the upload ends.

    Args:
        url: The directory.
        storage: For fsspec.
    """

    def __init__(
        self, url: str | os.PathLike[str], storage: Mapping[str, Any] | None = None
    ) -> None:
        self.url = absolute(url)
        self.storage = dict(storage or {})
        self.fs, root = open_place(self.url, self.storage)
        self.root = root.rstrip("/")
        self.is_local = isinstance(self.fs, LocalFileSystem)

    @property
    def shown(self) -> str:
        """The address without secrets, for messages."""
        return mask_secrets(self.url)

    def full(self, path: str) -> str:
        """The path of a file, as the filesystem spells it."""
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str) -> bytes | None:
        """Read a file; None where there is none.

        Raises:
            ReadFailed: The store refused or failed.
        """
        try:
            data: bytes = retry(lambda: self.fs.cat_file(self.full(path)), f"{self.url}/{path}")
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
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

    def names(self, directory: str = "") -> dict[str, FileState]:
        """List the files below a directory, at any depth.

        Raises:
            ReadFailed: The store refused or failed, or lacks the bucket.
        """
        self.fs.invalidate_cache()
        full = self.full(directory)
        try:
            found = retry(lambda: self.fs.find(full, detail=True), f"{self.url}/{directory}")
        except FileNotFoundError as error:  # of a bucket: a directory without files is empty
            raise ReadFailed(f"{self.url}: {error}") from error
        start = len(self.full("x")) - 1
        return {name[start:]: _found(info) for name, info in found.items()}

    def found(self, path: str) -> FileState:
        """Look a file up in the store.

        Raises:
            FileNotFoundError: There is none.
        """
        self.fs.invalidate_cache()
        return _found(self.fs.info(self.full(path)))

    def checksum(self, path: str) -> str:
        """Read a file, and return the checksum that it would have been written with.

        Raises:
            OSError: It cannot be read.
        """
        total = hashlib.blake2b(digest_size=16)
        with self.fs.open(self.full(path), "rb") as file:
            while block := file.read(_BLOCK):
                total.update(block)
        return total.hexdigest()

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


def _found(info: Mapping[str, Any]) -> FileState:
    """Return what a filesystem tells; times in whole seconds, as listings may have no others."""
    time = next((info[name] for name in _TIMES if info.get(name) is not None), None)
    if isinstance(time, str):
        with suppress(ValueError):
            time = datetime.fromisoformat(time)
    if isinstance(time, datetime):
        time = time.timestamp()
    size = int(info["size"] or 0)
    if not isinstance(time, (int, float)):
        return FileState(size, None)
    return FileState(size, datetime.fromtimestamp(int(time), UTC).isoformat())


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
