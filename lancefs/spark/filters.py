"""Filters of a scan: SQL text of the option `filter`, and what Spark pushes.

A pushed filter becomes an Arrow expression that keeps exactly the same rows. A filter that has no
such expression is left to Spark. Rows are kept where a filter is true, so that false may stand for
null; but not below a negation, which would make it true.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, getcontext
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

from lancefs.datafile.fields import Field
from lancefs.errors import InvalidFilter, UnsupportedFeature
from lancefs.scan import expressions
from lancefs.scan.sql_filter import parse_filter
from lancefs.spark.spark_types import UUID_STORAGE, arrow_schema, is_uuid, spark_schema
from lancefs.table.row_metadata import ROW_OFFSET

_COMPARISONS = {
    spark.EqualTo: pc.equal,
    spark.EqualNullSafe: pc.equal,
    spark.GreaterThan: pc.greater,
    spark.GreaterThanOrEqual: pc.greater_equal,
    spark.LessThan: pc.less,
    spark.LessThanOrEqual: pc.less_equal,
}
_TEXTS = {
    spark.StringStartsWith: pc.starts_with,
    spark.StringEndsWith: pc.ends_with,
    spark.StringContains: pc.match_substring,
}
# What an expression in an option begins with; no condition in SQL does.
_EXPRESSION = "arrow:"
# Spark takes dates and instants of filters through Java's old calendar. This calendar has no days
# from 5 to 14 October 1582, and hands the day after them over in their place.
_FIRST_SURE_DATE = date(1582, 10, 16)
# Until then that calendar may tell an instant otherwise, in the time zone of the driver.
_FIRST_SURE_YEAR = 1901
# Above every number, as Spark orders NaN.
_UPWARDS = (spark.GreaterThan, spark.GreaterThanOrEqual)
# The types of values of each class that PySpark makes; of instants see `_is_of`.
_KINDS: dict[type, Callable[[pa.DataType], bool]] = {
    bool: pa.types.is_boolean,
    int: pa.types.is_integer,
    float: pa.types.is_floating,
    Decimal: pa.types.is_decimal,
    str: lambda target: pa.types.is_string(target) or target == UUID_STORAGE,
    bytes: pa.types.is_binary,
    date: pa.types.is_date,
    time: pa.types.is_time,
    timedelta: pa.types.is_duration,
}
_UUID_TEXT = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class _Inexact(Exception):
    """A filter that Arrow would not decide as Spark does."""


def expression(filter: spark.Filter, schema: pa.Schema) -> pc.Expression | None:
    """Say a filter of Spark's in Arrow's terms; None where that cannot be done exactly.

    Args:
        filter: What Spark pushes; its columns and values are of Spark's types.
        schema: The columns that a task can filter by.
    """
    try:
        said = _expression(filter, schema)
        _try(said, schema)
    except (_Inexact, pa.ArrowNotImplementedError):  # Arrow does not compare all of its types
        return None
    return said


def parse(text: str, fields: Sequence[Field]) -> pc.Expression:
    """Return the filter that the option `filter` holds.

    Args:
        text: A condition in SQL, or an expression that `serialize` wrote.
        fields: The columns of the table.

    Raises:
        InvalidFilter: The text is no condition, or needs what a task does not know.
        ColumnNotFound: The text names a column that the table lacks.
        ValueError: The expression is damaged.
    """
    if text.startswith(_EXPRESSION):
        return deserialize(text)
    filter = parse_filter(text, fields)
    if ROW_OFFSET.name in (expressions.names_in(filter) or ()):
        raise InvalidFilter(
            f"{ROW_OFFSET.name} cannot be filtered by in Spark, where a task sees a part of the "
            "table"
        )
    return filter


def serialize(filter: pc.Expression) -> str:
    """Return an expression as text, for an option."""
    _, (data,) = filter.__reduce__()
    return _EXPRESSION + base64.b64encode(data).decode()


def deserialize(text: str) -> pc.Expression:
    """Read an expression that `serialize` wrote.

    Raises:
        ValueError: It is not one.
    """
    try:
        data = base64.b64decode(text.removeprefix(_EXPRESSION), validate=True)
        return pc.Expression._deserialize(pa.py_buffer(data))
    except (binascii.Error, pa.ArrowException, OSError) as error:
        raise ValueError(
            "the option filter is not an expression; lancefs.spark.read(…, filter=…) makes it, or "
            "filter the DataFrame"
        ) from error


def check(filter: pc.Expression, schema: pa.Schema) -> None:
    """See that a filter can be decided for rows of these columns.

    Raises:
        ValueError: It cannot: it names another column, or compares with another type.
    """
    try:
        _try(filter, schema)
    except (pa.ArrowException, KeyError) as error:
        what = str(error).splitlines()[0].split(" in ")[0]
        raise ValueError(
            f"the filter {filter} does not fit the table ({what}), whose columns are "
            f"{', '.join(schema.names)}"
        ) from error


def _try(said: pc.Expression, schema: pa.Schema) -> None:
    pa.Table.from_batches([], schema).filter(said)


def _expression(filter: spark.Filter, schema: pa.Schema) -> pc.Expression:
    if isinstance(filter, spark.Not):
        return _negated(filter.child, schema)
    operand, target = _operand(filter, schema)
    if isinstance(filter, spark.IsNull):
        return operand.is_null()
    if isinstance(filter, spark.IsNotNull):
        return operand.is_valid()
    if isinstance(filter, spark.In):
        return _is_in(operand, filter.value, target)
    for kind, compare in _COMPARISONS.items():
        if isinstance(filter, kind):
            if isinstance(filter, spark.EqualNullSafe) and filter.value is None:
                return operand.is_null()
            said = compare(operand, _scalar(filter.value, target))
            if isinstance(filter, _UPWARDS) and pa.types.is_floating(target):
                said = said | pc.is_nan(operand)
            return said
    for kind, match in _TEXTS.items():
        if isinstance(filter, kind):
            if not pa.types.is_string(target):
                raise _Inexact
            return match(operand, _scalar(filter.value, target).as_py())
    raise _Inexact


def _negated(filter: spark.Filter, schema: pa.Schema) -> pc.Expression:
    operand, _ = _operand(filter, schema)
    if isinstance(filter, spark.IsNull | spark.IsNotNull):
        return ~_expression(filter, schema)
    if isinstance(filter, spark.In) and any(value is None for value in filter.value):
        return pc.scalar(False)  # never true: whatever is not in the list may be the null in it
    if isinstance(filter, spark.EqualNullSafe):
        return ~pc.coalesce(_expression(filter, schema), pc.scalar(False))
    return operand.is_valid() & ~_expression(filter, schema)


def _operand(filter: spark.Filter, schema: pa.Schema) -> tuple[pc.Expression, pa.DataType]:
    """The column that a filter is about, in the type that Spark sees (but UUIDs), and that type."""
    attribute: tuple[str, ...] = getattr(filter, "attribute", ())
    field = _field(attribute, schema)
    column = pc.field(*attribute)
    if is_uuid(field):  # its bytes are in the order of its texts
        return column.cast(UUID_STORAGE), UUID_STORAGE
    if isinstance(field.type, pa.BaseExtensionType) or pa.types.is_nested(field.type):
        raise _Inexact
    try:
        target = arrow_schema(spark_schema(pa.schema([field]))).field(0).type
    except UnsupportedFeature as error:  # Spark sees its texts
        raise _Inexact from error
    stored = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    # Values in nanoseconds may be shown as numbers, half floats do not cast everywhere.
    is_fine = getattr(stored, "unit", "") != "ns" and not pa.types.is_float16(stored)
    if not is_fine or pa.types.is_date64(stored):
        raise _Inexact
    return (column if field.type == target else column.cast(target)), target


def _field(attribute: tuple[str, ...], schema: pa.Schema) -> pa.Field:
    """The column, or the member of a struct, that a filter is about."""
    if not attribute or attribute[0] not in schema.names:  # positions of rows: a task knows none
        raise _Inexact
    field = schema.field(attribute[0])
    for name in attribute[1:]:
        # A struct may have two members of one name, which have no index.
        place = field.type.get_field_index(name) if pa.types.is_struct(field.type) else -1
        if place < 0:
            raise _Inexact
        field = field.type.field(place)
    return field


def _scalar(value: Any, target: pa.DataType) -> pa.Scalar:
    # Arrow would make dates of numbers, for instance, and does not order NaN as Spark does.
    if not _is_of(value, target) or value != value or _is_doubtful(value):
        raise _Inexact
    try:
        scalar = pa.scalar(_uuid_bytes(value) if target == UUID_STORAGE else value, target)
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
        raise _Inexact from error  # more than the type holds, or half of a character
    # One more fraction than the type holds would be cut off.
    if pa.types.is_float32(target) and scalar.as_py() != value:
        raise _Inexact
    return scalar


def _is_of(value: Any, target: pa.DataType) -> bool:
    """Return whether a value is one of those that PySpark makes of values of a type."""
    if isinstance(value, datetime):  # which is a date, too
        return pa.types.is_timestamp(target) and (value.tzinfo is None) == (target.tz is None)
    fits = _KINDS.get(type(value))
    return fits is not None and fits(target)


def _is_doubtful(value: Any) -> bool:
    """Return whether a value may have been another one in the query (PySpark 4.1 to 4.3)."""
    if isinstance(value, Decimal):  # PySpark multiplies, which rounds to the digits of the context
        return len(value.as_tuple().digits) >= getcontext().prec
    if isinstance(value, datetime):
        return value.tzinfo is not None and value.year < _FIRST_SURE_YEAR
    return isinstance(value, date) and value < _FIRST_SURE_DATE


def _uuid_bytes(text: str) -> bytes:
    """The bytes of a UUID, of a text that Spark may find equal to that of a value."""
    if not _UUID_TEXT.fullmatch(text):  # in capitals, or without hyphens
        raise _Inexact
    return UUID(text).bytes


def _is_in(operand: pc.Expression, values: Sequence[Any], target: pa.DataType) -> pc.Expression:
    wanted = [_scalar(value, target) for value in values if value is not None]
    if not wanted:
        return pc.scalar(False)
    if pa.types.is_floating(target):  # a set would tell 0.0 from −0.0
        said = operand == wanted[0]
        for scalar in wanted[1:]:
            said = said | (operand == scalar)
        return said
    return operand.isin(pa.array([scalar.as_py() for scalar in wanted], target))
