"""Outlines of arrays are held to their values."""

from __future__ import annotations

import pyarrow as pa

from lancefs.views.arrow.shapes import Numbers, measure, shape_of, walk


def assert_tells(outline: pa.Array, values: pa.Array) -> None:
    """Assert that a column's outline has its nulls, the lengths of its strings and its lists.

    Args:
        outline: Of the same rows.
        values: Of a type that views are laid out for.
    """
    outline.validate(full=True)
    assert len(outline) == len(values)
    assert _measures(outline, values.type).tolist() == _measures(values, values.type).tolist()


def _measures(array: pa.Array, data_type: pa.DataType) -> Numbers:
    shape = shape_of(data_type)
    assert shape is not None
    return measure(list(walk(array, hidden=True)), shape)
