"""Casts of SQL text: `CAST(x AS type)`, `x::type` and `date '2024-01-01'`.

`CAST(id AS string) = '5'` is true where `id = 5` is, and is rewritten so: comparing numbers as they
are stored takes a fraction of the time of casting all of them, and indices and value ranges can
answer it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import is_text, without_columns
from lancefs.datafile.constants import null_of, scalar_of
from lancefs.scan.expressions import evaluate
from lancefs.scan.sql_literals import (
    Value,
    is_binary,
    is_number,
    nearest_float,
    of_units,
    parse_as,
    to_value,
    unit_bounds,
)
from lancefs.scan.sql_operands import Literal, Operand, Typed, result, to_floats, to_typed
from lancefs.scan.sql_tokens import Refused

# Whole numbers as casts write them, of no more digits than 64 bits have.
_WRITTEN = re.compile("0|-?[1-9][0-9]{0,19}")
# Floats below have all whole numbers: casts to them keep which number is greater.
_EXACT_FLOATS = 1 << 53
# Types without parameters, by name. INT8 has eight bytes, as in PostgreSQL.
TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int2": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "int4": pa.int32(),
    "bigint": pa.int64(),
    "int8": pa.int64(),
    "utinyint": pa.uint8(),
    "usmallint": pa.uint16(),
    "uinteger": pa.uint32(),
    "ubigint": pa.uint64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "float4": pa.float32(),
    "double": pa.float64(),
    "float8": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "text": pa.string(),
    "binary": pa.binary(),
    "bytea": pa.binary(),
    "blob": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
UNSIGNED = {
    pa.int8(): pa.uint8(),
    pa.int16(): pa.uint16(),
    pa.int32(): pa.uint32(),
    pa.int64(): pa.uint64(),
}
# Units of TIMESTAMP(n), by its digits after the seconds.
TIMESTAMP_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
DECIMALS = ("decimal", "numeric")
_UNITS = ("s", "ms", "us", "ns")


def cast(operand: Operand, target: pa.DataType) -> Operand:
    """Convert an operand to a type.

    Fractions are cut off where whole numbers are made, and rounded where decimals are, halves away
    from zero. What does not fit is an error: at once for a literal, else when rows are read.

    Args:
        operand: The operand.
        target: The type.

    Raises:
        Refused: The types do not convert, or the literal is no such value.
    """
    if isinstance(operand, Typed):
        return _cast_values(operand, target)
    if operand.value is None:
        return Typed(pc.scalar(null_of(target)), target, operand.start)
    value: Value = operand.value
    try:
        if isinstance(value, str):
            value = parse_as(value, target)
        converted = _cast_values(to_typed(Literal(value, operand.start, operand.text)), target)
        (array,) = evaluate([converted.expression], without_columns(1))
    except (ValueError, pa.ArrowException):
        raise Refused(f"{operand} is not a value of the type {target}", operand.start) from None
    return Literal(to_value(array[0]), operand.start, operand.text)


def _cast_values(values: Typed, target: pa.DataType) -> Typed:
    if values.type.equals(target):
        return values
    expression = _convert(values, target)
    if expression is None:
        raise Refused(f"{values.type} cannot be cast to {target}", values.start)
    is_whole = pa.types.is_integer(values.type)
    return result(expression, target, values)._replace(cast_from=values if is_whole else None)


def _convert(values: Typed, target: pa.DataType) -> pc.Expression | None:
    """Return values in another type; None where the types do not convert."""
    source = values.type
    if pa.types.is_null(source):
        return pc.scalar(null_of(target))
    for is_kind, convert in _CONVERT:
        if is_kind(target):
            return convert(values, target)
    is_alike = is_binary(source) or is_text(source)
    return values.expression.cast(target) if is_binary(target) and is_alike else None


def _to_boolean(values: Typed, target: pa.DataType) -> pc.Expression | None:
    if is_number(values.type):
        is_float = pa.types.is_floating(values.type)
        zero = scalar_of(0.0, values.type) if is_float else of_units([0], values.type)[0]
        return values.expression != pc.scalar(zero)
    return values.expression.cast(target) if is_text(values.type) else None


def _to_integer(values: Typed, target: pa.DataType) -> pc.Expression | None:
    source = values.type
    if pa.types.is_floating(source) or pa.types.is_decimal(source):
        return pc.trunc(values.expression).cast(target)
    kinds = (is_number, is_text, pa.types.is_boolean)
    is_span = pa.types.is_duration(source) and pa.types.is_int64(target)
    if is_span or any(is_kind(source) for is_kind in kinds):
        return values.expression.cast(target)
    return None


def _to_float(values: Typed, target: pa.DataType) -> pc.Expression | None:
    if is_number(values.type):
        return to_floats(values, target)
    if is_text(values.type) or pa.types.is_boolean(values.type):
        return values.expression.cast(target)
    return None


def _to_decimal(values: Typed, target: pa.DataType) -> pc.Expression | None:
    source, expression = values.type, values.expression
    if pa.types.is_integer(source):
        expression, source = expression.cast(pa.decimal128(20, 0)), pa.decimal128(20, 0)
    if pa.types.is_decimal(source):
        if source.scale > target.scale:
            # One digit more, for what rounding may carry.
            wider = pa.decimal256(min(source.precision + 1, 76), source.scale)
            expression = pc.round(expression.cast(wider), target.scale, "half_towards_infinity")
        return expression.cast(target)
    if pa.types.is_floating(source):
        return pc.round(expression, target.scale, "half_towards_infinity").cast(target)
    return expression.cast(target) if is_text(source) else None


def _to_text(values: Typed, target: pa.DataType) -> pc.Expression | None:
    source = values.type
    # Arrow writes floats and timestamps in other words than SQL: 1 for 1.0.
    kinds = (
        pa.types.is_integer,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_date,
        is_text,
        is_binary,
    )
    return values.expression.cast(target) if any(is_kind(source) for is_kind in kinds) else None


def _to_date(values: Typed, target: pa.DataType) -> pc.Expression | None:
    source, expression = values.type, values.expression
    if pa.types.is_timestamp(source):
        return expression.cast(pa.timestamp(source.unit)).cast(target)  # the day in UTC
    return expression.cast(target) if pa.types.is_date(source) or is_text(source) else None


def _to_timestamp(values: Typed, target: pa.DataType) -> pc.Expression | None:
    source, expression = values.type, values.expression
    if pa.types.is_timestamp(source):
        is_coarser = _UNITS.index(target.unit) < _UNITS.index(source.unit)
        return expression.cast(target, safe=not is_coarser)
    if pa.types.is_date(source):
        return expression.cast(pa.timestamp(target.unit)).cast(target)
    return expression.cast(target) if is_text(source) else None


def _to_time(values: Typed, target: pa.DataType) -> pc.Expression | None:
    source = values.type
    if pa.types.is_time(source):
        return values.expression.cast(target, safe=False)
    return values.expression.cast(target) if is_text(source) else None


_CONVERT: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[Typed, pa.DataType], pc.Expression | None]], ...
] = (
    (pa.types.is_boolean, _to_boolean),
    (pa.types.is_integer, _to_integer),
    (pa.types.is_floating, _to_float),
    (pa.types.is_decimal, _to_decimal),
    (is_text, _to_text),
    (pa.types.is_date, _to_date),
    (pa.types.is_timestamp, _to_timestamp),
    (pa.types.is_time, _to_time),
)


def without_cast(
    left: Typed, literals: Sequence[Literal], is_equality: bool
) -> tuple[Typed, Sequence[Literal]]:
    """Return the whole numbers that values are a cast of, and literals to compare them with.

    Args:
        left: The values.
        literals: What they are compared with; none of them is NULL.
        is_equality: Whether the values are asked only whether they are equal to the literals.

    Returns:
        The same where the comparison needs the cast.
    """
    while left.cast_from is not None:
        source, target = left.cast_from, left.type
        found = [_uncast(one, source.type, target, is_equality) for one in literals]
        known = [one for one in found if one is not None]
        if len(known) < len(literals):
            break
        left, literals = source, known
    return left, literals


def _uncast(
    literal: Literal, source: pa.DataType, target: pa.DataType, is_equality: bool
) -> Literal | None:
    """Return what to compare whole numbers with in place of a literal; None if that is unknown."""
    value = literal.value
    if is_text(target):
        if not (is_equality and isinstance(value, str)):
            return None
        _, high = unit_bounds(source)
        # No number is written in another way: the value is none of the type.
        return literal._replace(value=int(value) if _WRITTEN.fullmatch(value) else high + 1)
    if isinstance(value, str):
        return None
    if pa.types.is_integer(target):
        low, high = unit_bounds(target)
        least, most = unit_bounds(source)
        return literal if low <= least and most <= high else None
    if pa.types.is_float64(target) and type(value) is not bool and value is not None:
        try:
            number = nearest_float(value, target)
        except ValueError:
            return None
        return literal._replace(value=number) if abs(number) < _EXACT_FLOATS else None
    return None
