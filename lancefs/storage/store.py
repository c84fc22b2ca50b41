"""`Store`, a directory on any fsspec filesystem, and `File`, one immutable file in it.

lancefs reads all bytes through this module, as NumPy `uint8` arrays. Local files are read or mapped
into memory, see `open_files`. Remote ranges are coalesced and fetched concurrently.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lancefs.errors import CorruptFile, LanceError, MissingFile, ReadFailed, cause
from lancefs.forks import cached_property, generation
from lancefs.masking import mask_secrets
from lancefs.storage.budget_cache import BudgetCache
from lancefs.storage.byte_ranges import ByteRange, Bytes, SparseRanges, coalesce, cut, split
from lancefs.storage.counters import count_bytes, counters_in_use
from lancefs.storage.filesystems import cat_ranges, inner_path, is_web
from lancefs.storage.forked import usable_here
from lancefs.storage.links import HAS_FOLDERS, Confines
from lancefs.storage.local_files import READ, is_local, list_directory, list_files, local_filesystem
from lancefs.storage.open_files import READ_AROUND, LocalFile, read_plain
from lancefs.storage.retries import attempts, is_transient, message_of, retry
from lancefs.storage.web import below, guard_redirects, listed_name

if TYPE_CHECKING:
    import fsspec

# Ranges of one remote file that lie at most this many bytes apart are fetched with one request: on
# an object store a request takes about as long as reading this many bytes.
GAP = 64 * 1024
# Bytes of the largest remote request; larger ranges are split into concurrent requests.
LARGEST_REQUEST = 16 * 1024 * 1024
# Bytes that are read from the end of a file for its footer: enough for most metadata.
TAIL = 64 * 1024
# Bytes below which a file of unknown size takes one request.
SMALL = 1024 * 1024
# Bytes of footers, manifests and deletion vectors of remote files that a process caches.
CACHE_BUDGET = 64 * 1024 * 1024

# Key: id of the filesystem, path, size, stamp, part of the file. Filesystems that fsspec considers
# equal may hold different files, hence the id; the value refers to the filesystem, so that no other
# filesystem can get the same id while the entry exists.
_CACHE: BudgetCache[tuple[object, ...], tuple[fsspec.AbstractFileSystem, Bytes]] = BudgetCache(
    CACHE_BUDGET
)


class Store:
    """A directory of an fsspec filesystem.

    Transient errors of the filesystem are retried (see `retries`). What files hold is cached by
    `File`; listings are cached only by the filesystem itself.

    Args:
        fs: Any fsspec filesystem; None for the local filesystem, which does not import fsspec.
        root: The directory, as `fs` spells paths.
        confines: What symbolic links of local files may lead to; None for anything.

    Attributes:
        root: The directory, without a slash at its end.
        confines: As the argument.
        is_local: Whether the files are local.
        is_web: Whether the files are behind a web server, so that names are quoted.
        maps: Whether local files may be mapped into memory; the option `mmap` of a local
            filesystem says so.
        version: The version whose files are read, as a ref, for errors about missing ones; None
            if it is not known.
    """

    def __init__(
        self,
        fs: fsspec.AbstractFileSystem | None,
        root: str,
        confines: Confines | None = None,
    ) -> None:
        self._fs = fs
        self.root = root.rstrip("/")
        self.confines = confines
        self.is_local = fs is None or is_local(fs)
        self.is_web = fs is not None and not self.is_local and is_web(fs)
        if self.is_web:
            guard_redirects(fs)
        self.maps = fs is None or bool(fs.storage_options.get("mmap", True))
        self.version: str | None = None
        self._usable_in: int | None = None  # the generation of processes in which `fs` was checked

    def __repr__(self) -> str:
        return f"Store({mask_secrets(self.url())!r})"

    def below(self, path: str) -> Store:
        """Return a directory below this one, with the same confines."""
        return Store(self._fs, self.full(path), self.confines).of_version(self.version)

    def confined(self, confines: Confines | None) -> Store:
        """Return the same directory with other confines."""
        return Store(self._fs, self.root, confines).of_version(self.version)

    def of_version(self, version: str | None) -> Store:
        """Return the same directory for the files of a version; see the attribute `version`."""
        if version == self.version:
            return self
        store = copy(self)
        store.version = version
        return store

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        """The filesystem, for requests; in a forked child process one that can make them.

        Raises:
            ReadFailed: It cannot be used in this process, which was forked.
        """
        if self._fs is None:
            return local_filesystem()
        if self._usable_in != generation():
            self._fs = usable_here(self._fs, self.url())
            if self.is_web:
                guard_redirects(self._fs)
            self._usable_in = generation()
        return self._fs

    def refresh(self, path: str) -> None:
        """Invalidate the filesystem's cached listing of a directory below this one."""
        if self._fs is not None:
            self._fs.invalidate_cache(self.full(path))

    def url(self, path: str = "") -> str:
        """Return the URL of a path below the directory; for a local file its absolute path."""
        if self._fs is None or self.is_local:
            return self.full(path)
        return str(self._fs.unstrip_protocol(self.full(path)))

    def full(self, path: str) -> str:
        """Return the path of a file below the directory, in the spelling of `fs`."""
        if self.is_web:
            return below(self.root, path)
        if not self.root and self._fs is not None and not self._fs.root_marker:
            return path  # of an archive, whose paths begin with no slash
        return f"{self.root}/{path}" if path else self.root

    def file(self, path: str, size: int | None = None, stamp: str | None = None) -> File:
        """Return a file below the directory, without a request.

        Args:
            path: Path relative to the directory.
            size: Length in bytes, or None where it is not known (a manifest records the lengths of
                data files).
            stamp: Identity of the bytes: a text (an ETag, for example) that differs from the stamp
                of any other bytes that the same path has held or will hold. None if there is no
                such text; then no bytes of the file are cached.

        Raises:
            UnsupportedFeature: Behind a cache of local files, a symbolic link leads out of the
                confines. (Local files are checked when they are opened.)
        """
        if self.confines is not None and not self.is_local and self.local_root is not None:
            self.confines.check(f"{self.local_root}/{path}")
        return File(self, path, size, stamp)

    @cached_property
    def local_root(self) -> str | None:
        """The local path of the directory, also behind a cache; None if it is not local."""
        if self._fs is None or self.is_local:
            return self.root
        found = inner_path(self._fs, self.root)
        return found[1] if found is not None and is_local(found[0]) else None

    def names(self, path: str = "") -> list[str]:
        """Return the names of the entries of a directory; none if it does not exist.

        Args:
            path: Path relative to this directory.

        Raises:
            ReadFailed: The listing failed.
            UnsupportedFeature: A symbolic link leads out of the confines.
        """
        return [name for name, _ in self.entries(path)]

    def file_names(self, path: str = "") -> list[str]:
        """Return the names of the files in a local directory; none if it does not exist.

        Args:
            path: Path relative to this directory.

        Raises:
            ReadFailed: The listing failed.
            UnsupportedFeature: A symbolic link leads out of the confines.
        """
        self._check_directory(path)
        try:
            return retry(lambda: list_files(self.full(path)), self.url(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except ReadFailed as error:
            raise _not_listed(self.url(path), error) from error.__cause__

    def entries(self, path: str = "") -> list[tuple[str, dict[str, object]]]:
        """Return (name, info) of each entry of a directory, with one listing.

        Args:
            path: Path relative to this directory.

        Returns:
            The entries, with the fsspec `info` of each; none if the directory does not exist.

        Raises:
            ReadFailed: The listing failed.
            UnsupportedFeature: A symbolic link leads out of the confines.
        """
        self._check_directory(path)
        fs = None if self.is_local else self.fs
        try:
            if fs is None:  # follows links, whose type fsspec lists as "other"
                return retry(lambda: list_directory(self.full(path)), self.url(path))
            infos = retry(partial(fs.ls, self.full(path), detail=True), self.url(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except ReadFailed as error:
            raise _not_listed(self.url(path), error) from error.__cause__
        if self.is_web:
            listed = ((listed_name(str(info["name"])), info) for info in infos)
            return [(name, info) for name, info in listed if name is not None]
        here = self.full(path).rstrip("/")
        named = ((str(info["name"]).rstrip("/"), info) for info in infos)
        return [(name.rsplit("/", 1)[-1], info) for name, info in named if name != here]

    def _check_directory(self, path: str) -> None:
        """Refuse a directory that a symbolic link leads out of the confines."""
        if self.confines is not None and self.local_root is not None:
            self.confines.check_directory(f"{self.local_root}/{path}")

    def fetch(self, requests: Sequence[tuple[str, int, int]]) -> list[Bytes]:
        """Fetch byte ranges of files, concurrently if the filesystem can.

        Args:
            requests: (path below the directory, start, end) of each range; `end` is exclusive.

        Returns:
            The bytes of each range, as an array of shape (end − start,).

        Raises:
            MissingFile: A file does not exist.
            CorruptFile: A file ends before the end of a range.
            ReadFailed: A request failed, also after retries.
        """
        ranges_of = [split(start, end, LARGEST_REQUEST) for _, start, end in requests]
        parts = [
            (path, part)
            for (path, _, _), ranges in zip(requests, ranges_of, strict=True)
            for part in ranges
        ]
        fetched = iter(self._fetch_parts(parts))
        results: list[Bytes] = []
        for (_, start, end), ranges in zip(requests, ranges_of, strict=True):
            pieces = [next(fetched) for _ in ranges]
            results.append(_array(pieces[0] if len(pieces) == 1 else b"".join(pieces)))
            assert len(results[-1]) == end - start
        return results

    def _fetch_parts(self, parts: Sequence[tuple[str, ByteRange]]) -> list[bytes]:
        """Fetch ranges of files; retry only the ranges that failed."""
        fetched: dict[int, bytes] = {}
        pending = list(range(len(parts)))
        for is_last in attempts(f"{len(parts)} ranges of {self.url()}"):
            answers = self._cat([parts[index] for index in pending])
            failed = []
            for index, answer in zip(pending, answers, strict=True):
                error = self._check_answer(answer, *parts[index])
                if error is None:
                    fetched[index] = bytes(answer)
                elif is_last or (isinstance(answer, Exception) and not is_transient(answer)):
                    raise error from (cause(answer) if isinstance(answer, Exception) else None)
                else:
                    failed.append(index)
            pending = failed
            if not pending:
                break
        return [fetched[index] for index in range(len(parts))]

    def _cat(self, parts: Sequence[tuple[str, ByteRange]]) -> list[Any]:
        """Ask the filesystem for ranges; return the bytes or the exception of each."""
        from fsspec.implementations.dirfs import DirFileSystem

        fs, paths = self.fs, [self.full(path) for path, _ in parts]
        while isinstance(fs, DirFileSystem):  # it lacks `cat_ranges` until fsspec 2024.10
            fs, paths = fs.fs, fs._join(paths)
        starts, ends = [start for _, (start, _) in parts], [end for _, (_, end) in parts]
        try:
            return list(cat_ranges(fs)(paths, starts, ends, on_error="return"))
        except Exception as error:  # the filesystem does not say which range failed
            if isinstance(error, FileNotFoundError) and len(set(paths)) > 1:
                return [answer for part in parts for answer in self._cat([part])]
            return [error] * len(parts)

    def _check_answer(self, answer: Any, path: str, part: ByteRange) -> LanceError | None:
        """Check that the answer to a request is the bytes of the range; return the error if not."""
        url, (start, end) = self.url(path), part
        if isinstance(answer, FileNotFoundError):
            return MissingFile.of(url, self.version)
        if isinstance(answer, BaseException):
            return ReadFailed(f"{url}: bytes {start}–{end}: {message_of(answer)}")
        if len(answer) > end - start:
            return ReadFailed(
                f"{url}: bytes {start}–{end}: the store gave {len(answer)} bytes; it does not "
                "answer requests for parts of a file, which is needed to read a table"
            )
        if len(answer) < end - start:
            last = start + len(answer)
            error = CorruptFile(f"ends at byte {last}, wanted up to {end}; it was cut short")
            error.path = url
            return error
        return None


class File:
    """One immutable file of a table.

    A local file is read or mapped at the first read, and held as `open_files` says. Of a remote
    file with a stamp, `read_whole` and `read_tail` cache their results, in one cache of
    `CACHE_BUDGET` bytes for the process, until they are evicted or `forget` is called. `read`
    caches nothing.

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
            info: Mapping[str, object] = retry(lambda: fs.info(path), self.url)
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

    def read_whole(self) -> Bytes:
        """Return all bytes of the file; cache them if it is remote and has a stamp.

        Raises:
            MissingFile: The file does not exist.
            ReadFailed: A request failed, also after retries.
        """
        if self.store.is_local:
            return self.local.whole()
        return self._cached(("whole",), self._read_whole)

    def _read_whole(self) -> Bytes:
        if self._size is not None:
            return self.read([(0, self._size)])[0]
        try:
            return _array(retry(self._cat, self.url))
        except FileNotFoundError as error:
            raise MissingFile.of(self.url, self.store.version) from cause(error)

    def _cat(self) -> bytes:
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
        return start if 0 < len(start) < SMALL else bytes(fs.cat_file(path))

    def read_tail(self, length: int = TAIL) -> tuple[int, Bytes]:
        """Return the last bytes of the file; cache them if it is remote and has a stamp.

        Args:
            length: Number of bytes, at least; `tail` may ask for more. A shorter file is read
                whole.

        Returns:
            The offset of the first byte, and the bytes.

        Raises:
            MissingFile: The file does not exist.
            ReadFailed: A request failed, also after retries.
        """
        size = self.size
        length = max(length, self.tail)
        start = max(0, size - length)
        if self.store.is_local:
            return start, self.read([(start, size)])[0]
        return start, self._cached(("tail", length), lambda: self.read([(start, size)])[0])

    def _cached(self, part: tuple[object, ...], read: Callable[[], Bytes]) -> Bytes:
        """Return a part of a remote file through the cache, or uncached if there is no stamp."""
        if self.stamp is None:
            return read()
        fs = self.store.fs
        key = (id(fs), self.store.full(self.path), self._size, self.stamp, *part)
        return _CACHE.get(key, lambda: (fs, read()), lambda entry: len(entry[1]) + 500)[1]

    def _remote_size(self) -> int:
        fs, path = self.store.fs, self.store.full(self.path)
        try:
            size = retry(lambda: fs.size(path), self.url)
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


def _not_listed(url: str, error: ReadFailed) -> ReadFailed:
    return ReadFailed(f"{url}: cannot be listed: {error.__cause__ or error}")


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
    remote: dict[Store, dict[str, list[int]]] = {}  # positions in `wanted`, by store and file
    for position, (file, ranges) in enumerate(wanted):
        if counters is not None and not isinstance(ranges, SparseRanges):
            counters.bytes += sum([end - start for start, end in ranges])
        if file.store.is_local:
            results[position] = file.local.read(ranges)
        elif ranges:
            _check_bounds(file, ranges)
            held = file._held
            if held is not None and all(start >= held[0] for start, _ in ranges):
                results[position] = cut([held], ranges)
                continue
            remote.setdefault(file.store, {}).setdefault(file.path, []).append(position)
    for store, files in remote.items():
        merged = [
            (path, start, end)
            for path, positions in files.items()
            for start, end in coalesce(
                (r for position in positions for r in wanted[position][1]), GAP
            )
        ]
        if counters is not None:
            counters.requests += len(merged)
        blocks: dict[str, list[tuple[int, Bytes]]] = {path: [] for path in files}
        for (path, start, _), data in zip(merged, store.fetch(merged), strict=True):
            blocks[path].append((start, data))
        for path, positions in files.items():
            for position in positions:
                results[position] = cut(blocks[path], wanted[position][1])
    return results


def read_joined(files: Sequence[File], memory: Bytes, holds: bool) -> None:
    """Read whole small local files, one after the other.

    Args:
        files: The files, of known sizes.
        memory: What the bytes are written to, as long as all files together.
        holds: Whether the bytes of each file are held as well, for later reads.

    Raises:
        MissingFile: A file does not exist.
        CorruptFile: A file is shorter than its known size.
        ReadFailed: A file was rewritten meanwhile, or cannot be read.
        UnsupportedFeature: A file is a symbolic link that leads out of the confines.
    """
    view, start = memory.data, 0
    for file in files:
        end = start + file.size
        if holds or not file.local.read_into(view[start:end]):
            memory[start:end] = file.local.read([(0, end - start)])[0]
            file.verify()
        start = end


def read_folder(
    store: Store, folder: str, names: Sequence[str], sizes: Sequence[int], memory: Bytes
) -> None:
    """Read whole small files of a local directory, one after the other; nothing is held.

    Of many files, this takes half of the time of `read_joined`.

    Args:
        store: The directory that the folder is in.
        folder: Path of the folder, relative to that directory.
        names: Names of files in the folder.
        sizes: Bytes of each file.
        memory: What the bytes are written to, as long as all files together.

    Raises:
        LanceError: As `read_joined` does.
    """
    path, view, start = f"{store.full(folder)}/", memory.data, 0
    if store.confines is not None:
        store.confines.check_directory(path[:-1])
    for name, size in zip(names, sizes, strict=True):
        end = start + size
        if not read_plain(path + name, view[start:end]):
            read_joined([store.file(f"{folder}/{name}", size)], memory[start:end], False)
        start = end


@contextmanager
def opened_folder(store: Store, folder: str) -> Iterator[int]:
    """Open a directory of a local store for a while.

    Args:
        store: The directory that the folder is in.
        folder: Path of the folder, relative to that directory.

    Yields:
        A descriptor of the directory; -1 where the system has none, or refuses.

    Raises:
        UnsupportedFeature: A symbolic link leads out of the confines.
    """
    path, descriptor = store.full(folder), -1
    if store.confines is not None:
        store.confines.check_directory(path)
    if HAS_FOLDERS:
        with suppress(OSError):
            descriptor = os.open(path, READ | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def holding_tails(files: Sequence[File]) -> Iterator[None]:
    """Read the ends of several remote files in one round of requests, and hold them in memory.

    Reads of these bytes make no request inside of the context. `File.tail` says how many bytes.

    Args:
        files: The files; local ones are left alone.

    Raises:
        MissingFile: A file does not exist.
        ReadFailed: A request failed, also after retries.
    """
    remote = [file for file in files if not file.store.is_local]
    starts = [max(0, file.size - max(TAIL, file.tail)) for file in remote]
    wanted = [(file, [(at, file.size)]) for file, at in zip(remote, starts, strict=True)]
    for file, start, (data,) in zip(remote, starts, read_all(wanted), strict=True):
        file._held = start, data
    try:
        yield
    finally:
        for file in remote:
            file._held = None


def _check_bounds(file: File, ranges: Sequence[ByteRange]) -> None:
    limit = file._size
    for start, end in ranges:
        if not 0 <= start <= end or (limit is not None and end > limit):
            error = CorruptFile(f"bytes {start}–{end} are wanted of a file of {limit} bytes")
            error.path = file.url
            raise error


def _array(data: bytes | bytearray | memoryview) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)
