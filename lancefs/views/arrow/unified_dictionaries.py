"""Unified dictionaries: an Arrow file has one for each field, a Lance table has one in each page.

The dictionary of a file holds the distinct values of all pages in the order of their first
occurrence, so that it is the same in every process. Every column with a dictionary is therefore
read once before any byte of the file is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.buffers import number_dtype
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.views.arrow import ipc_format
from lancefs.views.arrow.bodies import encode
from lancefs.views.arrow.known_measures import OtherLayout
from lancefs.views.arrow.measures import Measures
from lancefs.views.arrow.shapes import Shape, measure, shape_of, walk


@dataclass(frozen=True, slots=True)
class UnifiedDictionaries:
    """The dictionaries of a file.

    Attributes:
        values: By position of the column, the values of each dictionary at or below it, in the
            order of the nodes of its shape. Columns without dictionaries are absent.
        is_loaded: Whether they come from a layout cache.
    """

    values: dict[int, list[pa.Array]]
    is_loaded: bool = False

    def all(self) -> list[pa.Array]:
        """Return the values of all dictionaries in the order of the file."""
        return [values for column in self.values.values() for values in column]

    def messages(self) -> list[bytes]:
        """Return the message and the body of each dictionary in the order of the file."""
        return [_message_and_body(number, values) for number, values in enumerate(self.all())]

    def indices(self, column: int, array: pa.Array, shape: Shape) -> list[pa.Array]:
        """Return the indices into these dictionaries of each dictionary array in a column.

        Args:
            column: Position of the column.
            array: Values of the column.
            shape: Shape of its type.

        Raises:
            CorruptFile: A value is not in the dictionary.
            OtherLayout: It is not in the dictionary that a layout cache had.
        """
        if column not in self.values:
            return []
        indices = []
        dictionaries = iter(self.values[column])
        for node, child in zip(shape.nodes, walk(array), strict=True):
            if node.kind == "dictionary":
                positions = pc.index_in(child.dictionary, value_set=next(dictionaries))
                if positions.null_count:
                    raise (OtherLayout if self.is_loaded else CorruptFile)(
                        "a dictionary has values that the file was not laid out for; a data file "
                        "was changed while it was read"
                    )
                indices.append(positions.take(child.indices).cast(node.type.index_type))
        return indices


def unify(measures: Measures) -> UnifiedDictionaries:
    """Read the columns with dictionaries, and unify the dictionaries of each.

    Args:
        measures: Measures of the view; those of the columns that are read become known.

    Raises:
        UnsupportedFeature: A dictionary has more values than its index type can count.
        LanceError: A column cannot be read.
    """
    columns = [index for index, shape in enumerate(measures.shapes) if shape.dictionaries]
    if not columns:
        return UnifiedDictionaries({})
    unified: dict[int, list[pa.Array]] = {}
    for column in columns:
        shape = measures.shapes[column]
        types = [shape.nodes[index].type for index in shape.dictionaries]
        unified[column] = [pa.array([], data_type.value_type) for data_type in types]
    for group in measures.request_groups(range(len(measures.batches)), len(columns)):
        for arrays in measures.read_and_measure(group, columns):
            for column, array in zip(columns, arrays, strict=True):
                dictionaries = _dictionaries_of(array, measures.shapes[column])
                unified[column] = [
                    pc.unique(pa.concat_arrays([known, more]))
                    for known, more in zip(unified[column], dictionaries, strict=True)
                ]
    for column in columns:
        _check_sizes(unified[column], measures.shapes[column], measures.fields[column].name)
    return UnifiedDictionaries(unified)


def _dictionaries_of(array: pa.Array, shape: Shape) -> list[pa.Array]:
    """Return the values of each dictionary at or below an array."""
    arrays = zip(shape.nodes, walk(array), strict=True)
    return [child.dictionary for node, child in arrays if node.kind == "dictionary"]


def _check_sizes(dictionaries: Sequence[pa.Array], shape: Shape, name: str) -> None:
    """Check that the index type of each dictionary can count its values."""
    for index, values in zip(shape.dictionaries, dictionaries, strict=True):
        data_type = shape.nodes[index].type
        most = np.iinfo(number_dtype(data_type.index_type)).max
        if len(values) - 1 > most:
            raise UnsupportedFeature(
                f"column {name}: the dictionaries of the fragments do not fit together into one: "
                f"{len(values)} values, where {data_type.index_type} counts to {most}; an Arrow "
                "file needs that; the stream, named .arrows, can be read, and single fragments"
            )


def _message_and_body(number: int, values: pa.Array) -> bytes:
    shape = shape_of(values.type)
    assert shape is not None
    measures = measure(list(walk(values)), shape)
    lengths = shape.node_lengths(np.array([len(values)]), measures[None])
    sizes = shape.buffer_lengths(lengths, measures[None])[0]
    ends = np.cumsum([ipc_format.aligned(size) for size in sizes.tolist()])
    starts = np.concatenate([[0], ends[:-1]])
    nodes = np.stack([lengths[0], measures[: len(shape.nodes)]], 1)
    buffers = np.stack([starts, sizes], 1)
    message = ipc_format.dictionary_message(number, nodes, buffers, int(ends[-1]))
    return message + encode(values, shape).tobytes()
