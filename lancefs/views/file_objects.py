"""The file objects that users read views with."""

from __future__ import annotations

import io
from collections.abc import Generator
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.spec import AbstractBufferedFile

from lancefs.views.view import View


class ViewFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file that is open on a view: seekable, and always of the version that it was opened on.

    Args:
        fs: The filesystem that it was opened through.
        path: What it was opened as.
        fixed_path: The path that always means the same version, for when it is opened again.
        view: Its bytes.
        details: What `info` says of it.
        block_size: Has no meaning here, but for caches above.
    """

    def __init__(
        self,
        fs: fsspec.AbstractFileSystem,
        path: str,
        fixed_path: str,
        view: View,
        details: dict[str, Any],
        block_size: int | None = None,
    ) -> None:
        self._view = view
        self._fixed_path = fixed_path
        super().__init__(fs, path, "rb", block_size, cache_type="none", size=view.size)
        self.details = details | {"size": self.size}

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.fs, self._fixed_path, self.tell())

    def read_buffer(self, size: int | None = -1) -> pa.Buffer:
        """Return the next bytes as `read` does, without a copy; pyarrow asks for them so.

        Args:
            size: How many; all that are left where it is negative or None.
        """
        if self.closed:
            raise ValueError("the file is closed")
        start = self.tell()
        left = max(0, self.size - start)
        buffer = self._view.read(start, start + (left if size is None or size < 0 else size))
        self.seek(start + buffer.size)
        return buffer

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self._view.read(start, end).to_pybytes())


def _reopen(fs: fsspec.AbstractFileSystem, path: str, position: int) -> Any:
    file = fs.open(path)
    file.seek(position)
    return file


class ForwardFile(io.RawIOBase):
    """A file that is read once, from its beginning to its end; it cannot seek, and has no size.

    Closing it early stops whatever makes its bytes.

    Args:
        chunks: The bytes.
        path: Its name.
    """

    size = None
    mode = "rb"

    def __init__(self, chunks: Generator[memoryview, None, None], path: str) -> None:
        super().__init__()
        self.path = path
        self._chunks = chunks
        self._left = memoryview(b"")  # of the chunk that is being read
        self._position = 0
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"<ForwardFile {self.path!r} at {self._position}>"

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether it can seek: never."""
        return False

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes: as many as are asked for, unless the file ends before.

        Args:
            size: How many; all that are left where it is negative or None.
        """
        if self.closed:
            raise ValueError("the file is closed")
        wanted = None if size is None or size < 0 else size
        parts: list[memoryview] = []
        while wanted is None or wanted > 0:
            part = self._next(wanted)
            if part is None:
                break
            parts.append(part)
            wanted = None if wanted is None else wanted - len(part)
        data = b"".join(parts)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """Return all bytes that are left."""
        return self.read()

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer with the next bytes; return how many there were."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Stop reading."""
        if not self.closed:
            self._chunks.close()
            self._left = memoryview(b"")
        super().close()

    def _next(self, wanted: int | None) -> memoryview | None:
        """Return some of the next bytes, at most as many as wanted; None at the end."""
        if self._error is not None:  # what came before it must never pass for the whole
            raise self._error
        while not self._left:
            try:
                chunk = next(self._chunks, None)
            except Exception as error:
                self._error = error
                raise
            if chunk is None:
                return None
            self._left = chunk
        part = self._left[:wanted]
        self._left = self._left[len(part) :]
        return part


def cut(file: ViewFile | ForwardFile, start: int | None, end: int | None) -> bytes:
    """Read a range of a file.

    Args:
        file: The file; one that cannot seek stands at its beginning.
        start: The first byte; negative: counted from the end.
        end: The byte to stop before, in the same way.
    """
    if isinstance(file, ViewFile):
        first, last, _ = slice(start, end).indices(file.size)
        file.seek(first)
        return bytes(file.read(max(0, last - first)))
    ahead = None if end is None or end < 0 or (start is not None and start < 0) else end
    return bytes(file.read(ahead)[start : end if ahead is None else None])
