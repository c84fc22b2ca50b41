"""Choosing how the rows that pass a filter are decoded: alone, or all rows of which they are some.

Decoding a page costs about the same for a few rows as for all of a chunk, and more for each range
of rows; so rows are decoded alone where they are rare, or lie together in long ranges. The shares
are in `ScanSettings`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import has_offsets
from lancefs.datafile.blocks import Mask
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import is_list
from lancefs.scan.morsels import Morsel
from lancefs.scan.settings import ScanSettings
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.row_estimates import stored_row_sizes


def is_sparse_selection(mask: Mask, rows: int, settings: ScanSettings) -> bool:
    """Tell whether masked rows are so rare, or lie so close, that they are decoded alone.

    Args:
        mask: One boolean a row; true for the rows that are wanted.
        rows: How many are true.
        settings: What the scan is tuned by.
    """
    if rows >= settings.together_share * len(mask):
        return False
    ranges = int(np.count_nonzero(mask[1:] & ~mask[:-1]))
    if rows < settings.sparse_share * len(mask):
        return ranges * settings.rows_per_range < len(mask)
    return ranges * settings.together_rows < rows


def is_chosen_first(mask: Mask, fields: Iterable[Field], settings: ScanSettings) -> bool:
    """Tell whether candidates are so few that they are chosen before the filter is evaluated.

    A filter on strings or lists takes longer for all rows than it takes to choose a few.

    Args:
        mask: One boolean a row; true for the candidates.
        fields: The columns of the filter.
        settings: What the scan is tuned by.
    """
    is_few = int(np.count_nonzero(mask)) < settings.by_item_share * len(mask)
    return is_few and _have_long_values(fields)


def are_few_of_long(
    morsel: Morsel, fields: Iterable[Field], rows: int, settings: ScanSettings
) -> bool:
    """Tell whether rows of strings or lists are so few that kernels find them one by one.

    Args:
        morsel: The morsel that has the rows.
        fields: The columns to decode.
        rows: Number of rows.
        settings: What the scan is tuned by.
    """
    source = morsel.fragment
    most = settings.few_candidates * len(source.fragment_ids)
    if rows > min(most, settings.few_share * morsel.rows) or not source.is_local:
        return False
    # Kernels read no files of format 0.1, which are in no run.
    if isinstance(source, FragmentReader) and any(file.is_legacy for file in source.fragment.files):
        return False
    return _have_long_values(fields)


def long_texts(
    morsel: Morsel, source: FragmentReader, fields: Iterable[Field], settings: ScanSettings
) -> frozenset[int]:
    """Return the ids of columns of strings whose scattered rows are decoded alone, if few are kept.

    Args:
        morsel: The morsel that has the rows.
        source: The fragment that it is of, a local one.
        fields: The columns to decode.
        settings: What the scan is tuned by.
    """
    least = settings.long_text_bytes * morsel.rows
    return frozenset(
        field.id
        for field in fields
        if has_offsets(field.storage_type)
        and stored_row_sizes(source, [field]).bytes_of(morsel.start, morsel.end) >= least
    )


def _have_long_values(fields: Iterable[Field]) -> bool:
    """Tell whether a column has strings or lists, each of which takes longer than a number."""
    return any(_is_long(field.storage_type) for field in fields)


def _is_long(data_type: pa.DataType) -> bool:
    return is_list(data_type) or bool(has_offsets(data_type))
