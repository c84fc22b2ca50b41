"""Literals of SQL text: their values, and these values in the units that a column stores.

A number is an `int`, a `Decimal` or, with an exponent, a `float`. A date or a time is a `Moment`.
Columns of whole numbers, decimals, dates and times store whole units: cents, days, microseconds. A
literal in these units is an exact fraction, so that `id > 3.5` or a date compared with a timestamp
loses nothing.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import number_dtype
from lancefs.datafile.constants import array_of, decimals_of_units, scalar_of

MomentKind: TypeAlias = Literal["date", "timestamp", "time"]


class Moment(NamedTuple):
    """A date, a timestamp or a time of day.

    Attributes:
        nanoseconds: Since 1970-01-01 00:00 UTC; of a time of day, since midnight.
        kind: Which of these it is.
    """

    nanoseconds: int
    kind: MomentKind


Value: TypeAlias = bool | int | Decimal | float | str | bytes | Moment | None

# Digits of a number. A decimal of 76 digits is the widest type; a float has up to 309.
_MAX_DIGITS = 400
_DAY = 86_400 * 10**9
_EPOCH = datetime.date(1970, 1, 1).toordinal()
# The types of scalars; others are moments, decimals and integers of more bits.
_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    type(None): pa.bool_(),
}
# A text that is a UUID (RFC 9562, section 4) stands for its bytes beside a column of them.
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_UUID_STORAGE = pa.binary(16)
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_EXACT = Context(prec=2 * _MAX_DIGITS, traps=[Inexact])
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,18}))?)?"
_ZONE = r"\s*(?P<zone>[zZ]|[-+]\d{2}(?::?\d{2})?)?"
_MOMENTS = {
    "date": re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})", re.ASCII),
    "timestamp": re.compile(
        rf"(?P<year>\d{{4}})-(?P<month>\d{{1,2}})-(?P<day>\d{{1,2}})(?:[T\s]{_TIME}{_ZONE})?",
        re.ASCII | re.IGNORECASE,
    ),
    "time": re.compile(_TIME, re.ASCII),
}
_WHOLE = re.compile(r"[-+]?[0-9]+")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)")
_FLOAT = re.compile(r"[-+]?(nan|inf(inity)?|[0-9.]+e[-+]?[0-9]+)", re.IGNORECASE)
_TRUE, _FALSE = ("true", "t", "yes", "1"), ("false", "f", "no", "0")


def parse_number(text: str) -> int | Decimal | float:
    """Return the value of a number.

    Args:
        text: Digits, with a decimal point for a `Decimal`, with an exponent for a `float`; a sign
            and the names of special floats are allowed, as in texts that are cast.

    Raises:
        ValueError: The text is no number, or the number is out of range.
    """
    text = text.strip()
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text):,} digits; at most {_MAX_DIGITS} are read")
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"{text!r} is no number")
    value = float(text)
    if math.isinf(value) and "i" not in text.lower():
        raise ValueError(f"{text} is too large for a number")
    return value


def parse_moment(text: str, kind: MomentKind) -> Moment:
    """Return a date, a timestamp or a time of day.

    Args:
        text: As ISO 8601 writes it; a timestamp without an offset is in UTC.
        kind: What to read.

    Raises:
        ValueError: The text is something else.
    """
    match = _MOMENTS[kind].fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no {kind}")
    part = {name: value for name, value in match.groupdict().items() if value is not None}
    nanoseconds = 0
    if "year" in part:
        day = datetime.date(int(part["year"]), int(part["month"]), int(part["day"]))
        nanoseconds = (day.toordinal() - _EPOCH) * _DAY
    if "hour" in part:
        clock = datetime.time(int(part["hour"]), int(part["minute"]), int(part.get("second", 0)))
        nanoseconds += (clock.hour * 3600 + clock.minute * 60 + clock.second) * 10**9
        nanoseconds += int(part.get("fraction", "")[:9].ljust(9, "0"))
    return Moment(nanoseconds - _offset(part.get("zone", "Z")), kind)


def _offset(zone: str) -> int:
    """Return the nanoseconds by which the clocks of a zone are ahead of UTC."""
    if zone in "zZ":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:]) if len(zone) > 3 else 0
    ahead = (hours * 60 + minutes) * 60 * 10**9
    return -ahead if zone[0] == "-" else ahead


def parse_boolean(text: str) -> bool:
    """Return a truth value.

    Raises:
        ValueError: The text is none.
    """
    if text.strip().lower() in _TRUE:
        return True
    if text.strip().lower() in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def parse_as(text: str, data_type: pa.DataType) -> Value:
    """Return what a string stands for beside values of a type.

    Raises:
        ValueError: The string is no such value.
    """
    if is_number(data_type):
        return parse_number(text)
    if pa.types.is_date(data_type) or pa.types.is_timestamp(data_type):
        return parse_moment(text, "timestamp")
    if pa.types.is_time(data_type):
        return parse_moment(text, "time")
    if pa.types.is_boolean(data_type):
        return parse_boolean(text)
    if data_type == _UUID_STORAGE and _UUID.fullmatch(text):
        return bytes.fromhex(text.replace("-", ""))
    return text.encode() if is_binary(data_type) else text


def is_number(data_type: pa.DataType) -> bool:
    """Tell whether values are whole numbers, decimals or floats."""
    kinds = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_floating)
    return any(is_kind(data_type) for is_kind in kinds)


def is_binary(data_type: pa.DataType) -> bool:
    """Tell whether values are byte strings."""
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(is_kind(data_type) for is_kind in kinds)


def has_units(data_type: pa.DataType) -> bool:
    """Tell whether values are whole units, such as cents or days."""
    kinds = (
        pa.types.is_integer,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_time,
        pa.types.is_timestamp,
    )
    return any(is_kind(data_type) for is_kind in kinds)


def units(value: Value, data_type: pa.DataType) -> int | Fraction | float:
    """Return a value in the units that a type stores.

    Args:
        value: A number or a moment.
        data_type: A type that `has_units`.

    Returns:
        The exact number of units, or infinity for infinity and for NaN, which is above all numbers.

    Raises:
        ValueError: The value is of another kind.
    """
    if type(value) is int and pa.types.is_integer(data_type):
        return value
    if isinstance(value, Moment):
        return Fraction(value.nanoseconds, _nanoseconds_of_unit(data_type, value.kind))
    number = _number(value)
    if not is_number(data_type):
        raise ValueError
    if isinstance(number, float) and not math.isfinite(number):
        return -math.inf if number < 0 else math.inf
    # The digits of a float are what the user wrote: 1e-1 is a tenth.
    exact = Fraction(repr(number)) if isinstance(number, float) else Fraction(number)
    scale = data_type.scale if pa.types.is_decimal(data_type) else 0
    return exact * Fraction(10) ** scale


def _nanoseconds_of_unit(data_type: pa.DataType, kind: MomentKind) -> int:
    if pa.types.is_time(data_type) and kind == "time":
        return _NANOSECONDS[data_type.unit]
    if kind != "time" and pa.types.is_timestamp(data_type):
        return _NANOSECONDS[data_type.unit]
    if kind != "time" and pa.types.is_date(data_type):
        return _DAY if pa.types.is_date32(data_type) else _NANOSECONDS["ms"]
    raise ValueError


def unit_bounds(data_type: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest number of units that a type stores."""
    if pa.types.is_decimal(data_type):
        most = 10**data_type.precision - 1
        return -most, most
    if pa.types.is_unsigned_integer(data_type):
        return 0, (1 << data_type.bit_width) - 1
    return -(1 << data_type.bit_width - 1), (1 << data_type.bit_width - 1) - 1


