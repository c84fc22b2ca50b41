"""The tree of files that a table is shown as.

    latest.arrow  latest.arrows        the newest version, as an Arrow file and as a stream
    latest/…
    versions/7.arrow  versions/7.arrows
    versions/7/fragments/0.arrow       one fragment
    versions/7/columns/a.arrow         one column; columns/a,b.arrow several, in that order
    versions/7/schema.json  versions/7/manifest.json
    versions/7/transaction.json  versions/7/indices.json
    tags/prod.arrow  tags/prod/…       as versions/7
    branches/exp/latest.arrow, branches/exp/versions/3.arrow, …
                                       a '/' in the name of a branch is a directory
    history.arrow                      one row a version
    changes/3..7.arrow                 the rows that differ between two versions

In the name of a column ',' '/' and '%' are percent-encoded. All fragments and columns can be read
as streams too; only their `.arrow` files are listed, so that a directory of them is a dataset. Of
changes, those from each version to the next one are listed.

A directory makes its children when they are asked for, by name. Nothing is read before it must be.
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias
from urllib.parse import unquote

from lancefs.errors import ColumnNotFound, NoSuchPath
from lancefs.table.refs import Ref, make_ref
from lancefs.views.changes_file import ChangesLeaf
from lancefs.views.changes_file import parse_name as parse_changes
from lancefs.views.documents import NAMES as DOCUMENTS
from lancefs.views.file_node import FILE, STREAM, Form, Handle, Leaf
from lancefs.views.history_file import NAME as HISTORY
from lancefs.views.history_file import HistoryLeaf
from lancefs.views.open_tables import Selection, Table

# What is listed of a branch, the main one too.
_OF_BRANCH = (
    "latest.arrow",
    "latest.arrows",
    "latest",
    "versions",
    f"{HISTORY}{FILE}",
    "changes",
)
_VERSION = re.compile(r"0|[1-9][0-9]{0,18}")


class Directory(ABC):
    """A directory of the tree.

    Args:
        path: Below the table, for messages.
    """

    # A directory that shows one version, or lies in one that does.
    handle: Handle | None = None
    # The branch that the directory belongs to.
    branch: str | None = None

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def is_fixed(self) -> bool:
        """Whether its listing will always be the same."""
        return self.handle is not None and self.handle.is_fixed

    @abstractmethod
    def children(self) -> dict[str, Node]:
        """Return what it lists, by name."""

    @abstractmethod
    def child(self, name: str) -> Node | None:
        """Return what has a name, listed or not; None where there is nothing.

        Raises:
            FileNotFoundError: There is nothing, and more can be said of it.
        """

    def below(self, name: str) -> str:
        """Return the path of a child."""
        return f"{self.path}/{name}" if self.path else name


Node: TypeAlias = Directory | Leaf


class Root(Directory):
    """The directory of a table."""

    NAMES = (*_OF_BRANCH, "tags", "branches")

    def __init__(self, table: Table) -> None:
        super().__init__("")
        self._table = table

    def children(self) -> dict[str, Node]:
        self._table.require(Ref())
        found = {name: self.child(name) for name in self.NAMES}
        return {name: node for name, node in found.items() if node is not None}

    def child(self, name: str) -> Node | None:
        match name:
            case "tags":
                return Tags(self._table)
            case "branches":
                return Branches(self._table, name, "")
        return _of_branch(name, self._table, None, "")


class Versions(Directory):
    """The versions of a branch."""

    def __init__(self, table: Table, path: str, branch: str | None) -> None:
        super().__init__(path)
        self._table = table
        self.branch = branch

    def children(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for file in self._table.versions(self.branch):
            found |= _all_of_version(self._handle(file.version), self.below(str(file.version)))
        return found

    def child(self, name: str) -> Node | None:
        stem = _stem(name)
        if _VERSION.fullmatch(stem) is None:
            return None
        return _of_version(name, self._handle(int(stem)), self.below(stem))

    def _handle(self, version: int) -> Handle:
        return Handle(self._table, Ref(version=version, branch=self.branch))


class Changes(Directory):
    """What changed between versions of a branch."""

    def __init__(self, table: Table, path: str, branch: str | None) -> None:
        super().__init__(path)
        self._table = table
        self.branch = branch

    def children(self) -> dict[str, Node]:
        refs = [
            Ref(version=file.version, branch=self.branch)
            for file in self._table.versions(self.branch)
        ]
        leaves = [self._leaf(since, until, FILE) for since, until in pairwise(refs)]
        return {leaf.name: leaf for leaf in leaves}

    def child(self, name: str) -> Node | None:
        form = _form(name)
        refs = parse_changes(_stem(name), self.branch)
        return None if form is None or refs is None else self._leaf(*refs, form)

    def _leaf(self, since: Ref, until: Ref, form: Form) -> Leaf:
        return ChangesLeaf(Handle(self._table, since), Handle(self._table, until), form)


class Tags(Directory):
    """The tags of a table."""

    def __init__(self, table: Table) -> None:
        super().__init__("tags")
        self._table = table

    def children(self) -> dict[str, Node]:
        self._table.require(Ref())
        found: dict[str, Node] = {}
        for tag in self._table.tags:
            views = _all_of_version(Handle(self._table, Ref(tag=tag)), self.below(tag))
            if tag != _stem(tag):
                del views[tag]  # the name of a directory that reads as a file of another tag
            found |= views
        return found

    def child(self, name: str) -> Node | None:
        tag = _stem(name)
        try:
            ref = make_ref(tag=tag)
        except ValueError:  # no tag can be called so
            return None
        return _of_version(name, Handle(self._table, ref), self.below(tag))


class Branches(Directory):
    """The branches whose names start with a prefix, and what belongs to the branch of that name."""

    def __init__(self, table: Table, path: str, name: str) -> None:
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
            names.update(_OF_BRANCH)
        found = {name: self.child(name) for name in sorted(names)}
        return {name: node for name, node in found.items() if node is not None}

    def child(self, name: str) -> Node | None:
        own = None if self.branch is None else _of_branch(name, self._table, self.branch, self.path)
        nodes = [own, self._longer(name)]
        found = [node for node in nodes if node is not None]
        directories = [node for node in found if isinstance(node, Directory)]
        if len(directories) == 2:  # there is a branch `exp`, and one `exp/versions`
            return Both(*directories)
        return found[0] if found else None

    def _longer(self, name: str) -> Directory | None:
        prefix = f"{self._name}/{name}" if self._name else name
        longer = Branches(self._table, self.below(name), prefix)
        if longer.branch is None and not any(map(longer._is_below, self._table.branches)):
            return None
        return longer

    def _is_below(self, branch: str) -> bool:
        return not self._name or branch.startswith(self._name + "/")


class Both(Directory):
    """Two directories that have one path."""

    def __init__(self, first: Directory, second: Directory) -> None:
        super().__init__(first.path)
        self.branch = first.branch
        self._first, self._second = first, second

    def children(self) -> dict[str, Node]:
        return self._second.children() | self._first.children()

    def child(self, name: str) -> Node | None:
        return self._first.child(name) or self._second.child(name)


class VersionDirectory(Directory):
    """What there is of one version besides all its rows."""

    NAMES = ("columns", "fragments", *DOCUMENTS)

    def __init__(self, handle: Handle, path: str) -> None:
        super().__init__(path)
        self.handle: Handle = handle

    def children(self) -> dict[str, Node]:
        _ = self.handle.version
        return {name: self._child(name) for name in self.NAMES}

    def child(self, name: str) -> Node | None:
        return self._child(name) if name in self.NAMES else None

    def _child(self, name: str) -> Node:
        if name in DOCUMENTS:
            return Leaf(self.handle, f"/{name}", ".json")
        below = Columns if name == "columns" else FragmentDirectory
        return below(self.handle, self.below(name))


class FragmentDirectory(Directory):
    """The fragments of a version."""

    def __init__(self, handle: Handle, path: str) -> None:
        super().__init__(path)
        self.handle: Handle = handle

    def children(self) -> dict[str, Node]:
        return {f"{one}{FILE}": self._leaf(one, FILE) for one in self.handle.version.fragments}

    def child(self, name: str) -> Node | None:
        form = _form(name)
        stem = _stem(name)
        if form is None or _VERSION.fullmatch(stem) is None:
            return None
        if int(stem) not in self.handle.version.fragments:
            return None
        return self._leaf(int(stem), form)

    def _leaf(self, fragment: int, form: Form) -> Leaf:
        return Leaf(self.handle, f"/fragments/{fragment}{form}", form, Selection(fragment=fragment))


class Columns(Directory):
    """The columns of a version."""

    def __init__(self, handle: Handle, path: str) -> None:
        super().__init__(path)
        self.handle: Handle = handle

    def children(self) -> dict[str, Node]:
        names = [field.name for field in self.handle.version.manifest.fields]
        return {quote_column(name) + FILE: self._leaf((name,), FILE) for name in names}

    def child(self, name: str) -> Node | None:
        form = _form(name)
        if form is None:
            return None
        columns = tuple(unquote(column) for column in _stem(name).split(","))
        try:
            self.handle.version.rows(Selection(columns=columns))
        except ColumnNotFound as error:
            raise NoSuchPath(f"{self.below(name)}: {error}") from error
        return self._leaf(columns, form)

    def _leaf(self, columns: tuple[str, ...], form: Form) -> Leaf:
        name = ",".join(map(quote_column, columns))
        return Leaf(self.handle, f"/columns/{name}{form}", form, Selection(columns=columns))


def find(table: Table, parts: Sequence[str]) -> Node:
    """Return what is at a path below a table.

    Args:
        table: The table.
        parts: The names on the way.

    Raises:
        NoSuchPath: There is nothing; the message says what there is instead.
        NotALanceTable: There is no table.
        RefNotFound: There is no such version, tag or branch. What reading needs is found out when
            it is read, so that a node may be returned of a version that is not there.
        LanceError: What had to be read on the way could not be.
    """
    node: Node = Root(table)
    for position, part in enumerate(parts):
        if isinstance(node, Leaf):
            raise NoSuchPath(
                f"{table.url}: {'/'.join(parts[:position])} is a file, not a directory"
            )
        below = node.child(part)
        if below is None:
            where = " in ".join(part for part in (node.path, table.url) if part)
            raise NoSuchPath(missing(where, node, part))
        node = below
    return node


def require(node: Node, table: Table) -> None:
    """Make sure that a node which `find` returned is there; raises as `find` does."""
    if isinstance(node, ChangesLeaf):
        table.require(node.since.ref)
    if node.handle is not None:
        table.require(node.handle.ref)
    else:
        table.require(Ref(branch=node.branch))


def version_of(parts: Sequence[str]) -> int | None:
    """Return the version of the main branch that a path below a table leads to, if it names one."""
    if len(parts) < 2 or parts[0] != "versions" or _VERSION.fullmatch(_stem(parts[1])) is None:
        return None
    return int(_stem(parts[1]))


def quote_column(name: str) -> str:
    """Return the name of a column as it is written in a path."""
    return name.replace("%", "%25").replace(",", "%2C").replace("/", "%2F")


def missing(where: str, directory: Directory, name: str) -> str:
    """Say what a directory holds instead of a name.

    Args:
        where: The directory, as a user would write it.
        directory: The same.
        name: What is not there.
    """
    children = directory.children()
    stems = list(dict.fromkeys(map(_stem, children)))
    near = difflib.get_close_matches(_stem(name), stems, 3, 0.6)
    if near:
        said = f"did you mean {' or '.join(_like(name, one, children) for one in near)}?"
    elif stems:
        said = f"it has {', '.join(stems[:10])}{', …' if len(stems) > 10 else ''}"
    else:
        said = "it is empty"
    return f"{where}: there is no {name!r} in it; {said}"


def _like(name: str, stem: str, children: Iterable[str]) -> str:
    """Return a child by its stem, with the ending of another name where it may have that."""
    alike = [one for one in children if _stem(one) == stem]
    form = _form(name)
    if form is not None and _form(alike[0]) is not None:
        return stem + form
    return stem if stem in alike else alike[0]


def _all_of_version(handle: Handle, path: str) -> dict[str, Node]:
    name = path.rpartition("/")[2]
    names: Iterable[str] = (name + FILE, name + STREAM, name)
    return {name: _of_version(name, handle, path) for name in names}


def _of_version(name: str, handle: Handle, path: str) -> Node:
    """The file, the stream or the directory of a version.

    Args:
        name: What was asked for.
        handle: The version.
        path: The path of its directory.
    """
    rest = name.removeprefix(path.rpartition("/")[2])
    form = _form(rest)
    return VersionDirectory(handle, path) if form is None else Leaf(handle, form, form)


def _of_branch(name: str, table: Table, branch: str | None, path: str) -> Node | None:
    """What there is of a branch under a name; None where it is none of `_OF_BRANCH`.

    Args:
        name: What was asked for.
        table: The table.
        branch: None for the main one.
        path: The path of its directory.
    """

    def below(one: str) -> str:
        return f"{path}/{one}" if path else one

    if name == "versions":
        return Versions(table, below(name), branch)
    if name == "changes":
        return Changes(table, below(name), branch)
    newest = Handle(table, Ref(branch=branch))
    form = _form(name)
    if _stem(name) == HISTORY and form is not None:
        return HistoryLeaf(newest, form)
    return _of_version(name, newest, below("latest")) if name in _OF_BRANCH else None


def _form(name: str) -> Form | None:
    if name.endswith(FILE):
        return ".arrow"
    return ".arrows" if name.endswith(STREAM) else None


def _stem(name: str) -> str:
    form = _form(name)
    return name if form is None else name.removesuffix(form)
