"""Rows of a data file 2.1 or later, as Arrow arrays.

Docs: format/file/encoding. Only leaf fields own columns; lists and structs are told by the levels
of the leaves below them. The levels of all leaves below a list or struct agree on it, so that the
first leaf decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import bitmap, check_entries, to_arrow
from lancefs.datafile.blocks import Block, Constant, FixedSizeList, Ints, Mask, RowRange
from lancefs.datafile.buffers import empty
from lancefs.datafile.container import Container
from lancefs.datafile.fields import Field
from lancefs.datafile.layouts.page import PageReader, PageRows
from lancefs.datafile.layouts.registry import open_page
from lancefs.datafile.levels import Unravelled
from lancefs.datafile.packed import stored_field, without_dropped
from lancefs.datafile.pages import by_page, join_arrays
from lancefs.datafile.row_ranges import count_rows, scaled
from lancefs.errors import CorruptFile, locating
from lancefs.storage import Steps, together


@dataclass(frozen=True, slots=True)
class _Leaf:
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


@dataclass(frozen=True, slots=True)
class _LeafRows:
    """Rows of one leaf: its values, and the layer of each field around it, by field id."""

    values: pa.Array
    layers: Mapping[int, Unravelled]


class StructuralReader:
    """Reads fields of one data file 2.1 or later.

    Args:
        container: The file.
        columns: Column index of each leaf field, by field id.
    """

    def __init__(self, container: Container, columns: Mapping[int, int]) -> None:
        self.container = container
        self.columns = columns
        self._pages: dict[tuple[int, int], PageReader] = {}
        self._packed: dict[int, Field] = {}  # packed structs as the file has them, by field id

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        first = next(iter(self.columns.values()), 0)
        return self.container.column(first).first_rows[-1]

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
        """Read rows of a field whose leaves all have columns in this file.

        Args:
            field: The field, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
        """
        return (yield from self.read_all([field], ranges))[0]

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Steps[list[pa.Array]]:
        """Read rows of several fields in one go; see `read`."""
        leaves = [leaf for field in fields for leaf in _leaves(field)]
        yield from self.container.load([self.columns[leaf.field.id] for leaf in leaves])
        rows = yield from together([self._read_leaf(leaf, ranges) for leaf in leaves])
        found = {leaf.field.id: read for leaf, read in zip(leaves, rows, strict=True)}
        arrays, count = [], count_rows(ranges)
        for field in fields:
            with locating(self.container.file.url, field.name):
                arrays.append(_assemble(field, found, count))
        return arrays

    def _read_leaf(self, leaf: _Leaf, ranges: Sequence[RowRange]) -> Steps[_LeafRows]:
        index, scale = self.columns[leaf.field.id], leaf.scale
        column = self.container.column(index)
        place = f"{leaf.top.name}, column {index} ({leaf.field.name})"
        with locating(self.container.file.url, place):
            stored = self._stored(leaf.field)
            rows = ranges if scale == 1 else scaled(ranges, scale)
            wanted = by_page(column.first_rows, rows)
            readers = [self._page_reader(leaf.field, index, page) for page, _ in wanted]
            reads = [
                _located(reader.read(local), page)
                for reader, (page, local) in zip(readers, wanted, strict=True)
            ]
            pages = yield from together(reads)
            joined = _join(leaf, pages, _storage_type(stored))
            if stored is leaf.field:
                return joined
            values = without_dropped(joined.values, stored, leaf.field)
            return _LeafRows(values, joined.layers)

    def _stored(self, field: Field) -> Field:
        """Return the field of a column as the file has it."""
        if not field.is_packed:
            return field
        if field.id not in self._packed:
            self._packed[field.id] = stored_field(self.container, field)
        return self._packed[field.id]

    def _page_reader(self, field: Field, column: int, page: int) -> PageReader:
        """Return the reader of a page, kept with what it has read of where things are."""
        key = (column, page)
        if key not in self._pages:
            with locating(place=f"page {page}"):
                self._pages[key] = open_page(self.container.column(column).pages[page])
        if not field.is_outline:
            return self._pages[key]
        from lancefs.datafile.layouts.outlines import outlined

        return outlined(self._pages[key], field.storage_type)


@lru_cache(maxsize=4096)  # the same for all files of a table
def _storage_type(field: Field) -> pa.DataType:
    return field.storage_type


def _located(steps: Steps[PageRows], page: int) -> Steps[PageRows]:
    with locating(place=f"page {page}"):
        return (yield from steps)


def _join(leaf: _Leaf, pages: Sequence[PageRows], data_type: pa.DataType) -> _LeafRows:
    """Build the values of the pages, and join the layers of the pages."""
    values, layers = [], []
    for page in pages:
        innermost, *outer = page.unravel()
        block = _checked_values(page.values, leaf.field, data_type, innermost)
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
    if not (isinstance(values, Constant) and values.value is None and layer.count):
        return values
    if layer.validity is not None and not layer.validity.any():
        return values
    if pa.types.is_fixed_size_list(data_type):
        items = Constant(None, values.count * data_type.list_size)
        return FixedSizeList(data_type.list_size, items, None, values.count)
    if field.logical_type != "struct" or field.children:
        raise CorruptFile("a page without values has slots that are not null")
    return values


def _by_field(leaf: _Leaf, layers: Sequence[Unravelled]) -> dict[int, Unravelled]:
    """Give each field around a leaf its layer, undoing the flattening of fixed-size lists."""
    found, factor = {}, 1
    for field, layer in zip(leaf.around, layers, strict=True):
        factor *= _list_size(field) or 1
        if factor > 1 and layer.offsets is not None:
            if np.any(layer.offsets % factor):
                raise CorruptFile(f"{field.name}: a list ends within a fixed-size list")
            layer = Unravelled(layer.validity, layer.offsets // factor, layer.count)
            factor = 1  # what is around a list is not flattened by what is in it
        elif factor > 1:
            validity = None if layer.validity is None else layer.validity[::factor]
            layer = Unravelled(validity, None, layer.count // factor)
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
            [np.ones(p.count, np.bool_) if p.validity is None else p.validity for p in parts]
        )
    offsets: Ints | None = None
    if parts[0].offsets is not None:
        offsets, end = empty(1 + sum(part.count for part in parts), np.int64), 0
        offsets[0] = 0
        for part in parts:
            assert part.offsets is not None
            start, end = end, end + part.count
            np.add(part.offsets[1:], offsets[start], out=offsets[start + 1 : end + 1])
    return Unravelled(validity, offsets, sum(part.count for part in parts))


def _leaves(field: Field, around: tuple[Field, ...] = ()) -> Iterator[_Leaf]:
    """Yield the fields that own a column, at or below a field."""
    if field.is_leaf:
        yield _Leaf(field, around)
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
    if layer.count != count or any(len(child) != below for child in children):
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
    return pa.Array.from_buffers(data_type, layer.count, buffers, children=[items])


def _layer(field: Field, leaves: Mapping[int, _LeafRows]) -> Unravelled | None:
    """Return the layer of a list or struct, which its first leaf tells; None where no rows are."""
    first = next(_leaves(field)).field
    return leaves[first.id].layers.get(field.id)
