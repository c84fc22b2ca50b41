"""Arrow arrays of fields, assembled from the pages of leaf columns (data files 2.1 and later).

Docs: format/file/encoding. Only leaf fields own columns; the structure of lists and structs comes
from the levels of the leaves below them. The levels of all leaves below a list or struct tell of
it, and must agree about lists: else values of some leaves would come into the lists of others.
"""

import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, check_entries, to_arrow
from lancefs.datafile.blocks import Block, Constant, FixedSizeList, Ints, Mask
from lancefs.datafile.buffers import Array, empty
from lancefs.datafile.decimals import decimal64_block
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels.strings import LARGEST
from lancefs.datafile.logical_types import is_list
from lancefs.datafile.outlines import zeros
from lancefs.datafile.packed_structs import without_dropped
from lancefs.datafile.page_ranges import join_arrays, join_columns
from lancefs.datafile.v2_1.encodings.registry import MAX_VALUES
from lancefs.datafile.v2_1.leaf_columns import (
    FetchedLeaf,
    FetchedRows,
    LeafField,
    LeafRows,
    PageGroup,
    decode_together,
    group_pages,
    list_size,
)
from lancefs.datafile.v2_1.levels import Unravelled
from lancefs.errors import CorruptFile, DecoderWarning, Refusal, locating

# Whether reading fails where joined decoding refuses pages that decode singly. The tests set it:
# such a disagreement is a bug of lancefs, which the slow way must not hide.
FAILS_WHERE_DECODERS_DISAGREE = False
_is_reported = False  # to the user, who is warned once


def assemble(fields: Sequence[Field], files: Sequence[FetchedRows]) -> list[pa.Array]:
    """Build the arrays of fields, with the rows of all files.

    Pages with equal descriptions are decoded as one. Where one is damaged, every page is decoded
    singly, so that the error names the damaged page.

    Args:
        fields: The fields.
        files: The fetched pages of the leaves below the fields, of each file.

    Raises:
        CorruptFile: A file is damaged.
        UnsupportedFeature: A file uses something that this release does not read.
    """
    if not _have_same_fields(files):
        return _assemble_singly(fields, files)
    refusal = next((file.refusal for file in files if file.refusal is not None), None)
    try:
        columns = _assemble_files(fields, files, are_joined=True)
    except CorruptFile as error:
        refusal = error
        columns = _assemble_singly(fields, files)
    if refusal is not None:
        report_disagreement(refusal.path or files[0].url, refusal)
    return columns


def assemble_rows(field: Field, leaves: Mapping[int, LeafRows], rows: int) -> pa.Array:
    """Build the array of a field whose leaves are decoded.

    Args:
        field: The field.
        leaves: The rows of the leaves below it, by field id.
        rows: Number of rows.

    Raises:
        CorruptFile: The leaves differ in length, or in what they nest.
    """
    return leaves[field.id].values if field.is_leaf else _assemble(field, leaves, rows)


def _assemble_singly(fields: Sequence[Field], files: Sequence[FetchedRows]) -> list[pa.Array]:
    """Build the arrays of fields, with each page decoded alone."""
    return join_columns([_assemble_files(fields, [file], are_joined=False) for file in files])


def report_disagreement(url: str, refusal: Refusal) -> None:
    """Report that joined decoding refused pages of a file that decode singly.

    Args:
        url: The file.
        refusal: The error of the joined decoder.
    """
    global _is_reported
    message = f"{url}: joined decode refused what single decode accepts; please report ({refusal})"
    if FAILS_WHERE_DECODERS_DISAGREE:
        raise AssertionError(message) from refusal
    if not _is_reported:
        _is_reported = True
        warnings.warn(message, DecoderWarning, stacklevel=2)


def _have_same_fields(files: Sequence[FetchedRows]) -> bool:
    """Whether files store the same fields; packed structs may have other members in each."""
    first, *others = ([leaf.stored for leaf in file.leaves] for file in files)
    return all(other == first for other in others)


def _assemble_files(
    fields: Sequence[Field], files: Sequence[FetchedRows], are_joined: bool
) -> list[pa.Array]:
    """Build the arrays of fields, from files that store the same fields.

    Args:
        fields: The fields.
        files: The fetched pages of each file.
        are_joined: Whether pages with equal descriptions are decoded as one.
    """
    rows = sum(file.rows for file in files)
    known, columns = _joined_values(files)
    leaves = [of_files[0].leaf for of_files in columns]
    stored = [of_files[0].stored for of_files in columns]
    types = [_storage_type(field) for field in stored]
    groups = [
        # The dictionaries of pages must become one without duplicates, which Arrow does.
        group_pages(of_files, are_joined and not pa.types.is_dictionary(data_type))
        for of_files, data_type in zip(columns, types, strict=True)
    ]
    if are_joined:
        decode_together(chain(*groups))
    by_id = dict(known)
    for number, (leaf, field, data_type) in enumerate(zip(leaves, stored, types, strict=True)):
        joined = _join_files(columns[number], groups[number], data_type)
        if field is not leaf.field:
            values = without_dropped(joined.values, field, leaf.field)
            joined = LeafRows(values, joined.layers)
        by_id[leaf.field.id] = joined
    arrays = []
    for field in fields:
        if field.id in known:  # a leaf, around which is nothing to build
            arrays.append(known[field.id].values)
            continue
        with locating(files[0].url, field.name):
            array = _assemble(field, by_id, rows)
            if len(array) != rows:
                raise CorruptFile(f"{len(array)} rows, expected {rows}")
        arrays.append(array)
    return arrays


