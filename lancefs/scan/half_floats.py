"""Filters on half floats, which Arrow cannot compare: both sides are widened to floats."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.logical_types import map_leaves, with_children
from lancefs.scan.pickled_expressions import read_steps

_VALUE_SET = "value_set"  # of the function `is_in`


def has_halves(schema: pa.Schema) -> bool:
    """Return whether a column has half floats, at any depth."""
    return any(widen_type(data_type) != data_type for data_type in schema.types)


def widen_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with floats in place of half floats."""
    fields = [field.with_type(widen_type(field.type)) for field in batch.schema]
    arrays = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def widen_literals(expression: pc.Expression) -> pc.Expression:
    """Return an expression with floats in place of the half floats that it compares with.

    pyarrow has no API for this: literals, and lists of values, are columns of the pickled form.
    """
    restore: Callable[..., pc.Expression]
    restore, (pickled,) = expression.__reduce__()
    reader = pa.ipc.open_file(pickled)
    values = reader.get_batch(0)
    arrays = [_widen_literal(array) for array in values.columns]
    if all(array.type == old.type for array, old in zip(arrays, values.columns, strict=True)):
        return expression
    fields = [
        field.with_type(array.type) for array, field in zip(arrays, reader.schema, strict=True)
    ]
    steps = read_steps(reader)
    if steps is None:
        return expression
    schema = pa.schema(fields, pa.KeyValueMetadata(steps))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return restore(sink.getvalue())


def _widen_literal(array: pa.Array) -> pa.Array:
    """Return a literal with floats; the options of all functions but `is_in` stay as they are."""
    is_options = pa.types.is_struct(array.type) and array.type.get_field_index(_VALUE_SET) < 0
    target = array.type if is_options else widen_type(array.type)
    return array if target == array.type else array.cast(target)


def widen_type(data_type: pa.DataType) -> pa.DataType:
    """Return a type with floats in place of half floats; one that has none as it is.

    Members of structs and items are nullable then: below a null, also a member without nulls of
    its own has some, which Arrow's cast refuses.
    """
    target = map_leaves(data_type, _widen_leaf)
    return data_type if target == data_type else _with_nullable_members(target)


def _with_nullable_members(data_type: pa.DataType) -> pa.DataType:
    return with_children(
        data_type,
        lambda field: field.with_type(_with_nullable_members(field.type)).with_nullable(True),
    )


def _widen_leaf(data_type: pa.DataType) -> pa.DataType:
    return pa.float32() if pa.types.is_float16(data_type) else data_type
