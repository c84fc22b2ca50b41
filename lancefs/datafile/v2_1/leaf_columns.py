"""Leaf fields, and the fetched pages of their columns (data files 2.1 and later).

Only leaf fields own columns. Consecutive pages of a leaf with equal descriptions form a group,
which is decoded into one array. Small groups of different leaves are decoded in one call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.layouts.chunk_runs import ChunkRun, decode
from lancefs.datafile.v2_1.layouts.page_reader import PageRows
from lancefs.datafile.v2_1.levels import DecodedPage, Unravelled
from lancefs.errors import Refusal

# The bytes of chunks of different leaves that one call decodes at most: the chunks are copied for
# it, and the arrays share memory. A value counts as at least this many bytes.
_MAX_BYTES = 1024 * 1024
_MIN_VALUE_BYTES = 2


class LeafField(NamedTuple):
    """A field that owns a column.

    Attributes:
        field: The field.
        around: The fields around it, the innermost first.
    """

    field: Field
    around: tuple[Field, ...]

    @property
    def top(self) -> Field:
        """The column of the table that the leaf is, or is a part of."""
        return self.around[-1] if self.around else self.field

    @property
    def scale(self) -> int:
        """Number of rows of the leaf's column for each row of the table.

        A fixed-size list of structs is flattened: each of its items is a row of the columns below.
        """
        scale = 1
        for field in reversed(self.around):
            size = list_size(field)
            if size is None and field.logical_type != "struct":
                break  # rows of the columns below a list are rows of the table again
            scale *= size or 1
        return scale

    @property
    def declared_scale(self) -> int:
        """Number of rows that pages of the leaf may declare for each row of the table.

        Writers also multiply the rows where the fixed-size list of structs is inside of a list.
        """
        return prod(list_size(field) or 1 for field in self.around)

    @property
    def first_validity(self) -> int:
        """The first of the layers, innermost first, that decide about the validity of a column.

        Those inside of it do not, where only the validity of the column is read.
        """
        fields = (self.field, *self.around)
        return max(number for number, field in enumerate(fields) if field.is_validity)

    def place(self, column: int) -> str:
        """Return how errors name the leaf, as the column of a file with that index."""
        return f"{self.top.name}, column {column} ({self.field.name})"


class LeafRows(NamedTuple):
    """Rows of one leaf.

    Attributes:
        values: The values of the leaf.
        layers: The layer of each field around the leaf, by field id.
    """

    values: pa.Array
    layers: Mapping[int, Unravelled]

    @classmethod
    def in_valid_structs(cls, leaf: LeafField, values: pa.Array) -> LeafRows:
        """Return the values of a leaf around which are structs only, none of which is null."""
        if not leaf.around:
            return cls(values, {})
        valid = Unravelled(None, None, len(values))
        return cls(values, {field.id: valid for field in leaf.around})


# The index of a page in its column; then decoded rows, or the fetched chunks with the rows.
FetchedPage: TypeAlias = tuple[int, PageRows | ChunkRun]


class FetchedLeaf(NamedTuple):
    """The fetched pages of a leaf, in one file.

    Attributes:
        leaf: The leaf.
        stored: Its field as the file describes it.
        url: The file.
        column: The index of its column in the file.
        pages: The pages with the rows that were asked for.
        decoded: The rows, of a leaf that is decoded already and has no pages here; else None.
    """

    leaf: LeafField
    stored: Field
    url: str
    column: int
    pages: Sequence[FetchedPage]
    decoded: LeafRows | None = None

    @property
    def place(self) -> str:
        """The column, as errors name it."""
        return self.leaf.place(self.column)


class FetchedRows(NamedTuple):
    """The fetched rows of a file.

    Attributes:
        url: The file.
        rows: Number of rows.
        leaves: The pages of each leaf, in the order of `leaves_of`.
        refusal: The error of a joined decoder, if one refused pages that came with `leaves`.
    """

    url: str
    rows: int
    leaves: Sequence[FetchedLeaf]
    refusal: Refusal | None


class _JointDecode:
    """Groups of pages of one kind that one call decodes, once the first result is asked for."""

    def __init__(self) -> None:
        self.size = 0  # in bytes
        self._runs: list[Sequence[ChunkRun]] = []
        self._decoded: list[DecodedPage | None] = []

    def add(self, runs: Sequence[ChunkRun], size: int) -> int:
        """Add the chunks of a group; return its position."""
        self.size += size
        self._runs.append(runs)
        return len(self._runs) - 1

    def take(self, position: int) -> DecodedPage:
        """Return the rows of the group at a position, once."""
        if not self._decoded:
            self._decoded = [*decode(self._runs)]
            self._runs = []
        rows, self._decoded[position] = self._decoded[position], None
        assert rows is not None
        return rows


class PageGroup:
    """Consecutive pages of a leaf, also across files, that are decoded as one.

    Args:
        leaf: The leaf, in the file of the first page.
        page: The first page.
    """

    def __init__(self, leaf: FetchedLeaf, page: FetchedPage) -> None:
        self.leaf = leaf
        self.pages = [page]
        self._joint: tuple[_JointDecode, int] | None = None

    @property
    def number(self) -> int:
        """Index of the first page in its column."""
        return self.pages[0][0]

    @property
    def runs(self) -> list[ChunkRun]:
        """The chunks of the pages; empty where a page came as decoded rows."""
        return [rows for _, rows in self.pages if isinstance(rows, ChunkRun)]

    def append(self, page: FetchedPage) -> bool:
        """Add a page if it can be decoded with the last one; return whether it was added."""
        last, rows = self.pages[-1][1], page[1]
        if not (isinstance(last, ChunkRun) and isinstance(rows, ChunkRun)):
            return False
        if can_follow := last.is_followed_by(rows):
            self.pages.append(page)
        return can_follow

    def decode_in(self, joint: _JointDecode, size: int) -> None:
        """Have the pages, of `size` bytes, decoded together with other groups."""
        self._joint = joint, joint.add(self.runs, size)

    def rows(self) -> PageRows:
        """Return the rows of the pages, once.

        Raises:
            CorruptFile: A page is damaged, of this group or of one that is decoded together with
                it.
            UnsupportedFeature: A page uses something that this release does not read.
        """
        first = self.pages[0][1]
        if not isinstance(first, ChunkRun):
            return first
        if self._joint is None:
            return decode([self.runs])[0]
        joint, position = self._joint
        return joint.take(position)


def group_pages(leaves: Sequence[FetchedLeaf], are_joined: bool) -> list[PageGroup]:
    """Return the pages of a leaf, in groups that are decoded as one.

    Args:
        leaves: The fetched pages of the leaf in each file.
        are_joined: Whether a group takes all pages that can be decoded as one; else every page is
            a group of its own.
    """
    groups: list[PageGroup] = []
    for leaf in leaves:
        if leaf.decoded is not None:
            are_joined = False  # the rows before and after belong to different groups
        for page in leaf.pages:
            if not (are_joined and groups and groups[-1].append(page)):
                groups.append(PageGroup(leaf, page))
    return groups


def decode_together(groups: Iterable[PageGroup]) -> None:
    """Have small groups of different leaves decoded in one call, where their kinds are equal."""
    joints: dict[Hashable, _JointDecode] = {}
    for group in groups:
        runs = group.runs
        kind = runs[0].kind if runs else None
        if kind is None:
            continue
        size = sum([max(len(run.chunks), _MIN_VALUE_BYTES * run.items) for run in runs])
        if kind not in joints or joints[kind].size + size > _MAX_BYTES:
            joints[kind] = _JointDecode()
        group.decode_in(joints[kind], size)


def leaves_of(fields: Sequence[Field]) -> list[LeafField]:
    """Return the fields that own a column, at or below the given fields."""
    return [leaf for field in fields for leaf in leaves_below(field)]


def leaves_below(field: Field, around: tuple[Field, ...] = ()) -> Iterator[LeafField]:
    """Yield the fields that own a column, at or below a field.

    Args:
        field: The field.
        around: The fields around it, the innermost first.
    """
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
