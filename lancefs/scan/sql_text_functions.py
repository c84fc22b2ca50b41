"""Functions of SQL text that return texts: parts of them, and texts that are joined."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.constants import scalar_of
from lancefs.scan.sql_operands import Literal, Operand, SqlFunction, Typed, require_text, result
from lancefs.scan.sql_tokens import Refused

# Longest text that a constant number of characters may ask for.
_MOST = 2**31 - 1
_NOTHING = pc.scalar(scalar_of("", pa.large_string()))


def join(name: str, *operands: Operand) -> Typed:
    """Join texts; the result is missing where one of them is.

    Args:
        name: The operator, for the error.
        *operands: The texts.

    Raises:
        Refused: An operand is no text.
    """
    texts = [require_text(operand, name) for operand in operands]
    return result(_joined([_long(text) for text in texts]), pa.large_string(), *texts)


def _concat(name: str, *operands: Operand) -> Typed:
    """Join texts, those alone that are not missing."""
    texts = [require_text(operand, name) for operand in operands]
    # Arrow has an option for it, which returns too few texts where all of a row are missing.
    parts = [pc.coalesce(_long(text), _NOTHING) for text in texts]
    return result(_joined(parts), pa.large_string(), *texts)


def _joined(parts: Sequence[pc.Expression]) -> pc.Expression:
    return pc.binary_join_element_wise(*parts, _NOTHING, null_handling="emit_null")


def _long(text: Typed) -> pc.Expression:
    return text.expression.cast(pa.large_string())


def _substr(name: str, operand: Operand, start: Operand, length: Operand | None = None) -> Typed:
    first = _count(name, start)
    if not first:
        raise Refused(f"{name} counts characters from 1", start.start)
    stop = None if length is None else first - 1 + _count(name, length)
    return _slice(name, operand, first - 1, stop)


def _left(name: str, operand: Operand, length: Operand) -> Typed:
    return _slice(name, operand, 0, _count(name, length))


def _right(name: str, operand: Operand, length: Operand) -> Typed:
    count = _count(name, length)
    return _slice(name, operand, -count, None if count else 0)


def _slice(name: str, operand: Operand, start: int, stop: int | None) -> Typed:
    values = require_text(operand, name)
    part = pc.utf8_slice_codeunits(values.expression, start, stop)
    return result(part, values.type, values)


def _count(name: str, operand: Operand) -> int:
    """Return the number of characters that an argument is."""
    value = operand.value if isinstance(operand, Literal) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise Refused(f"{name} takes a number of characters, from 0 on", operand.start)
    return value


def _trim(name: str, operand: Operand) -> Typed:
    values = require_text(operand, name)
    kernel = {"ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}.get(name.lower(), pc.utf8_trim)
    return result(kernel(values.expression, " "), values.type, values)


def _replace(name: str, operand: Operand, part: Operand, other: Operand) -> Typed:
    values = require_text(operand, name)
    texts = [one.value if isinstance(one, Literal) else None for one in (part, other)]
    if not texts[0] or not all(isinstance(text, str) for text in texts):
        raise Refused(f"{name} takes two texts in quotes, the first not empty", part.start)
    return result(pc.replace_substring(values.expression, *texts), values.type, values)


TEXT_FUNCTIONS: dict[str, SqlFunction] = {
    "btrim": SqlFunction(_trim, 1, 1),
    "concat": SqlFunction(_concat, 1, None),
    "left": SqlFunction(_left, 2, 2),
    "ltrim": SqlFunction(_trim, 1, 1),
    "replace": SqlFunction(_replace, 3, 3),
    "right": SqlFunction(_right, 2, 2),
    "rtrim": SqlFunction(_trim, 1, 1),
    "substr": SqlFunction(_substr, 2, 3),
    "substring": SqlFunction(_substr, 2, 3),
    "trim": SqlFunction(_trim, 1, 1),
}
