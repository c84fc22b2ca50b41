"""How an array becomes buffers: by the shape of its type, and a few numbers about its values.

An array with all that lies below it is a list of *nodes*, each before those below it. The lengths
of all nodes and buffers follow from the number of rows and a few numbers for each array, its
*measures*: the null count of every node, and the *extent* of every node of variable width (bytes of
strings, items of lists). Every node has a validity buffer, also one without nulls: so where things
lie in a file does not depend on null counts, and the size of a file without strings and lists is
known before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.outlines import LENGTHS

Kind: TypeAlias = Literal["null", "fixed", "bytes", "list", "fixed_list", "struct", "dictionary"]
Numbers: TypeAlias = npt.NDArray[np.int64]

_KINDS: dict[Kind, tuple[str, ...]] = {
    "null": ("is_null",),
    "bytes": ("is_string", "is_binary", "is_large_string", "is_large_binary"),
    "list": ("is_list", "is_large_list", "is_map"),
    "fixed_list": ("is_fixed_size_list",),
    "struct": ("is_struct",),
    "dictionary": ("is_dictionary",),
}
_VIEWS = ("is_string_view", "is_binary_view")
_LARGE = ("is_large_string", "is_large_binary", "is_large_list")


@dataclass(frozen=True, slots=True)
class Node:
    """An array of a type, or one below it.

    Attributes:
        kind: What its buffers are.
        type: Its storage type.
        width: Bits of a value, bytes of an offset or items of a list, by its kind.
        parent: The position of the node above; -1 for the first.
        extent: Where its extent is among the measures; -1 where it has none.
    """

    kind: Kind
    type: pa.DataType
    width: int
    parent: int
    extent: int = -1

    @property
    def buffers(self) -> int:
        """How many buffers it has."""
        return {"null": 0, "fixed_list": 1, "struct": 1, "bytes": 3}.get(self.kind, 2)


@dataclass(frozen=True, slots=True)
class Shape:
    """All nodes of a type; their null counts are the first of its measures, in the same order."""

    nodes: tuple[Node, ...]

    @property
    def measures(self) -> int:
        """How many measures an array has."""
        return len(self.nodes) + self.extents

    @property
    def extents(self) -> int:
        """How many of them are extents."""
        return sum(node.extent >= 0 for node in self.nodes)

    @property
    def buffers(self) -> int:
        """How many buffers an array has."""
        return sum(node.buffers for node in self.nodes)

    @property
    def dictionaries(self) -> list[int]:
        """The positions of the nodes that are dictionaries."""
        return [index for index, node in enumerate(self.nodes) if node.kind == "dictionary"]

    def node_lengths(self, rows: Numbers, measures: Numbers) -> Numbers:
        """Return the length of each node in several arrays.

        Args:
            rows: Of each array.
            measures: Of each array, of shape (arrays, measures).
        """
        lengths = np.empty((len(rows), len(self.nodes)), np.int64)
        for index, node in enumerate(self.nodes):
            above = None if node.parent < 0 else self.nodes[node.parent]
            if above is None:
                lengths[:, index] = rows
            elif above.kind == "list":
                lengths[:, index] = measures[:, above.extent]
            else:
                times = above.width if above.kind == "fixed_list" else 1
                lengths[:, index] = lengths[:, node.parent] * times
        return lengths

    def buffer_lengths(self, lengths: Numbers, measures: Numbers) -> Numbers:
        """Return the length in bytes of each buffer in several arrays, without padding.

        Args:
            lengths: Of the nodes.
            measures: Of each array.
        """
        found: list[Numbers] = []
        for index, node in enumerate(self.nodes):
            slots = lengths[:, index]
            if node.kind != "null":
                found.append((slots + 7) // 8)
            if node.kind in ("fixed", "dictionary"):
                found.append((slots * node.width + 7) // 8)
            if node.kind in ("bytes", "list"):
                found.append((slots + 1) * node.width)
            if node.kind == "bytes":
                found.append(measures[:, node.extent])
        return np.stack(found, 1) if found else np.empty((len(lengths), 0), np.int64)


@lru_cache(maxsize=4096)
def shape_of(data_type: pa.DataType) -> Shape | None:
    """Return the shape of a type; None where it has one that no file is laid out for."""
    nodes: list[Node] = []
    if not _add(nodes, data_type, -1):
        return None
    extents = count(len(nodes))  # they come after the null counts
    with_extents = ("bytes", "list")
    return Shape(
        tuple(
            replace(node, extent=next(extents)) if node.kind in with_extents else node
            for node in nodes
        )
    )


def _add(nodes: list[Node], data_type: pa.DataType, parent: int) -> bool:
    """Add the nodes of a type; return whether that could be done."""
    while isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    kind, width = _kind(data_type)
    if kind is None:
        return False
    position = len(nodes)
    nodes.append(Node(kind, data_type, width, parent))
    if kind == "dictionary":
        values, _ = _kind(data_type.value_type)
        return values in ("fixed", "bytes") and not pa.types.is_float16(data_type.value_type)
    below = data_type.num_fields if kind in ("list", "fixed_list", "struct") else 0
    return all(_add(nodes, data_type.field(index).type, position) for index in range(below))


@lru_cache(maxsize=4096)
def _kind(data_type: pa.DataType) -> tuple[Kind | None, int]:
    kind = next((k for k, names in _KINDS.items() if _is(data_type, names)), None)
    match kind:
        case None:
            if _is(data_type, _VIEWS):
                return None, 0
            try:
                return "fixed", int(data_type.bit_width)
            except ValueError:
                return None, 0
        case "bytes" | "list":
            return kind, 8 if _is(data_type, _LARGE) else 4
        case "fixed_list":
            return kind, int(data_type.list_size)
        case "dictionary":
            return kind, int(data_type.index_type.bit_width)
        case _:
            return kind, 0


def _is(data_type: pa.DataType, names: tuple[str, ...]) -> bool:
    return any(getattr(pa.types, name)(data_type) for name in names)


def measure(arrays: Sequence[pa.Array], shape: Shape) -> Numbers:
    """Return the measures of an array.

    Args:
        arrays: It, or its outline, and those below it, as `walk` gives them.
        shape: Of its type.
    """
    found = np.zeros(shape.measures, np.int64)
    for index, (node, one) in enumerate(zip(shape.nodes, arrays, strict=True)):
        found[index] = one.null_count
        if one.type == LENGTHS and node.kind == "bytes":
            found[node.extent] = pc.sum(one, min_count=0).as_py()
        elif node.extent >= 0:
            offsets = offsets_of(one)
            found[node.extent] = offsets[-1] - offsets[0]
            if node.kind == "bytes" and one.null_count:  # nothing of what lies under nulls is shown
                found[node.extent] -= np.diff(offsets)[mask_of(one.is_null())].sum()
    return found


def walk(array: pa.Array, hidden: bool = False) -> Iterator[pa.Array]:
    """Yield an array and those below it, each before those below it, cut to what it shows of them.

    Nulls of variable width come out empty, whatever lay under them.

    Args:
        array: The array.
        hidden: Whether strings under nulls may stay, which is enough to measure them.
    """
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind, _ = _kind(array.type)
    may_hide = kind == "list" or (kind == "bytes" and not hidden)
    if may_hide and array.null_count and _hides_something(array):
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


def offsets_of(array: pa.Array) -> Numbers:
    """Return the offsets of strings or lists: one more than there are, as they are stored."""
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(1, np.int64)
    width = 8 if _is(array.type, _LARGE) else 4
    found = np.frombuffer(buffer, f"<i{width}", count=len(array) + 1, offset=array.offset * width)
    return found


def _hides_something(array: pa.Array) -> bool:
    lengths = np.diff(offsets_of(array))
    return bool(np.any(lengths[mask_of(array.is_null())]))
