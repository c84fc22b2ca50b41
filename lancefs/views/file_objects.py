"""The file objects that `LanceFileSystem.open` returns."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator
from typing import Any

import fsspec
import pyarrow as pa
from fsspec.spec import AbstractBufferedFile

from lancefs.errors import ReadFailed
from lancefs.views.view import View

# Bytes of a resumed stream that are read at a time.
_RESUMED = 1 << 20


class ViewFile(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A seekable file object of a view. It shows one version for its whole life.

    A pickled file is opened again on the same version and at the same position.

    Args:
        fs: The filesystem that opened it.
        path: The path that it was opened with.
        fixed_path: The path that always means the same version.
        view: The bytes.
        details: The `info` of the path.
        block_size: Ignored; fsspec passes it for caching filesystems.
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

    @property
    def ukey(self) -> str:
        """Identity of the bytes, as `LanceFileSystem.ukey` gives it."""
        return self._view.key[2]

    def read_buffer(self, size: int | None = -1) -> pa.Buffer:
        """Return the next bytes as `read` does, without a copy. pyarrow calls this method.

        Args:
            size: Number of bytes; None or a negative number to read to the end.

        Raises:
            ValueError: The file is closed.
            LanceError: Something that the bytes depend on cannot be read.
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
    """A file object of a stream: read once from the beginning; it cannot seek and has no size.

    Closing it closes the generator, which stops the threads that read ahead. After an error every
    further read raises the same error, so that a truncated stream never looks complete.

    A pickled stream is opened again on the same version, and read up to the same position.

    Args:
        fs: The filesystem that opened it.
        path: The path that it was opened with.
        fixed_path: The path that always means the same version.
        chunks: The bytes.
        ukey: Identity of the bytes, as `LanceFileSystem.ukey` gives it.
    """

    size = None
    mode = "rb"

    def __init__(
        self,
        fs: fsspec.AbstractFileSystem,
        path: str,
        fixed_path: str,
        chunks: Generator[memoryview, None, None],
        ukey: str,
    ) -> None:
        super().__init__()
        self.fs = fs
        self.path = path
        self.ukey = ukey
        self._fixed_path = fixed_path
        self._chunks = chunks
        self._left = memoryview(b"")  # unread bytes of the current chunk
        self._position = 0
        self._error: Exception | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.closed:
            raise ValueError("the file is closed")
        return _resume, (self.fs, self._fixed_path, self._position, self.ukey)

    def __repr__(self) -> str:
        return f"<ForwardFile {self.path!r} at {self._position}>"

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Refuse to seek.

        Raises:
            UnsupportedOperation: Always; the message names the file that can seek.
        """
        raise io.UnsupportedOperation(
            f"{self.path} is a stream and cannot seek; {self.path.removesuffix('s')} can"
        )

    def tell(self) -> int:
        """Return the number of bytes read so far."""
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes: `size` bytes, or fewer at the end of the stream.

        Args:
            size: Number of bytes; None or a negative number to read to the end.

        Raises:
            ValueError: The file is closed.
            LanceError: A batch cannot be read.
        """
        if self.closed:
            raise ValueError("the file is closed")
        if self._error is not None:
            raise self._error
        try:  # whatever ends it loses bytes that were taken
            data = b"".join(self._parts(None if size is None or size < 0 else size))
            self._position += len(data)
            return data
        except Exception as error:
            self._error = error
            raise
        except BaseException:  # such as Ctrl-C
            self._error = ReadFailed(f"{self.path}: the read was interrupted; open it again")
            raise

    def readall(self) -> bytes:
        """Return all remaining bytes; raises as `read` does."""
        return self.read()

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer with the next bytes; return their number. Raises as `read` does."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file, and stop the threads that read ahead."""
        if not self.closed:
            self._chunks.close()
            self._left = memoryview(b"")
        super().close()

    def _parts(self, left: int | None) -> Iterator[memoryview]:
        """Yield the next bytes: `left` bytes, or fewer at the end of the stream."""
        while left is None or left > 0:
            while not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    return
                self._left = chunk
            part = self._left[:left]
            self._left = self._left[len(part) :]
            left = None if left is None else left - len(part)
            yield part


def _resume(fs: fsspec.AbstractFileSystem, path: str, position: int, ukey: str) -> ForwardFile:
    """Open a stream again, and read it up to a position, which takes the time of those bytes."""
    file: ForwardFile = fs.open(path)
    if position and file.ukey != ukey:  # a history grows, and releases differ in their bytes
        raise ReadFailed(f"{path}: has other bytes than before; read it from its beginning")
    while file.tell() < position and file.read(min(_RESUMED, position - file.tell())):
        pass
    return file


def cut(file: ViewFile | ForwardFile, start: int | None, end: int | None) -> bytes:
    """Read a byte range of a file, with the meaning of a Python slice.

    Args:
        file: The file; a stream must be at its beginning.
        start: First byte; a negative number counts from the end; None for the beginning.
        end: Byte after the last one; a negative number counts from the end; None for the end.
    """
    if isinstance(file, ViewFile):
        first, last, _ = slice(start, end).indices(file.size)
        file.seek(first)
        return bytes(file.read(max(0, last - first)))
    needed = None if end is None or end < 0 or (start is not None and start < 0) else end
    return bytes(file.read(needed)[start : end if needed is None else None])
