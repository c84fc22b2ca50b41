"""A check that outlines agree with the values of their columns."""

from __future__ import annotations

import pyarrow as pa

from lancefs.datafile.buffers import Ints
from lancefs.views.arrow.shapes import measure, shape_of, walk


def assert_tells(outline: pa.Array, values: pa.Array) -> None:
    """Assert that an outline has the nulls, string lengths and lists of a column's values.

    Args:
        outline: Of the same rows.
        values: Of a type that views are laid out for.
    """
    outline.validate(full=True)
    assert len(outline) == len(values)
    assert _measures(outline, values.type).tolist() == _measures(values, values.type).tolist()


def _measures(array: pa.Array, data_type: pa.DataType) -> Ints:
    shape = shape_of(data_type)
    assert shape is not None
    return measure(list(walk(array, hidden=True)), shape)