def of_units(numbers: Iterable[int], data_type: pa.DataType) -> pa.Array:
    """Return values of a type that `has_units`, given in units within its bounds."""
    if pa.types.is_decimal(data_type):
        return decimals_of_units(numbers, data_type)
    if pa.types.is_integer(data_type):
        return array_of(list(numbers), data_type)
    whole = pa.int32() if data_type.bit_width == 32 else pa.int64()
    return array_of(list(numbers), whole).view(data_type)


def nearest_float(value: Value, data_type: pa.DataType) -> float:
    """Return the value of a type of floats that is nearest to a number.

    Raises:
        ValueError: The value is no number, or too large.
    """
    try:
        number = float(_number(value))
    except OverflowError:
        raise ValueError from None
    kind = number_dtype(data_type).type
    with np.errstate(over="ignore"):
        return float(kind(number))


def to_scalar(value: Value) -> pa.Scalar:
    """Return a value as a scalar of the narrowest of the types that literals have.

    Raises:
        ValueError: No type holds the value.
    """
    if isinstance(value, Moment):
        day, rest = divmod(value.nanoseconds, _DAY)
        if value.kind == "date" and not rest:
            return of_units([day], pa.date32())[0]
        if value.kind == "time":
            return of_units([value.nanoseconds], pa.time64("ns"))[0]
        unit = "us" if value.nanoseconds % 1000 == 0 else "ns"
        ticks, data_type = value.nanoseconds // _NANOSECONDS[unit], pa.timestamp(unit)
        low, high = unit_bounds(data_type)
        if not low <= ticks <= high:
            raise ValueError
        return of_units([ticks], data_type)[0]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        value = Decimal(value)
    if isinstance(value, Decimal):
        data_type = decimal_type(*_digits(value))
        return of_units([int(value.scaleb(data_type.scale, _EXACT))], data_type)[0]
    return scalar_of(value, _TYPES[type(value)])


