"""From the pages of leaf columns to the arrays of fields (data files 2.1 and later).

Docs: format/file/encoding. Only leaf fields own columns; lists and structs are told by the levels
of the leaves below them. The levels of all leaves below a list or struct agree on it, so that the
first leaf decides.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, check_entries, to_arrow
from lancefs.datafile.blocks import Block, Constant, FixedSizeList, Ints, Mask
from lancefs.datafile.buffers import empty
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import is_list
from lancefs.datafile.packed_structs import without_dropped
from lancefs.datafile.page_ranges import join_arrays, join_columns
from lancefs.datafile.v2_1.leaf_columns import (
    FetchedRows,
    LeafField,
    Piece,
    decode_together,
    leaves_below,
    list_size,
    pieces_of,
)
from lancefs.datafile.v2_1.levels import Unravelled
from lancefs.errors import CorruptFile, UnsupportedFeature, locating


class _LeafRows(NamedTuple):
    """Rows of one leaf: its values, and the layer of each field around it, by field id."""

    values: pa.Array
    layers: Mapping[int, Unravelled]


def assemble(fields: Sequence[Field], files: Sequence[FetchedRows]) -> list[pa.Array]:
    """Build the arrays of fields, with the rows of all files.

    Pages that are alike are decoded as one. Where that fails, each is decoded alone, so that the
    error says which one is damaged.

    Args:
        fields: The fields.
        files: What was fetched of the leaves below them.

    Raises:
        CorruptFile: A file is damaged.
        UnsupportedFeature: A file uses something that this release does not read.
    """
    leaves = [fetched.leaf for fetched in files[0].leaves]
    if _are_alike(files):
        with suppress(CorruptFile, UnsupportedFeature), locating():  # alone, they say which it is
            return _assembled(fields, leaves, files, are_joined=True)
    return join_columns([_assembled(fields, leaves, [file], are_joined=False) for file in files])


def _are_alike(files: Sequence[FetchedRows]) -> bool:
    """Whether files have the same fields; packed structs may have other members in each."""
    first, *others = ([leaf.stored for leaf in file.leaves] for file in files)
    return all(other == first for other in others)


def _assembled(
    fields: Sequence[Field],
    leaves: Sequence[LeafField],
    files: Sequence[FetchedRows],
    are_joined: bool,
) -> list[pa.Array]:
    """Build arrays of files that are alike, from pages that are decoded together or each alone."""
    count = sum(file.rows for file in files)
    columns = list(zip(*(file.leaves for file in files), strict=True))
    types = [_storage_type(of_files[0].stored) for of_files in columns]
    pieces = [
        # The dictionaries of pages must become one without doubles, which Arrow does.
        pieces_of(of_files, are_joined and not pa.types.is_dictionary(data_type))
        for of_files, data_type in zip(columns, types, strict=True)
    ]
    if are_joined:
        decode_together(chain(*pieces))
    found = {}
    for leaf, of_files, data_type, of_leaf in zip(leaves, columns, types, pieces, strict=True):
        first = of_files[0]
        with locating(first.url, first.place):
            joined = _join(leaf, of_leaf, data_type)
        if first.stored is not leaf.field:
            values = without_dropped(joined.values, first.stored, leaf.field)
            joined = _LeafRows(values, joined.layers)
        found[leaf.field.id] = joined
    arrays = []
    for field in fields:
        with locating(files[0].url, field.name):
            arrays.append(_assemble(field, found, count))
    return arrays


@lru_cache(maxsize=4096)  # the same for all files of a table
def _storage_type(field: Field) -> pa.DataType:
    return field.storage_type


def _join(leaf: LeafField, pieces: Sequence[Piece], data_type: pa.DataType) -> _LeafRows:
    """Build the values of pieces, and join their layers."""
    values, layers = [], []
    for piece in pieces:
        with locating(place=f"page {piece.number}"):
            rows = piece.rows()
            innermost, *outer = rows.unravel()
            block = _checked_values(rows.values, leaf.field, data_type, innermost)
            values.append(to_arrow(block, data_type, innermost.validity))
            if len(outer) < len(leaf.around):
                raise CorruptFile(
                    f"{len(outer)} layers for {len(leaf.around)} fields around the values"
                )
        # Early 2.2 writers gave some pages a layer more than there are fields; it has no meaning.
        layers.append(outer[: len(leaf.around)])
    if not values:
        return _LeafRows(pa.array([], data_type), {})
    joined = [_join_layer(parts) for parts in zip(*layers, strict=True)]
    return _LeafRows(join_arrays(values, data_type), _by_field(leaf, joined))


def _checked_values(
    values: Block, field: Field, data_type: pa.DataType, layer: Unravelled
) -> Block:
    """Return the values of a page; where it has none, see that its slots need none.

    Null slots and structs without members need none. Releases from 2 to 10 or so of pylance also
    left out the items of fixed-size lists, where all of them were null but not the lists.
    """
    if not (isinstance(values, Constant) and values.value is None and layer.length):
        return values
    if layer.validity is not None and not layer.validity.any():
        return values
    if pa.types.is_fixed_size_list(data_type):
        items = Constant(None, values.length * data_type.list_size)
        return FixedSizeList(data_type.list_size, items, None, values.length)
    if field.logical_type != "struct" or field.children:
        raise CorruptFile("a page without values has slots that are not null")
    return values


def _by_field(leaf: LeafField, layers: Sequence[Unravelled]) -> dict[int, Unravelled]:
    """Give each field around a leaf its layer, undoing the flattening of fixed-size lists."""
    found, factor = {}, 1
    for field, layer in zip(leaf.around, layers, strict=True):
        factor *= list_size(field) or 1
        if factor > 1 and layer.offsets is not None:
            if np.any(layer.offsets % factor):
                raise CorruptFile(f"{field.name}: a list ends within a fixed-size list")
            layer = Unravelled(layer.validity, layer.offsets // factor, layer.length)
            factor = 1  # what is around a list is not flattened by what is in it
        elif factor > 1:
            validity = None if layer.validity is None else layer.validity[::factor]
            layer = Unravelled(validity, None, layer.length // factor)
        found[field.id] = layer
    return found


def _join_layer(parts: Sequence[Unravelled]) -> Unravelled:
    if len(parts) == 1:
        return parts[0]
    if len({part.offsets is None for part in parts}) != 1:
        raise CorruptFile("the pages of a column differ in what they nest")
    validity: Mask | None = None
    if any(part.validity is not None for part in parts):
        validity = np.concatenate(
            [np.ones(p.length, np.bool_) if p.validity is None else p.validity for p in parts]
        )
    offsets: Ints | None = None
    if parts[0].offsets is not None:
        offsets, end = empty(1 + sum(part.length for part in parts), np.int64), 0
        offsets[0] = 0
        for part in parts:
            assert part.offsets is not None
            start, end = end, end + part.length
            np.add(part.offsets[1:], offsets[start], out=offsets[start + 1 : end + 1])
    return Unravelled(validity, offsets, sum(part.length for part in parts))


def _assemble(field: Field, leaves: Mapping[int, _LeafRows], count: int) -> pa.Array:
    """Build the array of a field from its leaves.

    Args:
        field: The field.
        leaves: What was read of the leaves below it, by field id.
        count: Slots of the field, as far as is known from outside.
    """
    if field.is_leaf:
        return _values(field, leaves[field.id].values)
    layer = _layer(field, leaves)
    if layer is None:
        return pa.nulls(0, field.storage_type)
    if layer.offsets is not None:
        return _list(field, leaves, layer)
    size = list_size(field)
    below = count if size is None else count * size
    children = [_assemble(child, leaves, below) for child in field.children]
    if layer.length != count or any(len(child) != below for child in children):
        raise CorruptFile(f"{field.name}: its fields differ in length")
    return pa.Array.from_buffers(
        field.storage_type, count, [bitmap(layer.validity)], children=children
    )


def _values(field: Field, values: pa.Array) -> pa.Array:
    if field.logical_type == "struct" and not field.children and not field.is_blob:
        # A struct without members is stored as nulls, but has none.
        return pa.Array.from_buffers(field.storage_type, len(values), [None])
    return values


def _list(field: Field, leaves: Mapping[int, _LeafRows], layer: Unravelled) -> pa.Array:
    data_type, offsets = field.storage_type, layer.offsets
    if offsets is None or not is_list(data_type):
        raise CorruptFile(f"{field.name}: a list where {data_type} was expected")
    items = _assemble(field.children[0], leaves, int(offsets[-1]))
    if pa.types.is_map(data_type):
        check_entries(items)
    if offsets[-1] != len(items):
        raise CorruptFile(f"{field.name}: the lists do not cover their {len(items)} items")
    width = np.int64 if pa.types.is_large_list(data_type) else np.int32
    if len(items) > np.iinfo(width).max:
        raise CorruptFile(f"{field.name}: more than {np.iinfo(width).max} items in one array")
    stored = empty(len(offsets), width)
    stored[:] = offsets
    buffers = [bitmap(layer.validity), pa.py_buffer(stored)]
    return pa.Array.from_buffers(data_type, layer.length, buffers, children=[items])


def _layer(field: Field, leaves: Mapping[int, _LeafRows]) -> Unravelled | None:
    """Return the layer of a list or struct, which its first leaf tells; None where no rows are."""
    first = next(leaves_below(field)).field
    return leaves[first.id].layers.get(field.id)
