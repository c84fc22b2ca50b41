"""Operators of SQL text: comparisons, membership, logic with unknowns, and arithmetic.

NaN is equal to itself and greater than any other number, as DuckDB and DataFusion order it; Arrow's
kernels call NaN unequal to everything. Zeros of both signs are equal.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import is_text
from lancefs.datafile.constants import array_of, scalar_of
from lancefs.scan import row_functions
from lancefs.scan.sql_casts import without_cast
from lancefs.scan.sql_literals import (
    Moment,
    calculate,
    has_units,
    is_binary,
    is_number,
    nearest_float,
    of_units,
    parse_as,
    unit_bounds,
    units,
)
from lancefs.scan.sql_operands import (
    UNKNOWN,
    Literal,
    Operand,
    Typed,
    condition,
    convert,
    result,
    to_typed,
    unify,
    wide_decimal,
)
from lancefs.scan.sql_tokens import Refused

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Arrow makes one chain of ANDs inside each other, and recurses once for each of its terms: some
# thousand terms overflow the stack.
_LONGEST_CHAIN = 64
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Checked: a result that does not fit is an error, not another number.
_CALCULATE = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}


def compare(sign: str, left: Operand, right: Operand) -> Typed:
    """Compare two operands.

    Args:
        sign: One of `= != < <= > >=`.
        left: The operand before the sign.
        right: The operand after it.

    Returns:
        A condition, unknown where a side is missing.

    Raises:
        Refused: The types cannot be compared.
    """
    is_constant = isinstance(left, Literal) and isinstance(right, Literal)
    if is_constant and isinstance(right, Literal) and isinstance(right.value, str):
        left = to_typed(left)
    elif is_constant:
        right = to_typed(right)
    if isinstance(left, Literal):
        left, right, sign = right, left, _MIRRORED[sign]
    assert isinstance(left, Typed)
    if isinstance(right, Literal):
        return condition(_compare_with_literal(sign, left, right), left, uses=2)
    first, second, data_type = unify(left, right)
    if pa.types.is_null(data_type):
        return condition(UNKNOWN, left, right)
    if pa.types.is_nested(data_type):
        raise Refused(f"{data_type} cannot be compared", min(left.start, right.start))
    if pa.types.is_floating(data_type):
        return condition(_compare_floats(sign, first, second), left, right, uses=2)
    return condition(_COMPARE[sign](first, second), left, right)


def _compare_with_literal(sign: str, left: Typed, literal: Literal) -> pc.Expression:
    if literal.value is None or pa.types.is_null(left.type):
        return UNKNOWN
    left, (literal,) = without_cast(left, [literal], sign in ("=", "!="))
    value = fit(literal, left.type, left.is_half)
    if has_units(left.type):
        return _compare_units(sign, left, value)
    if pa.types.is_floating(left.type):
        return _compare_with_float(sign, left, value)
    if isinstance(value, bytes) and not fits_width(value, left.type):
        return _COMPARE[sign](left.expression.cast(pa.binary()), pc.scalar(value))
    return _COMPARE[sign](left.compared, pc.scalar(scalar_of(value, left.type)))


def fit(literal: Literal, data_type: pa.DataType, is_half: bool = False) -> Any:
    """Return the value of a literal beside values of a type.

    Args:
        literal: Not NULL.
        data_type: The type.
        is_half: Whether the values are half floats.

    Returns:
        Units, where the type has them; else the nearest float, a string, bytes, or a boolean.

    Raises:
        Refused: The literal is not of that kind.
    """
    value = literal.value
    try:
        if isinstance(value, str):
            value = parse_as(value, data_type)
        if has_units(data_type):
            return units(value, data_type)
        if pa.types.is_floating(data_type):
            return nearest_float(value, pa.float16() if is_half else data_type)
    except ValueError:
        raise _misfit(literal, data_type) from None
    is_kind = {str: is_text, bytes: is_binary, bool: pa.types.is_boolean}.get(type(value))
    if is_kind is None or not is_kind(data_type):
        raise _misfit(literal, data_type)
    return value


def _misfit(literal: Literal, data_type: pa.DataType) -> Refused:
    is_bare = pa.types.is_temporal(data_type) and not isinstance(literal.value, str)
    hint = "; a time stands in single quotes" if is_bare else ""
    if is_text(data_type) and not isinstance(literal.value, str):
        hint = "; a text stands in single quotes"
    return Refused(f"{literal} is not a value of the type {data_type}{hint}", literal.start)


def fits_width(value: bytes, data_type: pa.DataType) -> bool:
    """Tell whether bytes are a value of a type of binary values, which may have one width."""
    return not pa.types.is_fixed_size_binary(data_type) or len(value) == data_type.byte_width


def _compare_units(sign: str, left: Typed, number: int | Fraction | float) -> pc.Expression:
    """Compare values of whole units with a number of units, which may lie between two of them."""
    low, high = unit_bounds(left.type)
    if not low <= number <= high:
        is_true = sign == "!=" or sign in (("<", "<=") if number > high else (">", ">="))
        return _for_all(left, is_true)
    whole = math.floor(number)
    if whole != number:
        if sign in ("=", "!="):
            return _for_all(left, sign == "!=")
        sign = "<=" if sign in ("<", "<=") else ">"
    return _COMPARE[sign](left.compared, pc.scalar(of_units([whole], left.type)[0]))


def _for_all(left: Typed, is_true: bool) -> pc.Expression:
    """Return a condition that is true or false for all values, and unknown for missing ones."""
    low, _ = unit_bounds(left.type)
    least = pc.scalar(of_units([low], left.type)[0])
    return left.compared >= least if is_true else left.compared < least


def _compare_with_float(sign: str, left: Typed, number: float) -> pc.Expression:
    values = left.expression
    if math.isnan(number):
        is_nan = pc.is_nan(values)
        match sign:
            case "=" | ">=":
                return is_nan
            case "!=" | "<":
                return ~is_nan
        return is_nan | ~is_nan if sign == "<=" else is_nan & ~is_nan
    compared = _COMPARE[sign](left.compared, pc.scalar(scalar_of(number, left.type)))
    return compared | pc.is_nan(values) if sign in (">", ">=") else compared


def _compare_floats(sign: str, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    match sign:
        case "=":
            return (left == right) | (pc.is_nan(left) & pc.is_nan(right))
        case "<":
            return (left < right) | (~pc.is_nan(left) & pc.is_nan(right))
        case ">":
            return _compare_floats("<", right, left)
    opposite = {"!=": "=", "<=": ">", ">=": "<"}[sign]
    return ~_compare_floats(opposite, left, right)


def is_in(left: Operand, items: Sequence[Operand]) -> Typed:
    """Tell whether an operand equals an item of a list.

    Args:
        left: The operand.
        items: At least one.

    Returns:
        A condition, unknown where the operand is missing, or where it equals none and one is
        missing.

    Raises:
        Refused: The types cannot be compared.
    """
    literals = [item for item in items if isinstance(item, Literal)]
    if isinstance(left, Literal) or len(literals) < len(items):
        return disjunction([compare("=", left, item) for item in items])
    values = [item for item in literals if item.value is not None]
    if pa.types.is_null(left.type) or not values:
        return condition(UNKNOWN, left)
    left, compared = without_cast(left, values, is_equality=True)
    wanted = _value_set(left, compared)
    found = left.compared.isin(wanted)
    if pa.types.is_floating(wanted.type) and pc.any(pc.is_nan(wanted)).as_py():
        found = found | pc.is_nan(left.compared)  # the set tells NaN from NaN with a sign
    if len(values) < len(literals):
        found = found | UNKNOWN
    elif left.is_nullable:  # Arrow calls a missing value not in the list
        found = pc.if_else(left.compared.is_valid(), found, UNKNOWN)
    return condition(found, left, uses=2)


def _value_set(left: Typed, literals: Sequence[Literal]) -> pa.Array:
    """Return those values that a column can equal."""
    own = int if pa.types.is_integer(left.type) else str if is_text(left.type) else None
    values: list[Any] = [  # most are what the column has, and need not be asked about one by one
        literal.value if type(literal.value) is own else fit(literal, left.type, left.is_half)
        for literal in literals
    ]
    if has_units(left.type):
        low, high = unit_bounds(left.type)
        whole = [int(value) for value in values if low <= value <= high and value == int(value)]
        return of_units(whole, left.type)
    if pa.types.is_floating(left.type) and 0.0 in values:
        values += [0.0, -0.0]  # the set tells one zero from the other
    if is_binary(left.type):
        values = [value for value in values if fits_width(value, left.type)]
    return array_of(values, left.type)


def conjunction(terms: Sequence[Operand]) -> Typed:
    """Return a condition that is true where all terms are; raises as `truth` does."""
    return _join(operator.and_, [truth(term) for term in terms])


def disjunction(terms: Sequence[Operand]) -> Typed:
    """Return a condition that is true where any term is; raises as `truth` does."""
    return _join(operator.or_, [truth(term) for term in terms])


def _join(join: Callable[[Any, Any], Any], terms: list[Typed]) -> Typed:
    """Join terms in pairs, and the pairs in pairs: thousands of terms are a dozen deep."""
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        last = terms[-1:] if len(terms) % 2 else []
        terms = [*(_join_two(join, *pair) for pair in pairs), *last]
    return terms[0]


def _join_two(join: Callable[[Any, Any], Any], left: Typed, right: Typed) -> Typed:
    total = left.terms + right.terms
    if total > _LONGEST_CHAIN:
        left, right, total = _seal(left), _seal(right), 2
    joined = condition(join(left.expression, right.expression), left, right)
    return joined._replace(terms=total)


def _seal(chain: Typed) -> Typed:
    """Return a condition that Arrow does not join with those around it."""
    return condition(~~chain.expression, chain) if chain.terms > 1 else chain


def truth(operand: Operand) -> Typed:
    """Return an operand as a condition.

    Raises:
        Refused: It is not a boolean.
    """
    if isinstance(operand, Literal) and operand.value is None:
        return condition(UNKNOWN, operand)
    values = to_typed(operand)
    if not pa.types.is_boolean(values.type):
        raise Refused("a comparison was expected, such as price > 3", operand.start)
    return values


def negation(operand: Operand) -> Typed:
    """Return a condition that is true where an operand is false; raises as `truth` does."""
    return condition(~truth(operand).expression, operand)


def is_missing(operand: Operand) -> Typed:
    """Tell where an operand is NULL."""
    values = to_typed(operand)
    return condition(values.tested.is_null(), values)


def is_truth(operand: Operand, value: bool) -> Typed:
    """Tell where a condition is true, or false, and not unknown; raises as `truth` does."""
    values = truth(operand).expression
    return condition(pc.coalesce(values if value else ~values, pc.scalar(False)), operand)


def is_distinct(left: Operand, right: Operand) -> Typed:
    """Tell where operands differ, a missing value being equal to a missing one.

    Raises:
        Refused: The types cannot be compared.
    """
    same = compare("=", left, right).expression
    both_missing = is_missing(left).expression & is_missing(right).expression
    return condition(~pc.coalesce(same, both_missing), left, right, uses=3)


def arithmetic(sign: str, left: Operand, right: Operand) -> Operand:
    """Calculate with numbers.

    Whole numbers give whole numbers of 64 bits, decimals exact decimals (a quotient of decimals is
    a float), and floats floats, of 32 bits where all columns are.

    Args:
        sign: One of `+ - * / %`.
        left: The operand before the sign.
        right: The operand after it.

    Raises:
        Refused: The operands are no numbers, or constants that give no number.
    """
    for operand in (left, right):
        if isinstance(operand, Literal) and operand.value is None:
            return Literal(None, left.start)
    start = min(left.start, right.start)
    if isinstance(left, Literal) and isinstance(right, Literal):
        try:
            return Literal(calculate(sign, left.value, right.value), start)
        except (ValueError, OverflowError):
            raise Refused(f"{left} {sign} {right} gives no number", start) from None
        except ZeroDivisionError:
            raise Refused(f"{left} {sign} {right} divides by zero", start) from None
    first, second = _as_number(left, right), _as_number(right, left)
    types = (first.type, second.type)
    if any(pa.types.is_floating(kind) for kind in types):
        target = pa.float64() if pa.float64() in types else pa.float32()
    elif not any(pa.types.is_decimal(kind) for kind in types):
        unsigned = sign != "-" and all(pa.types.is_unsigned_integer(kind) for kind in types)
        target = pa.uint64() if unsigned else pa.int64()
    elif sign in ("+", "-", "*"):
        return _calculate_decimals(sign, first, second)
    elif sign == "/":
        target = pa.float64()
    else:
        raise Refused("% takes whole numbers or floats; write CAST(x AS double)", start)
    values = _calculate(sign, convert(first, target), convert(second, target), target)
    return result(values, target, left, right)


def _calculate(
    sign: str, left: pc.Expression, right: pc.Expression, data_type: pa.DataType
) -> pc.Expression:
    is_float = pa.types.is_floating(data_type)
    if sign == "%":
        return row_functions.remainder(left, right, data_type)
    if sign == "/" and is_float:
        return pc.divide(left, right)  # by zero: infinity, or NaN
    return _CALCULATE[sign](left, right)


def _calculate_decimals(sign: str, left: Typed, right: Typed) -> Typed:
    """Add, subtract or multiply decimals, in a type that is wide enough for the result."""
    types = tuple(wide_decimal((operand.type,)) for operand in (left, right))
    one, other = types
    assert one is not None
    assert other is not None
    common = wide_decimal((one, other))
    precision = 77 if common is None else common.precision + 1
    scale = 0 if common is None else common.scale
    if sign == "*":
        precision, scale = one.precision + other.precision + 1, one.scale + other.scale
    if precision > 76:
        raise Refused(
            f"the result of {left.type} {sign} {right.type} is too wide for a decimal; write "
            "CAST(x AS double)",
            left.start,
        )
    make = pa.decimal128 if precision <= 38 else pa.decimal256
    # Arrow works the type of the result out of the precisions, by the same rule.
    first = left.expression.cast(make(one.precision, one.scale))
    second = right.expression.cast(make(other.precision, other.scale))
    return result(_CALCULATE[sign](first, second), make(precision, scale), left, right)


def _as_number(operand: Operand, other: Operand) -> Typed:
    """Return an operand of an arithmetic operation; a literal takes the type that it meets."""
    if isinstance(operand, Literal) and isinstance(other, Typed):
        value = operand.value
        is_exact = not isinstance(value, float)
        if pa.types.is_float32(other.type) and is_exact and not isinstance(value, str):
            number = fit(operand, other.type)
            return Typed(pc.scalar(scalar_of(number, pa.float32())), pa.float32(), operand.start)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if is_whole and pa.types.is_unsigned_integer(other.type) and value in range(2**64):
            scalar = scalar_of(value, pa.uint64())
            return Typed(pc.scalar(scalar), pa.uint64(), operand.start)
    values = to_typed(operand)
    if not is_number(values.type):
        raise Refused(f"arithmetic takes numbers, not {values.type}", operand.start)
    return values


def change_sign(operand: Operand) -> Operand:
    """Return a number with the other sign.

    Raises:
        Refused: The operand is no number.
    """
    if isinstance(operand, Literal):
        value = operand.value
        if value is None:
            return operand
        if isinstance(value, bool | str | bytes | Moment):
            raise Refused(f"arithmetic takes numbers, not {operand}", operand.start)
        opposite = value.copy_negate() if isinstance(value, Decimal) else -value
        return Literal(opposite, operand.start, f"-{operand.text}" if operand.text else "")
    if not is_number(operand.type):
        raise Refused(f"arithmetic takes numbers, not {operand.type}", operand.start)
    if pa.types.is_integer(operand.type):
        return result(pc.negate_checked(operand.expression.cast(pa.int64())), pa.int64(), operand)
    return result(pc.negate_checked(operand.expression), operand.type, operand)
