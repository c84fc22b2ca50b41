"""`LocalFile`: the bytes of one local file, and the budget of all that the process holds.

A small file is read as a whole, since that costs less than to map it. A larger file is mapped, or
read range by range where mapping is not wanted. No descriptor stays open in either case.

A file that is mapped and cut short ends the process (SIGBUS) if bytes behind its new end are
touched. Files are therefore compared with what they were when they were mapped, before and after
each read; `mmap=False` (see `Store`) never maps.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.errors import CorruptFile, MissingFile, ReadFailed, UnsupportedFeature
from lancefs.storage.byte_ranges import ByteRange, Bytes, SparseRanges, coalesce, cut
from lancefs.storage.links import NO_FOLLOW, Confines
from lancefs.storage.local_files import READ, open_regular
from lancefs.storage.mapping import map_descriptor, release
from lancefs.storage.retries import Attempts, is_transient
from lancefs.storage.shared_budget import SharedBudget

T = TypeVar("T")

# Largest file, in bytes, that is read as a whole: open, read and close take half the time of open,
# map, touch, close and unmap, even if a tenth of the file is wanted.
SMALL_FILE = 256 * 1024
# Most files of which a process holds bytes, and no more than a quarter of the descriptors that it
# may have. The environment variable LANCEFS_OPEN_FILES sets another number.
MAX_FILES = 1024
# Bytes of small files, and of mapped files that are in memory, about.
HELD_BYTES = 256 * 1024 * 1024
# Bytes around a range of a mapped file that the operating system loads with it, about.
READ_AROUND = 64 * 1024
# Most blocks of a mapped file for which it is recorded whether they were loaded.
_MAX_BLOCKS = 4096
# Sparse ranges that are noted one by one: wide tables have hundreds.
_MAX_NOTED = 64
# Ranges of a file that is not mapped and that lie at most this many bytes apart are read as one.
_GAP = 16 * 1024
# Nanoseconds after which a write is sure to change the modification time, on any filesystem.
_SETTLED = 2_500_000_000
# Alignment of read bytes: an address in memory has the remainder that it has in the file.
_ALIGNMENT = 64
# How a file is opened that must be no link.
READ_PLAIN = READ | NO_FOLLOW
# What the operating system says when there are too many open files, or mappings.
_TOO_MANY = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def _block_size(size: int) -> int:
    """Return the length of the blocks of a mapped file of some size."""
    return max(READ_AROUND, -(-size // _MAX_BLOCKS))


def _blocks_of(ranges: Sequence[ByteRange], block: int) -> int:
    """Return a bit for each block that ranges lie in, with what is loaded around them."""
    found = 0
    for start, end in ranges:
        first, last = start // block, (end + READ_AROUND) // block
        found |= ((1 << (last - first + 1)) - 1) << first
    return found


def most_files() -> int:
    """Return how many files the process may hold bytes of."""
    setting = os.environ.get("LANCEFS_OPEN_FILES")
    if setting is not None and setting.strip().isdecimal():
        return max(1, int(setting))
    if setting is not None:
        raise ValueError(f"LANCEFS_OPEN_FILES is {setting!r}; a number of files was expected")
    try:
        import resource
    except ImportError:  # not on Windows
        return MAX_FILES
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_FILES if soft == resource.RLIM_INFINITY else max(1, min(MAX_FILES, soft // 4))


# Mapped files; and small ones, which are bytes in memory and nothing else.
MAPPED_FILES = SharedBudget(most_files, HELD_BYTES)
READ_FILES = SharedBudget(lambda: 1 << 30, HELD_BYTES // 4)


class _Identity(NamedTuple):
    """What tells whether a file is the one that was opened, and unchanged."""

    device: int
    number: int
    size: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Identity:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def file_identity(device: int, number: int, size: int, modified: int) -> Hashable:
    """Return what `identity_at` returned for a file, of the numbers that it consists of."""
    return _Identity(device, number, size, modified)


def identity_at(path: str) -> Hashable | None:
    """Return what tells the bytes of the file at a path from others; None where there is none."""
    try:
        return _Identity.of(os.stat(path))
    except OSError:
        return None


class _Held(NamedTuple):
    """The bytes of a whole file, and whether they are a mapping of it."""

    data: Bytes
    identity: _Identity
    is_mapping: bool


class LocalFile:
    """The bytes of one local file. Threads may share it.

    Args:
        path: The absolute path.
        maps: Whether the file may be mapped.
        confines: What symbolic links may lead to; None for anything.
        version: The version of a table that the file is read for, as errors name it, if any.

    Attributes:
        is_stale: Whether a read found that another file has taken the place of this one, or that it
            is too short: what was understood of its bytes is of no use for later reads.
        last_use: See `SharedBudget`.
    """

    __slots__ = (
        "__weakref__",
        "_blocks",
        "_confines",
        "_first",
        "_held",
        "_maps",
        "_path",
        "_perhaps",
        "_scattered",
        "_version",
        "is_stale",
        "last_use",
    )

    def __init__(
        self, path: str, maps: bool, confines: Confines | None = None, version: str | None = None
    ) -> None:
        self._path = path
        self._version = version
        self._maps = maps
        self._confines = confines
        self._held: _Held | None = None
        self._first: _Identity | None = None
        self._forget_touched()
        self.is_stale = False
        self.last_use = 0

    @property
    def cost(self) -> int:
        """Bytes in memory, about."""
        held = self._held
        if held is None:
            return 0
        return self.touched if held.is_mapping else len(held.data)

    @property
    def touched(self) -> int:
        """Estimated bytes of the mapping that were loaded into memory since `release`."""
        held = self._held
        if held is None or not held.is_mapping:
            return 0
        size = len(held.data)
        block = _block_size(size)
        elsewhere = (self._perhaps & ~self._blocks).bit_count() * block
        return min(self._blocks.bit_count() * block + min(self._scattered, elsewhere), size)

    def touch(self, size: int) -> None:
        """Note that bytes of `SparseRanges` that were read were looked at."""
        self._scattered += size

    def _touch(self, ranges: Sequence[ByteRange], size: int) -> None:
        """Note that ranges of a mapping of some size are looked at, perhaps not the first time."""
        block = _block_size(size)
        if not isinstance(ranges, SparseRanges):
            self._blocks |= _blocks_of(ranges, block)
        elif len(ranges) <= _MAX_NOTED:
            self._perhaps |= _blocks_of(ranges, block)
        else:
            self._perhaps |= _blocks_of([(0, size)], block)

    def _forget_touched(self) -> None:
        # A bit for each block of the mapping: those that were looked at, and those of which some
        # bytes were; and the number of these.
        self._blocks = self._perhaps = 0
        self._scattered = 0

    def let_go(self) -> None:
        """Hold no bytes. Arrays over a mapping keep it."""
        self._held = self._first = None
        self._forget_touched()

    def release(self) -> None:
        """Give back the memory of the mapping; arrays over it load the bytes again."""
        self._forget_touched()
        held = self._held
        if held is not None and held.is_mapping:
            release(held.data)

    @property
    def is_in_memory(self) -> bool:
        """Whether the whole file is held, so that reading any range of it costs nothing."""
        return self._held is not None

    @property
    def size(self) -> int:
        """Length in bytes; raises as `read` does."""
        held = self._held
        return self._access()[0].size if held is None else held.identity.size

    def whole(self, most: int) -> Bytes:
        """Return all bytes, which are read and not mapped.

        Args:
            most: Bytes that such a file has at most.

        Raises:
            LanceError: As `read` raises.
            CorruptFile: The file has more bytes.
        """
        held = self._held
        if held is not None and not held.is_mapping:
            return held.data
        return self._tried(partial(self._whole_once, most))

    def _whole_once(self, most: int) -> Bytes:
        descriptor, status = open_regular(self._path, confines=self._confines)
        try:
            identity = _Identity.of(status)
            check_whole(self._path, identity.size, most)
            return self._read(descriptor, [(0, identity.size)], identity)[0]
        finally:
            os.close(descriptor)

    def read(self, ranges: Sequence[ByteRange]) -> list[Bytes]:
        """Return the bytes of ranges, read-only.

        Raises:
            MissingFile: The file does not exist.
            CorruptFile: A range reaches beyond the end of the file.
            ReadFailed: The operating system refused, the file is no regular file, or it is being
                rewritten, or was so since the last read of a file that is not mapped.
            UnsupportedFeature: The file is a symbolic link that leads out of the confines.
        """
        held = self._held
        if held is not None and not self._is_usable(held, ranges):
            self.let_go()
            held = None
        if held is None:
            identity, blocks, held = self._access(ranges)
            if held is None:
                self._check_same(identity)
                return blocks
        size = len(held.data)
        for start, end in ranges:
            if not 0 <= start <= end <= size:
                raise self._beyond(start, end, size)
        if held.is_mapping:
            self._touch(ranges, size)
            MAPPED_FILES.use(self)
        else:
            READ_FILES.use(self)
        data = held.data
        return [data[start:end] for start, end in ranges]

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open the file for a while, if it is mapped: bytes that are read need not be unmapped.

        Yields:
            A descriptor of the file that is mapped; -1 where none is, where its path leads to
            another file now, or where the operating system refuses to open it once more.
        """
        held, descriptor = self._held, -1
        if held is not None and held.is_mapping:
            with suppress(OSError, UnsupportedFeature):
                descriptor, status = open_regular(self._path, confines=self._confines)
        try:
            is_same = held is not None and descriptor >= 0 and _Identity.of(status) == held.identity
            yield descriptor if is_same else -1
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def read_into(self, memory: memoryview) -> bool:
        """Read a small file into memory that has its size; nothing is held.

        Of many files that are read once, this takes a fraction of the time of `read`.

        Args:
            memory: What the bytes are written to.

        Returns:
            Whether the memory has the bytes. If not, the file is held already, or has another size:
            `read` knows what to do.

        Raises:
            MissingFile: The file does not exist.
            ReadFailed: The operating system refused, the file is no regular file, or it is being
                rewritten.
            UnsupportedFeature: The file is a symbolic link that leads out of the confines.
        """
        if self._held is not None:
            return False
        return self._tried(partial(self._read_into_once, memory))

    def _read_into_once(self, memory: memoryview) -> bool:
        descriptor, status = open_regular(self._path, confines=self._confines)
        try:
            before = _Identity.of(status)
            if not before.size == len(memory) <= SMALL_FILE:
                return False
            if not _fill(descriptor, memory, 0) or _Identity.of(os.fstat(descriptor)) != before:
                raise _rewritten(self._path)
            return True
        finally:
            os.close(descriptor)

    def identity(self) -> Hashable | None:
        """Return what tells the bytes that a read returns from others; None where it would fail."""
        held = self._held
        if held is not None and (not held.is_mapping or self._is_unchanged(held)):
            return held.identity
        return identity_at(self._path)

    def settled_identity(self) -> Hashable | None:
        """Return what tells the bytes of the file from all others, also from later ones.

        Returns:
            None where the file is not held, and where it is so young that bytes which are written
            to it now might not change its time of modification.

        Raises:
            LanceError: As `read` does.
        """
        now = time.time_ns()
        self.read([])
        held = self._held
        if held is None or held.identity.modified > now - _SETTLED:
            return None
        return held.identity

    def verify(self) -> None:
        """Check that the file was not rewritten while mapped bytes of it were decoded.

        Raises:
            ReadFailed: It was, so that what was decoded may be wrong.
        """
        held = self._held
        if held is not None and held.is_mapping and not self._is_unchanged(held):
            self.let_go()
            raise _rewritten(self._path)

    def _check_same(self, identity: _Identity) -> None:
        """Check that ranges which are read one by one are all of the same bytes.

        The number of the file does not count: filesystems in user space may give it another one.

        Raises:
            ReadFailed: The file is another one than at the first read.
        """
        first = self._first = self._first or identity
        if (first.size, first.modified) != (identity.size, identity.modified):
            self.is_stale, self._first = True, None
            raise _rewritten(self._path)

    def _is_usable(self, held: _Held, ranges: Sequence[ByteRange]) -> bool:
        """Return whether ranges may be taken of what is held.

        A small file that is too short for them may have been read while something wrote it.
        """
        if held.is_mapping:
            return self._is_unchanged(held)
        size = len(held.data)
        return all(end <= size for _, end in ranges)

    def _is_unchanged(self, held: _Held) -> bool:
        """Return whether the mapped file is as long and as old as it was when it was mapped.

        A file that is gone, or that another one has replaced, lives on in its mapping.
        """
        try:
            now = _Identity.of(os.stat(self._path))
        except OSError:
            return True
        mapped = held.identity
        return now == mapped or (now.device, now.number) != (mapped.device, mapped.number)

    def _access(
        self, ranges: Sequence[ByteRange] = ()
    ) -> tuple[_Identity, list[Bytes], _Held | None]:
        """Open the file, and map it or read it.

        Args:
            ranges: What to read of a file that is not held.

        Returns:
            What the file was, the bytes of the ranges if they were read, and what is held now; if
            anything is held, the ranges were not read.
        """
        return self._tried(partial(self._access_once, ranges))

    def _tried(self, once: Callable[[], T]) -> T:
        """Call a function that opens the file; call it again where that may help."""
        for is_last in Attempts(self._path):
            try:
                return once()
            except FileNotFoundError as error:
                raise MissingFile.of(self._path, self._version) from error
            except ReadFailed:  # it is being rewritten
                if is_last:
                    raise
            except OSError as error:
                is_transient_error = error.errno in _TOO_MANY or is_transient(error)
                if error.errno in _TOO_MANY:
                    MAPPED_FILES.let_go_half()
                if is_last or not is_transient_error:
                    raise ReadFailed(_refused(self._path, error)) from error
            except CorruptFile:
                raise
            except ValueError as error:  # the name has a character that no path can have
                raise ReadFailed(f"{self._path}: {error}") from error
        raise AssertionError("the last attempt returns or raises")

    def _access_once(
        self, ranges: Sequence[ByteRange]
    ) -> tuple[_Identity, list[Bytes], _Held | None]:
        descriptor, status = open_regular(self._path, confines=self._confines)
        try:
            identity = _Identity.of(status)
            if identity.size <= SMALL_FILE:
                data = self._read(descriptor, [(0, identity.size)], identity)
                self._held = held = _Held(data[0], identity, False)
                READ_FILES.hold(self)
                return identity, data, held
            if not self._maps:
                return identity, self._read(descriptor, ranges, identity), None
            try:
                held = _Held(map_descriptor(descriptor, identity.size), identity, True)
            except OSError as error:
                if error.errno != errno.ENOMEM:
                    raise
                MAPPED_FILES.let_go_half()  # no room for a mapping: read what is wanted
                return identity, self._read(descriptor, ranges, identity), None
        finally:
            os.close(descriptor)
        self._held = held
        self._forget_touched()
        MAPPED_FILES.hold(self)
        return identity, [], held

    def _read(self, descriptor: int, ranges: Sequence[ByteRange], before: _Identity) -> list[Bytes]:
        """Read ranges, and check that the file was not rewritten meanwhile."""
        for start, end in ranges:
            if not 0 <= start <= end <= before.size:
                raise self._beyond(start, end, before.size)
        blocks = [
            (start, _read_range(descriptor, start, end)) for start, end in coalesce(ranges, _GAP)
        ]
        if any(data is None for _, data in blocks) or _Identity.of(os.fstat(descriptor)) != before:
            raise _rewritten(self._path)
        return cut([(start, data) for start, data in blocks if data is not None], ranges)

    def _beyond(self, start: int, end: int, size: int) -> CorruptFile:
        self.is_stale, self._first = True, None  # it may be cut short for now
        error = CorruptFile(
            f"bytes {start}–{end} are wanted, the file ends at {size}; it was cut short or the "
            "offset is damaged"
        )
        error.path = self._path
        return error


