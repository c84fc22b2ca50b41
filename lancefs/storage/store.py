"""`Store`, a directory on any fsspec filesystem.

lancefs reads all bytes through `Store` and `File`, as NumPy `uint8` arrays. Local files are read or
mapped into memory, see `open_files`. Remote ranges are coalesced and fetched concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from lancefs.errors import CorruptFile, LanceError, MissingFile, ReadFailed, cause
from lancefs.forks import cached_property, generation
from lancefs.masking import mask_secrets
from lancefs.storage.byte_ranges import ByteRange, Bytes, split
from lancefs.storage.file import File
from lancefs.storage.filesystems import cat_ranges, in_turn, inner_path, is_web, uncached
from lancefs.storage.forked import note, usable_here
from lancefs.storage.links import Confines
from lancefs.storage.local_files import is_local, list_directory, list_files, local_filesystem
from lancefs.storage.retries import Attempts, advice_on, is_transient, message_of, retry
from lancefs.storage.s3_pages import first_page, lists_in_order
from lancefs.storage.web import (
    NO_PARTS,
    WEB_PAGE,
    below,
    guard_requests,
    is_page,
    listed_name,
)

if TYPE_CHECKING:
    import fsspec

T = TypeVar("T")

# The path of a file, and a range of its bytes.
_FileRange: TypeAlias = tuple[str, ByteRange]

# Bytes of the largest remote request; larger ranges are split into concurrent requests.
LARGEST_REQUEST = 16 * 1024 * 1024


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
            guard_requests(fs)
        if fs is not None:
            note(fs)
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

    @cached_property
    def uncached(self) -> Store:
        """The same directory, for files whose names are used again: past caches of fsspec.

        Those keep what a name was first. A web server may need one, which gives whole files only.
        """
        found = None if self._fs is None or self.is_web else uncached(self._fs, self.root)
        return self if found is None else Store(*found, self.confines).of_version(self.version)

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
                guard_requests(self._fs)
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
        url = str(self._fs.unstrip_protocol(self.full(path)))
        protocol, slashes, rest = url.partition(":///")
        host = getattr(self._fs, "host", None) if slashes else None  # which fsspec leaves out
        if not host:
            return url
        port = getattr(self._fs, "port", None)
        return f"{protocol}://{host}{f':{port}' if port else ''}/{rest}"

    def full(self, path: str) -> str:
        """Return the path of a file below the directory, in the spelling of `fs`."""
        if self.is_web:
            return below(self.root, path)
        if not self.root and self._fs is not None and not self._fs.root_marker:
            return path  # of an archive, whose paths begin with no slash
        return f"{self.root}/{path}" if path or (self.is_local and not self.root) else self.root

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

    def file_names(self, path: str) -> list[str]:
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
        try:
            return self.existing_entries(path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def existing_entries(self, path: str = "") -> list[tuple[str, dict[str, object]]]:
        """Return what `entries` returns, of a directory that exists.

        Raises:
            FileNotFoundError: It does not. (`NotADirectoryError` passes through as well.)
            LanceError: As `entries` does.
        """
        self._check_directory(path)
        fs = None if self.is_local else self.fs
        try:
            if fs is None:  # follows links, whose type fsspec lists as "other"
                return retry(lambda: list_directory(self.full(path)), self.url(path))
            infos = self.ask(partial(fs.ls, self.full(path), detail=True), path)
        except ReadFailed as error:
            raise _not_listed(self.url(path), error) from error.__cause__
        return self._named(infos, path)

    def first_entries(self, path: str) -> tuple[list[tuple[str, dict[str, object]]], bool] | None:
        """Return the first files of a directory of many, by one request.

        Args:
            path: Path relative to this directory.

        Returns:
            The files by their names, as `entries` returns them, and whether they are all files.
            None where the store lists in no order, or all at once; then no request was made.

        Raises:
            ReadFailed: The listing failed.
        """
        if self.is_local or not lists_in_order(self.fs):
            return None
        fs = self.fs
        try:
            page = self.ask(lambda: first_page(fs, self.full(path)), path)
        except FileNotFoundError:
            return [], True
        except ReadFailed as error:
            raise _not_listed(self.url(path), error) from error.__cause__
        return None if page is None else (self._named(page[0], path), page[1])

    def _named(
        self, infos: Sequence[dict[str, Any]], path: str
    ) -> list[tuple[str, dict[str, object]]]:
        """Return the `info`s of what is in a directory, each with its name."""
        if self.is_web:
            listed = ((listed_name(self.full(path), str(info["name"])), info) for info in infos)
            return [(name, info) for name, info in listed if name is not None]
        here = self.full(path).rstrip("/")
        named = ((str(info["name"]).rstrip("/"), info) for info in infos)
        return [(name.rsplit("/", 1)[-1], info) for name, info in named if name != here]

    def ask(self, call: Callable[[], T], path: str) -> T:
        """Make a request of the filesystem, and again after a transient error.

        Args:
            call: Makes the request.
            path: The path below the directory that the request is about, for messages.

        Raises:
            FileNotFoundError: There is no such file. (`NotADirectoryError` passes through as well.)
            ReadFailed: The request failed, also after retries.
        """
        fs = self.fs

        def request() -> T:
            with in_turn(fs):
                return call()

        return retry(request, self.url(path))

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
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            results.append(np.frombuffer(data, dtype=np.uint8))
            assert len(results[-1]) == end - start
        return results

    def try_fetch(self, requests: Sequence[tuple[str, int, int]]) -> list[Bytes | LanceError]:
        """Fetch byte ranges of files as far as they are there, concurrently if the filesystem can.

        Args:
            requests: As for `fetch`, none larger than `LARGEST_REQUEST`; a range may reach beyond
                the end of its file.

        Returns:
            The bytes of each range, fewer where the file ends in it; where the store refused, the
            error.

        Raises:
            ReadFailed: A request failed, also after retries.
        """

        def accept(answer: Any, part: _FileRange, is_last: bool) -> Bytes | LanceError | None:
            if not isinstance(answer, Exception):
                return np.frombuffer(answer, dtype=np.uint8)
            error = self._error_of(answer, *part)
            error.__cause__ = cause(answer)
            if not is_transient(answer):
                return error
            if is_last:
                raise error
            return None

        return self._ask([(path, (start, end)) for path, start, end in requests], accept)

    def _fetch_parts(self, parts: Sequence[_FileRange]) -> list[bytes]:
        """Fetch ranges of files."""

        def accept(answer: Any, part: _FileRange, is_last: bool) -> bytes | None:
            error = self._check_answer(answer, *part)
            if error is None:
                return bytes(answer)
            if is_last or not _may_come(answer, *part[1]):
                raise error from (cause(answer) if isinstance(answer, Exception) else None)
            return None

        return self._ask(parts, accept)

    def _ask(
        self, parts: Sequence[_FileRange], accept: Callable[[Any, _FileRange, bool], T | None]
    ) -> list[T]:
        """Ask for ranges of files, and again for those only whose answers were not accepted.

        Args:
            parts: The ranges.
            accept: Returns what an answer means, or None where the range is to be asked for again.
                It gets the answer, which may be an exception, the range, and whether this is the
                last time.
        """
        accepted: dict[int, T] = {}
        pending = list(range(len(parts)))
        tries = Attempts(f"{len(parts)} ranges of {self.url()}")
        for is_last in tries:
            answers = self._cat([parts[index] for index in pending])
            for index, answer in zip(pending, answers, strict=True):
                found = accept(answer, parts[index], is_last)
                if found is not None:
                    accepted[index] = found
                elif isinstance(answer, Exception):
                    tries.note(answer)
            pending = [index for index in pending if index not in accepted]
            if not pending:
                break
        return [accepted[index] for index in range(len(parts))]

    def _cat(self, parts: Sequence[_FileRange]) -> list[Any]:
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
        if isinstance(answer, BaseException):
            return self._error_of(answer, path, part)
        if len(answer) != end - start and is_page(answer):
            return ReadFailed(f"{url}: bytes {start}–{end}: {WEB_PAGE}")
        if len(answer) > end - start:
            return ReadFailed(
                f"{url}: bytes {start}–{end}: the store gave {len(answer)} bytes; {NO_PARTS}"
            )
        if len(answer) < end - start:
            last = start + len(answer)
            error = CorruptFile(f"ends at byte {last}, wanted up to {end}; it was cut short")
            error.path = url
            return error
        return None

    def _error_of(self, error: BaseException, path: str, part: ByteRange) -> LanceError:
        """Return the error for a range that could not be fetched."""
        if isinstance(error, FileNotFoundError):
            return MissingFile.of(self.url(path), self.version)
        text = f"{self.url(path)}: bytes {part[0]}–{part[1]}: {message_of(error)}"
        return ReadFailed(f"{text}{advice_on(error)}")


def _may_come(answer: Any, start: int, end: int) -> bool:
    """Return whether what was not the bytes of a range may be these when they are asked for again.

    A store that gives a whole file in place of a part would give it once more.
    """
    return is_transient(answer) if isinstance(answer, Exception) else len(answer) < end - start


def _not_listed(url: str, error: ReadFailed) -> ReadFailed:
    what = str(error.args[0]).removeprefix(f"{mask_secrets(url)}: ")
    return ReadFailed(f"{url}: cannot be listed: {what}")
