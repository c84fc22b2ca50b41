"""How arrays of a type become buffers: the shape of the type, and the measures of each array.

A *shape* lists the nodes of a type: the type itself and all types below it, each parent before its
children. The *measures* of an array are the numbers that the lengths of its buffers depend on, in
addition to its number of rows:

- the null count of each node, in the order of the nodes;
- the *extent* of each node of variable width: bytes of all strings, or items of all lists.

Number of rows and extents determine the lengths of all nodes and buffers. Null counts do not: every
node gets a validity buffer, also a node without nulls. The size of a file without strings and lists
is therefore known before any page is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import mask_of, stored_values
from lancefs.datafile.buffers import Ints, Mask
from lancefs.datafile.logical_types import storage_of
from lancefs.datafile.outlines import LENGTHS

NodeKind: TypeAlias = Literal[
    "null", "fixed", "bytes", "list", "fixed_list", "struct", "dictionary"
]

_KINDS: dict[NodeKind, tuple[str, ...]] = {
    "null": ("is_null",),
    "bytes": ("is_string", "is_binary", "is_large_string", "is_large_binary"),
    "list": ("is_list", "is_large_list", "is_map"),
    "fixed_list": ("is_fixed_size_list",),
    "struct": ("is_struct",),
    "dictionary": ("is_dictionary",),
}
_VIEW_TYPES = ("is_string_view", "is_binary_view")
_LARGE_TYPES = ("is_large_string", "is_large_binary", "is_large_list")


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """A type, or a type below it.

    Attributes:
        kind: Which buffers an array of the type has.
        type: The storage type.
        width: By kind: bits of a value ("fixed"), bits of an index ("dictionary"), bytes of an
            offset ("bytes", "list"), items of a list ("fixed_list"), else 0.
        parent: Position of the parent node in the shape; -1 for the first node.
        extent: Position of the extent among the measures; -1 for a node without one.
    """

    kind: NodeKind
    type: pa.DataType
    width: int
    parent: int
    extent: int = -1

    @property
    def num_buffers(self) -> int:
        """Number of buffers of an array of this type, without its children."""
        return {"null": 0, "fixed_list": 1, "struct": 1, "bytes": 3}.get(self.kind, 2)


@dataclass(frozen=True, slots=True)
class Shape:
    """All nodes of a type.

    The measures of an array are the null counts of `nodes`, in order, followed by the extents.
    """

    nodes: tuple[ArrayNode, ...]

    @property
    def num_measures(self) -> int:
        """Number of measures of an array."""
        return len(self.nodes) + self.num_extents

    @property
    def num_extents(self) -> int:
        """Number of extents among the measures of an array."""
        return sum(node.extent >= 0 for node in self.nodes)

    @property
    def num_buffers(self) -> int:
        """Number of buffers of an array, with those of its children."""
        return sum(node.num_buffers for node in self.nodes)

    @property
    def dictionaries(self) -> list[int]:
        """Positions of the nodes of dictionary types."""
        return [index for index, node in enumerate(self.nodes) if node.kind == "dictionary"]

    def node_lengths(self, rows: Ints, measures: Ints) -> Ints:
        """Return the length (number of slots) of each node in several arrays.

        Args:
            rows: Number of rows of each array, of shape (arrays,).
            measures: Measures of each array, of shape (arrays, num_measures).

        Returns:
            The lengths, of shape (arrays, nodes).
        """
        lengths = np.empty((len(rows), len(self.nodes)), np.int64)
        for index, node in enumerate(self.nodes):
            parent = None if node.parent < 0 else self.nodes[node.parent]
            if parent is None:
                lengths[:, index] = rows
            elif parent.kind == "list":
                lengths[:, index] = measures[:, parent.extent]
            else:
                items = parent.width if parent.kind == "fixed_list" else 1
                lengths[:, index] = lengths[:, node.parent] * items
        return lengths

    def buffer_lengths(self, lengths: Ints, measures: Ints) -> Ints:
        """Return the length in bytes, without padding, of each buffer in several arrays.

        Args:
            lengths: Lengths of the nodes, of shape (arrays, nodes).
            measures: Measures of each array, of shape (arrays, num_measures).

        Returns:
            The lengths, of shape (arrays, num_buffers).
        """
        sizes: list[Ints] = []
        for index, node in enumerate(self.nodes):
            slots = lengths[:, index]
            if node.kind != "null":
                sizes.append((slots + 7) // 8)
            if node.kind in ("fixed", "dictionary"):
                sizes.append((slots * node.width + 7) // 8)
            if node.kind in ("bytes", "list"):
                sizes.append((slots + 1) * node.width)
            if node.kind == "bytes":
                sizes.append(measures[:, node.extent])
        return np.stack(sizes, 1) if sizes else np.empty((len(lengths), 0), np.int64)


def shape_of(data_type: pa.DataType) -> Shape | None:
    """Return the shape of a type, or None if files with the type cannot be laid out in advance.

    Types without a shape: views of strings, binaries or lists; unions; run-end encoded types;
    dictionaries of nested values or of float16; and types that contain any of these.
    """
    return _shape_of(storage_of(data_type))


@lru_cache(maxsize=4096)
def _shape_of(data_type: pa.DataType) -> Shape | None:
    nodes: list[ArrayNode] = []
    if not _add_nodes(nodes, data_type, -1):
        return None
    extents = count(len(nodes))  # their positions follow those of the null counts
    with_extents = ("bytes", "list")
    return Shape(
        tuple(
            replace(node, extent=next(extents)) if node.kind in with_extents else node
            for node in nodes
        )
    )


def _add_nodes(nodes: list[ArrayNode], data_type: pa.DataType, parent: int) -> bool:
    """Append the nodes of a type; return whether all of them have a kind."""
    data_type = storage_of(data_type)
    kind, width = _kind_and_width(data_type)
    if kind is None:
        return False
    position = len(nodes)
    nodes.append(ArrayNode(kind, data_type, width, parent))
    if kind == "dictionary":
        value_kind, _ = _kind_and_width(data_type.value_type)
        is_float16 = pa.types.is_float16(data_type.value_type)
        return value_kind in ("fixed", "bytes") and not is_float16
    children = data_type.num_fields if kind in ("list", "fixed_list", "struct") else 0
    return all(
        _add_nodes(nodes, data_type.field(index).type, position) for index in range(children)
    )


@lru_cache(maxsize=4096)
def _kind_and_width(data_type: pa.DataType) -> tuple[NodeKind | None, int]:
    kind = next((k for k, tests in _KINDS.items() if _is_any(data_type, tests)), None)
    match kind:
        case None:
            if _is_any(data_type, _VIEW_TYPES):
                return None, 0
            try:
                return "fixed", int(data_type.bit_width)
            except ValueError:
                return None, 0
        case "bytes" | "list":
            return kind, 8 if _is_any(data_type, _LARGE_TYPES) else 4
        case "fixed_list":
            return kind, int(data_type.list_size)
        case "dictionary":
            return kind, int(data_type.index_type.bit_width)
        case _:
            return kind, 0


def _is_any(data_type: pa.DataType, tests: tuple[str, ...]) -> bool:
    return any(getattr(pa.types, test)(data_type) for test in tests)


def measure(arrays: Sequence[pa.Array], shape: Shape) -> Ints:
    """Return the measures of an array, of shape (num_measures,).

    Args:
        arrays: The array, or its outline, and all arrays below it, as `walk` yields them.
        shape: The shape of its type.
    """
    measures = np.zeros(shape.num_measures, np.int64)
    for index, (node, array) in enumerate(zip(shape.nodes, arrays, strict=True)):
        measures[index] = array.null_count
        if array.type == LENGTHS and node.kind == "bytes":  # an outline
            measures[node.extent] = pc.sum(array, min_count=0).as_py()
        elif node.extent >= 0:
            offsets = offsets_of(array)
            measures[node.extent] = offsets[-1] - offsets[0]
            if node.kind == "bytes" and array.null_count:  # bytes under nulls are not written
                measures[node.extent] -= np.diff(offsets)[mask_of(array.is_null())].sum()
    return measures


def measure_flat(array: pa.Array, rows: Ints, shape: Shape) -> Ints:
    """Return the measures of parts of an array of a type without parts below it.

    Args:
        array: The array, or its outline.
        rows: Length of each part; the parts follow each other and are all of the array.
        shape: The shape of the type, which has one node.

    Returns:
        The measures, of shape (parts, num_measures).
    """
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    ends = np.cumsum(np.append(0, rows))
    missing = mask_of(array.is_null()) if array.null_count else None
    nulls = _sums(missing, ends) if missing is not None else np.zeros(len(rows), np.int64)
    if not shape.num_extents:
        return nulls[:, None]
    if array.type == LENGTHS:  # an outline
        lengths = stored_values(array, np.int64)
        lengths = lengths if missing is None else np.where(missing, 0, lengths)
        return np.stack((nulls, _sums(lengths, ends)), axis=1)
    offsets = offsets_of(array).astype(np.int64)
    if missing is None:
        return np.stack((nulls, np.diff(offsets[ends])), axis=1)
    # Bytes under nulls are not written.
    return np.stack((nulls, _sums(np.where(missing, 0, np.diff(offsets)), ends)), axis=1)


def _sums(numbers: Ints | Mask, ends: Ints) -> Ints:
    """Return the sum of the numbers between successive ends."""
    starts, has_any = ends[:-1], ends[1:] > ends[:-1]
    sums = np.zeros(len(starts), np.int64)
    if has_any.any():
        sums[has_any] = np.add.reduceat(numbers, starts[has_any], dtype=np.int64)
    return sums


def walk(array: pa.Array, hidden: bool = False) -> Iterator[pa.Array]:
    """Yield an array and all arrays below it, parents first, each cut to the slots in use.

    Null strings and lists become empty: the bytes and items under nulls are removed.

    Args:
        array: The array.
        hidden: Whether bytes of strings under nulls may stay, which is enough for `measure`.
    """
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind, _ = _kind_and_width(array.type)
    is_cleaned = kind == "list" or (kind == "bytes" and not hidden)
    if is_cleaned and array.null_count and _has_values_under_nulls(array):
        array = array.take(pa.array(np.arange(len(array)), mask=mask_of(array.is_null())))
    yield array
    if kind == "struct":
        for index in range(array.type.num_fields):
            yield from walk(array.field(index), hidden)
    elif kind == "list":
        offsets = offsets_of(array)
        first, last = int(offsets[0]), int(offsets[-1])
        yield from walk(array.values.slice(first, last - first), hidden)
    elif kind == "fixed_list":
        size = array.type.list_size
        yield from walk(array.values.slice(array.offset * size, len(array) * size), hidden)


def offsets_of(array: pa.Array) -> Ints:
    """Return the offsets of a string or list array, of shape (len(array) + 1,).

    The offsets have the width in which they are stored, and need not begin at 0.
    """
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(1, np.int64)
    width = 8 if _is_any(array.type, _LARGE_TYPES) else 4
    offsets = np.frombuffer(buffer, f"<i{width}", count=len(array) + 1, offset=array.offset * width)
    return offsets


def _has_values_under_nulls(array: pa.Array) -> bool:
    lengths = np.diff(offsets_of(array))
    return bool(np.any(lengths[mask_of(array.is_null())]))
