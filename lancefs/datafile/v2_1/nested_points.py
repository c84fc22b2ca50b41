"""A few rows of leaves in lists and structs, read in two calls of kernels (2.1 and later).

The first call finds the levels of the rows, and the positions of their values; the second one reads
the values at these positions, as `points` does at rows. See `nested_plans` for the pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Constant, Ints, Mask
from lancefs.datafile.buffers import check_size
from lancefs.datafile.kernels import take_levels
from lancefs.datafile.kernels.levels import LEVEL_POSITIONS, LevelColumn, TakenLevels
from lancefs.datafile.kernels.points import POSITIONS, PageColumn, rows_by_page
from lancefs.datafile.v2_1.leaf_columns import LeafField, LeafRows
from lancefs.datafile.v2_1.levels import DecodedPage, Unravelled
from lancefs.datafile.v2_1.point_plans import LeafPlan, LevelPlan, PlanTable
from lancefs.datafile.v2_1.points import (
    Points,
    PointSource,
    Reading,
    in_leaves,
    read_points,
    read_values,
)
from lancefs.errors import locating
from lancefs.storage import Bytes


class FilePlan:
    """How a few rows of some leaves of a file are read.

    Args:
        leaves: The leaves.
        plans: Their plans.

    Attributes:
        leaves: The leaves: those of flat pages, then those with levels.
        plans: Their plans.
        tables: The plans of both kinds, without those kinds that have no leaf.
        span: Byte range of the file that has all pages.
    """

    def __init__(self, leaves: Sequence[LeafField], plans: Sequence[LeafPlan]) -> None:
        known = list(zip(leaves, plans, strict=True))
        flat = [(leaf, plan) for leaf, plan in known if plan.levels is None]
        nested = [(leaf, plan) for leaf, plan in known if plan.levels is not None]
        kinds = [kind for kind in (flat, nested) if kind]
        self.leaves = [[leaf for leaf, _ in kind] for kind in kinds]
        self.tables = [PlanTable([plan for _, plan in kind]) for kind in kinds]
        starts, ends = zip(*(table.span for table in self.tables), strict=True)
        self.span = min(starts), max(ends)
        self.plans = tuple(plans)

    def is_of(self, plans: Sequence[LeafPlan]) -> bool:
        """Whether these are the plans of the leaves."""
        return len(plans) == len(self.plans) and all(map(is_, plans, self.plans))


class FoundLeaves(NamedTuple):
    """The rows of leaves, with the lists and structs around them.

    Attributes:
        leaves: The rows of each leaf, by field id.
        size: Number of bytes that were looked at.
        places: Number of places where they are.
    """

    leaves: dict[int, LeafRows]
    size: int
    places: int


def read_leaves(
    plans: Sequence[FilePlan], rows: Sequence[Ints], data: Sequence[Bytes]
) -> FoundLeaves:
    """Read the same rows of some leaves, of one or several files.

    Args:
        plans: The plan of each file. The leaves are the same; the plans of a leaf have the same
            type and form in all files, and all of them have levels or none has.
        rows: The rows of each file, ascending and each once.
        data: The bytes of each file that are in the span of its plan.

    Returns:
        The rows of the files, one after the other.

    Raises:
        CorruptFile: A page is damaged.
        TooLarge: The rows have more bytes than `limited` allows.
        MemoryLimitExceeded: They do, and no fewer rows can be read.
    """
    found, size, places = dict[int, LeafRows](), 0, 0
    for kind, leaves in enumerate(plans[0].leaves):
        sources = [
            PointSource(plan.tables[kind], own, bytes_of_file, plan.span[0])
            for plan, own, bytes_of_file in zip(plans, rows, data, strict=True)
        ]
        if plans[0].tables[kind].plans[0].levels is None:
            points = read_points(sources)
            pairs = zip(leaves, points.arrays, strict=True)
            of_kind = [LeafRows.in_valid_structs(leaf, values) for leaf, values in pairs]
        else:
            of_kind, points = _read_nested(sources, leaves)
        found |= {leaf.field.id: one for leaf, one in zip(leaves, of_kind, strict=True)}
        size, places = size + points.size, places + points.places
    return FoundLeaves(found, size, places)


def check_levels_of(
    plan: FilePlan, rows: Ints, data: Bytes, url: str, columns: Mapping[int, int]
) -> None:
    """Check the levels of rows that `read_leaves` refused, page by page.

    The general way reads small pages whole, and would not look at their repetition index.

    Args:
        plan: The plan of a file.
        rows: The rows, as for `read_leaves`.
        data: The bytes of the file that are in the span of the plan.
        url: The file.
        columns: Column index of each leaf field, by field id.

    Raises:
        CorruptFile: The levels of a page are damaged.
    """
    for table, leaves in zip(plan.tables, plan.leaves, strict=True):
        for leaf, own in zip(leaves, table.plans, strict=True):
            if own.levels is None:
                continue
            pages, levels = own.pages.copy(), own.levels.pages.copy()
            pages[:, POSITIONS] -= plan.span[0]
            levels[:, LEVEL_POSITIONS] -= plan.span[0]
            for page, some in rows_by_page(pages, rows):
                of_page = pages[page : page + 1], levels[page : page + 1], np.array([[0, 1]])
                with locating(url, f"{leaf.place(columns[leaf.field.id])}, page {page}"):
                    take_levels([data], *of_page, some)


def _read_nested(
    sources: Sequence[PointSource], leaves: Sequence[LeafField]
) -> tuple[list[LeafRows], Points]:
    """Read leaves in lists and structs at the same rows; return them, and what was looked at."""
    reading = Reading.of(sources)
    levels = _levels_of(reading)
    pages = _bounds(reading.counts)
    taken = take_levels(reading.pieces, reading.pages, levels, pages, reading.rows)
    layers = [
        _unravelled(plan, taken, leaf, len(reading.rows))
        for leaf, plan in enumerate(_level_plans(sources))
    ]
    values = taken.counts[:, 1]
    check_size(int(values @ sources[0].table.bits) // 8)
    by_value = reading._replace(
        pages=_by_value(reading, levels),
        rows=taken.positions,
        wanted=_bounds(values),
        valid=[innermost.validity for innermost, *_ in layers],
    )
    points = read_values(by_value)
    found = [
        LeafRows(values, {field.id: layer for field, layer in zip(leaf.around, outer, strict=True)})
        for leaf, values, (_, *outer) in zip(leaves, points.arrays, layers, strict=True)
    ]
    size, places = taken.seen.tolist()  # the values lie in the chunks of the levels
    return found, Points(points.arrays, size, places)


def _bounds(counts: Ints) -> Ints:
    """Return where parts of these sizes begin, one after the other, and the sizes themselves."""
    return np.stack((np.cumsum(counts) - counts, counts), axis=1)


def _levels_of(reading: Reading) -> Ints:
    """Return how the levels of all pages are stored, with positions in the bytes of all files."""
    parts, position = [], 0
    for source in reading.sources:
        own = np.concatenate([_levels(plan).pages for plan in source.table.plans])
        own[:, LEVEL_POSITIONS] += position - source.start
        parts.append(own)
        position += len(source.data)
    levels = in_leaves([source.table for source in reading.sources], parts)
    levels[:, LevelColumn.FIRST_VALUE] = _firsts(levels[:, LevelColumn.VALUES], reading.counts)
    return levels


def _by_value(reading: Reading, levels: Ints) -> Ints:
    """Return the pages with their values in place of their rows."""
    pages = reading.pages.copy()
    pages[:, PageColumn.FIRST_ROW] = levels[:, LevelColumn.FIRST_VALUE]
    pages[:, PageColumn.ROWS] = levels[:, LevelColumn.VALUES]
    return pages


def _firsts(values: Ints, pages: Ints) -> Ints:
    """Return the position of the first value of each page among those of its leaf.

    Args:
        values: Number of values of each page, leaf by leaf.
        pages: Number of pages of each leaf.
    """
    before = np.cumsum(values) - values
    firsts: Ints = before - np.repeat(before[np.cumsum(pages) - pages], pages)
    return firsts


def _levels(plan: LeafPlan) -> LevelPlan:
    assert plan.levels is not None  # as all plans here
    return plan.levels


def _level_plans(sources: Sequence[PointSource]) -> list[LevelPlan]:
    """Return the plan of each leaf in the first file, defined if a page of any file is."""
    of_files = [[_levels(plan) for plan in source.table.plans] for source in sources]
    return [
        plans[0]._replace(is_defined=any(plan.is_defined for plan in plans))
        for plans in zip(*of_files, strict=True)
    ]


def _unravelled(plan: LevelPlan, taken: TakenLevels, leaf: int, rows: int) -> list[Unravelled]:
    """Return the layers of a leaf, innermost first."""
    ends = np.cumsum(taken.counts[: leaf + 1, 0])
    own = slice(int(ends[-1] - taken.counts[leaf, 0]), int(ends[-1]))
    rep = taken.rep[own] if plan.has_lists else None
    definition = taken.definition[own] if plan.is_defined else None
    values = Constant(None, int(taken.counts[leaf, 1]))
    page = DecodedPage(values, rep, definition, plan.layers, rows)
    return [layer._replace(validity=_some_null(layer.validity)) for layer in page.unravel()]


def _some_null(valid: Mask | None) -> Mask | None:
    return None if valid is None or valid.all() else valid
