"""Byte ranges from any fsspec store.

Everything that lancefs reads comes through here, as NumPy `uint8` arrays. Local files are mapped
into memory, so a range costs nothing until it is touched; remote ranges are coalesced and fetched
together.

Decoders do no I/O themselves. They are generators (`Steps`) that yield the byte ranges they need
next and get the bytes sent in; `run` drives many of them at once, so that the ranges which all
columns of a read need go out as one round of requests.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Generator, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias, TypeVar

import fsspec
import numpy as np
import numpy.typing as npt
from fsspec.implementations.local import LocalFileSystem

from lancefs.errors import CorruptFile, MissingFile, ReadFailed

Bytes: TypeAlias = npt.NDArray[np.uint8]
ByteRange: TypeAlias = tuple[int, int]  # start, end (exclusive), from the beginning of a file

T = TypeVar("T")
# A computation that asks for byte ranges and gets their bytes, in the same order.
Steps: TypeAlias = Generator[Sequence[ByteRange], Sequence[Bytes], T]

# Ranges of one remote file that lie closer than this are fetched as one: on an object store a
# request costs about as much time as reading this many bytes.
GAP = 64 * 1024
# A remote request larger than this is split, so that the parts travel side by side.
LARGEST_REQUEST = 16 * 1024 * 1024
# The end of a file that is read at once when its footer is wanted: enough for most metadata.
TAIL = 64 * 1024


class Store:
    """A directory of an fsspec filesystem.

    Args:
        fs: Any fsspec filesystem.
        root: The directory, as `fs` spells paths.
    """

    def __init__(self, fs: fsspec.AbstractFileSystem, root: str) -> None:
        self.fs = fs
        self.root = root.rstrip("/")
        self.is_local = isinstance(fs, LocalFileSystem)

    def __repr__(self) -> str:
        return f"Store({self.url()!r})"

    def url(self, path: str = "") -> str:
        """Return the address of a file below the directory, as a user would write it."""
        return (
            str(self.fs.unstrip_protocol(self.full(path))) if not self.is_local else self.full(path)
        )

    def full(self, path: str) -> str:
        """Return the path of a file below the directory, as `fs` spells it."""
        return f"{self.root}/{path}" if path else self.root

    def file(self, path: str, size: int | None = None) -> File:
        """Return a file below the directory, without touching the store.

        Args:
            path: Relative to the directory.
            size: Its length in bytes, where it is known (a manifest tells those of data files).
        """
        return File(self, path, size)

    def names(self, path: str = "") -> list[str]:
        """List the names directly below a directory; none where there is no such directory.

        Raises:
            ReadFailed: The store refused or failed.
        """
        return [name for name, _ in self.entries(path)]

    def entries(self, path: str = "") -> list[tuple[str, dict[str, object]]]:
        """List (name, info) of what is directly below a directory, in one request.

        Raises:
            ReadFailed: The store refused or failed.
        """
        try:
            found = self.fs.ls(self.full(path), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ReadFailed(f"{self.url(path)}: cannot be listed: {error}") from error
        here = self.full(path).rstrip("/")
        named = ((str(info["name"]).rstrip("/"), info) for info in found)
        return [(name.rsplit("/", 1)[-1], info) for name, info in named if name != here]

    def fetch(self, requests: Sequence[tuple[str, int, int]]) -> list[Bytes]:
        """Fetch byte ranges of files, concurrently where the filesystem can.

        Args:
            requests: (path below the directory, start, end) of each range.

        Raises:
            MissingFile: One of the files is not there.
            CorruptFile: A file ends before a range that was asked for.
            ReadFailed: The store refused or failed.
        """
        parts = [_split(start, end) for _, start, end in requests]
        paths = [
            self.full(path) for (path, _, _), cut in zip(requests, parts, strict=True) for _ in cut
        ]
        flat = [part for cut in parts for part in cut]
        got = self.fs.cat_ranges(
            paths, [start for start, _ in flat], [end for _, end in flat], on_error="return"
        )
        results: list[Bytes] = []
        taken = iter(got)
        for (path, start, end), cut in zip(requests, parts, strict=True):
            pieces = [self._checked(next(taken), path, part) for part in cut]
            results.append(_array(pieces[0] if len(pieces) == 1 else b"".join(pieces)))
            assert len(results[-1]) == end - start
        return results

    def _checked(self, got: object, path: str, part: ByteRange) -> bytes:
        if isinstance(got, FileNotFoundError):
            raise MissingFile(
                f"{self.url(path)}: the file is gone; another version of the table may be complete"
            ) from got
        if isinstance(got, BaseException):
            raise ReadFailed(f"{self.url(path)}: bytes {part[0]}–{part[1]}: {got}") from got
        assert isinstance(got, bytes | bytearray | memoryview)
        if len(got) != part[1] - part[0]:
            error = CorruptFile(
                f"ends at byte {part[0] + len(got)}, wanted up to {part[1]}; it was cut short"
            )
            error.path = self.url(path)
            raise error
        return bytes(got)


class File:
    """One immutable file of a table.

    Args:
        store: The directory that it is in.
        path: Relative to that directory.
        size: Its length in bytes, or None to find out when it is needed.
    """

    def __init__(self, store: Store, path: str, size: int | None) -> None:
        self.store = store
        self.path = path
        self._size = size
        self._mapped: Bytes | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"File({self.url!r})"

    @property
    def url(self) -> str:
        """The address of the file, as a user would write it."""
        return self.store.url(self.path)

    @property
    def size(self) -> int:
        """The length in bytes.

        Raises:
            MissingFile: The file is not there.
        """
        if self._size is None:
            if self.store.is_local:
                self._size = len(self._map())
            else:
                self._size = self._remote_size()
        return self._size

    def read(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        """Return the bytes of each range, as read-only arrays of shape (end − start,).

        Raises:
            MissingFile: The file is not there.
            CorruptFile: A range reaches beyond the end of the file.
            ReadFailed: The store refused or failed.
        """
        return read_all([(self, ranges)])[0]

    def read_whole(self) -> Bytes:
        """Return all bytes of the file."""
        if self.store.is_local:
            return self._map()
        try:
            return _array(self.store.fs.cat_file(self.store.full(self.path)))
        except FileNotFoundError as error:
            raise MissingFile(f"{self.url}: the file is gone") from error
        except OSError as error:
            raise ReadFailed(f"{self.url}: {error}") from error

    def read_tail(self, length: int = TAIL) -> tuple[int, Bytes]:
        """Return the last bytes of the file and the offset that they start at.

        Args:
            length: How many bytes; the whole file where it is shorter.
        """
        size = self.size
        start = max(0, size - length)
        return start, self.read([(start, size)])[0]

    def _remote_size(self) -> int:
        try:
            return int(self.store.fs.size(self.store.full(self.path)))
        except FileNotFoundError as error:
            raise MissingFile(f"{self.url}: the file is gone") from error
        except OSError as error:
            raise ReadFailed(f"{self.url}: {error}") from error

    def _map(self) -> Bytes:
        with self._lock:
            if self._mapped is None:
                self._mapped = _map_file(self.store.full(self.path))
            return self._mapped

    def _local(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        mapped = self._map()
        for start, end in ranges:
            if not 0 <= start <= end <= len(mapped):
                error = CorruptFile(
                    f"bytes {start}–{end} are wanted, the file ends at {len(mapped)}; it was cut "
                    "short or the offset is damaged"
                )
                error.path = self.url
                raise error
        return [mapped[start:end] for start, end in ranges]


def read_all(wanted: Sequence[tuple[File, Sequence[ByteRange]]]) -> list[list[Bytes]]:
    """Read ranges of several files as one round of requests.

    Args:
        wanted: Files, each with the ranges that are wanted of it; the ranges may overlap.

    Returns:
        For each file the bytes of each of its ranges, in the order asked for.
    """
    results: list[list[Bytes]] = [[] for _ in wanted]
    remote: dict[Store, dict[str, list[int]]] = {}  # positions in `wanted`, by store and file
    for position, (file, ranges) in enumerate(wanted):
        if file.store.is_local:
            results[position] = file._local(ranges)
        elif ranges:
            _check_bounds(file, ranges)
            remote.setdefault(file.store, {}).setdefault(file.path, []).append(position)
    for store, files in remote.items():
        merged = [
            (path, start, end)
            for path, positions in files.items()
            for start, end in coalesce(r for position in positions for r in wanted[position][1])
        ]
        blocks: dict[str, list[tuple[int, Bytes]]] = {path: [] for path in files}
        for (path, start, _), data in zip(merged, store.fetch(merged), strict=True):
            blocks[path].append((start, data))
        for path, positions in files.items():
            for position in positions:
                results[position] = _cut(blocks[path], wanted[position][1])
    return results


def run(steps: Sequence[tuple[File, Steps[T]]]) -> list[T]:
    """Drive computations to their ends, reading in each round what all of them ask for.

    Args:
        steps: Each computation with the file that its byte ranges refer to.

    Returns:
        The results, in order.
    """
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[ByteRange]] = {}
    for position, (_, step) in enumerate(steps):
        _advance(position, step, None, waiting, results)
    while waiting:
        order = list(waiting)
        data = read_all([(steps[position][0], waiting.pop(position)) for position in order])
        for position, buffers in zip(order, data, strict=True):
            _advance(position, steps[position][1], buffers, waiting, results)
    return [results[position] for position in range(len(steps))]


def _advance(
    position: int,
    step: Steps[T],
    buffers: Sequence[Bytes] | None,
    waiting: dict[int, Sequence[ByteRange]],
    results: dict[int, T],
) -> None:
    try:
        waiting[position] = step.send(buffers)  # type: ignore[arg-type]  # the first send is None
    except StopIteration as stop:
        results[position] = stop.value


def together(steps: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Join computations over one file into one that asks in each round for what all of them need.

    Args:
        steps: The computations.

    Returns:
        Their results, in order.
    """
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[ByteRange]] = {}
    for position, step in enumerate(steps):
        _advance(position, step, None, waiting, results)
    while waiting:
        asked = list(waiting.items())
        waiting = {}
        data = iter((yield [byte_range for _, ranges in asked for byte_range in ranges]))
        for position, ranges in asked:
            buffers = [next(data) for _ in ranges]
            _advance(position, steps[position], buffers, waiting, results)
    return [results[position] for position in range(len(steps))]


