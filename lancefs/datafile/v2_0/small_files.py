"""Plans of the pages of many small data files, which are read as those of one (data files 2.0).

See `v2_1.small_files` for the reading, and `plain_pages` for the pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from lancefs.datafile.blocks import Ints
from lancefs.datafile.container import parse_description
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels.footers import MAX_BUFFERS, FileColumn
from lancefs.datafile.kernels.pages import PageColumn
from lancefs.datafile.v2_0.descriptions import check_column, parse_form
from lancefs.datafile.v2_0.plain_pages import DictionaryForm, PageForm, PlainForm, values_of
from lancefs.datafile.v2_0.point_plans import adjustment, form_of, plan_page
from lancefs.datafile.v2_1.page_plans import SPAN_BITS
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.datafile.v2_1.small_files import SmallFiles
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import Bytes

_FOOTER = 40
_TABLES_AT, _COUNT_AT = slice(16, 24), slice(24, 28)  # of global buffers, in the footer
_ENTRY = 16
# Between the tables and the footer of files that Lance 0.10 wrote before the format was final.
_TRIED_OUT = 8


def is_supported(files: SmallFiles, versions: Ints) -> bool:
    """Return whether all files have the format 2.0, as it was in the end.

    Args:
        files: The files.
        versions: Major and minor version of each file, as its footer tells: int64, shape (files,
            2).
    """
    if not (versions == (0, 3)).all():
        return False
    ends = files.bounds[:, 1]
    footers = files.data[ends[:, None] - _FOOTER + np.arange(_FOOTER)]
    tables = footers[:, _TABLES_AT].copy().view("<u8")[:, 0].astype(np.int64)
    counts = footers[:, _COUNT_AT].copy().view("<u4")[:, 0].astype(np.int64)
    sizes = ends - files.bounds[:, 0]
    return bool((tables + _ENTRY * counts != sizes - _FOOTER - _TRIED_OUT).all())


def plan_small(field: Field, bits: int, pages: Ints, rows: Ints, data: Bytes) -> LeafPlan | None:
    """Plan how a leaf is read, as `plan_leaf` does for one file.

    Args:
        field: The leaf.
        bits: Bits of its values; 0 for strings.
        pages: Its page in each file; see `FileColumn`: int64, shape (files, columns).
        rows: The number of rows of each file: int64, shape (files,).
        data: The bytes of the files.

    Returns:
        None where a page is not plain, or does not have the rows of its file.

    Raises:
        CorruptFile: A description is damaged, or a page lacks a buffer.
        UnsupportedFeature: A description is of a kind that is not known.
    """
    if (pages[:, FileColumn.ROWS] != rows).any():
        return None
    bounds = pages[:, [FileColumn.ENCODING, FileColumn.ENCODING_END]].tolist()
    for encoding in {data[start:end].tobytes() for start, end in bounds}:
        check_column(parse_description(encoding))
    likes = pages[:, FileColumn.LIKE]
    distinct = np.flatnonzero(likes == np.arange(len(pages)))
    forms = list[PageForm]()
    for start, end in pages[distinct][:, FileColumn.DESCRIPTION :][:, :2].tolist():
        form = parse_form(parse_description(data[start:end].tobytes()))
        if form is None:
            return None
        forms.append(form)
    which = np.searchsorted(distinct, likes)
    plans = np.empty((len(pages), len(PageColumn)), np.int64)
    plans[:, PageColumn.FIRST_ROW], plans[:, PageColumn.ROWS] = np.cumsum(rows) - rows, rows
    kinds = np.array([_first_like(forms, form) for form in forms])[which]
    for kind in np.unique(kinds).tolist():
        own = kinds == kind
        planned = plan_page(forms[kind], partial(_locate, pages[own]), bits)
        if planned is None:
            return None
        for column, numbers in enumerate(planned, PageColumn.TABLE):
            plans[own, column] = numbers
    # What forms that are alike differ in.
    plans[:, PageColumn.ENTRY] = np.array([adjustment(form) for form in forms])[which]
    plans[:, PageColumn.ITEM_COUNT] = np.array([_count_items(form) for form in forms])[which]
    symbols = [values_of(form).symbols for form in forms]
    kind_of_values, parts = form_of(bits, [symbols[at] for at in which.tolist()])
    has_levels = bool(plans[:, PageColumn.LEVELS].any())
    shape = bits or SPAN_BITS, has_levels, int(rows.sum()), (0, len(data))
    return LeafPlan(plans, parts, field.storage_type, kind_of_values, *shape)


def _count_items(form: PageForm) -> int:
    return form.num_items if isinstance(form, DictionaryForm) else 0


def _first_like(forms: Sequence[PageForm], form: PageForm) -> int:
    return next(at for at, other in enumerate(forms) if _are_alike(other, form))


def _are_alike(one: PageForm, other: PageForm) -> bool:
    if isinstance(one, PlainForm):
        return isinstance(other, PlainForm) and one.is_like(other)
    return isinstance(other, DictionaryForm) and one.is_like(other)


def _locate(pages: Ints, buffer: pb.Buffer) -> tuple[Ints, Ints]:
    """Return where a buffer of each page begins and ends.

    Raises:
        CorruptFile: A page lacks the buffer.
        UnsupportedFeature: It is no buffer of a page.
    """
    if buffer.buffer_type != pb.Buffer.page:
        raise UnsupportedFeature(f"buffers of kind {buffer.buffer_type}")
    index = int(buffer.buffer_index)
    if index >= MAX_BUFFERS or (pages[:, FileColumn.BUFFERS] <= index).any():
        raise CorruptFile(f"buffer {index} of a page is wanted, which has fewer")
    first = FileColumn.FIRST + 2 * index
    return pages[:, first], pages[:, first + 1]
