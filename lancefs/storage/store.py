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
import threading
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from lancefs.errors import CorruptFile, LanceError, MissingFile, ReadFailed, locating
from lancefs.storage.budget_cache import BudgetCache
from lancefs.storage.byte_ranges import ByteRange as ByteRange
from lancefs.storage.byte_ranges import Bytes as Bytes
from lancefs.storage.byte_ranges import coalesce, cut, split
from lancefs.storage.local_files import is_local, list_directory, local_filesystem, map_file
from lancefs.storage.retries import attempts, is_passing

if TYPE_CHECKING:
    import fsspec

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
# To read some bytes of a mapped file brings in about so many others around them.
_AROUND = 64 * 1024
# A file of unknown size that is not larger than this takes one request.
SMALL = 1024 * 1024
# Bytes of footers, manifests and deletion vectors of remote files that are kept for the next one
# who opens them.
KEPT = 64 * 1024 * 1024

# By filesystem, path, size and stamp, and which part; with the filesystem, so that its id stays its
# own. Two filesystems may be equal to fsspec and yet hold different files.
_KEPT: BudgetCache[tuple[object, ...], tuple[fsspec.AbstractFileSystem, Bytes]] = BudgetCache(KEPT)


class Store:
    """A directory of an fsspec filesystem.

    Args:
        fs: Any fsspec filesystem; None for that of this machine.
        root: The directory, as `fs` spells paths.
    """

    def __init__(self, fs: fsspec.AbstractFileSystem | None, root: str) -> None:
        self._fs = fs
        self.root = root.rstrip("/")
        self.is_local = fs is None or is_local(fs)

    def __repr__(self) -> str:
        return f"Store({self.url()!r})"

    @cached_property
    def fs(self) -> fsspec.AbstractFileSystem:
        """The filesystem; that of this machine is made when it is asked for."""
        return local_filesystem() if self._fs is None else self._fs

    def refresh(self, path: str) -> None:
        """Forget what the filesystem remembers of a directory that it listed."""
        if self._fs is not None:
            self._fs.invalidate_cache(self.full(path))

    def url(self, path: str = "") -> str:
        """Return the address of a file below the directory, as a user would write it."""
        return (
            str(self.fs.unstrip_protocol(self.full(path))) if not self.is_local else self.full(path)
        )

    def full(self, path: str) -> str:
        """Return the path of a file below the directory, as `fs` spells it."""
        return f"{self.root}/{path}" if path else self.root

    def file(self, path: str, size: int | None = None, stamp: str | None = None) -> File:
        """Return a file below the directory, without touching the store.

        Args:
            path: Relative to the directory.
            size: Its length in bytes, where it is known (a manifest tells those of data files).
            stamp: What tells its bytes from others that have been, or will be, at the same path;
                None where that is not known, and nothing of it may be kept.
        """
        return File(self, path, size, stamp)

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
            if self._fs is None:
                return persist(lambda: list_directory(self.full(path)), self.url(path))
            found = persist(lambda: self.fs.ls(self.full(path), detail=True), self.url(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except ReadFailed as error:
            raise ReadFailed(
                f"{self.url(path)}: cannot be listed: {error.__cause__ or error}"
            ) from error
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
        parts = [split(start, end, LARGEST_REQUEST) for _, start, end in requests]
        flat = [
            (path, part) for (path, _, _), of in zip(requests, parts, strict=True) for part in of
        ]
        taken = iter(self._fetch_parts(flat))
        results: list[Bytes] = []
        for (_, start, end), of in zip(requests, parts, strict=True):
            pieces = [next(taken) for _ in of]
            results.append(_array(pieces[0] if len(pieces) == 1 else b"".join(pieces)))
            assert len(results[-1]) == end - start
        return results

    def _fetch_parts(self, parts: Sequence[tuple[str, ByteRange]]) -> list[bytes]:
        """Fetch ranges of files, those that failed again."""
        found: dict[int, bytes] = {}
        left = list(range(len(parts)))
        for is_last in attempts(f"{len(parts)} ranges of {self.url()}"):
            got = self._cat([parts[one] for one in left])
            failed = []
            for one, data in zip(left, got, strict=True):
                error = self._error(data, *parts[one])
                if error is None:
                    found[one] = bytes(data)
                elif is_last or (isinstance(data, Exception) and not is_passing(data)):
                    raise error from (data if isinstance(data, Exception) else None)
                else:
                    failed.append(one)
            left = failed
            if not left:
                break
        return [found[one] for one in range(len(parts))]

    def _cat(self, parts: Sequence[tuple[str, ByteRange]]) -> list[Any]:
        """Ask the filesystem for ranges; each comes as bytes, or as what was raised."""
        from fsspec.implementations.dirfs import DirFileSystem

        fs, paths = self.fs, [self.full(path) for path, _ in parts]
        while isinstance(fs, DirFileSystem):  # until fsspec 2024.10 it cannot do this itself
            fs, paths = fs.fs, fs._join(paths)
        starts, ends = [start for _, (start, _) in parts], [end for _, (_, end) in parts]
        try:
            return list(fs.cat_ranges(paths, starts, ends, on_error="return"))
        except Exception as error:  # of all ranges together: which one failed is not known
            return [error] * len(parts)

    def _error(self, got: Any, path: str, part: ByteRange) -> LanceError | None:
        """Return what is wrong with what a store gave for a range; None where nothing is."""
        url, (start, end) = self.url(path), part
        if isinstance(got, FileNotFoundError):
            return MissingFile(
                f"{url}: the file is gone; another version of the table may be complete"
            )
        if isinstance(got, BaseException):
            return ReadFailed(f"{url}: bytes {start}–{end}: {said(got)}")
        if len(got) > end - start:
            return ReadFailed(
                f"{url}: bytes {start}–{end}: the store gave {len(got)} bytes; it does not answer "
                "requests for parts of a file, which is needed to read a table"
            )
        if len(got) < end - start:
            last = start + len(got)
            error = CorruptFile(f"ends at byte {last}, wanted up to {end}; it was cut short")
            error.path = url
            return error
        return None


class File:
    """One immutable file of a table.

    Args:
        store: The directory that it is in.
        path: Relative to that directory.
        size: Its length in bytes, or None to find out when it is needed.
        stamp: What tells its bytes from others at the same path; None where that is not known.

    Attributes:
        tail: How many bytes of its end are read at once, at least; for whoever knows that all of
            them will be needed.
        touched: About how many bytes of a local file are in memory since it was last released.
    """

    def __init__(self, store: Store, path: str, size: int | None, stamp: str | None = None) -> None:
        self.store = store
        self.path = path
        self.stamp = stamp
        self.tail = 0
        self.touched = 0
        self._size = size
        self._mapped: Bytes | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"File({self.url!r})"

    @cached_property
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
        """Return all bytes of the file; those of a small one with a stamp are kept.

        Raises:
            MissingFile: The file is not there.
            ReadFailed: The store refused or failed.
        """
        if self.store.is_local:
            return self._map()
        return self._kept(("whole",), self._read_whole)

    def _read_whole(self) -> Bytes:
        if self._size is not None:
            return self.read([(0, self._size)])[0]
        try:
            return _array(persist(self._cat, self.url))
        except FileNotFoundError as error:
            raise MissingFile(f"{self.url}: the file is gone") from error

    def _cat(self) -> bytes:
        """Fetch a file of unknown size, in one request where it is small.

        For all of a file, s3fs first asks how large it is; for the beginning of one, it does not.
        """
        fs, path = self.store.fs, self.store.full(self.path)
        try:
            start: bytes = fs.cat_file(path, start=0, end=SMALL)
        except (FileNotFoundError, PermissionError):
            raise
        except Exception as error:
            if is_passing(error):
                raise
            start = b""  # an empty file, which has no beginning, or there is more to it
        return start if 0 < len(start) < SMALL else bytes(fs.cat_file(path))

    def read_tail(self, length: int = TAIL) -> tuple[int, Bytes]:
        """Return the last bytes of the file and the offset that they start at.

        Those of a remote file with a stamp are kept.

        Args:
            length: How many bytes; the whole file where it is shorter.
        """
        size = self.size
        length = max(length, self.tail)
        start = max(0, size - length)
        if self.store.is_local:
            return start, self.read([(start, size)])[0]
        return start, self._kept(("tail", length), lambda: self.read([(start, size)])[0])

    def _kept(self, part: tuple[object, ...], read: Callable[[], Bytes]) -> Bytes:
        """Return a part of a remote file, kept where that can be done."""
        if self.stamp is None:
            return read()
        fs = self.store.fs
        key = (id(fs), self.store.full(self.path), self._size, self.stamp, *part)
        return _KEPT.get(key, lambda: (fs, read()), lambda kept: len(kept[1]) + 500)[1]

    def _remote_size(self) -> int:
        fs, path = self.store.fs, self.store.full(self.path)
        try:
            size = persist(lambda: fs.size(path), self.url)
        except FileNotFoundError as error:
            raise MissingFile(f"{self.url}: the file is gone") from error
        if size is None:
            raise ReadFailed(f"{self.url}: the store does not say how large the file is")
        return int(size)

    def release(self) -> None:
        """Give back the memory that what was read of a local file takes, for as long as it is idle.

        Bytes that were handed out stay as they are: they come from the file again when touched.
        """
        with self._lock:
            self.touched = 0
            mapped = getattr(getattr(self._mapped, "base", None), "obj", None)
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)

    def _map(self) -> Bytes:
        with self._lock:
            if self._mapped is None:
                self._mapped = map_file(self.store.full(self.path))
            return self._mapped

    def _local(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        mapped = self._map()
        for start, end in ranges:
            if not 0 <= start <= end <= len(mapped):
                with locating(self.url):
                    raise CorruptFile(
                        f"bytes {start}–{end} are wanted, the file ends at {len(mapped)}; it was "
                        "cut short or the offset is damaged"
                    )
            self.touched += end - start + _AROUND
        return [mapped[start:end] for start, end in ranges]


def persist(call: Callable[[], T], url: str) -> T:
    """Return what a call of a filesystem gives; it is made again where that may help.

    Args:
        call: The call.
        url: What it is about, for messages.

    Raises:
        FileNotFoundError: There is no such file.
        ReadFailed: The store refused or failed.
    """
    for is_last in attempts(url):
        try:
            return call()
        except (FileNotFoundError, NotADirectoryError, LanceError):
            raise
        except Exception as error:
            if is_last or not is_passing(error):
                raise ReadFailed(f"{url}: {said(error)}") from error
    raise AssertionError("the last attempt returns or raises")


def forget(fs: fsspec.AbstractFileSystem) -> None:
    """Forget what is kept of the files of a filesystem."""
    _KEPT.discard(lambda key: key[0] == id(fs))


def said(error: BaseException) -> str:
    """Return what an error says; some, such as timeouts, say nothing."""
    return str(error) or type(error).__name__


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
            for start, end in coalesce(
                (r for position in positions for r in wanted[position][1]), GAP
            )
        ]
        blocks: dict[str, list[tuple[int, Bytes]]] = {path: [] for path in files}
        for (path, start, _), data in zip(merged, store.fetch(merged), strict=True):
            blocks[path].append((start, data))
        for path, positions in files.items():
            for position in positions:
                results[position] = cut(blocks[path], wanted[position][1])
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
    if len(steps) == 1:  # nothing to join, as for the one page of a small file
        return [(yield from steps[0])]
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


def _check_bounds(file: File, ranges: Sequence[ByteRange]) -> None:
    limit = file._size
    for start, end in ranges:
        if not 0 <= start <= end or (limit is not None and end > limit):
            error = CorruptFile(f"bytes {start}–{end} are wanted of a file of {limit} bytes")
            error.path = file.url
            raise error


def _array(data: bytes | bytearray | memoryview) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)
