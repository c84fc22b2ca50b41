"""`LanceFileSystem`: every version of a Lance table as files, for whatever reads fsspec URLs.

>>> import pandas as pd
>>> pd.read_feather("lance:///data/t.lance/versions/7.arrow")  # doctest: +SKIP
>>> pd.read_feather("lance://tags/prod.arrow::s3://bucket/t.lance")  # doctest: +SKIP

`lancefs.views.tree` shows the tree. It is read-only, and nothing is ever created beside a table.

What may change is looked up each time it is asked for: `latest`, tags, branches, and which versions
there are. What a version holds does not change; it is remembered until `invalidate_cache`.
"""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import fsspec
import fsspec.asyn
from fsspec.utils import stringify_path, tokenize

from lancefs.errors import NoSuchPath, NotALanceTable, ReadFailed
from lancefs.storage import Store, forget
from lancefs.table.base_paths import BaseRules
from lancefs.table.refs import Ref
from lancefs.table.versions import VERSIONS, list_versions
from lancefs.views import tree
from lancefs.views.arrow.layout_cache import LayoutCache
from lancefs.views.file_node import Leaf
from lancefs.views.file_objects import ForwardFile, ViewFile, cut
from lancefs.views.folder import Folder
from lancefs.views.open_tables import Opened, Table, Version
from lancefs.views.read_only import ReadOnlyFileSystem, refuse
from lancefs.views.tree import Directory, Node


