"""Dictionaries of a view: an Arrow file has one for each field, while pages each have their own.

The dictionary of a file holds the values of all pages in the order in which they come, so that it
is the same whenever it is made. A column with a dictionary is therefore read once before anything
of a file that has it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.views.arrow import ipc_format
from lancefs.views.arrow.bodies import encode
from lancefs.views.arrow.measures import Measures
from lancefs.views.arrow.shapes import Shape, measure, shape_of, walk


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """The dictionaries of a file.

    Attributes:
        values: By column, in the order of the dictionaries below it.
    """

    values: dict[int, list[pa.Array]]

    def all(self) -> list[pa.Array]:
        """Return all of them, in the order of the file."""
        return [one for found in self.values.values() for one in found]

    def messages(self) -> list[bytes]:
        """Return each as it stands in the file."""
        return [_message(number, one) for number, one in enumerate(self.all())]

    def indices(self, column: int, array: pa.Array, shape: Shape) -> list[pa.Array]:
        """Return the indices into these dictionaries in place of those that an array has.

        Args:
            column: Its position.
            array: Of the column.
            shape: Of its type.
        """
        found = []
        values = iter(self.values.get(column, ()))
        for node, one in zip(shape.nodes, walk(array), strict=True):
            if node.kind == "dictionary":
                places = pc.index_in(one.dictionary, value_set=next(values))
                if places.null_count:
                    raise CorruptFile(
                        "a dictionary has values that the file was not laid out for; a data file, "
                        "or what the layout cache keeps of it, was changed"
                    )
                found.append(places.take(one.indices).cast(node.type.index_type))
        return found


def unify(measures: Measures) -> Dictionaries:
    """Read the columns with dictionaries, and join the dictionaries of each.

    Args:
        measures: Of the view; it gets to know those columns.

    Raises:
        UnsupportedFeature: A column has more values than its type can count.
        LanceError: A column cannot be read.
    """
    columns = [index for index, shape in enumerate(measures.shapes) if shape.dictionaries]
    if not columns:
        return Dictionaries({})
    joined: dict[int, list[pa.Array]] = {}
    for column in columns:
        shape = measures.shapes[column]
        types = [shape.nodes[index].type for index in shape.dictionaries]
        joined[column] = [pa.array([], one.value_type) for one in types]
    for span in measures.spans(range(len(measures.batches)), len(columns)):
        for arrays in measures.read_together(span, columns):
            for column, array in zip(columns, arrays, strict=True):
                found = _below(array, measures.shapes[column])
                joined[column] = [
                    pc.unique(pa.concat_arrays([one, more]))
                    for one, more in zip(joined[column], found, strict=True)
                ]
    for column in columns:
        _check(joined[column], measures.shapes[column], measures.fields[column].name)
    return Dictionaries(joined)


def _below(array: pa.Array, shape: Shape) -> list[pa.Array]:
    """Return the dictionaries at or below an array."""
    arrays = zip(shape.nodes, walk(array), strict=True)
    return [one.dictionary for node, one in arrays if node.kind == "dictionary"]


def _check(values: Sequence[pa.Array], shape: Shape, name: str) -> None:
    for index, one in zip(shape.dictionaries, values, strict=True):
        data_type = shape.nodes[index].type
        most = np.iinfo(data_type.index_type.to_pandas_dtype()).max
        if len(one) - 1 > most:
            raise UnsupportedFeature(
                f"column {name}: the dictionaries of the fragments do not fit together into one: "
                f"{len(one)} values, where {data_type.index_type} counts to {most}; an Arrow file "
                "needs that; the stream, named .arrows, can be read, and single fragments"
            )


def _message(number: int, values: pa.Array) -> bytes:
    shape = shape_of(values.type)
    assert shape is not None
    measures = measure(list(walk(values)), shape)
    lengths = shape.node_lengths(np.array([len(values)]), measures[None])
    sizes = shape.buffer_lengths(lengths, measures[None])[0]
    ends = np.cumsum([ipc_format.aligned(size) for size in sizes.tolist()])
    starts = np.concatenate([[0], ends[:-1]])
    nodes = np.stack([lengths[0], measures[: len(shape.nodes)]], 1)
    buffers = np.stack([starts, sizes], 1)
    head = ipc_format.dictionary_message(number, nodes, buffers, int(ends[-1]))
    return head + encode(values, shape).tobytes()
