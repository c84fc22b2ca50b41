"""Operands of SQL text: literals, and expressions over columns with their types.

A literal has no type of its own: it takes the type of the column that it meets. Where expressions
of two types meet, both are converted to one type that holds their values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import is_text, value_type
from lancefs.datafile.constants import null_of
from lancefs.datafile.fields import Field
from lancefs.scan.sql_literals import (
    Value,
    decimal_type,
    is_binary,
    is_number,
    to_scalar,
)
from lancefs.scan.sql_tokens import Refused
from lancefs.table.row_metadata import is_row_metadata

# Deepest nesting of operations: Arrow evaluates them recursively, on the stack of a thread.
_DEEPEST = 250
# Most operations in total: `x BETWEEN a AND b` evaluates x twice, and x may hold such a condition
# again.
_MAX_OPERATIONS = 300_000
_LONGEST_SHOWN = 40
_UNITS = ("s", "ms", "us", "ns")
# Bits of a type of whole numbers -> the digits that its numbers can have.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_STRING = re.compile("'([^']*)'")
# The answer to a question about a missing value.
UNKNOWN = pc.scalar(null_of(pa.bool_()))


class Literal(NamedTuple):
    """A constant.

    Attributes:
        value: The constant.
        start: Index of its first character in the filter.
        text: The literal as written; nothing where it was calculated.
    """

    value: Value
    start: int
    text: str = ""

    def __str__(self) -> str:
        shown = self.text or str(self.value)
        return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"


def whole_numbers(text: str, start: int) -> Iterator[Literal]:
    """Yield the literals of a token of whole numbers.

    Args:
        text: The numbers, with commas between them.
        start: Index of the first character in the filter.
    """
    for item in text.split(","):
        written = item.strip()
        yield Literal(int(written), start + item.index(written), written)
        start += len(item) + 1


def strings(text: str, start: int) -> Iterator[Literal]:
    """Yield the literals of a token of strings without quotes in them; see `whole_numbers`."""
    for match in _STRING.finditer(text):
        yield Literal(match[1], start + match.start(), match[0])


class Typed(NamedTuple):
    """An expression over columns.

    Attributes:
        expression: The values, never dictionary-encoded or of an extension type or a half float.
        type: The type of the values.
        start: Index of its first character in the filter.
        column: The column where the expression is one, dictionary-encoded where it is stored so.
        stored: The column that the values are cast from, if it is half floats or of an extension
            type: values are missing where it has none.
        is_half: Whether the values are half floats, which Arrow cannot compare, as floats.
        is_nullable: Whether a value may be missing.
        depth: Operations inside each other.
        size: Operations in total.
        terms: Terms of the chain of ANDs or ORs that the expression is.
        cast_from: The whole numbers that the values are a cast of; None for other values.
    """

    expression: pc.Expression
    type: pa.DataType
    start: int
    column: pc.Expression | None = None
    stored: pc.Expression | None = None
    is_half: bool = False
    is_nullable: bool = True
    depth: int = 1
    size: int = 1
    terms: int = 1
    cast_from: Typed | None = None

    @property
    def compared(self) -> pc.Expression:
        """The values for kernels that take dictionary-encoded columns as they are."""
        return self.expression if self.column is None else self.column

    @property
    def tested(self) -> pc.Expression:
        """What is missing where the values are; tests of a column itself need no values of it."""
        return self.compared if self.stored is None else self.stored


Operand: TypeAlias = Literal | Typed


class SqlFunction(NamedTuple):
    """A function, and the least and the greatest number of arguments that it takes."""

    apply: Callable[..., Operand]
    least: int
    most: int | None


def read_column(way: tuple[Field, ...], start: int) -> Typed:
    """Return a column, or a member of a struct.

    Args:
        way: The column, then the members down to the one that is read.
        start: Index of its first character in the filter.

    Raises:
        UnsupportedFeature: The type is not known to this release.
    """
    field = pc.field(*(part.name for part in way))
    stored = way[-1].to_arrow().type
    data_type = _plain(stored)
    is_nullable = not is_row_metadata(way[0]) and any(part.nullable for part in way)
    if pa.types.is_float16(data_type):
        values = field.cast(pa.float32())
        return Typed(
            values, pa.float32(), start, stored=field, is_half=True, is_nullable=is_nullable
        )
    is_encoded = pa.types.is_dictionary(stored)
    values = field if stored.equals(data_type) else field.cast(data_type)
    column, other = (field, None) if is_encoded or values is field else (None, field)
    return Typed(values, data_type, start, column, other, is_nullable=is_nullable)


def item_type(list_type: pa.DataType) -> tuple[pa.DataType, bool]:
    """Return the type in which items of a list are compared, and whether they are half floats."""
    item = _plain(list_type.value_type)
    is_half = pa.types.is_float16(item)
    return (pa.float32() if is_half else item), is_half


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Return a type without the extension or the dictionary around it."""
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    return value_type(data_type)


def to_typed(operand: Operand) -> Typed:
    """Return an operand as an expression.

    Raises:
        Refused: No type holds the literal.
    """
    if isinstance(operand, Typed):
        return operand
    if operand.value is None:
        return Typed(pc.scalar(null_of(pa.null())), pa.null(), operand.start)
    try:
        scalar = to_scalar(operand.value)
    except ValueError:
        raise Refused(f"{operand} is out of range", operand.start) from None
    return Typed(pc.scalar(scalar), scalar.type, operand.start, is_nullable=False)