class LanceFileSystem(ReadOnlyFileSystem):
    """Lance tables as directories of Arrow files.

    A path leads through the directories of a store to a table, and on through its tree:
    `/data/t.lance/versions/7.arrow`. Where `fo` names a table, paths begin in its tree:
    `versions/7.arrow`. Only tables and the directories above them are shown.

    The size of a file is worked out when `info` asks for it, which for an `.arrow` file may mean
    reading its strings and lists; listings give it where it is known, else None. `.arrows` files
    have no size, and cannot seek.

    Args:
        fo: The directory of a table, or of tables: a path, or a URL. A chained URL sets it.
        fs: The filesystem that holds them.
        target_protocol: Of that filesystem, in place of `fs`; local files by default.
        target_options: For that filesystem.
        base_rules: How far base paths that manifests name are followed: `BaseRules`, or their
            fields.
        layout_cache: A directory of this machine to keep the layouts of `.arrow` files in, so that
            other processes need not find them out again.
        base_paths: Where tables are now that have moved, by the base paths that name them; the same
            as `moved` of `base_rules`.
        **kwargs: Of fsspec, such as `skip_instance_cache`. With `listings_expiry_time`, listings of
            what may change are remembered too, for that many seconds.
    """

    protocol = "lance"
    root_marker = ""

    def __init__(
        self,
        fo: str | os.PathLike[str] = "",
        fs: fsspec.AbstractFileSystem | None = None,
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        base_rules: BaseRules | Mapping[str, Any] | None = None,
        layout_cache: str | os.PathLike[str] | None = None,
        base_paths: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        options = dict(target_options or {})
        fo = stringify_path(fo)
        if fs is not None:
            self._fs, self.root = fs, fs._strip_protocol(fo) if fo else ""
        elif target_protocol is None and fo:
            self._fs, self.root = fsspec.core.url_to_fs(fo, **options)
        else:
            self._fs = fsspec.filesystem(target_protocol or "file", **options)
            self.root = self._fs._strip_protocol(fo) if fo else ""
        self._process = os.getpid()
        self._is_rooted = bool(fo)
        self._rules = BaseRules(**base_rules) if isinstance(base_rules, Mapping) else base_rules
        if base_paths:
            self._rules = (self._rules or BaseRules()).moving(base_paths)
        store = tokenize(type(self.fs), self.fs.storage_args, self.fs.storage_options)
        layouts = None if layout_cache is None else LayoutCache(layout_cache)
        self._opened = Opened(f"{store} {self._rules!r}", layouts)

    def __repr__(self) -> str:
        return f"<LanceFileSystem {Store(self.fs, self.root).url() if self._is_rooted else ''}>"

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        """The filesystem that holds the tables.

        In a forked child it is made anew where it is an async one: the thread of its event loop did
        not come along.
        """
        if self._process != os.getpid():
            self._process = os.getpid()
            if getattr(self._fs, "async_impl", False):
                if not hasattr(fsspec.asyn, "reset_after_fork"):  # older fsspec leaves that to us
                    fsspec.asyn.reset_lock()
                self._fs = pickle.loads(pickle.dumps(self._fs))
                self._opened.clear()
        return self._fs

    # Paths

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = str(stringify_path(path)).removeprefix("lance://").removeprefix("lance::")
        return path.rstrip("/") or path[:1]

    @classmethod
    def _parent(cls, path: str) -> str:
        head, slash, _ = str(cls._strip_protocol(path)).rpartition("/")
        return head or slash

    def unstrip_protocol(self, name: str) -> str:
        """Return the URL of a path; options of the store below are not part of it."""
        url: str = super().unstrip_protocol(name)
        if self._is_rooted and "::" not in url:
            url += f"::{self.fs.unstrip_protocol(self.root)}"
        return url

    # What there is

    def ls(
        self, path: str, detail: bool = True, refresh: bool = False, **kwargs: Any
    ) -> list[dict[str, Any]] | list[str]:
        """List a directory.

        Args:
            path: The directory, or one file.
            detail: Whether to return what is known of each, or the names alone.
            refresh: Whether to look again at what is remembered.
            **kwargs: Of other filesystems; they have no meaning here.

        Raises:
            FileNotFoundError: There is nothing at the path; the message says what there is.
            LanceError: The table could not be read.
        """
        path = self._strip_protocol(path)
        entries = None if refresh else self._remembered(path)
        if entries is None:
            node = self._find(path).node
            if isinstance(node, Leaf):
                entries = [self.info(path)]
            else:
                entries = [_entry(_join(path, name), one) for name, one in node.children().items()]
                if node.is_fixed or self.dircache.listings_expiry_time is not None:
                    self.dircache[path] = entries
        return [dict(entry) for entry in entries] if detail else [one["name"] for one in entries]

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Return what is known of a file or directory; the size of a file is exact.

        `created` and `mtime` are when the version was committed.

        Args:
            path: Where it is.
            **kwargs: Of other filesystems; they have no meaning here.

        Raises:
            FileNotFoundError: There is nothing at the path; the message says what there is.
            LanceError: The table could not be read.
        """
        path = self._strip_protocol(path)
        node = self._require(path)
        if isinstance(node, Leaf):
            _ = node.handle.version
            if not node.is_stream:
                return _entry(path, node) | {"size": node.view().size}
        return _entry(path, node)

    def exists(self, path: str, **kwargs: Any) -> bool:
        """Whether there is a file or a directory at a path, without working out its size.

        Args:
            path: Where to look.
            **kwargs: Of other filesystems; they have no meaning here.

        Raises:
            LanceError: It could not be found out.
        """
        return self._there(path) is not None

    def isfile(self, path: str) -> bool:
        """Whether there is a file at a path; raises as `exists` does."""
        return isinstance(self._there(path), Leaf)

    def isdir(self, path: str) -> bool:
        """Whether there is a directory at a path; raises as `exists` does."""
        return isinstance(self._there(path), Directory)

    def created(self, path: str) -> datetime:
        """Return when the version that a path shows was committed, the newest one of several.

        Raises:
            FileNotFoundError: There is nothing at the path.
            LanceError: The table could not be read.
        """
        found = self._find(path)
        if isinstance(found.node, Folder):
            return found.node.modified()
        return _version(found).manifest.timestamp

    def modified(self, path: str) -> datetime:
        """As `created`: a version never changes."""
        return self.created(path)

    def ukey(self, path: str) -> str:
        """Return what is the same for the same bytes only; nothing is decoded for it.

        The same version gives the same key, also in another process, with the same releases of
        lancefs and pyarrow.

        Raises:
            FileNotFoundError: There is nothing at the path.
            LanceError: The table could not be read.
        """
        found = self._find(path)
        if isinstance(found.node, Folder):
            return str(self.fs.ukey(found.node.path))
        return found.node.digest if isinstance(found.node, Leaf) else _version(found).identity

    def checksum(self, path: str) -> int:
        """Return `ukey` as a number."""
        return int(self.ukey(path), 16)

    def du(
        self,
        path: str,
        total: bool = True,
        maxdepth: int | None = None,
        withdirs: bool = False,
        **kwargs: Any,
    ) -> int | dict[str, int]:
        """Return the sizes of the files below a path, streams not counted.

        Args:
            path: Where to begin.
            total: Whether to return the sum, or each size by name.
            maxdepth: How many levels to go down.
            withdirs: Whether to name directories too.
            **kwargs: For `find`.
        """
        names = self.find(path, maxdepth=maxdepth, withdirs=withdirs, **kwargs)
        sizes = {name: self.info(name)["size"] or 0 for name in names}
        return sum(sizes.values()) if total else sizes

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget what was read of tables.

        Args:
            path: Forget the listings at and below it only; all where it is None. What was read of
                versions is forgotten in any case.
        """
        if path is None:
            self.dircache.clear()
        else:
            path = self._strip_protocol(path)
            for known in [one for one in self.dircache if f"{one}/".startswith(f"{path}/")]:
                self.dircache.pop(known, None)
        self._opened.clear()
        forget(self.fs)
        self.fs.invalidate_cache()

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
        found = self._find(path)
        node = found.node
        if not isinstance(node, Leaf):
            self._require(path)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node.is_stream:
            return node.stream(path)
        view = node.view()
        fixed = _join(found.top, node.fixed_path)
        return ViewFile(self, path, fixed, view, _entry(path, node), block_size)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        """Return bytes of a file.

        Args:
            path: The file.
            start: The first byte; negative: counted from the end.
            end: The byte to stop before, in the same way.
            **kwargs: For `open`.

        Raises:
            FileNotFoundError: There is no such file; the message says what there is.
            LanceError: The table could not be read.
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
        """Return byte ranges of files; all ranges of a path are of one version.

        Args:
            paths: The files.
            starts: The first byte of each range, or of all.
            ends: The byte that each range, or all, stop before.
            max_gap: Has no meaning here.
            on_error: `return` puts errors into the result; anything else raises them.
            **kwargs: For `open`.
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

    # Inside

    def _remembered(self, path: str) -> list[dict[str, Any]] | None:
        try:
            entries: list[dict[str, Any]] = self.dircache[path]
        except KeyError:
            return None
        return entries

    def _require(self, path: str) -> Node:
        """Return what is at a path; if it is not there, raise."""
        found = self._find(path)
        if found.table is not None:
            tree.require(found.node, found.table)
        return found.node

    def _there(self, path: str) -> Node | None:
        """Return what is at a path, None where there is nothing."""
        try:
            return self._require(path)
        except FileNotFoundError:
            return None

    def _find(self, path: str) -> _Found:
        """Find what is at a path; see `tree.find`."""
        path = self._strip_protocol(path)
        parts = [part for part in path.split("/") if part]
        if self._is_rooted and ".." in parts:
            raise NoSuchPath(f"{path}: a path cannot lead out of the directory that it begins in")
        tops = range(0 if self._is_rooted else 1, len(parts) + 1)
        roots = {position: self._full(path, parts[:position]) for position in tops}
        known = [position for position, root in roots.items() if root in self._opened.tables]
        for position in known or tops:
            table = self._table(roots[position], parts[position:])
            if table is not None:
                top = "/".join(parts[:position])
                top = f"/{top}" if path.startswith("/") else top
                return _Found(tree.find(table, parts[position:]), table, top)
        folder = Folder(self.fs, self._full(path, parts))
        if not folder.exists():
            raise self._nothing(path, parts)
        return _Found(folder, None, path)

    def _table(self, root: str, rest: Sequence[str]) -> Table | None:
        """Return the table in a directory, if it is one."""
        table = Table(Store(self.fs, root), self._rules, self._opened)
        if root in self._opened.tables:
            return table
        try:
            if not rest or rest[0] in tree.Root.NAMES:
                table.versions()  # which is needed next, in most cases
            elif not table.store.names(VERSIONS):
                return None
        except (NotALanceTable, ReadFailed):  # above a table, one may not be allowed to look
            version = tree.version_of(rest)
            if version is None or not table.has_unlisted(version):
                return None
        self._opened.tables.add(root)
        return table

    def _full(self, path: str, parts: Sequence[str]) -> str:
        """Return the first parts of a path as the filesystem that holds the table spells them."""
        below = "/".join(parts)
        if self._is_rooted:
            return f"{self.root}/{below}" if below else self.root
        return str(self.fs._strip_protocol(f"/{below}" if path.startswith("/") else below))

    def _nothing(self, path: str, parts: Sequence[str]) -> FileNotFoundError:
        """Say how far a path leads, and what there is."""
        for position in range(len(parts) - 1, -1, -1):
            folder = Folder(self.fs, self._full(path, parts[:position]))
            if parts[position] in tree.Root.NAMES:
                return _no_table(Store(self.fs, folder.path))
            if folder.exists():
                return NoSuchPath(tree.missing(folder.url, folder, parts[position]))
        return _no_table(Store(self.fs, self._full(path, parts)))


class _Found(NamedTuple):
    node: Node
    table: Table | None
    top: str  # the path of the table, as it was asked for


def _no_table(store: Store) -> NotALanceTable:
    try:
        list_versions(store)
    except NotALanceTable as error:
        return error
    return NotALanceTable(f"{store.url()}: the table was made just now; try again")


def _version(found: _Found) -> Version:
    """Return the version that a node shows, the newest one where it shows several."""
    assert found.table is not None
    node = found.node
    if node.handle is not None:
        return node.handle.version
    return found.table.open(Ref(branch=node.branch))


def _entry(path: str, node: Node) -> dict[str, Any]:
    """Return what is known of a node without reading anything for it."""
    if not isinstance(node, Leaf):
        return {"name": path, "size": 0, "type": "directory"}
    entry: dict[str, Any] = {"name": path, "size": node.known_size(), "type": "file"}
    if node.is_stream:
        entry["seekable"] = False
    version = node.handle.known_version
    if version is not None:
        committed = version.manifest.timestamp
        entry |= {"created": committed, "mtime": committed.timestamp()}
        entry |= {"version": version.manifest.version, "branch": version.resolved.branch}
    return entry


def _join(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}" if directory else name