def to_value(scalar: pa.Scalar) -> Value:
    """Return the value of a scalar, as `to_scalar` takes it."""
    data_type = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_date(data_type):
        return Moment(scalar.value * _nanoseconds_of_unit(data_type, "date"), "date")
    if pa.types.is_timestamp(data_type):
        return Moment(scalar.value * _NANOSECONDS[data_type.unit], "timestamp")
    if pa.types.is_time(data_type):
        return Moment(scalar.value * _NANOSECONDS[data_type.unit], "time")
    value: Value = scalar.as_py()
    return value


def decimal_type(whole: int, scale: int) -> pa.DataType:
    """Return the narrowest decimal type for digits before and after the point.

    Raises:
        ValueError: No decimal type is wide enough.
    """
    precision = max(whole + scale, 1)
    if precision > 76:
        raise ValueError
    if precision > 38:
        return pa.decimal256(precision, scale)
    return pa.decimal128(precision, scale)


def _digits(value: Decimal) -> tuple[int, int]:
    """Return the number of digits before and after the decimal point."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a Decimal of a filter is finite"
    scale = max(-exponent, 0)
    return max(len(digits) + exponent, 0), scale


def _number(value: Value) -> int | Decimal | float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise ValueError
    return value


def calculate(sign: str, left: Value, right: Value) -> Value:
    """Return the result of an arithmetic operation on numbers.

    Args:
        sign: One of `+ - * / %`; a quotient is exact where decimals hold it, else a float.
        left: A number.
        right: A number.

    Raises:
        ValueError: The operands are no numbers, or the result is out of range.
        ZeroDivisionError: The divisor is a zero that is not a float.
    """
    numbers = [_number(value) for value in (left, right)]
    if any(isinstance(value, float) for value in numbers):
        return _calculate_floats(sign, *map(float, numbers))
    a, b = (Fraction(value) for value in numbers)
    if sign == "%":
        result = a - b * int(a / b)  # the sign of a remainder is that of the dividend
    else:
        result = {"+": a.__add__, "-": a.__sub__, "*": a.__mul__, "/": a.__truediv__}[sign](b)
    if result.denominator == 1:
        return _check_size(int(result))
    try:
        return _EXACT.divide(Decimal(result.numerator), Decimal(result.denominator))
    except Inexact:
        return result.numerator / result.denominator


def _check_size(number: int) -> int:
    if abs(number) >= 10**_MAX_DIGITS:
        raise ValueError
    return number


def _calculate_floats(sign: str, a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        x, y = np.float64(a), np.float64(b)
        operations = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod}
        return float(operations[sign](x, y))