def check_whole(url: str, size: int, most: int) -> None:
    """Check the length of a file that is to be read as a whole.

    Raises:
        CorruptFile: It has more bytes than such a file can have.
    """
    if size > most:
        error = CorruptFile(f"{size:,} bytes are too many; such a file has at most {most:,}")
        error.path = url
        raise error


def read_plain(path: str, memory: memoryview) -> bool:
    """Read a small file that is no link into memory that has its size.

    Args:
        path: The absolute path, in a directory that may be read.
        memory: What the bytes are written to.

    Returns:
        Whether the memory has the bytes; if not, `LocalFile` can read the file, or says why not.
    """
    if not NO_FOLLOW:
        return False
    try:
        descriptor = os.open(path, READ_PLAIN)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(memory):
            return False
        is_read = _fill(descriptor, memory, 0)
        return is_read and _Identity.of(os.fstat(descriptor)) == _Identity.of(status)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _read_range(descriptor: int, start: int, end: int) -> Bytes | None:
    """Read a range of an open file into memory of Arrow's; None if the file ends before."""
    shift = start % _ALIGNMENT
    memory = np.frombuffer(pa.allocate_buffer(end - start + shift), dtype=np.uint8)[shift:]
    if not _fill(descriptor, memory.data, start):
        return None
    memory.flags.writeable = False
    return memory


def _fill(descriptor: int, memory: memoryview, offset: int) -> bool:
    """Fill memory with bytes of an open file; return whether the file has enough of them."""
    done = 0
    while done < len(memory):  # the operating system may give less than is asked for
        count = _read_into(descriptor, memory[done:], offset + done)
        if count == 0:
            return False
        done += count
    return True


def _read_into(descriptor: int, memory: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [memory], offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    data = os.read(descriptor, len(memory))
    memory[: len(data)] = data
    return len(data)


def _rewritten(path: str) -> ReadFailed:
    return ReadFailed(
        f"{path}: the file was rewritten or cut short while it was read, as by a copy over the "
        "table; files of a table must not change: read again when that is done"
    )


def _refused(path: str, error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return (
            f"{path}: {error}; lancefs keeps no file open, other parts of the process do: close "
            "them, or raise the limit (`ulimit -n`)"
        )
    return f"{path}: {error.strerror or error}"
