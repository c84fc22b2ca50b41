"""The tree of directories and files that shows a table.

    latest.arrow  latest.arrows        the newest version, as an Arrow IPC file and stream
    latest/…                           as versions/7/
    versions/7.arrow  versions/7.arrows
    versions/7/fragments/0.arrow       one fragment
    versions/7/columns/a.arrow         one column; columns/a,b.arrow several, in that order
    versions/7/schema.json  versions/7/manifest.json
    versions/7/transaction.json  versions/7/indices.json
    tags/prod.arrow  tags/prod/…       as versions/7
    branches/exp/latest.arrow, branches/exp/versions/3.arrow, …
                                       a '/' in the name of a branch is a directory
    history.arrow                      one row for each version
    changes/3..7.arrow                 the rows that differ between two versions

In the name of a column ',' '/' '%' and '::' are percent-encoded. Some files can be opened but are
not listed: the streams (`.arrows`) of fragments, columns, history and changes, so that a
listed directory of `.arrow` files is a dataset; files of several columns; and changes between
versions that do not follow each other.

Nodes are created by name when they are asked for, and nothing is read before it is needed.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias
from urllib.parse import unquote

from lancefs.arguments import similar_names
from lancefs.errors import ColumnNotFound, NoSuchPath
from lancefs.table.refs import Ref, make_ref
from lancefs.views.documents import NAMES as DOCUMENTS
from lancefs.views.file_node import FILE, STREAM, FileNode, Form, Handle
from lancefs.views.materialized_files import HISTORY, ChangesFile, HistoryFile, parse_changes
from lancefs.views.open_tables import Selection, TableSession

# Suffixes of formats that tables are looked for in.
_OTHER_FORMATS = (".parquet", ".feather", ".ipc", ".csv")
# Names in the directory of a branch; the root is the directory of the main branch.
_BRANCH_NAMES = (
    "latest.arrow",
    "latest.arrows",
    "latest",
    "versions",
    f"{HISTORY}{FILE}",
    "changes",
)
# Of a version, or of a fragment.
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


class Directory(ABC):
    """A directory of the tree.

    Args:
        path: Path of the directory in the tree, for messages.

    Attributes:
        handle: The version that the directory belongs to, or None.
        branch: The branch that the directory belongs to; None for the main branch, or no branch.
    """

    handle: Handle | None = None
    branch: str | None = None

    # What it has beside the children that it lists, as the end of a sentence.
    MORE = ""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def children(self) -> dict[str, Node]:
        """Return the listed nodes, by name.

        Raises:
            LanceError: Something that the listing depends on cannot be read.
        """

    @abstractmethod
    def child(self, name: str) -> Node | None:
        """Return the node with a name, listed or not; None if there is no such node.

        Raises:
            FileNotFoundError: There is no such node; the message says more than `missing` could.
            LanceError: Something that the answer depends on cannot be read.
        """

    def below(self, name: str) -> str:
        """Return the path of a child."""
        return f"{self.path}/{name}" if self.path else name

    def meant(self, name: str) -> str | None:
        """Return the path that a name stands for which the directory lacks; None if not known."""
        return None


Node: TypeAlias = Directory | FileNode


class Root(Directory):
    """The directory of a table."""

    NAMES = (*_BRANCH_NAMES, "tags", "branches")

    def __init__(self, table: TableSession) -> None:
        super().__init__("")
        self._table = table

    def children(self) -> dict[str, Node]:
        self._table.require(Ref())
        nodes = {name: self.child(name) for name in self.NAMES}
        return {name: node for name, node in nodes.items() if node is not None}

    def child(self, name: str) -> Node | None:
        match name:
            case "tags":
                return Tags(self._table)
            case "branches":
                return Branches(self._table, name, "")
        return _branch_node(name, self._table, None, "")

    def meant(self, name: str) -> str | None:
        """Return the path of the version or tag that a name is, or of a part of the newest one."""
        ref, form = _stem(name), _form(name) or ""
        if _NUMBER.fullmatch(ref.removeprefix("v")):
            return f"versions/{ref.removeprefix('v')}{form}"
        if name in VersionDirectory.NAMES:
            return f"latest/{name}"
        return f"tags/{ref}{form}" if ref in self._table.tags else None


class _OfBranch(Directory):
    """A directory of a branch."""

    def __init__(self, table: TableSession, path: str, branch: str | None) -> None:
        super().__init__(path)
        self._table = table
        self.branch = branch


class Versions(_OfBranch):
    """The versions of a branch."""

    def children(self) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        for file in self._table.versions(self.branch):
            nodes |= _version_nodes(self._handle(file.version), self.below(str(file.version)))
        return nodes

    def child(self, name: str) -> Node | None:
        stem = _stem(name)
        if _NUMBER.fullmatch(stem) is None:
            return None
        return _version_node(name, self._handle(int(stem)), self.below(stem))

    def _handle(self, version: int) -> Handle:
        return Handle(self._table, Ref(version=version, branch=self.branch))


class Changes(_OfBranch):
    """The changes between versions of a branch."""

    MORE = ", and those between any two versions, the older one first"

    def children(self) -> dict[str, Node]:
        refs = [
            Ref(version=file.version, branch=self.branch)
            for file in self._table.versions(self.branch)
        ]
        files = [self._file(since, until, FILE) for since, until in pairwise(refs)]
        return {file.name: file for file in files}

    def child(self, name: str) -> Node | None:
        form = _form(name)
        refs = parse_changes(_stem(name), self.branch)
        return None if form is None or refs is None else self._file(*refs, form)

    def meant(self, name: str) -> str | None:
        """Return the path of changes for a name that names the newer version first."""
        newer, dots, older = _stem(name).partition("..")
        turned = f"{older}..{newer}"
        is_known = dots and parse_changes(turned, self.branch) is not None
        return self.below(f"{turned}{_form(name) or FILE}") if is_known else None

    def _file(self, since: Ref, until: Ref, form: Form) -> FileNode:
        return ChangesFile(Handle(self._table, since), Handle(self._table, until), form)


class Tags(Directory):
    """The tags of a table."""

    def __init__(self, table: TableSession) -> None:
        super().__init__("tags")
        self._table = table

    def children(self) -> dict[str, Node]:
        self._table.require(Ref())
        nodes: dict[str, Node] = {}
        for tag in self._table.tags:
            of_tag = _version_nodes(Handle(self._table, Ref(tag=tag)), self.below(tag))
            if tag != _stem(tag):
                del of_tag[tag]  # a directory `a.arrow` would read as the file of a tag `a`
            nodes |= of_tag
        return nodes

    def child(self, name: str) -> Node | None:
        tag = _stem(name)
        try:
            ref = make_ref(tag=tag)
        except ValueError:  # not a valid name of a tag
            return None
        return _version_node(name, Handle(self._table, ref), self.below(tag))


class Branches(Directory):
    """The directory of all branches whose names start with `name/`, and of the branch `name`.

    Args:
        table: The table.
        path: Path of the directory in the tree, for messages.
        name: A branch, or the first parts of the name of one; "" for the directory `branches`.
    """

    def __init__(self, table: TableSession, path: str, name: str) -> None:
        super().__init__(path)
        self._table = table
        self._name = name
        self.branch = name if name and name in table.branches else None

    def children(self) -> dict[str, Node]:
        if not self._name:
            self._table.require(Ref())
        start = len(self._name) + 1 if self._name else 0
        longer = [branch for branch in self._table.branches if self._is_below(branch)]
        names = {branch[start:].split("/")[0] for branch in longer}
        if self.branch is not None:
            names.update(_BRANCH_NAMES)
        nodes = {name: self.child(name) for name in sorted(names)}
        return {name: node for name, node in nodes.items() if node is not None}

    def child(self, name: str) -> Node | None:
        own = None
        if self.branch is not None:
            own = _branch_node(name, self._table, self.branch, self.path)
        nodes = [node for node in (own, self._deeper(name)) if node is not None]
        directories = [node for node in nodes if isinstance(node, Directory)]
        if len(directories) == 2:  # branches `exp` and `exp/versions`, for instance
            return MergedDirectory(*directories)
        return nodes[0] if nodes else None

    def _deeper(self, name: str) -> Directory | None:
        """Return the directory of the branches below `name`; None if there are none."""
        prefix = f"{self._name}/{name}" if self._name else name
        longer = Branches(self._table, self.below(name), prefix)
        if longer.branch is None and not any(map(longer._is_below, self._table.branches)):
            return None
        return longer

    def _is_below(self, branch: str) -> bool:
        return not self._name or branch.startswith(self._name + "/")


class MergedDirectory(Directory):
    """Two directories with the same path; nodes of the first hide nodes of the second."""

    def __init__(self, first: Directory, second: Directory) -> None:
        super().__init__(first.path)
        self.branch = first.branch
        self._first, self._second = first, second

    def children(self) -> dict[str, Node]:
        return self._second.children() | self._first.children()

    def child(self, name: str) -> Node | None:
        return self._first.child(name) or self._second.child(name)


class _OfVersion(Directory):
    """A directory of one version."""

    def __init__(self, handle: Handle, path: str) -> None:
        super().__init__(path)
        self.handle: Handle = handle


class VersionDirectory(_OfVersion):
    """The directory of one version: its columns, fragments and documents."""

    NAMES = ("columns", "fragments", *DOCUMENTS)

    def children(self) -> dict[str, Node]:
        _ = self.handle.version
        return {name: self._child(name) for name in self.NAMES}

    def child(self, name: str) -> Node | None:
        return self._child(name) if name in self.NAMES else None

    def _child(self, name: str) -> Node:
        if name in DOCUMENTS:
            return FileNode(self.handle, f"/{name}", ".json")
        below = ColumnsDirectory if name == "columns" else FragmentDirectory
        return below(self.handle, self.below(name))


class FragmentDirectory(_OfVersion):
    """The fragments of a version, by id."""

    def children(self) -> dict[str, Node]:
        ids = self.handle.version.fragments
        return {f"{fragment}{FILE}": self._file(fragment, FILE) for fragment in ids}

    def child(self, name: str) -> Node | None:
        form = _form(name)
        stem = _stem(name)
        if form is None or _NUMBER.fullmatch(stem) is None:
            return None
        if int(stem) not in self.handle.version.fragments:
            return None
        return self._file(int(stem), form)

    def _file(self, fragment: int, form: Form) -> FileNode:
        return FileNode(
            self.handle, f"/fragments/{fragment}{form}", form, Selection(fragment=fragment)
        )


class ColumnsDirectory(_OfVersion):
    """The columns of a version, by name."""

    def children(self) -> dict[str, Node]:
        names = [field.name for field in self.handle.version.manifest.fields]
        return {quote_column(name) + FILE: self._file((name,), FILE) for name in names}

    def child(self, name: str) -> Node | None:
        form = _form(name)
        if form is None:
            return None
        columns = tuple(unquote(column) for column in _stem(name).split(","))
        try:
            schema, _ = self.handle.version.rows(Selection(columns=columns))
        except ColumnNotFound as error:
            raise NoSuchPath(f"{self.below(name)}: {error}") from error
        # Else a short path of a served table would fill the memory with copies of a column.
        twice = next((one for one, times in Counter(schema.names).items() if times > 1), None)
        if twice is not None:
            raise NoSuchPath(f"{self.below(name)}: the column {twice!r} is named more than once")
        return self._file(columns, form)

    def _file(self, columns: tuple[str, ...], form: Form) -> FileNode:
        name = ",".join(map(quote_column, columns))
        return FileNode(self.handle, f"/columns/{name}{form}", form, Selection(columns=columns))


def find(table: TableSession, parts: Sequence[str]) -> Node:
    """Return the node at a path in the tree of a table.

    Only names on the way are checked: the node may belong to a version that does not exist, see
    `require`.

    Args:
        table: The table.
        parts: The components of the path.

    Raises:
        NoSuchPath: There is no such node; the message names similar or existing nodes.
        NotALanceTable: There is no table.
        RefNotFound: There is no such branch.
        LanceError: Something that the path depends on cannot be read.
    """
    node: Node = Root(table)
    for position, part in enumerate(parts):
        if isinstance(node, FileNode):
            raise NoSuchPath(
                f"{table.url}: {'/'.join(parts[:position])} is a file, not a directory"
            )
        child = node.child(part)
        if child is None:
            where = " in ".join(part for part in (node.path, table.url) if part)
            raise NoSuchPath(missing(where, node, part))
        node = child
    return node


def require(node: Node, table: TableSession) -> None:
    """Check that the versions of a node exist, without opening them.

    Args:
        node: A node that `find` returned.
        table: Its table.

    Raises:
        NotALanceTable: There is no table.
        RefNotFound: There is no such version, tag or branch.
        LanceError: Something that the answer depends on cannot be read.
    """
    if isinstance(node, ChangesFile):
        table.require(node.since.ref)
    if node.handle is not None:
        table.require(node.handle.ref)
    else:
        table.require(Ref(branch=node.branch))


def version_of(parts: Sequence[str]) -> int | None:
    """Return the version of the main branch that a path in the tree names by number, or None."""
    if len(parts) < 2 or parts[0] != "versions" or _NUMBER.fullmatch(_stem(parts[1])) is None:
        return None
    return int(_stem(parts[1]))


def quote_column(name: str) -> str:
    """Return the spelling of a column's name in paths: ',', '/', '%', '::' are percent-encoded."""
    quoted = name.replace("%", "%25").replace(",", "%2C").replace("/", "%2F")
    return quoted.replace("::", "%3A%3A")  # which ends the path in an URL


