"""`LanceFileSystem`: every version of a Lance table as files, for all that reads fsspec URLs.

>>> import pandas as pd
>>> pd.read_feather("lance:///data/t.lance/versions/7.arrow")  # doctest: +SKIP
>>> pd.read_feather("lance://tags/prod.arrow::s3://bucket/t.lance")  # doctest: +SKIP
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

import fsspec
from fsspec.dircache import DirCache
from fsspec.utils import stringify_path, tokenize

from lancefs.arguments import check_flags, check_number
from lancefs.forks import generation
from lancefs.masking import mask_secrets
from lancefs.printable import printable
from lancefs.storage import Store, forget
from lancefs.storage.filesystems import open_url, with_connections, with_mapping
from lancefs.storage.forked import note, usable_here
from lancefs.storage.local_files import is_local
from lancefs.table.base_paths import BaseRules, as_rules
from lancefs.views import tree
from lancefs.views.arrow.layout_cache import LayoutCache
from lancefs.views.file_node import FileNode
from lancefs.views.file_objects import ForwardFile, ViewFile, cut
from lancefs.views.folder import Folder
from lancefs.views.hints import check_options
from lancefs.views.locations import Finder, Location, known_info
from lancefs.views.open_tables import OpenTables
from lancefs.views.read_only import ReadOnlyFileSystem, refuse
from lancefs.views.tree import Directory, Node

# The argument by which `walk`, and what is made of it, hands its `Finder` to `ls`.
_FINDER = "_finder"


class _ListingCache(DirCache):  # type: ignore[misc]  # fsspec: no types
    """fsspec's cache of listings, which goes by the wall clock: set back, it keeps old listings."""

    def __getitem__(self, path: str) -> list[dict[str, Any]]:
        expiry, made = self.listings_expiry_time, self._times.get(path)
        if expiry is not None and made is not None and time.monotonic() - made > expiry:
            self._cache.pop(path, None)
            self._times.pop(path, None)
        if self.max_paths:
            self._q(path)
        found: list[dict[str, Any]] = self._cache[path]
        return found

    def __setitem__(self, path: str, entries: list[dict[str, Any]]) -> None:
        super().__setitem__(path, entries)
        if path in self._cache and self.listings_expiry_time is not None:
            self._times[path] = time.monotonic()


class _WorkingDirectory:
    """Class attribute whose value is the current directory, where relative paths begin."""

    def __get__(self, instance: object, owner: type) -> str:
        try:
            return os.getcwd()
        except FileNotFoundError:  # it was removed
            return ""