def coalesce(ranges: Iterable[ByteRange], gap: int = GAP) -> list[ByteRange]:
    """Merge ranges that overlap or lie closer than `gap` bytes; empty ones vanish."""
    merged: list[ByteRange] = []
    for start, end in sorted(r for r in ranges if r[0] < r[1]):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _split(start: int, end: int) -> list[ByteRange]:
    return list(pairwise([*range(start, end, LARGEST_REQUEST), end]))


def _cut(blocks: list[tuple[int, Bytes]], ranges: Sequence[ByteRange]) -> list[Bytes]:
    """Cut ranges out of the blocks (offset, bytes), sorted by offset, that hold them."""
    starts = np.array([offset for offset, _ in blocks], dtype=np.int64)
    cut: list[Bytes] = []
    for start, end in ranges:
        if start == end:
            cut.append(np.empty(0, dtype=np.uint8))
            continue
        offset, data = blocks[int(np.searchsorted(starts, start, side="right")) - 1]
        cut.append(data[start - offset : end - offset])
    return cut


def _check_bounds(file: File, ranges: Sequence[ByteRange]) -> None:
    limit = file._size
    for start, end in ranges:
        if not 0 <= start <= end or (limit is not None and end > limit):
            error = CorruptFile(f"bytes {start}–{end} are wanted of a file of {limit} bytes")
            error.path = file.url
            raise error


def _array(data: bytes | bytearray | memoryview) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def _map_file(path: str) -> Bytes:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return np.empty(0, dtype=np.uint8)
            return np.frombuffer(
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8
            )
    except FileNotFoundError as error:
        raise MissingFile(
            f"{path}: the file is gone; another version of the table may be complete"
        ) from error
    except OSError as error:
        raise ReadFailed(f"{path}: {error}") from error
