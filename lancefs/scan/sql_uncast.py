"""Rewriting comparisons of casts in SQL text as comparisons of the column itself.

`CAST(id AS string) = '5'` is true where `id = 5` is. To compare numbers as they are stored takes a
fraction of the time of casting all of them, and indices and ranges of values are asked for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from lancefs.datafile.arrays import is_text
from lancefs.scan.sql_literals import nearest_float, unit_bounds
from lancefs.scan.sql_operands import Literal, Typed

# Whole numbers as casts write them, of no more digits than 64 bits have.
_WRITTEN = re.compile("0|-?[1-9][0-9]{0,19}")
# Floats below have all whole numbers: casts to them keep which number is greater.
_EXACT_FLOATS = 1 << 53


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
