"""A few rows of leaves in lists and structs, read in two calls of kernels (2.1 and later).

The first call finds the levels of the rows, and the positions of their values; the second one reads
the values at these positions, as `points` does at rows. See `nested_plans` for the pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.buffers import check_size
from lancefs.datafile.kernels import take_levels, unravel
from lancefs.datafile.kernels.layers import LeafLevels
from lancefs.datafile.kernels.levels import LEVEL_POSITIONS, LevelColumn, TakenLevels
from lancefs.datafile.kernels.points import POSITIONS, PageColumn, rows_by_page
from lancefs.datafile.v2_1.kernel_choice import is_worthwhile
from lancefs.datafile.v2_1.leaf_columns import LeafField, LeafRows
from lancefs.datafile.v2_1.levels import Unravelled, kinds_of
from lancefs.datafile.v2_1.point_plans import LeafPlan, LevelPlan, PlanTable
from lancefs.datafile.v2_1.points import (
    PointSource,
    Reading,
    in_leaves,
    read_values,
)
from lancefs.errors import Refusal, locating
from lancefs.storage import Bytes


class FilePlan:
    """How a few rows of some leaves of a file are read.

    Args:
        leaves: The leaves.
        plans: Their plans.

    Attributes:
        leaves: The leaves: those of flat pages, then those with levels.
        table: Their plans.
        flat: Number of leaves of flat pages.
        levels: The plans of the levels of the others.
        span: Byte range of the file that has all pages.
    """

    def __init__(self, leaves: Sequence[LeafField], plans: Sequence[LeafPlan]) -> None:
        planned = list(zip(leaves, plans, strict=True))
        flat = [(leaf, plan) for leaf, plan in planned if plan.levels is None]
        nested = [(leaf, plan) for leaf, plan in planned if plan.levels is not None]
        self.leaves = [leaf for leaf, _ in (*flat, *nested)]
        self.table = PlanTable([plan for _, plan in (*flat, *nested)])
        self.flat = len(flat)
        self.levels = [plan.levels for _, plan in nested if plan.levels is not None]
        self.span = self.table.span
        self._plans = tuple(plans)
        # Pages without chunks are read row by row in any way.
        self._shapes = {(plan.rows, plan.values) for plan in plans if not plan.is_flat}
        self._level_pages: Ints | None = None

    def is_of(self, plans: Sequence[LeafPlan]) -> bool:
        """Whether these are the plans of the leaves."""
        return len(plans) == len(self._plans) and all(map(is_, plans, self._plans))

    def is_worthwhile(self, count: int) -> bool:
        """Whether so many rows of all leaves are few enough to be read singly."""
        return all(is_worthwhile(count, *shape) for shape in self._shapes)

    @property
    def level_pages(self) -> Ints:
        """How the levels of all pages are stored, with positions from the span on."""
        if self._level_pages is None:
            pages = np.concatenate([levels.pages for levels in self.levels])
            pages[:, LEVEL_POSITIONS] -= self.span[0]
            counts = self.table.counts[self.flat :]
            pages[:, LevelColumn.FIRST_VALUE] = _firsts(pages[:, LevelColumn.VALUES], counts)
            pages.flags.writeable = False
            self._level_pages = pages
        return self._level_pages


class FoundLeaves(NamedTuple):
    """The rows of leaves, with the lists and structs around them.

    Attributes:
        leaves: The rows of each leaf, by field id.
        size: Number of bytes that were looked at.
        places: Number of places where they are.
        refusal: The error of a kernel that refused pages, so that no leaf was read: reading page by
            page must fail too, and says what is damaged. None if none did.
    """

    leaves: dict[int, LeafRows]
    size: int = 0
    places: int = 0
    refusal: Refusal | None = None


def read_leaves(
    plans: Sequence[FilePlan], rows: Sequence[Ints], data: Sequence[Bytes]
) -> FoundLeaves:
    """Read the same rows of some leaves, of one or several files.

    Args:
        plans: The plan of each file. The leaves are the same; the plans of a leaf have the same
            type and form in all files, and all of them have levels or none has.
        rows: The rows of each file: int64, shape (rows,), ascending and each once.
        data: The bytes of each file that are in the span of its plan: uint8, shape (bytes,).

    Returns:
        The rows of the files, one after the other.

    Raises:
        CorruptFile: A page is damaged.
        TooLarge: The rows have more bytes than `limited` allows.
        MemoryLimitExceeded: They do, and no fewer rows can be read.
    """
    first = plans[0]
    sources = [
        PointSource(plan.table, own, bytes_of_file, plan.span[0])
        for plan, own, bytes_of_file in zip(plans, rows, data, strict=True)
    ]
    reading = Reading.of(sources)
    if first.flat == len(first.leaves):
        points = read_values(reading)
        pairs = zip(first.leaves, points.arrays, strict=True)
        found = {leaf.field.id: LeafRows.in_valid_structs(leaf, values) for leaf, values in pairs}
        return FoundLeaves(found, points.size, points.places)
    taken, levels = _take_levels(plans, reading)
    nested = first.leaves[first.flat :]
    layers = _unravel(_level_plans(plans), taken)
    values = taken.counts[:, 1]
    check_size(int(values @ first.table.bits[first.flat :]) // 8)
    points = read_values(_by_value(reading, first, taken, levels, layers))
    found = {}
    for leaf, array in zip(first.leaves[: first.flat], points.arrays, strict=False):
        found[leaf.field.id] = LeafRows.in_valid_structs(leaf, array)
    for leaf, array, (_, *outer) in zip(nested, points.arrays[first.flat :], layers, strict=True):
        ids = [field.id for field in leaf.around]
        found[leaf.field.id] = LeafRows(array, dict(zip(ids, outer, strict=True)))
    size, places = taken.seen.tolist()
    return FoundLeaves(found, points.size + size, points.places + places)


def check_levels_of(
    plan: FilePlan, rows: Ints, data: Bytes, url: str, columns: Mapping[int, int]
) -> None:
    """Check the levels of rows that `read_leaves` refused, page by page.

    The page-by-page path reads small pages whole, and would not look at their repetition index.

    Args:
        plan: The plan of a file.
        rows: The rows, as for `read_leaves`.
        data: The bytes of the file that are in the span of the plan.
        url: The file.
        columns: Column index of each leaf field, by field id.

    Raises:
        CorruptFile: The levels of a page are damaged.
    """
    for leaf, own in zip(plan.leaves, plan.table.plans, strict=True):
        if own.levels is None:
            continue
        pages, levels = own.pages.copy(), own.levels.pages.copy()
        pages[:, POSITIONS] -= plan.span[0]
        levels[:, LEVEL_POSITIONS] -= plan.span[0]
        place = leaf.place(columns[leaf.field.id])
        with locating(url, place):
            found = list(rows_by_page(pages, rows))
        for page, some in found:
            of_page = pages[page : page + 1], levels[page : page + 1], np.array([[0, 1]])
            with locating(url, f"{place}, page {page}"):
                take_levels([data], *of_page, some)


def _take_levels(plans: Sequence[FilePlan], reading: Reading) -> tuple[TakenLevels, Ints]:
    """Return the levels of the rows of leaves that have some, and how those of pages are stored."""
    flat, counts = plans[0].flat, reading.counts
    levels = _levels_of(plans, reading)
    pages = reading.pages[int(counts[:flat].sum()) :]
    return take_levels(reading.pieces, pages, levels, _bounds(counts[flat:]), reading.rows), levels


def _bounds(counts: Ints) -> Ints:
    """Return where parts of these sizes begin, one after the other, and the sizes themselves."""
    bounds = np.empty((len(counts), 2), np.int64)
    bounds[:, 0], bounds[:, 1] = counts.cumsum() - counts, counts
    return bounds


def _levels_of(plans: Sequence[FilePlan], reading: Reading) -> Ints:
    """Return how the levels of all pages are stored, with positions in the bytes of all files."""
    if len(plans) == 1:
        return plans[0].level_pages
    parts, position = [], 0
    for plan, source in zip(plans, reading.sources, strict=True):
        own = plan.level_pages.copy()
        own[:, LEVEL_POSITIONS] += position
        parts.append(own)
        position += len(source.data)
    flat = plans[0].flat
    levels = in_leaves([plan.table.counts[flat:] for plan in plans], parts)
    levels[:, LevelColumn.FIRST_VALUE] = _firsts(
        levels[:, LevelColumn.VALUES], reading.counts[flat:]
    )
    return levels


def _by_value(
    reading: Reading,
    plan: FilePlan,
    taken: TakenLevels,
    levels: Ints,
    layers: Sequence[Sequence[Unravelled]],
) -> Reading:
    """Return what is read of the leaves with levels by their values, and of the others by rows."""
    pages, count = reading.pages.copy(), len(reading.rows)
    nested = pages[len(pages) - len(levels) :]
    nested[:, PageColumn.FIRST_ROW] = levels[:, LevelColumn.FIRST_VALUE]
    nested[:, PageColumn.ROWS] = levels[:, LevelColumn.VALUES]
    wanted = reading.wanted.copy()
    wanted[plan.flat :] = _bounds(taken.counts[:, 1])
    wanted[plan.flat :, 0] += count
    rows = np.concatenate((reading.rows, taken.positions))
    valid = [innermost.validity for innermost, *_ in layers]
    return reading._replace(pages=pages, rows=rows, wanted=wanted, valid=valid)


def _firsts(values: Ints, pages: Ints) -> Ints:
    """Return the position of the first value of each page among those of its leaf.

    Args:
        values: Number of values of each page, leaf by leaf: int64, shape (pages,).
        pages: Number of pages of each leaf: int64, shape (leaves,).
    """
    before = np.cumsum(values) - values
    firsts: Ints = before - np.repeat(before[np.cumsum(pages) - pages], pages)
    return firsts


def _level_plans(plans: Sequence[FilePlan]) -> Sequence[LevelPlan]:
    """Return the plan of each leaf in the first file, defined if a page of any file is."""
    if len(plans) == 1:
        return plans[0].levels
    return [
        own[0]._replace(is_defined=any(levels.is_defined for levels in own))
        for own in zip(*(plan.levels for plan in plans), strict=True)
    ]


def _unravel(plans: Sequence[LevelPlan], taken: TakenLevels) -> list[list[Unravelled]]:
    """Return the layers of each leaf, innermost first."""
    leaves = [
        LeafLevels(items, values, kinds_of(plan.layers), plan.has_lists, plan.is_defined)
        for plan, (items, values) in zip(plans, taken.counts.tolist(), strict=True)
    ]
    found = unravel(taken.rep, taken.definition, leaves)
    return [[Unravelled(*layer) for layer in layers] for layers in found]
