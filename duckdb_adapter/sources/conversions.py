"""Casts between the types that a column has in several tables that are read as one.

Some casts of Arrow differ from those of DuckDB when it reads several files, and are done here as
DuckDB does them: Arrow turns numbers into times and large numbers into infinities, and refuses
integers that fit into a decimal.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

# Digits of the greatest whole numbers, by their bits; and of any decimal of 128 bits.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MAX_DIGITS = 38


def common_type(one: pa.Field, other: pa.Field) -> pa.DataType:
    """Return a type that holds the values of two columns of one name.

    Raises:
        pa.ArrowException: There is none.
    """
    decimal = _common_decimal(one.type, other.type) or _common_decimal(other.type, one.type)
    if decimal is not None:
        return decimal
    schemas = [pa.schema([one]), pa.schema([other])]
    return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


def _common_decimal(number: pa.DataType, decimal: pa.DataType) -> pa.DataType | None:
    """Return a decimal that holds those of a type and whole numbers; None for other types."""
    if not (pa.types.is_integer(number) and pa.types.is_decimal128(decimal)):
        return None
    digits = _DIGITS[number.bit_width] + pa.types.is_uint64(number) + decimal.scale
    return pa.decimal128(min(max(digits, decimal.precision), _MAX_DIGITS), decimal.scale)


def convert(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in another type.

    Raises:
        pa.ArrowException: A value has none there.
    """
    if _mixes_times([array.type], [kind]):
        raise pa.ArrowInvalid("numbers are no times")
    if pa.types.is_integer(array.type) and pa.types.is_decimal128(kind):
        # Arrow asks for the digits of any number of the type.
        array = pc.cast(array, pa.decimal128(_MAX_DIGITS, kind.scale))
    found = pc.cast(array, kind)
    if pa.types.is_floating(array.type) and pa.types.is_floating(kind):
        is_lost = pc.and_(pc.is_inf(found), pc.is_finite(array))
        if is_lost.true_count:
            value = array.filter(is_lost)[0]
            raise pa.ArrowInvalid(f"{value} is out of the range of {kind}")
    return found


def _mixes_times(own: Sequence[pa.DataType], wanted: Sequence[pa.DataType]) -> bool:
    """Whether one of some types is a time, and the other a number, also in lists and structs."""
    return any(
        (pa.types.is_temporal(one) and _is_number(other))
        or (_is_number(one) and pa.types.is_temporal(other))
        or (pa.types.is_nested(one) and _mixes_times(*_parts(one, other)))
        for one, other in zip(own, wanted, strict=True)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _parts(
    one: pa.DataType, other: pa.DataType
) -> tuple[Sequence[pa.DataType], Sequence[pa.DataType]]:
    """Return the types of what two types are made of, where both are made alike."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        names = [field.name for field in one if other.get_field_index(field.name) >= 0]
        return [one.field(name).type for name in names], [other.field(name).type for name in names]
    if one.num_fields != other.num_fields:
        return [], []
    both = [[kind.field(place).type for place in range(one.num_fields)] for kind in (one, other)]
    return both[0], both[1]
