"""`File`, one immutable file of a table, and reads of several files in one round of requests."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lancefs.errors import CorruptFile, LanceError, MissingFile, ReadFailed, cause
from lancefs.forks import cached_property
from lancefs.masking import mask_secrets
from lancefs.storage.budget_cache import BudgetCache
from lancefs.storage.byte_ranges import ByteRange, Bytes, SparseRanges, coalesce, cut
from lancefs.storage.counters import ReadCounters, count_bytes, counters_in_use
from lancefs.storage.open_files import READ_AROUND, LocalFile, check_whole
from lancefs.storage.retries import is_transient

if TYPE_CHECKING:
    import fsspec

    from lancefs.storage.store import Store

# Ranges of one remote file that lie at most this many bytes apart are fetched with one request: on
# an object store a request takes about as long as reading this many bytes.
GAP = 64 * 1024
# Bytes that are read from the end of a file for its footer: enough for most metadata.
TAIL = 64 * 1024
# Bytes below which a file of unknown size takes one request.
SMALL = 1024 * 1024
# Bytes of a file that is read as a whole, at most, unless its kind has fewer: as of a message.
MOST_WHOLE = 2**31 - 1
# Bytes of footers, manifests and deletion vectors of remote files that a process caches.
CACHE_BUDGET = 64 * 1024 * 1024
# Memory of a cache entry without its bytes, about.
_ENTRY_BYTES = 500

# Key: id of the filesystem, path, size, stamp, part of the file. Filesystems that fsspec considers
# equal may hold different files, hence the id; the value refers to the filesystem, so that no other
# filesystem can get the same id while the entry exists.
_CACHE: BudgetCache[tuple[object, ...], tuple[fsspec.AbstractFileSystem, Bytes]] = BudgetCache(
    CACHE_BUDGET
)


class File:
    """One immutable file of a table.

    A local file is read or mapped at the first read, and held as `open_files` says. Of a remote
    file with a stamp, `read_whole` and `read_tail` cache their results, in one cache of
    `CACHE_BUDGET` bytes for the process, until they are evicted or `forget` is called. `read`
    caches nothing, and finds there what `read_tail` read of the same file.

    Args:
        store: The directory that contains the file.
        path: Path relative to that directory.
        size: Length in bytes, or None to look it up when it is needed.
        stamp: Identity of the bytes, see `Store.file`; None to cache nothing.

    Attributes:
        tail: Smallest number of bytes that `read_tail` reads; set by callers that know how much
            metadata the end of the file holds.
    """

    def __init__(self, store: Store, path: str, size: int | None, stamp: str | None = None) -> None:
        self.store = store
        self.path = path
        self.stamp = stamp
        self.tail = 0
        self._size = size
        self._local: LocalFile | None = None
        self._held: tuple[int, Bytes] | None = None  # see `holding_tails`
        self._head: Bytes | None = None  # the same
        self._tail_start: int | None = None  # of what `read_tail` read

    def __repr__(self) -> str:
        return f"File({mask_secrets(self.url)!r})"

    @cached_property
    def url(self) -> str:
        """URL of the file; for a local file its absolute path."""
        return self.store.url(self.path)

    @property
    def size(self) -> int:
        """Length in bytes.

        Raises:
            MissingFile: The file does not exist.
            ReadFailed: The request for the length failed.
        """
        if self._size is None:
            if self.store.is_local:
                return self.local.size  # not kept: it is wrong while something writes the file
            self._size = self._remote_size()
        return self._size

    @property
    def place(self) -> Hashable:
        """What tells the place of the file from all others in the process."""
        full = self.store.full(self.path)
        return full if self.store.is_local else (hash(self.store.fs), full)

    def described(self) -> Mapping[str, object]:
        """Return the `info` of the filesystem, which mostly takes a request.

        Raises:
            MissingFile: The file does not exist.
            ReadFailed: The request failed, also after retries.
        """
        fs, path = self.store.fs, self.store.full(self.path)
        try:
            info: Mapping[str, object] = self.store.ask(lambda: fs.info(path), self.path)
        except FileNotFoundError as error:
            raise MissingFile.of(self.url, self.store.version) from cause(error)
        return info

    def identity(self) -> Hashable | None:
        """Return what tells the bytes from all others that were or will be at this place.

        Makes no request. None where nothing tells it, or there is no such file.
        """
        if self.store.is_local:
            return self.local.identity()
        return None if self.stamp is None or self._size is None else (self._size, self.stamp)

    def settled_identity(self) -> Hashable | None:
        """Return the identity of a local file that is held from now on, see `LocalFile`.

        Raises:
            LanceError: As `read` does.
        """
        return self.local.settled_identity()

    def read(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        """Return the bytes of each range, as read-only arrays of shape (end − start,).

        Raises:
            MissingFile: The file does not exist.
            CorruptFile: A range reaches beyond the end of the file.
            ReadFailed: A request failed, also after retries.
        """
        return read_all([(self, ranges)])[0]

    def read_whole(self, most: int = MOST_WHOLE) -> Bytes:
        """Return all bytes of the file; cache them if it is remote and has a stamp.

        Args:
            most: Bytes that such a file has at most.

        Raises:
            MissingFile: The file does not exist.
            CorruptFile: It has more bytes, of which none is read.
            ReadFailed: A request failed, also after retries.
        """
        if self.store.is_local:
            return self.local.whole(most)
        return self._cached(("whole",), partial(self._read_whole, most))

    def _read_whole(self, most: int) -> Bytes:
        if self._size is not None:
            check_whole(self.url, self._size, most)
            return self.read([(0, self._size)])[0]
        try:
            return _array(self.store.ask(partial(self._cat, most), self.path))
        except FileNotFoundError as error:
            raise MissingFile.of(self.url, self.store.version) from cause(error)

    def _cat(self, most: int) -> bytes:
        """Fetch a file of unknown size, a small file with one request.

        Asked for a whole file, s3fs requests its size first; asked for a range, it does not.
        """
        fs, path = self.store.fs, self.store.full(self.path)
        try:
            start: bytes = fs.cat_file(path, start=0, end=SMALL)
        except (FileNotFoundError, PermissionError):
            raise
        except Exception as error:
            if is_transient(error):
                raise
            start = b""  # the range of an empty file is an error on some stores
        if 0 < len(start) < SMALL:
            return start
        if start:
            check_whole(self.url, self.size, most)
        return bytes(fs.cat_file(path))

    def read_tail(self, length: int = TAIL) -> tuple[int, Bytes]:
        """Return the last bytes of the file; cache them if it is remote and has a stamp.

        Args:
            length: Number of bytes, at least; `tail` may ask for more. A file that is not much
                longer is read whole.

        Returns:
            The offset of the first byte, and the bytes.

        Raises:
            MissingFile: The file does not exist.
            ReadFailed: A request failed, also after retries.
        """
        size = self.size
        start = self.tail_start(length, size)
        if self.store.is_local:
            return start, self.read([(start, size)])[0]
        data = self._cached(("tail", start), lambda: self.read([(start, size)])[0])
        self._tail_start = start
        return start, data

    def tail_start(self, length: int, size: int) -> int:
        """Return the offset of the first byte that `read_tail` reads of a file of some bytes.

        Of a remote file it is 0 where a request for the bytes before would take longer than these.
        """
        start = max(0, size - max(length, self.tail))
        return 0 if start <= GAP and not self.store.is_local else start

    @property
    def held(self) -> tuple[int, Bytes] | None:
        """The end of a remote file that is in memory: its offset and bytes; None if none is."""
        if self._held is not None or self._tail_start is None or self.stamp is None:
            return self._held
        cached = _CACHE.peek(self._key("tail", self._tail_start))
        return None if cached is None else (self._tail_start, cached[1])

    def _cached(self, part: tuple[object, ...], read: Callable[[], Bytes]) -> Bytes:
        """Return a part of a remote file through the cache, or uncached if there is no stamp."""
        if self.stamp is None:
            return read()
        fs = self.store.fs
        return _CACHE.get(
            self._key(*part), lambda: (fs, read()), lambda entry: len(entry[1]) + _ENTRY_BYTES
        )[1]

    def _key(self, *part: object) -> tuple[object, ...]:
        return id(self.store.fs), self.store.full(self.path), self._size, self.stamp, *part

    def _remote_size(self) -> int:
        fs, path = self.store.fs, self.store.full(self.path)
        try:
            size = self.store.ask(lambda: fs.size(path), self.path)
        except FileNotFoundError as error:
            raise MissingFile.of(self.url, self.store.version) from cause(error)
        if size is None:
            raise ReadFailed(f"{self.url}: the store does not say how large the file is")
        return int(size)

    @property
    def local(self) -> LocalFile:
        """The bytes of a file of the local filesystem."""
        if self._local is None:
            self._local = LocalFile(
                self.store.full(self.path),
                self.store.maps,
                self.store.confines,
                self.store.version,
            )
        return self._local

    @property
    def touched(self) -> int:
        """Estimated bytes of a local file's mapping that became resident since `release`."""
        return 0 if self._local is None else self._local.touched

    @property
    def is_in_memory(self) -> bool:
        """Whether the whole file is mapped or was read, so that any range of it costs nothing."""
        return self._local is not None and self._local.is_in_memory

    @property
    def is_stale(self) -> bool:
        """Whether a read found that a local file was replaced since it was opened."""
        return self._local is not None and self._local.is_stale

    def looked_at(self, size: int, places: int, is_mapped: bool = True) -> None:
        """Count bytes that were looked at of `SparseRanges`, in so many places.

        Args:
            size: Number of bytes.
            places: Number of places.
            is_mapped: Whether they were looked at in the mapping of the file, if it has one; else
                they were read from the file that `opened` gave.
        """
        count_bytes(size)
        if self._local is not None and is_mapped:
            self._local.touch(size + places * READ_AROUND)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open a mapped file for a while, for a kernel that reads it; see `LocalFile.opened`."""
        if self._local is None:
            yield -1
            return
        with self._local.opened() as descriptor:
            yield descriptor

    def release(self) -> None:
        """Release the memory of the mapping of a local file.

        Arrays over the mapping stay valid: touching them loads the bytes from the file again.
        """
        if self._local is not None:
            self._local.release()

    def let_go(self) -> None:
        """Hold no bytes of a local file, so that they are read anew."""
        if self._local is not None:
            self._local.let_go()

    def verify(self) -> None:
        """Check that a local file was not rewritten while mapped bytes of it were decoded.

        Raises:
            ReadFailed: It was.
        """
        if self._local is not None:
            self._local.verify()


def forget(fs: fsspec.AbstractFileSystem) -> None:
    """Remove the bytes of all files of a filesystem from the cache."""
    _CACHE.discard(lambda key: key[0] == id(fs))


def read_all(wanted: Sequence[tuple[File, Sequence[ByteRange]]]) -> list[list[Bytes]]:
    """Read ranges of several files in one round of requests.

    Args:
        wanted: Files with the ranges to read of each. Ranges may overlap; a file may occur several
            times.

    Returns:
        For each item of `wanted`, the bytes of each of its ranges in order, as read-only arrays of
        shape (end − start,).

    Raises:
        MissingFile: A file does not exist.
        CorruptFile: A range reaches beyond the end of a file.
        ReadFailed: A request failed, also after retries.
    """
    counters = counters_in_use()
    results: list[list[Bytes]] = [[] for _ in wanted]
    remote: dict[Store, dict[str, list[_RemotePart]]] = {}  # by store and path
    for position, (file, ranges) in enumerate(wanted):
        if counters is not None and not isinstance(ranges, SparseRanges):
            counters.bytes += sum([end - start for start, end in ranges])
        if file.store.is_local:
            results[position] = file.local.read(ranges)
        elif ranges:
            _check_bounds(file, ranges)
            part = _RemotePart(position, ranges, file._head, file.held)
            if part.unheld:
                remote.setdefault(file.store, {}).setdefault(file.path, []).append(part)
            else:
                results[position] = part.cut_from(())
    for store, files in remote.items():
        for position, buffers in _read_remote(store, files, counters):
            results[position] = buffers
    return results


class _RemotePart(NamedTuple):
    """Ranges of a remote file.

    Attributes:
        position: Where they are among all that is wanted.
        ranges: The ranges.
        head: The first bytes of the file, if they are in memory.
        held: The end of the file that is in memory: where it begins, and its bytes; None for none.
    """

    position: int
    ranges: Sequence[ByteRange]
    head: Bytes | None
    held: tuple[int, Bytes] | None

    @property
    def unheld(self) -> Sequence[ByteRange]:
        """The ranges that neither lie in the head nor begin in the end that is held."""
        if self.head is None and self.held is None:
            return self.ranges
        first = 0 if self.head is None else len(self.head)
        last = None if self.held is None else self.held[0]
        return [one for one in self.ranges if one[1] > first and (last is None or one[0] < last)]

    def cut_from(self, blocks: Sequence[tuple[int, Bytes]]) -> list[Bytes]:
        """Return the bytes of the ranges, from blocks of the file and what is held of it."""
        if self.held is not None:
            blocks = [*(block for block in blocks if block[0] < self.held[0]), self.held]
        if self.head is not None:
            # A block that begins in the head goes on behind it, and has what both of them have.
            blocks = [(0, self.head), *blocks]
        return cut(blocks, self.ranges)


def _read_remote(
    store: Store, files: Mapping[str, Sequence[_RemotePart]], counters: ReadCounters | None
) -> Iterator[tuple[int, list[Bytes]]]:
    """Read ranges of files of a remote store, near ones together.

    Args:
        store: The store.
        files: What is wanted of each file, by its path.
        counters: Counts the requests.

    Yields:
        The position of each part, and the bytes of its ranges.
    """
    merged = [
        (path, start, end)
        for path, parts in files.items()
        for start, end in coalesce((one for part in parts for one in part.unheld), GAP)
    ]
    if counters is not None:
        counters.requests += len(merged)
    blocks: dict[str, list[tuple[int, Bytes]]] = {path: [] for path in files}
    for (path, start, _), data in zip(merged, store.fetch(merged), strict=True):
        blocks[path].append((start, data))
    for path, parts in files.items():
        for part in parts:
            yield part.position, part.cut_from(blocks[path])


@contextmanager
def holding_tails(files: Sequence[File], heads: Sequence[File] = ()) -> Iterator[None]:
    """Read the ends of several remote files in one round of requests, and hold them in memory.

    Reads of these bytes make no request inside of the context. `File.tail` says how many bytes.

    Args:
        files: The files; local ones are left alone.
        heads: Those of them of which the first `TAIL` bytes are read and held, too.

    Raises:
        MissingFile: A file does not exist.
        ReadFailed: A request failed, also after retries.
    """
    remote = [file for file in files if not file.store.is_local]
    starts = [file.tail_start(TAIL, file.size) for file in remote]
    wanted = [(file, [(at, file.size)]) for file, at in zip(remote, starts, strict=True)]
    begun = [file for file in heads if not file.store.is_local]
    first = [(file, [(0, min(TAIL, file.size))]) for file in begun]
    found = [data for (data,) in read_all([*wanted, *first])]
    for file, start, data in zip(remote, starts, found[: len(remote)], strict=True):
        file._held = start, data
    for file, data in zip(begun, found[len(remote) :], strict=True):
        file._head = data
    try:
        yield
    finally:
        for file in remote:
            file._held = file._head = None


def prefetch(ends: Sequence[File], wholes: Sequence[File]) -> None:
    """Fetch parts of remote files in one round of requests, and cache them for the next reads.

    Of whole files, what does not come is left to the read that needs it, since a store may refuse
    a range that reaches beyond the end.

    Args:
        ends: Files of known size whose ends are wanted, as `File.read_tail` reads them.
        wholes: Files of unknown size that are wanted whole, as `File.read_whole` reads them; they
            come if they are small.

    Raises:
        MissingFile: A file whose end is wanted does not exist.
        ReadFailed: A request failed, also after retries.
    """
    found = [*map(_AheadPart.end_of, ends), *map(_AheadPart.whole_of, wholes)]
    wanted = {one.key: one for one in found if one is not None}
    if len(wanted) < 2:
        return  # the read itself is the one round
    by_store: dict[Store, list[_AheadPart]] = {}
    for one in wanted.values():
        by_store.setdefault(one.file.store, []).append(one)
    for store, parts in by_store.items():
        answers = store.try_fetch([(one.file.path, one.start, one.end) for one in parts])
        for one, data in zip(parts, answers, strict=True):
            if not isinstance(data, LanceError):
                one.keep(data)
            elif one.is_end:
                raise data


class _AheadPart(NamedTuple):
    """A part of a remote file that is fetched ahead, and its place in the cache.

    Attributes:
        file: The file.
        start: The first byte.
        end: The byte after the last one.
        key: Key of the cache.
        is_end: Whether it is the end of the file, else the whole.
    """

    file: File
    start: int
    end: int
    key: tuple[object, ...]
    is_end: bool

    @classmethod
    def end_of(cls, file: File) -> _AheadPart | None:
        """Return the end of a file; None where it cannot be cached, or is."""
        if file.store.is_local or file._size is None or file.stamp is None:
            return None
        start = file.tail_start(TAIL, file._size)
        key = file._key("tail", start)
        return None if key in _CACHE else cls(file, start, file._size, key, True)

    @classmethod
    def whole_of(cls, file: File) -> _AheadPart | None:
        """Return a whole file; None where it cannot be cached, or is."""
        if file.store.is_local or file._size is not None or file.stamp is None:
            return None
        key = file._key("whole")
        return None if key in _CACHE else cls(file, 0, SMALL, key, False)

    def keep(self, data: Bytes) -> None:
        """Cache the part if it is complete; the end counts as read, as if it were read now."""
        wanted = self.end - self.start
        if len(data) != wanted if self.is_end else not 0 < len(data) < wanted:
            return
        counters = counters_in_use() if self.is_end else None
        if counters is not None:
            counters.requests += 1
            counters.bytes += len(data)
        _CACHE.put(self.key, (self.file.store.fs, data), len(data) + _ENTRY_BYTES)


def _check_bounds(file: File, ranges: Sequence[ByteRange]) -> None:
    limit = file._size
    for start, end in ranges:
        if not 0 <= start <= end or (limit is not None and end > limit):
            error = CorruptFile(f"bytes {start}–{end} are wanted of a file of {limit} bytes")
            error.path = file.url
            raise error


def _array(data: bytes | bytearray | memoryview) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)
