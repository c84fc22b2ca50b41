"""The leaves of fields, and pages that were fetched of them (data files 2.1 and later).

Only leaf fields own columns. Pages that are alike are decoded as one, in pieces: those of a leaf
that follow each other make one array; small pieces of several leaves are decoded in one call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.layouts.chunk_runs import ChunkRun, decode
from lancefs.datafile.v2_1.layouts.page_reader import PageRows
from lancefs.datafile.v2_1.levels import Leaf

# Bytes of chunks of different leaves that are decoded in one call, for which they are copied; of
# values that are stored in less, so many are counted. Their arrays share memory.
_TOGETHER = 1024 * 1024
_LEAST = 2


class LeafField(NamedTuple):
    """A field that owns a column, and the fields around it, the innermost first."""

    field: Field
    around: tuple[Field, ...]

    @property
    def top(self) -> Field:
        """The column of the table that it is, or is a part of."""
        return self.around[-1] if self.around else self.field

    @property
    def scale(self) -> int:
        """How many rows its column has for each row of the table.

        A fixed-size list of structs is flattened: each of its items is a row of the columns below.
        """
        scale = 1
        for field in reversed(self.around):
            size = list_size(field)
            if size is None and field.logical_type != "struct":
                break  # rows of the columns below a list are rows of the table again
            scale *= size or 1
        return scale

    def place(self, column: int) -> str:
        """Return what errors call it, where it is that column of its file."""
        return f"{self.top.name}, column {column} ({self.field.name})"


# The number of a page; then rows of it, or the chunks with them, to be decoded with others.
FetchedPage: TypeAlias = tuple[int, PageRows | ChunkRun]


class FetchedLeaf(NamedTuple):
    """What was fetched of a leaf.

    Attributes:
        leaf: The leaf.
        stored: Its field as the file has it.
        url: The file.
        column: Which of its columns it is.
        pages: Of the column.
    """

    leaf: LeafField
    stored: Field
    url: str
    column: int
    pages: Sequence[FetchedPage]

    @property
    def place(self) -> str:
        """The column, as errors name it."""
        return self.leaf.place(self.column)


class FetchedRows(NamedTuple):
    """What was fetched of a file: how many rows, and of each leaf, in the order of `leaves_of`."""

    url: str
    rows: int
    leaves: Sequence[FetchedLeaf]


class _Group:
    """Runs of several pieces, all of one kind, that are decoded in one call."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[Sequence[ChunkRun]] = []
        self._decoded: list[Leaf | None] = []

    def add(self, runs: Sequence[ChunkRun], size: int) -> int:
        """Add the runs of a piece; return its position."""
        self.size += size
        self._pieces.append(runs)
        return len(self._pieces) - 1

    def take(self, position: int) -> Leaf:
        """Return the rows of a piece, once."""
        if not self._decoded:
            self._decoded = [*decode(self._pieces)]
            self._pieces = []
        found, self._decoded[position] = self._decoded[position], None
        assert found is not None
        return found


class Piece:
    """Pages of a leaf that are decoded as one.

    Args:
        page: The first of the pages.
    """

    def __init__(self, page: FetchedPage) -> None:
        self.pages = [page]
        self._group: tuple[_Group, int] | None = None

    @property
    def number(self) -> int:
        """That of its first page."""
        return self.pages[0][0]

    @property
    def runs(self) -> list[ChunkRun]:
        """The chunks of its pages; none where rows were fetched."""
        return [rows for _, rows in self.pages if isinstance(rows, ChunkRun)]

    def takes(self, page: FetchedPage) -> bool:
        """Add a page if it follows the last one, and can be decoded with it."""
        last, rows = self.pages[-1][1], page[1]
        if not (isinstance(last, ChunkRun) and isinstance(rows, ChunkRun)):
            return False
        if is_next := last.is_followed_by(rows):
            self.pages.append(page)
        return is_next

    def joins(self, group: _Group, size: int) -> None:
        """Have it decoded with the other pieces of a group."""
        self._group = group, group.add(self.runs, size)

    def rows(self) -> PageRows:
        """Return its rows, once.

        Raises:
            CorruptFile: A page is damaged: one of its own, or of the group.
            UnsupportedFeature: A page uses something that this release does not read.
        """
        first = self.pages[0][1]
        if not isinstance(first, ChunkRun):
            return first
        if self._group is None:
            return decode([self.runs])[0]
        group, position = self._group
        return group.take(position)


def pieces_of(leaves: Sequence[FetchedLeaf], are_joined: bool) -> list[Piece]:
    """Return the pages of a leaf, in pieces.

    Args:
        leaves: What was fetched of the leaf in each file.
        are_joined: Whether pages that can be decoded as one are.
    """
    pieces: list[Piece] = []
    for leaf in leaves:
        for page in leaf.pages:
            if not (are_joined and pieces and pieces[-1].takes(page)):
                pieces.append(Piece(page))
    return pieces


def decode_together(pieces: Iterable[Piece]) -> None:
    """Have small pieces of different leaves decoded in one call, where they are alike."""
    groups: dict[Hashable, _Group] = {}
    for piece in pieces:
        runs = piece.runs
        kind = runs[0].kind if runs else None
        if kind is None:
            continue
        size = sum([max(len(run.chunks), _LEAST * run.items) for run in runs])
        if kind not in groups or groups[kind].size + size > _TOGETHER:
            groups[kind] = _Group()
        piece.joins(groups[kind], size)


def leaves_of(fields: Sequence[Field]) -> list[LeafField]:
    """Return the fields that own a column, at or below some fields."""
    return [leaf for field in fields for leaf in leaves_below(field)]


def leaves_below(field: Field, around: tuple[Field, ...] = ()) -> Iterator[LeafField]:
    """Yield the fields that own a column, at or below a field."""
    if field.is_leaf:
        yield LeafField(field, around)
    else:
        for child in field.children:
            yield from leaves_below(child, (field, *around))


def list_size(field: Field) -> int | None:
    """Return the size of a fixed-size list that is no leaf; None for every other field."""
    if not field.logical_type.startswith("fixed_size_list:"):
        return None
    return int(field.storage_type.list_size)