def _joined_values(
    files: Sequence[FetchedRows],
) -> tuple[dict[int, LeafRows], list[tuple[FetchedLeaf, ...]]]:
    """Join the rows of leaves that are decoded already.

    Returns:
        The rows of these leaves, by field id; and the other leaves, as they were fetched of each
        file.
    """
    known: dict[int, LeafRows] = {}
    others = []
    for of_files in zip(*(file.leaves for file in files), strict=True):
        decoded = [file.decoded for file in of_files if file.decoded is not None]
        if len(decoded) == len(files):
            leaf = of_files[0].leaf
            known[leaf.field.id] = _join_rows(leaf, decoded, decoded[0].values.type)
        else:
            others.append(of_files)
    return known, others


def _join_files(
    files: Sequence[FetchedLeaf], groups: Sequence[PageGroup], data_type: pa.DataType
) -> LeafRows:
    """Join the rows of a leaf, of which some files may have been decoded already."""
    if all(file.decoded is None for file in files):
        return _join(files[0].leaf, groups, data_type)
    parts, remaining = [], deque(groups)
    for file in files:
        if file.decoded is not None:
            parts.append(file.decoded)
            continue
        own = []
        while remaining and remaining[0].leaf is file:
            own.append(remaining.popleft())
        parts.append(_join(file.leaf, own, data_type))
    return _join_rows(files[0].leaf, parts, data_type)


def _join_rows(leaf: LeafField, parts: Sequence[LeafRows], data_type: pa.DataType) -> LeafRows:
    """Join rows of a leaf; those without layers are none."""
    if len(parts) == 1:
        return parts[0]
    layers = {
        field.id: _join_layer([part.layers[field.id] for part in parts if part.layers])
        for field in leaf.around
    }
    return LeafRows(join_arrays([part.values for part in parts], data_type), layers)


@lru_cache(maxsize=4096)  # the same for all files of a table
def _storage_type(field: Field) -> pa.DataType:
    return field.storage_type


def _join(leaf: LeafField, groups: Sequence[PageGroup], data_type: pa.DataType) -> LeafRows:
    """Decode groups of pages of a leaf, and join their values and their layers."""
    values, layers = [], []
    for group in groups:
        with locating(group.leaf.url, f"{group.leaf.place}, page {group.number}"):
            rows = group.rows()
            innermost, *outer = rows.unravel()
            block = _check_values(rows.values, leaf.field, data_type, innermost)
            if leaf.field.is_decimal64:
                block = decimal64_block(block, data_type, innermost.validity)
            values.append(to_arrow(block, data_type, innermost.validity))
            if not outer and _has_no_members(leaf.field):
                # Writers tell nothing of what is around such structs, and refuse nulls and lists.
                outer = [Unravelled(None, None, innermost.length)] * len(leaf.around)
            if len(outer) < len(leaf.around):
                raise CorruptFile(
                    f"{len(outer)} layers for {len(leaf.around)} fields around the values"
                )
            # Early 2.2 writers gave some pages a layer more than there are fields; it has no
            # meaning, and is no list.
            if any(layer.offsets is not None for layer in outer[len(leaf.around) :]):
                raise CorruptFile("the values lie in lists that no field describes")
        layers.append(outer[: len(leaf.around)])
    if not values:
        return LeafRows(pa.nulls(0, data_type), {})
    first = groups[0].leaf
    with locating(first.url, first.place):
        joined = [_join_layer(parts) for parts in zip(*layers, strict=True)]
        return LeafRows(join_arrays(values, data_type), _by_field(leaf, joined))


def _check_values(values: Block, field: Field, data_type: pa.DataType, layer: Unravelled) -> Block:
    """Return the values of a page; of a page without values, check that its slots need none.

    Null slots and structs without members need no values. Releases from 0.39 to 10 of pylance also
    left out the items of fixed-size lists that are all null, in lists that are not.
    """
    if not (isinstance(values, Constant) and values.value is None and layer.length):
        return values
    if layer.validity is not None and not layer.validity.any():
        return values
    if field.is_validity:  # they may be such lists, which the field does not tell any more
        return zeros(data_type, values.length)
    if pa.types.is_fixed_size_list(data_type):
        items = Constant(None, values.length * data_type.list_size)
        is_null = np.broadcast_to(np.False_, items.length)
        return FixedSizeList(data_type.list_size, items, is_null, values.length)
    if not _has_no_members(field):
        raise CorruptFile("a page without values has slots that are not null")
    return values


def _has_no_members(field: Field) -> bool:
    return field.logical_type == "struct" and not field.children