def missing(where: str, directory: Directory, name: str) -> str:
    """Return an error message: a name is not in a directory; the message lists the names that are.

    Args:
        where: URL or path of the directory, for the message.
        directory: The directory.
        name: The missing name.
    """
    children = directory.children()
    stems = list(dict.fromkeys(map(_stem, children)))
    meant = directory.meant(name)
    stem = name.rpartition(".")[0]
    is_there = name.endswith(_OTHER_FORMATS) and stem + FILE in children
    similar = [stem] if is_there else similar_names(_stem(name), stems)
    if meant is not None:
        hint = f"did you mean {meant}?"
    elif similar:
        hint = f"did you mean {' or '.join(_suggest(name, stem, children) for stem in similar)}?"
    elif stems:
        more = ", …" if len(stems) > 10 else ""
        hint = f"it has {', '.join(stems[:10])}{more}{directory.MORE}"
    else:
        hint = "it is empty"
    return f"{where}: there is no {name!r} in it; {hint}"


def _suggest(name: str, stem: str, children: Iterable[str]) -> str:
    """Return the child with a stem; if it is a file, with the suffix of the missing name."""
    names = [child for child in children if _stem(child) == stem]
    form = FILE if name.endswith(_OTHER_FORMATS) else _form(name)
    if form is not None and _form(names[0]) is not None:
        return stem + form
    return stem if stem in names else names[0]


