"""From the pages of leaf columns to the arrays of fields (data files 2.1 and later).

Docs: format/file/encoding. Only leaf fields own columns; lists and structs are told by the levels
of the leaves below them. The levels of all leaves below a list or struct agree on it, so that the
first leaf decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, check_entries, to_arrow
from lancefs.datafile.blocks import Block, Constant, FixedSizeList, Ints, Mask
from lancefs.datafile.buffers import empty
from lancefs.datafile.fields import Field
from lancefs.datafile.layouts.page import PageRows
from lancefs.datafile.layouts.whole import WholePage, decode
from lancefs.datafile.levels import Unravelled
from lancefs.datafile.packed import without_dropped
from lancefs.datafile.pages import join_arrays, join_columns
from lancefs.errors import CorruptFile, UnsupportedFeature, locating


class LeafField(NamedTuple):
    """A field that owns a column, and the fields around it, the innermost first."""

    field: Field
    around: tuple[Field, ...]

    @property
    def top(self) -> Field:
        """The column of the table that it is, or is a part of."""
        return self.around[-1] if self.around else self.field

    @property
    def scale(self) -> int:
        """How many rows its column has for each row of the table.

        A fixed-size list of structs is flattened: each of its items is a row of the columns below.
        """
        scale = 1
        for field in reversed(self.around):
            size = _list_size(field)
            if size is None and field.logical_type != "struct":
                break  # rows of the columns below a list are rows of the table again
            scale *= size or 1
        return scale

    def place(self, column: int) -> str:
        """Return what errors call it, where it is that column of its file."""
        return f"{self.top.name}, column {column} ({self.field.name})"


class _LeafRows(NamedTuple):
    """Rows of one leaf: its values, and the layer of each field around it, by field id."""

    values: pa.Array
    layers: Mapping[int, Unravelled]


# The number of a page; then rows of it, or all its bytes, to be decoded with those of others.
FetchedPage: TypeAlias = tuple[int, PageRows | WholePage]


class FetchedLeaf(NamedTuple):
    """What was fetched of a leaf.

    Attributes:
        leaf: The leaf.
        stored: Its field as the file has it.
        url: The file.
        column: Which of its columns it is.
        pages: Of the column.
    """

    leaf: LeafField
    stored: Field
    url: str
    column: int
    pages: Sequence[FetchedPage]

    @property
    def place(self) -> str:
        """The column, as errors name it."""
        return self.leaf.place(self.column)


class FetchedRows(NamedTuple):
    """What was fetched of a file: how many rows, and of each leaf, in the order of `leaves_of`."""

    url: str
    rows: int
    leaves: Sequence[FetchedLeaf]


def leaves_of(fields: Sequence[Field]) -> list[LeafField]:
    """Return the fields that own a column, at or below some fields."""
    return [leaf for field in fields for leaf in _leaves(field)]


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
    leaves = leaves_of(fields)
    if _are_alike(files):
        with suppress(CorruptFile, UnsupportedFeature):  # alone, they say which one it is
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
    found = {}
    for leaf, of_files in zip(
        leaves, zip(*(file.leaves for file in files), strict=True), strict=True
    ):
        stored = of_files[0].stored
        data_type = _storage_type(stored)
        # The dictionaries of pages must become one without doubles, which Arrow does.
        is_apart = not are_joined or pa.types.is_dictionary(data_type)
        groups = _each(of_files) if is_apart else _that_fit(of_files)
        joined = _join(leaf, groups, data_type)
        if stored is not leaf.field:
            values = without_dropped(joined.values, stored, leaf.field)
            joined = _LeafRows(values, joined.layers)
        found[leaf.field.id] = joined
    arrays = []
    for field in fields:
        with locating(files[0].url, field.name):
            arrays.append(_assemble(field, found, count))
    return arrays


# Pages that are decoded as one, and the place of the first.
_Group: TypeAlias = tuple[FetchedLeaf, list[FetchedPage]]


def _each(leaves: Sequence[FetchedLeaf]) -> list[_Group]:
    """Take pages one by one."""
    return [(leaf, [page]) for leaf in leaves for page in leaf.pages]


def _that_fit(leaves: Sequence[FetchedLeaf]) -> list[_Group]:
    """Put pages that follow each other, and can be decoded as one, together."""
    groups: list[_Group] = []
    last: PageRows | WholePage | None = None
    for leaf in leaves:
        for page in leaf.pages:
            rows = page[1]
            if isinstance(rows, WholePage) and isinstance(last, WholePage) and last.fits(rows):
                groups[-1][1].append(page)
            else:
                groups.append((leaf, [page]))
            last = rows
    return groups


def _decoded(pages: Sequence[FetchedPage]) -> PageRows:
    """Return the rows of pages that are decoded as one."""
    whole = [rows for _, rows in pages if isinstance(rows, WholePage)]
    first = pages[0][1]
    return decode(whole) if isinstance(first, WholePage) else first


@lru_cache(maxsize=4096)  # the same for all files of a table
def _storage_type(field: Field) -> pa.DataType:
    return field.storage_type


def _join(leaf: LeafField, groups: Sequence[_Group], data_type: pa.DataType) -> _LeafRows:
    """Build the values of groups of pages, and join their layers."""
    values, layers = [], []
    for place, pages in groups:
        with locating(place.url, place.place), locating(place=f"page {pages[0][0]}"):
            rows = _decoded(pages)
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
    with locating(groups[0][0].url, groups[0][0].place):
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
        factor *= _list_size(field) or 1
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


def _leaves(field: Field, around: tuple[Field, ...] = ()) -> Iterator[LeafField]:
    """Yield the fields that own a column, at or below a field."""
    if field.is_leaf:
        yield LeafField(field, around)
    else:
        for child in field.children:
            yield from _leaves(child, (field, *around))


def _list_size(field: Field) -> int | None:
    """Return the size of a fixed-size list that is no leaf; None for every other field."""
    if not field.logical_type.startswith("fixed_size_list:"):
        return None
    return int(field.storage_type.list_size)


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
    size = _list_size(field)
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
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_map)
    if offsets is None or not any(kind(data_type) for kind in kinds):
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
    first = next(_leaves(field)).field
    return leaves[first.id].layers.get(field.id)