class LanceFileSystem(ReadOnlyFileSystem):
    """A read-only fsspec filesystem that shows every version of Lance tables as Arrow files.

    **Paths** consist of the path of a table and a path in its tree:
    `/data/t.lance/versions/7.arrow`. With `fo`, which a chained URL sets, they begin in `fo`:
    `versions/7.arrow`. Directories above tables show their subdirectories, and no files.

    **The tree of a table** (details: `lancefs.views.tree`):

        latest.arrow  versions/7.arrow  tags/prod.arrow  branches/exp/latest.arrow
        versions/7/columns/price.arrow  versions/7/columns/a,b.arrow  versions/7/fragments/0.arrow
        versions/7/schema.json  (manifest.json, transaction.json, indices.json)
        history.arrow  changes/3..7.arrow

    An `.arrow` file is an uncompressed Arrow IPC file: seekable, of an exact size, without deleted
    rows. Only the columns and batches that a byte range touches are decoded. The same path with
    `.arrows` is an Arrow IPC stream: its first bytes arrive before all rows are decoded, it cannot
    seek, and its size is None. An open file stays on its version, even `latest.arrow`.

    **Sizes** are computed by `info`, which may have to read the lengths of strings and lists;
    listings give the size if it is known, else None. `created` and `modified` are the time of the
    commit; `ukey` and `checksum` identify the bytes.

    **Caching.** Every call looks up what may change: the newest version, tags, branches, and the
    list of versions; `walk`, `find`, `glob` and `du` once for all that they find. On object stores,
    the address of a version that is opened by its number is cached for a second: its table may be
    deleted and recreated. Versions are immutable: their metadata and recently used values are
    cached in the process, within memory budgets. `invalidate_cache` clears metadata, and the
    listings that `listings_expiry_time` caches.

    **Threads and processes.** Threads may share an instance. Instances and open files can be
    pickled; of a stream, the bytes that were read are read again. A forked child can use those of
    its parent.

    **Errors.** Writes raise OSError(EROFS). A path, table, version or data file that does not exist
    raises a FileNotFoundError, whose message says what to use instead. Other errors are
    LanceErrors: CorruptFile, UnsupportedFeature, and ReadFailed (an OSError) if a request fails.

    Args:
        fo: Directory of a table, or of several tables: a path or a URL.
        fs: The filesystem that contains the tables.
        target_protocol: Protocol of that filesystem, in place of `fs`; local files by default.
        target_options: Options of that filesystem.
        base_rules: Which base paths of manifests are followed: `BaseRules`, or its fields in a
            mapping.
        layout_cache: A local directory in which layouts of `.arrow` files are kept for other
            processes; none by default.
        base_paths: New locations of moved tables by the base paths that manifests name; the same
            as `moved` of `base_rules`.
        max_memory: Bytes that one batch of a view may expand to; more raises
            `MemoryLimitExceeded`. By default, only data that expands to many times its size is
            limited.
        mmap: Whether large local files may be mapped into memory. If a mapped file is truncated
            while it is read, the operating system ends the process; without mapping, the read
            fails. It is an option of the filesystem that contains the tables; without effect if
            that is given as `fs`.
        list_streams: Whether listings include `.arrows` streams, which have no size. Readers of
            whole directories may need False; streams can be opened all the same.
        **kwargs: Options of fsspec, such as `skip_instance_cache`. `listings_expiry_time` is the
            number of seconds for which listings that may change are cached; by default they are
            not.

    Raises:
        TypeError: There is no option of this name, or its value has another type.
        ValueError: `max_memory` is not positive, or `base_rules` make no sense.
    """

    protocol = "lance"
    root_marker = ""
    # fsspec caches instances by their arguments and this: `fo` may be a relative path.
    _working_directory = _WorkingDirectory()
    _extra_tokenize_attributes = ("_working_directory",)

    def __init__(
        self,
        fo: str | os.PathLike[str] = "",
        fs: fsspec.AbstractFileSystem | None = None,
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        base_rules: BaseRules | Mapping[str, Any] | None = None,
        layout_cache: str | os.PathLike[str] | None = None,
        base_paths: Mapping[str, str] | None = None,
        max_memory: int | None = None,
        mmap: bool = True,
        list_streams: bool = True,
        **kwargs: Any,
    ) -> None:
        check_options(kwargs, target_protocol)
        check_flags(mmap=mmap, list_streams=list_streams)
        if max_memory is not None:
            check_number("max_memory", max_memory, least=1)
        super().__init__(**kwargs)
        self.dircache = _ListingCache(**kwargs)
        fo = stringify_path(fo)
        where = str(fo) if target_protocol is None and fo else f"{target_protocol or 'file'}://"
        options = with_mapping(where, target_options or {}, mmap)
        if fs is not None:
            self._fs, self.root = fs, fs._strip_protocol(fo) if fo else ""
        elif fo and (target_protocol is None or str(fo).startswith(f"{target_protocol}://")):
            self._fs, self.root = open_url(str(fo), options)  # a URL may name the host, too
        else:
            protocol = target_protocol or "file"
            self._fs = fsspec.filesystem(protocol, **with_connections(protocol, options))
            self.root = self._fs._strip_protocol(fo) if fo else ""
        note(self._fs)
        self._usable_in = generation()
        self._is_rooted = bool(fo)
        self._list_streams = list_streams
        self._rules = as_rules(base_rules, base_paths)
        layouts = None if layout_cache is None else LayoutCache(layout_cache)
        secrets = None if self._rules is None else tokenize(self._rules.storage_options)
        sharer = f"{_identity(self.fs)} {self._rules!r} {secrets} {max_memory}"
        self._opened = OpenTables(sharer, layouts, max_memory)

    def __repr__(self) -> str:
        if not self._is_rooted:
            return "<LanceFileSystem>"
        root = Store(self.fs, self.root).url()
        return f"<LanceFileSystem {printable(mask_secrets(root))}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a relative `fo` as absolute: the other process may begin elsewhere."""
        make, (kind, arguments, options) = super().__reduce__()
        given = str(stringify_path(arguments[0] if arguments else options.get("fo", "")))
        if self._is_rooted and is_local(self._fs) and self.root not in given:
            arguments = (self.root, *arguments[1:])
            options = {name: value for name, value in options.items() if name != "fo"}
        return make, (kind, arguments, options)

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        """The filesystem that contains the tables.

        A forked child gets another instance where that of its parent cannot make requests there.

        Raises:
            ReadFailed: There is no way to make requests in this process.
        """
        if self._usable_in != generation():
            usable = usable_here(self._fs, self.root)
            if usable is not self._fs:
                self._fs = usable
                self._opened.clear()
            self._usable_in = generation()
        return self._fs

    # Paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(item) for item in path]
        path = str(stringify_path(path))
        if path.startswith("lance://"):  # as `unstrip_protocol` returns it, with the root behind
            path = path.removeprefix("lance://").partition("::")[0]
        path = path.removeprefix("lance::")
        return path.rstrip("/") or path[:1]

    @classmethod
    def _parent(cls, path: str) -> str:
        head, slash, _ = str(cls._strip_protocol(path)).rpartition("/")
        return head or slash

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path. Options of the filesystem that it needs are not part of it."""
        url: str = super().unstrip_protocol(name)
        if self._is_rooted and "::" not in url:
            url += f"::{self.fs.unstrip_protocol(self.root)}"
        return url

    # Listing

    def ls(
        self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any
    ) -> list[dict[str, Any]] | list[str]:
        """List a directory, or one file.

        Args:
            path: Path of the directory or file.
            detail: Whether to return the `info` of each entry, its size only if known; else paths.
            refresh: Whether to ignore a cached listing.
            **kwargs: Ignored.

        Raises:
            FileNotFoundError: The path does not exist; the message says what does.
            LanceError: The table cannot be read.
        """
        path = self._strip_protocol(path)
        entries = None if refresh else self._cached_listing(path)
        if entries is None:
            finder = kwargs.get(_FINDER)
            node = self._find(path, finder).node
            if isinstance(node, FileNode):
                entries = [self._info(path, finder)]
            else:
                entries = [
                    known_info(_join(path, name), child)
                    for name, child in node.children().items()
                    if self._list_streams or not (isinstance(child, FileNode) and child.is_stream)
                ]
                if self.dircache.listings_expiry_time is not None:
                    self.dircache[path] = entries
        return [dict(entry) if detail else entry["name"] for entry in entries]

    def walk(self, path: str, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any, Any]]:
        """Walk a directory as fsspec does, and look up what may change once for all of it.

        `find` and `glob` walk, too.
        """
        kwargs.setdefault(_FINDER, self._finder())
        yield from super().walk(path, *args, **kwargs)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Return the metadata of a file or directory.

        Args:
            path: Path of the file or directory.
            **kwargs: Ignored.

        Returns:
            `name`; `type`: "file" or "directory"; `size` in bytes, exact, None for a stream; and of
            a file `created` (datetime, UTC) and `mtime` (seconds since 1970) of the commit,
            `version`, `branch` (None: main); `seekable`: False for a stream.

        Raises:
            FileNotFoundError: The path does not exist; the message says what does.
            LanceError: The table cannot be read.
        """
        return self._info(self._strip_protocol(path))

    def _info(self, path: str, finder: Finder | None = None) -> dict[str, Any]:
        node = self._require(path, finder)
        if isinstance(node, FileNode):
            _ = node.handle.version
            if not node.is_stream:
                return known_info(path, node) | {"size": node.view().size}
        return known_info(path, node)

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Return whether a path exists. No size is computed.

        Args:
            path: Path of a file or directory.
            **kwargs: Ignored.

        Raises:
            LanceError: The table cannot be read.
        """
        return self._existing_node(path) is not None

    def isfile(self, path: str) -> bool:
        """Return whether a path is a file; raises as `exists` does."""
        return isinstance(self._existing_node(path), FileNode)

    def isdir(self, path: str) -> bool:
        """Return whether a path is a directory; raises as `exists` does."""
        return isinstance(self._existing_node(path), Directory)

    def created(self, path: str) -> datetime:
        """Return when the version that a path shows was committed, the newest one of several.

        Raises:
            FileNotFoundError: The path does not exist.
            LanceError: The table cannot be read.
        """
        location = self._find(path)
        if isinstance(location.node, Folder):
            return location.node.modified()
        return location.version.manifest.timestamp

    def modified(self, path: str) -> datetime:
        """Return the same as `created`: versions are immutable."""
        return self.created(path)

    def ukey(self, path: str) -> str:
        """Return an identity of the bytes of a path: other bytes have another one.

        The same version has the same key in every process with the same releases of lancefs and
        pyarrow. No values are decoded.

        Raises:
            FileNotFoundError: The path does not exist.
            LanceError: The table cannot be read.
        """
        location = self._find(path)
        node = location.node
        if isinstance(node, Folder):
            return str(self.fs.ukey(node.path))
        return node.digest if isinstance(node, FileNode) else location.version.identity

    def checksum(self, path: str) -> int:
        """Return `ukey` as a number; raises as `ukey` does."""
        return int(self.ukey(path), 16)

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **kwargs: Any,
    ) -> int | dict[str, int]:
        """Return the sizes in bytes of the listed files below a path; a stream counts as 0.

        Args:
            path: Path of a directory or file.
            total: Whether to return the sum, or the size of each path.
            maxdepth: Number of levels to descend; None for all.
            withdirs: Whether to include directories, of size 0.
            **kwargs: Arguments of `find`.
        """
        finder = self._finder()
        kwargs[_FINDER] = finder
        names = self.find(path, maxdepth=maxdepth, withdirs=withdirs, **kwargs)
        sizes = {name: self._info(name, finder)["size"] or 0 for name in names}
        return sum(sizes.values()) if total else sizes

    def invalidate_cache(self, path: str | None = None) -> None:
        """Clear cached listings, and the cached metadata of all tables; let go of all files.

        Args:
            path: Clear only the listings at and below this path; None for all listings.
        """
        if path is None:
            self.dircache.clear()
        else:
            path = self._strip_protocol(path)
            for listed in [key for key in self.dircache if f"{key}/".startswith(f"{path}/")]:
                self.dircache.pop(listed, None)
        self._opened.clear()
        forget(self.fs)
        self.fs.invalidate_cache()

    def close(self) -> None:
        """Let go of files and memory, as `invalidate_cache` does; later calls open anew."""
        self.invalidate_cache()

    # Reading

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> ViewFile | ForwardFile:
        if mode != "rb":
            refuse(path)
        location = self._find(path)
        node = location.node
        if not isinstance(node, FileNode):
            self._require(path)
            raise IsADirectoryError(errno.EISDIR, self._why_no_file(path), path)
        fixed_path = _join(location.top, node.fixed_path)
        if node.is_stream:
            ukey = node.digest  # of a history, which may grow, no newer one than its rows
            return ForwardFile(self, path, fixed_path, node.stream(), ukey)
        view = node.view()
        return ViewFile(self, path, fixed_path, view, known_info(path, node), block_size)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Return the bytes of a file, or of a range of it, with the meaning of a Python slice.

        Args:
            path: Path of the file.
            start: First byte; a negative number counts from the end.
            end: Byte after the last one; a negative number counts from the end.
            **kwargs: Arguments of `open`.

        Raises:
            FileNotFoundError: The file does not exist; the message says what does.
            LanceError: The table cannot be read.
        """
        with self.open(path, "rb", **kwargs) as file:
            return cut(file, start, end)

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[bytes | Exception]:
        """Return byte ranges of files. All ranges of a path come from one version.

        Args:
            paths: Path of the file of each range.
            starts: First byte of each range, or of all ranges.
            ends: Byte after the last one of each range, or of all ranges.
            max_gap: Ignored.
            on_error: "return" returns the error of a range in its place; other values raise it.
            **kwargs: Arguments of `open`.
        """
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        firsts = list(starts) if isinstance(starts, Sequence) else [starts] * len(paths)
        lasts = list(ends) if isinstance(ends, Sequence) else [ends] * len(paths)
        files: dict[str, Any] = {}
        results: list[bytes | Exception] = []
        try:
            for path, start, end in zip(paths, firsts, lasts, strict=True):
                try:
                    if path not in files or not files[path].seekable():
                        files[path] = self.open(path, "rb", **kwargs)
                    results.append(cut(files[path], start, end))
                except Exception as error:
                    if on_error != "return":
                        raise
                    results.append(error)
        finally:
            for file in files.values():
                file.close()
        return results

    # Finding nodes

    def _cached_listing(self, path: str) -> list[dict[str, Any]] | None:
        try:
            entries: list[dict[str, Any]] = self.dircache[path]
        except KeyError:
            return None
        return entries

    def _require(self, path: str, finder: Finder | None = None) -> Node:
        """Return the node at a path, and check that its versions exist; see `tree.require`."""
        location = self._find(path, finder)
        if location.table is not None:
            tree.require(location.node, location.table)
        return location.node

    def _why_no_file(self, path: str) -> str:
        """Say that a path is a directory, and which file beside it or in it has the rows."""
        path = self._strip_protocol(path)
        for name in (f"{path}.arrow", f"{path}/latest.arrow" if path else "latest.arrow"):
            if isinstance(self._existing_node(name), FileNode):
                return f"{os.strerror(errno.EISDIR)}; the rows are in {name}"
        return os.strerror(errno.EISDIR)

    def _existing_node(self, path: str) -> Node | None:
        """Return the node at a path; None if the path does not exist."""
        try:
            return self._require(path)
        except FileNotFoundError:
            return None

    def _find(self, path: str, finder: Finder | None = None) -> Location:
        """Find the node at a path, whose versions need not exist; see `locations.Finder`."""
        return (finder or self._finder()).find(self._strip_protocol(path))

    def _finder(self) -> Finder:
        """Return what finds nodes during one call."""
        root = self.root if self._is_rooted else None
        return Finder(self.fs, root, self._rules, self._opened)


def _identity(fs: fsspec.AbstractFileSystem) -> str:
    """Return a text that two instances have in common if they show the same files.

    fsspec does not cache instances of classes whose files depend on more than their arguments.
    """
    alone = "" if fs.cachable else uuid4().hex
    return f"{tokenize(type(fs), fs.storage_args, fs.storage_options)}{alone}"


def _join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}" if directory else name