def _version_nodes(handle: Handle, path: str) -> dict[str, Node]:
    """Return the file, the stream and the directory of a version, by name."""
    stem = path.rpartition("/")[2]
    names: Iterable[str] = (stem + FILE, stem + STREAM, stem)
    return {name: _version_node(name, handle, path) for name in names}


def _version_node(name: str, handle: Handle, path: str) -> Node:
    """Return the file, the stream or the directory of a version.

    Args:
        name: Name of the node.
        handle: The version.
        path: Path in the tree of the version's directory.
    """
    form = _form(name.removeprefix(path.rpartition("/")[2]))
    return VersionDirectory(handle, path) if form is None else FileNode(handle, form, form)


def _branch_node(name: str, table: TableSession, branch: str | None, path: str) -> Node | None:
    """Return a node of the directory of a branch; None if no node has the name.

    Args:
        name: Name of the node.
        table: The table.
        branch: The branch; None for the main branch.
        path: Path in the tree of the branch's directory.
    """

    def below(child: str) -> str:
        return f"{path}/{child}" if path else child

    if name == "versions":
        return Versions(table, below(name), branch)
    if name == "changes":
        return Changes(table, below(name), branch)
    newest = Handle(table, Ref(branch=branch))
    form = _form(name)
    if _stem(name) == HISTORY and form is not None:
        return HistoryFile(newest, form)
    return _version_node(name, newest, below("latest")) if name in _BRANCH_NAMES else None


def _form(name: str) -> Form | None:
    """Return the format of an Arrow file by its suffix; None for any other name."""
    if name.endswith(FILE):
        return ".arrow"
    return ".arrows" if name.endswith(STREAM) else None


def _stem(name: str) -> str:
    """Return a name without the suffix of an Arrow file or stream."""
    form = _form(name)
    return name if form is None else name.removesuffix(form)
