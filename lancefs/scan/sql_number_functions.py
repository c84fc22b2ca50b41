"""Functions of SQL text that return numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.scan.sql_operands import (
    Literal,
    Operand,
    SqlFunction,
    Typed,
    require_number,
    result,
    to_floats,
)
from lancefs.scan.sql_tokens import Refused

# Most digits that numbers are rounded to.
_DIGITS = 15


def _of_float(kernel: Callable[..., Any], name: str, operand: Operand) -> Typed:
    """Apply a function of floats, which numbers of other types become."""
    values = _floats(name, operand)
    return result(kernel(values.expression), values.type, values)


def _floats(name: str, operand: Operand) -> Typed:
    values = require_number(operand, name)
    if pa.types.is_floating(values.type):
        return values
    return result(to_floats(values, pa.float64()), pa.float64(), values)


def _round(name: str, operand: Operand, digits: Operand | None = None) -> Typed:
    count = 0 if digits is None else digits.value if isinstance(digits, Literal) else None
    if not isinstance(count, int) or isinstance(count, bool) or abs(count) > _DIGITS:
        assert digits is not None
        raise Refused(f"{name} takes a number of digits up to {_DIGITS}", digits.start)
    values = _floats(name, operand)
    rounded = pc.round(values.expression, count, "half_towards_infinity")
    return result(rounded, values.type, values)


def _power(name: str, base: Operand, exponent: Operand) -> Typed:
    values, powers = (
        result(to_floats(each, pa.float64()), pa.float64(), each)
        for each in (_floats(name, base), _floats(name, exponent))
    )
    raised = pc.power(values.expression, powers.expression)
    return result(raised, pa.float64(), values, powers)


def _function(kernel: Callable[..., Any]) -> SqlFunction:
    return SqlFunction(partial(_of_float, kernel), 1, 1)


NUMBER_FUNCTIONS: dict[str, SqlFunction] = {
    "ceil": _function(pc.ceil),
    "ceiling": _function(pc.ceil),
    "exp": _function(pc.exp),
    "floor": _function(pc.floor),
    "ln": _function(pc.ln),
    "log10": _function(pc.log10),
    "log2": _function(pc.log2),
    "pow": SqlFunction(_power, 2, 2),
    "power": SqlFunction(_power, 2, 2),
    "round": SqlFunction(_round, 1, 2),
    "sqrt": _function(pc.sqrt),
    "trunc": _function(pc.trunc),
}