def result(
    expression: pc.Expression, data_type: pa.DataType, *operands: Operand, uses: int = 1
) -> Typed:
    """Return what an operation makes of its operands.

    Args:
        expression: The operation.
        data_type: The type of its result.
        *operands: At least one.
        uses: How often the expression holds each operand.

    Raises:
        Refused: Too many operations are inside each other.
    """
    start = min(operand.start for operand in operands)
    known = [operand for operand in operands if isinstance(operand, Typed)]
    depth = 1 + max((operand.depth for operand in known), default=0)
    size = 1 + uses * sum(operand.size for operand in known)
    if depth > _DEEPEST or size > _MAX_OPERATIONS:
        raise Refused("too many operations are inside each other", start)
    return Typed(expression, data_type, start, depth=depth, size=size)


def condition(expression: pc.Expression, *operands: Operand, uses: int = 1) -> Typed:
    """Return a condition on operands; arguments and errors are those of `result`."""
    return result(expression, pa.bool_(), *operands, uses=uses)


def require_text(operand: Operand, what: str) -> Typed:
    """Return an operand that must be a string.

    Args:
        operand: A string, or NULL.
        what: What takes strings, for the error.

    Raises:
        Refused: It is something else.
    """
    values = to_typed(operand)
    if pa.types.is_null(values.type):
        values = Typed(pc.scalar(null_of(pa.string())), pa.string(), operand.start)
    if not is_text(values.type):
        raise Refused(f"{what} takes a string, not {values.type}", operand.start)
    return values


def require_number(operand: Operand, what: str) -> Typed:
    """Return an operand that must be a number.

    Args:
        operand: A number.
        what: What takes numbers, for the error.

    Raises:
        Refused: It is something else.
    """
    values = to_typed(operand)
    if not is_number(values.type):
        raise Refused(f"{what} takes a number, not {values.type}", operand.start)
    return values


def unify(left: Typed, right: Typed) -> tuple[pc.Expression, pc.Expression, pa.DataType]:
    """Convert two operands to one type.

    Returns:
        The values of both, and their type.

    Raises:
        Refused: No type holds both.
    """
    target = common_type(left.type, right.type)
    if target is None:
        start = min(left.start, right.start)
        raise Refused(
            f"{left.type} and {right.type} do not go together; cast one of them, as in "
            "CAST(x AS bigint)",
            start,
        )
    return convert(left, target), convert(right, target), target


def convert(values: Typed, target: pa.DataType) -> pc.Expression:
    """Return values in a type that `common_type` gave, which is wide enough."""
    if values.type.equals(target):
        return values.expression
    if pa.types.is_null(values.type):
        return pc.scalar(null_of(target))
    if pa.types.is_floating(target):
        return to_floats(values, target)
    return values.expression.cast(target)


def to_floats(values: Typed, target: pa.DataType) -> pc.Expression:
    """Return the nearest floats."""
    if pa.types.is_decimal(values.type):
        # Arrow's own cast multiplies by a power of ten: 0.1 becomes 0.09999999999999999.
        return values.expression.cast(pa.string()).cast(target)
    return values.expression.cast(target, safe=False)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of two types are compared; None where there is none."""
    if left.equals(right) or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if is_text(left) and is_text(right):
        return pa.large_string()
    if is_binary(left) and is_binary(right):
        return pa.large_binary()
    if pa.types.is_time(left) and pa.types.is_time(right):
        return pa.time64("ns")
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return pa.duration(_finest(left.unit, right.unit))
    return _common_moment(left, right)


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    both = (left, right)
    if any(pa.types.is_float64(kind) for kind in both):
        return pa.float64()
    if any(pa.types.is_floating(kind) for kind in both):
        return pa.float32()
    if any(pa.types.is_decimal(kind) for kind in both):
        return wide_decimal(both) or pa.float64()
    if all(pa.types.is_unsigned_integer(kind) for kind in both):
        return max(both, key=lambda kind: kind.bit_width)
    # No type of 64 bits holds both signed and unsigned numbers of 64 bits.
    return pa.decimal128(20, 0) if pa.uint64() in both else pa.int64()


def wide_decimal(types: tuple[pa.DataType, ...]) -> pa.DataType | None:
    """Return a decimal type that holds decimals and whole numbers; None where none is wide enough.

    Args:
        types: Types of decimals and whole numbers.
    """
    scale = max(max(_scale(kind) for kind in types), 0)
    try:
        return decimal_type(max(_whole_digits(kind) for kind in types), scale)
    except ValueError:
        return None


def _scale(data_type: pa.DataType) -> int:
    return data_type.scale if pa.types.is_decimal(data_type) else 0


def _whole_digits(data_type: pa.DataType) -> int:
    if pa.types.is_decimal(data_type):
        return int(data_type.precision - data_type.scale)
    return 20 if data_type == pa.uint64() else _DIGITS[data_type.bit_width]


def _common_moment(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    both = (left, right)
    if all(pa.types.is_date(kind) for kind in both):
        return pa.date64()
    if not all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in both):
        return None
    stamps = [kind for kind in both if pa.types.is_timestamp(kind)]
    zone = "UTC" if any(kind.tz for kind in stamps) else None
    return pa.timestamp(_finest(*(kind.unit for kind in stamps)), zone)


def _finest(*units: str) -> str:
    return max(units, key=_UNITS.index)
