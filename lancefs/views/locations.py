"""Resolving paths of `LanceFileSystem`: the node of the tree, and the version."""

from __future__ import annotations

from typing import Any, NamedTuple

from lancefs.table.refs import Ref
from lancefs.views.file_node import FileNode
from lancefs.views.open_tables import TableSession, ViewedVersion
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