def _by_field(leaf: LeafField, layers: Sequence[Unravelled]) -> dict[int, Unravelled]:
    """Map the fields around a leaf to their layers, undoing the flattening of fixed-size lists."""
    by_id, factor = {}, 1
    for field, layer in zip(leaf.around, layers, strict=True):
        factor *= list_size(field) or 1
        if factor >= MAX_VALUES:
            raise CorruptFile(f"{field.name}: fixed-size lists of {factor} items")
        if factor > 1 and layer.offsets is not None:
            if np.any(layer.offsets % factor):
                raise CorruptFile(f"{field.name}: a list ends within a fixed-size list")
            layer = Unravelled(layer.validity, layer.offsets // factor, layer.length)
            factor = 1  # fixed-size lists inside a list do not flatten the fields around the list
        elif factor > 1:
            validity = None if layer.validity is None else layer.validity[::factor]
            layer = Unravelled(validity, None, layer.length // factor)
        by_id[field.id] = layer
    return by_id


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
        # Slots of some types take no memory, so that pages may tell of any number of them.
        items = sum(int(part.offsets[-1]) for part in parts if part.offsets is not None)
        if items >= MAX_VALUES:
            raise CorruptFile(f"lists of {items} items")
        offsets, end = empty(1 + sum(part.length for part in parts), np.int64), 0
        offsets[0] = 0
        for part in parts:
            assert part.offsets is not None
            start, end = end, end + part.length
            np.add(part.offsets[1:], offsets[start], out=offsets[start + 1 : end + 1])
    return Unravelled(validity, offsets, sum(part.length for part in parts))


def _assemble(field: Field, leaves: Mapping[int, LeafRows], count: int) -> pa.Array:
    """Build the array of a field from its leaves.

    Args:
        field: The field.
        leaves: The rows of the leaves below it, by field id.
        count: Number of slots of the field, unless a list around it gives another number.
    """
    if field.is_leaf:
        return _values(field, leaves[field.id].values)
    layer = _layer(field, leaves)
    if layer is None:
        return pa.nulls(0, field.storage_type)
    if layer.offsets is not None:
        return _list(field, leaves, layer)
    if is_list(field.storage_type):
        raise CorruptFile(
            f"{field.name}: levels without lists where {field.logical_type} was expected"
        )
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
        # A struct without members is stored as nulls, although it is not null.
        return pa.Array.from_buffers(field.storage_type, len(values), [None])
    return values


def _list(field: Field, leaves: Mapping[int, LeafRows], layer: Unravelled) -> pa.Array:
    data_type, offsets = field.storage_type, layer.offsets
    if offsets is None or not is_list(data_type):
        raise CorruptFile(f"{field.name}: a list where {data_type} was expected")
    items = _assemble(field.children[0], leaves, int(offsets[-1]))
    if pa.types.is_map(data_type):
        check_entries(items)
    if offsets[-1] != len(items):
        raise CorruptFile(f"{field.name}: the lists do not cover their {len(items)} items")
    # Arrow takes offsets as they are, and reads whatever lies there in memory. Between ascending
    # ones from 0 on, all fit into the width that the last one fits into.
    if offsets[0] or (offsets[1:] < offsets[:-1]).any():
        raise CorruptFile(f"{field.name}: the offsets of lists descend, or do not begin at 0")
    width = np.int64 if pa.types.is_large_list(data_type) else np.int32
    if width is np.int32 and len(items) > LARGEST:
        raise CorruptFile(f"{field.name}: more than {LARGEST} items in one array")
    arrow_offsets = empty(len(offsets), width)
    arrow_offsets[:] = offsets
    buffers = [bitmap(layer.validity), pa.py_buffer(arrow_offsets)]
    return pa.Array.from_buffers(data_type, layer.length, buffers, children=[items])


def _layer(field: Field, leaves: Mapping[int, LeafRows]) -> Unravelled | None:
    """Return the layer of a list or struct, from its first leaf; None where there are no rows.

    Leaves may differ in what is null: where a field around is null, the levels of its leaves tell
    nothing, and Lance writes others for some than for the rest.

    Raises:
        CorruptFile: The leaves below the field, each of which tells of it, contradict each other.
    """
    first, *others = [leaves[leaf].layers.get(field.id) for leaf in _ids_of_leaves(field, leaves)]
    # Where only the validity of a column is read, some pages do not tell of the fields in it.
    if first is None or field.is_validity:
        return first
    if not all(_are_alike(first, other) for other in others):
        raise CorruptFile(f"{field.name}: its fields differ in which lists they lie in")
    return first


def _ids_of_leaves(field: Field, leaves: Mapping[int, LeafRows]) -> Iterator[int]:
    """Yield the ids of the leaves below a field."""
    if field.id in leaves:
        yield field.id
        return
    for child in field.children:
        yield from _ids_of_leaves(child, leaves)


def _are_alike(one: Unravelled, other: Unravelled | None) -> bool:
    """Whether two leaves have the same lists of a field around both."""
    return (
        other is not None and one.length == other.length and _are_equal(one.offsets, other.offsets)
    )


def _are_equal(one: Array | None, other: Array | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
