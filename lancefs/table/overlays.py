"""Data overlay files: newer values for some cells of a fragment.

An overlay holds, for each of its fields, one value for each row that it covers, in row order. Of
two overlays of a cell the one committed later wins, at the same version the one listed later. Rows
that are deleted stay deleted.

Format page: table format, section "Data Overlay Files" (`docs/src/format/table/index.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import rows_of
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.table.bitmaps import read_bitmap
from lancefs.table.fragments import DataOverlay


@dataclass(frozen=True, slots=True)
class Patch:
    """What one overlay changes of a field, among the rows that are read.

    Attributes:
        overlay: The overlay.
        field: The field as far as the overlay holds it.
        positions: Which of the rows that are read it covers.
        items: Where the new values stand in the overlay's file.
    """

    overlay: DataOverlay
    field: Field
    positions: Ints
    items: Ints


def patches(
    overlays: Sequence[DataOverlay], field: Field, ranges: Sequence[RowRange], limit: int
) -> Iterator[Patch]:
    """Find what overlays change of a field, the oldest first.

    Args:
        overlays: Those of the fragment, as the manifest lists them.
        field: The field.
        ranges: Offsets of the rows that are read, ascending and disjoint.
        limit: Rows of the fragment.

    Raises:
        CorruptFile: An overlay's coverage is damaged or leaves the fragment.
    """
    rows = rows_of(ranges)
    for overlay in sorted(overlays, key=lambda overlay: overlay.committed_version):
        held = field.prune(overlay.file.columns)
        if held is None:
            continue
        covered = _coverage(overlay, held, limit)
        item = np.searchsorted(covered, rows)
        inside = np.append(covered, -1)[item] == rows
        if inside.any():
            yield Patch(overlay, held, np.flatnonzero(inside), item[inside])


def apply(field: Field, array: pa.Array, patch: Patch, values: pa.Array) -> pa.Array:
    """Put new values into an array.

    Args:
        field: The field that the array is of.
        array: Its values without the overlay.
        patch: Where the new values go.
        values: The new values, one for each of the patch's positions.

    Raises:
        UnsupportedFeature: Only a part of the items of a list is overlaid.
    """
    if len(values) != len(patch.positions):
        raise CorruptFile(f"{field.name}: an overlay has {len(values)} values for its rows")
    if patch.field == field:
        index = np.arange(len(array))
        index[patch.positions] = len(array) + np.arange(len(values))
        return pa.concat_arrays([array, values]).take(to_arrow_numbers(index))
    if field.logical_type != "struct":
        raise UnsupportedFeature(f"{field.name}: an overlay of a part of {field.logical_type}")
    held = {child.id: position for position, child in enumerate(patch.field.children)}
    children = [array.field(position) for position in range(len(field.children))]
    for position, child in enumerate(field.children):
        if child.id in held:
            below = held[child.id]
            part = replace(patch, field=patch.field.children[below])
            children[position] = apply(child, children[position], part, values.field(below))
    validity = array.buffers()[0]
    return pa.Array.from_buffers(array.type, len(array), [validity], children=children)


def _coverage(overlay: DataOverlay, field: Field, limit: int) -> Ints:
    """Return the rows that an overlay covers in a field."""
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
