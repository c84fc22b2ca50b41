"""Resolving paths of `LanceFileSystem`: the table, the node of its tree, and the version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import fsspec

from lancefs.errors import NoSuchPath, NotALanceTable, ReadFailed
from lancefs.masking import mask_secrets
from lancefs.storage import Store
from lancefs.storage.retries import found_no_store
from lancefs.table.base_paths import BaseRules, confine
from lancefs.table.refs import Ref
from lancefs.table.versions import VERSIONS, list_versions
from lancefs.views import tree
from lancefs.views.file_node import FileNode
from lancefs.views.folder import Folder
from lancefs.views.hints import meant_url
from lancefs.views.open_tables import OpenTables, TableSession, ViewedVersion
from lancefs.views.tree import Node


class Location(NamedTuple):
    """The node at a path.

    Attributes:
        node: The node. The version that it belongs to need not exist.
        table: The table that the node belongs to; None for a directory above tables.
        top: Path of the table in the spelling of the path that was looked up.
    """

    node: Node
    table: TableSession | None
    top: str

    @property
    def version(self) -> ViewedVersion:
        """The version that a node of a table shows, the newest one of several.

        Raises:
            FileNotFoundError: There is no such version.
            LanceError: The version cannot be opened.
        """
        assert self.table is not None
        if self.node.handle is not None:
            return self.node.handle.version
        return self.table.open(Ref(branch=self.node.branch))


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the nodes at paths, during one call of the filesystem.

    Attributes:
        fs: The filesystem that contains the tables.
        root: Directory in which paths begin, in the spelling of `fs`; None where paths are those of
            `fs`.
        rules: How far base paths are followed.
        opened: The tables that are open.
        sessions: The tables that were found, by their directories.
    """

    fs: fsspec.AbstractFileSystem
    root: str | None
    rules: BaseRules | None
    opened: OpenTables
    sessions: dict[str, TableSession] = field(default_factory=dict)

    def find(self, path: str) -> Location:
        """Find the node at a path, whose versions need not exist; see `tree.find`.

        The table is the first directory on the way that is one; known tables are tried alone.

        Args:
            path: The path, without a protocol.

        Raises:
            FileNotFoundError: The path does not exist; the message says what does.
            LanceError: The table cannot be read.
        """
        hint = meant_url(path) if self.root is None else None
        if hint is not None:
            raise NoSuchPath(f"{mask_secrets(path)}: {hint}")
        parts = [part for part in path.split("/") if part]
        if self.root is not None and ".." in parts:
            raise NoSuchPath(f"{path}: a path cannot lead out of the directory that it begins in")
        tops = range(1 if self.root is None else 0, len(parts) + 1)
        # The paths of all directories on the way are made one by one, and from one text: of a path
        # of thousands of parts, which any client of a server may send, they would be gigabytes.
        below, ends = "/".join(parts), [0, *accumulate(len(part) + 1 for part in parts)]
        tables = self.opened.tables
        known = [
            position for position in tops if self._full(path, below[: ends[position]]) in tables
        ]
        for position in known or tops:
            top = below[: ends[position]].rstrip("/")
            table = self._table(self._full(path, top), parts[position:])
            if table is not None:
                top = f"/{top}" if path.startswith("/") else top
                return Location(tree.find(table, parts[position:]), table, top)
        folder = Folder(self.fs, self._full(path, below))
        if not folder.exists():
            raise self._not_found(path, parts)
        return Location(folder, None, path)

    def _table(self, root: str, rest: Sequence[str]) -> TableSession | None:
        """Return the table in a directory; None if the directory is not a table.

        Args:
            root: Path of the directory in the spelling of `fs`.
            rest: Components of the path after the directory.

        Raises:
            ReadFailed: There is no connection to the store.
        """
        found = self.sessions.get(root)
        if found is not None:
            return found
        store = confine(Store(self.fs, root), self.rules)
        table = TableSession(store, self.rules, self.opened)
        if root in self.opened.tables:
            self.sessions[root] = table
            return table
        try:
            if not rest or rest[0] in tree.Root.NAMES:
                table.versions(explained=False)  # the next step mostly needs the listing
            elif not table.store.names(VERSIONS):
                return None
        except (NotALanceTable, ReadFailed) as error:
            if found_no_store(error):
                raise
            # A directory above a table may not be listable.
            version = tree.version_of(rest)
            if version is None or not table.has_unlisted(version):
                return None
        self.opened.tables.add(root)
        self.sessions[root] = table
        return table

    def _full(self, path: str, below: str) -> str:
        """Return the path of the first components of a path in the spelling of `fs`.

        Args:
            path: The path.
            below: The components, joined; a slash may follow them.
        """
        below = below.rstrip("/")
        if self.root is not None:
            return f"{self.root}/{below}" if below else self.root
        return str(self.fs._strip_protocol(f"/{below}" if path.startswith("/") else below))

    def _not_found(self, path: str, parts: Sequence[str]) -> FileNotFoundError:
        """Return the error for a path without a table: how far the path exists, and what does."""
        for position in range(len(parts) - 1, -1, -1):
            folder = Folder(self.fs, self._full(path, "/".join(parts[:position])))
            if parts[position] in tree.Root.NAMES:
                return _no_table(Store(self.fs, folder.path))
            if folder.exists():
                return NoSuchPath(tree.missing(folder.url, folder, parts[position]))
        return _no_table(Store(self.fs, self._full(path, "/".join(parts))))


def _no_table(store: Store) -> NotALanceTable:
    """Return the error for a directory that is not a table."""
    try:
        list_versions(store)
    except NotALanceTable as error:
        return error
    return NotALanceTable(f"{store.url()}: the table was made just now; try again")


def known_info(path: str, node: Node) -> dict[str, Any]:
    """Return the fsspec `info` of a node as far as it is known without reading anything.

    Args:
        path: Path of the node, which becomes its `name`.
        node: The node.
    """
    if not isinstance(node, FileNode):
        return {"name": path, "size": 0, "type": "directory"}
    info: dict[str, Any] = {"name": path, "size": node.known_size(), "type": "file"}
    if node.is_stream:
        info["seekable"] = False
    version = node.handle.known_version
    if version is not None:
        committed = version.manifest.timestamp
        info |= {"created": committed, "mtime": committed.timestamp()}
        info |= {"version": version.manifest.version, "branch": version.resolved.branch}
    return info
