"""Rows of many small data files, by few calls of kernels (data files 2.1 and later).

Small appends leave thousands of files with one page in each column. One call finds the pages of all
files of a run, and another one reads their values, as if these were pages of one file; see
`point_plans` for the pages that it supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.buffers import reserve
from lancefs.datafile.container import parse_description
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels.footers import FileColumn
from lancefs.datafile.kernels.points import PageColumn
from lancefs.datafile.row_ranges import count_rows, rows_of
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.page_plans import (
    CODED,
    MAX_TABLE_BYTES,
    PagePlan,
    needs_dictionary,
    plan_page,
    value_bits,
)
from lancefs.datafile.v2_1.point_plans import LeafPlan, PageDictionary, PlanTable
from lancefs.datafile.v2_1.points import PointSource, Reading, read_values
from lancefs.errors import CorruptFile, MemoryLimitExceeded, Refusal, UnsupportedFeature
from lancefs.storage import Bytes, count_pages

_SUPPORTED_VERSIONS = ((2, 1), (2, 3))  # the first and the last
# Columns of the table of files that are columns of the table of pages.
_BUFFERS = slice(FileColumn.FIRST, FileColumn.SECOND_END + 1)
_ITEMS = slice(FileColumn.THIRD, FileColumn.THIRD_END + 1)
_CHUNKS = slice(FileColumn.SECOND, FileColumn.SECOND_END + 1)
_POSITION_BITS = 64  # of a wanted row
# Most rows of a byte of the chunks that kernels support: a block of 1024 numbers of no bits has a
# chunk of 8 bytes at least.
_MAX_ROWS_OF_BYTE = 128


# A field, bits of its values, its page in each file, rows of each file, and the bytes of the files;
# see `plan_small`.
PlanSmall: TypeAlias = Callable[[Field, int, Ints, Ints, Bytes], LeafPlan | None]


class SmallFiles(NamedTuple):
    """Small files, with the rows to read of each.

    Attributes:
        data: The bytes of all files, one after the other: uint8, shape (bytes,).
        bounds: Where each file begins and ends among them: int64, shape (files, 2).
        rows: The number of rows of each file: int64, shape (files,).
        ranges: Rows to read of each file, ascending and disjoint; None for all.
    """

    data: Bytes
    bounds: Ints
    rows: Ints
    ranges: Sequence[Sequence[RowRange]] | None


class SmallRows(NamedTuple):
    """What was read of small files.

    Attributes:
        arrays: The rows of the fields that a kernel could read, by field id.
        refusal: The error of a decoder that refused pages; another one says what is damaged. The
            rows of these pages are not always all wanted.
        size: Number of bytes that were looked at.
    """

    arrays: dict[int, pa.Array]
    refusal: Refusal | None = None
    size: int = 0


class SupportedField(NamedTuple):
    """A field whose pages kernels may support.

    Attributes:
        field: The field.
        column: Index of its column.
        bits: Bits of a value; 0 for strings.
    """

    field: Field
    column: int
    bits: int


def supported_fields(columns: Mapping[int, int], fields: Sequence[Field]) -> list[SupportedField]:
    """Return those fields whose pages kernels may support, in the order of their columns.

    Args:
        columns: Index of the column of each field, by field id.
        fields: The fields.
    """
    supported = [
        SupportedField(field, columns[field.id], bits)
        for field in fields
        if field.is_leaf and not field.is_outline and not field.is_blob
        if field.id in columns
        and (bits := value_bits(field.storage_type)) is not None
        and bits != CODED
    ]
    return sorted(supported, key=lambda one: one.column)


def decode_small(
    files: SmallFiles, supported: Sequence[SupportedField], tables: Ints, make_plan: PlanSmall
) -> SmallRows:
    """Decode the rows of those fields whose pages kernels support.

    Args:
        files: The files, with the same columns, of formats that `are_supported`.
        supported: The fields; see `supported_fields`.
        tables: The page of each field in each file; see `FileColumn`: int64, shape (fields, files,
            columns).
        make_plan: Plans how a leaf is read; see `plan_small`.
    """
    data, rows = files.data, files.rows
    plans: dict[int, LeafPlan] = {}
    for (field, _, bits), pages in zip(supported, tables, strict=True):
        with suppress(CorruptFile, UnsupportedFeature):  # the page-by-page path says what is wrong
            plan = make_plan(field, bits, pages, rows, data)
            if plan is not None:
                plans[field.id] = plan
    if not plans:
        return SmallRows({})
    ranges = files.ranges
    count = int(rows.sum()) if ranges is None else sum(map(count_rows, ranges))
    bits = _POSITION_BITS + sum(plan.bits for plan in plans.values())
    try:
        # The number of rows is what the files tell, and no page was opened yet.
        reserve(count * bits // 8, len(data))
        wanted = _wanted_rows(files)
        source = PointSource(PlanTable([*plans.values()]), wanted, data, 0)
        points = read_values(Reading.of([source]))
    except (CorruptFile, UnsupportedFeature) as error:
        return SmallRows({}, error)
    except MemoryLimitExceeded:  # page by page, less is decoded at once
        return SmallRows({})
    count_pages(len(plans) * (len(rows) if ranges is None else sum(map(bool, map(len, ranges)))))
    return SmallRows(dict(zip(plans, points.arrays, strict=True)), size=points.size)


def are_supported(versions: Ints) -> bool:
    """Return whether all files have a format whose pages are read here.

    Args:
        versions: Major and minor version of each file, as its footer tells: int64, shape (files,
            2).
    """
    (major, first), (_, last) = _SUPPORTED_VERSIONS
    minor = versions[:, 1]
    return bool(((versions[:, 0] == major) & (minor >= first) & (minor <= last)).all())


def _wanted_rows(files: SmallFiles) -> Ints:
    """Return the wanted rows, among those of all files."""
    if files.ranges is None:
        return np.arange(int(files.rows.sum()))
    firsts = (np.cumsum(files.rows) - files.rows).tolist()
    return np.concatenate(
        [rows_of(ranges) + first for ranges, first in zip(files.ranges, firsts, strict=True)]
    )


def plan_small(field: Field, bits: int, pages: Ints, rows: Ints, data: Bytes) -> LeafPlan | None:
    """Plan how a leaf is read, as `plan_leaf` does for one file.

    Args:
        field: The leaf.
        bits: Bits of its values.
        pages: Its page in each file; see `FileColumn`: int64, shape (files, columns).
        rows: The number of rows of each file: int64, shape (files,).
        data: The bytes of the files.

    Raises:
        CorruptFile: The description of a page is damaged.
        UnsupportedFeature: The layout of a page is not known.
    """
    likes = pages[:, FileColumn.LIKE]
    distinct = np.flatnonzero(likes == np.arange(len(pages)))
    described = _describe(pages[distinct], bits, data)
    if described is None:
        return None
    descriptions, page_plans = described
    index, own = np.searchsorted(distinct, likes), pages[:, FileColumn.ROWS]
    counts = np.array([(each.items, each.dictionary_items) for each in descriptions])[index]
    has_dictionary = np.array([each.has_dictionary for each in descriptions])[index]
    tables = pages[:, FileColumn.FIRST_END] - pages[:, FileColumn.FIRST]
    chunks = pages[:, FileColumn.SECOND_END] - pages[:, FileColumn.SECOND]
    is_sound = (own == rows) & (own == counts[:, 0]) & (tables <= MAX_TABLE_BYTES)
    is_sound &= pages[:, FileColumn.BUFFERS] >= 2 + has_dictionary
    is_sound &= own <= _MAX_ROWS_OF_BYTE * chunks
    if not is_sound.all():
        return None
    plans = np.empty((len(pages), len(PageColumn)), np.int64)
    plans[:, PageColumn.FIRST_ROW] = np.cumsum(rows) - rows
    plans[:, PageColumn.ROWS] = rows
    plans[:, PageColumn.TABLE : PageColumn.CHUNKS_END + 1] = pages[:, _BUFFERS]
    stored = np.array([each.stored for each in page_plans])[index]
    plans[:, PageColumn.ENTRY : PageColumn.WIDTH + 1] = stored
    items = np.where(has_dictionary[:, np.newaxis], pages[:, _ITEMS], pages[:, _CHUNKS])
    plans[:, PageColumn.ITEMS : PageColumn.ITEMS_END + 1] = items
    plans[:, PageColumn.ITEM_COUNT] = counts[:, 1]
    form, dictionaries = page_plans[0].form, []
    if needs_dictionary(form.form):
        pairs = zip(index.tolist(), items.tolist(), strict=True)
        dictionaries = [
            PageDictionary(descriptions[at], (start, end)) for at, (start, end) in pairs
        ]
    has_levels = bool(plans[:, PageColumn.LEVELS].any())
    shape = form.bits, has_levels, int(rows.sum()), (0, len(data))
    return LeafPlan(plans, dictionaries, field.storage_type, form.form, *shape, is_read_once=True)


def _describe(
    pages: Ints, bits: int, data: Bytes
) -> tuple[Sequence[MiniBlock], Sequence[PagePlan]] | None:
    """Return the descriptions of pages, and what they tell; None where a kernel reads one not.

    Args:
        pages: The pages; see `FileColumn`: int64, shape (pages, columns), one at least.
        bits: Bits of their values.
        data: The bytes of the files.

    Raises:
        CorruptFile: A description is damaged.
        UnsupportedFeature: The layout of a page is not known.
    """
    descriptions, plans = list[MiniBlock](), list[PagePlan]()
    for page in pages:
        text = data[page[FileColumn.DESCRIPTION] : page[FileColumn.DESCRIPTION_END]].tobytes()
        description = layout_of(parse_description(text))
        plan = plan_page(description, bits, 0) if isinstance(description, MiniBlock) else None
        if plan is None or plan.packed is not None or not isinstance(description, MiniBlock):
            return None
        if plan.form.dimension or (plans and plan.form != plans[0].form):  # no field has vectors
            return None
        descriptions.append(description)
        plans.append(plan)
    return descriptions, plans
