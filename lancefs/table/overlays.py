"""Data overlay files: newer values for some cells of a fragment.

An overlay holds, for each of its fields, one value for each row that it covers, in row order. Of
two overlays of a cell the one with the later commit wins; at the same version, the one that the
manifest lists later. Overlays bring no deleted row back.

Format page: data overlay files (`docs/src/format/table/data_overlay_file.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.datafile.fields import Field
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.row_ranges import rows_of
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.table.bitmaps import read_bitmap
from lancefs.table.fragments import DataOverlay


@dataclass(frozen=True, slots=True)
class Patch:
    """The values of a field that an overlay replaces, among the rows of a read.

    Attributes:
        overlay: The overlay.
        field: The field, pruned to the parts that the overlay holds.
        positions: Positions of the covered rows among those of the read.
        items: Offsets of the new values in the overlay's file.
    """

    overlay: DataOverlay
    field: Field
    positions: Ints
    items: Ints


def patches(
    overlays: Sequence[DataOverlay], field: Field, ranges: Sequence[RowRange], limit: int
) -> Iterator[Patch]:
    """Yield the patches of a field, in the order in which to apply them.

    Args:
        overlays: The overlays of the fragment, in the order of the manifest.
        field: The field.
        ranges: Ranges of offsets of the rows that are read, ascending and disjoint.
        limit: Number of rows of the fragment.

    Raises:
        CorruptFile: The coverage of an overlay is damaged, or names rows beyond the fragment; or
            its file lists a field, and names no column of it.
    """
    rows = rows_of(ranges)
    for overlay in sorted(overlays, key=lambda overlay: overlay.committed_version):
        overlay.file.check_columns([field])
        part = field.prune(overlay.file.columns)
        if part is None:
            continue
        covered = _coverage(overlay, part, limit)
        items = np.searchsorted(covered, rows)
        is_covered = np.append(covered, -1)[items] == rows
        if is_covered.any():
            yield Patch(overlay, part, np.flatnonzero(is_covered), items[is_covered])


def apply(field: Field, array: pa.Array, patch: Patch, values: pa.Array) -> pa.Array:
    """Put new values into an array.

    Args:
        field: The field of the array.
        array: Values of the field without the overlay.
        patch: The patch.
        values: The new values, one for each of the patch's positions.

    Raises:
        CorruptFile: The number of values is not that of the rows.
        UnsupportedFeature: The overlay holds only a part of the items of a list.
    """
    if len(values) != len(patch.positions):
        raise CorruptFile(
            f"{field.name}: an overlay has {len(values)} values for {len(patch.positions)} rows"
        )
    if patch.field == field:
        index = np.arange(len(array))
        index[patch.positions] = len(array) + np.arange(len(values))
        return join_arrays([array, values], array.type).take(to_arrow_numbers(index))
    if field.logical_type != "struct":
        raise UnsupportedFeature(f"{field.name}: an overlay of a part of {field.logical_type}")
    overlaid = {child.id: position for position, child in enumerate(patch.field.children)}
    children = [array.field(position) for position in range(len(field.children))]
    for position, child in enumerate(field.children):
        if child.id in overlaid:
            own = overlaid[child.id]
            part = replace(patch, field=patch.field.children[own])
            children[position] = apply(child, children[position], part, values.field(own))
    validity = array.buffers()[0]
    return pa.Array.from_buffers(array.type, len(array), [validity], children=children)


def _coverage(overlay: DataOverlay, field: Field, limit: int) -> Ints:
    """Return the offsets of the rows that an overlay covers in a field."""
    if overlay.shared_coverage is not None:
        return read_bitmap(overlay.shared_coverage, limit)
    if len(overlay.field_coverage) != len(overlay.file.fields):
        raise CorruptFile(
            f"an overlay of {len(overlay.file.fields)} fields has {len(overlay.field_coverage)} "
            "bitmaps of the rows that it covers"
        )
    by_id = dict(zip(overlay.file.fields, overlay.field_coverage, strict=True))
    bitmaps = {by_id[part.id] for part in field.walk() if part.id in overlay.file.columns}
    if len(bitmaps) != 1:
        raise UnsupportedFeature(f"{field.name}: an overlay covers other rows in each of its parts")
    return read_bitmap(bitmaps.pop(), limit)
