"""Filters that DuckDB 2.0 pushes down, as Arrow expressions.

DuckDB's package translates them, which takes 20 µs for each value, and imports pandas, if it is
installed: more than half of the time that a new process needs for its first query. So conditions
on numbers, texts, bytes and times, also those in structs, are translated here, to the same
expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Context
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb._sources.nodes import Binary, Col, In, Lit, Postfix, Unary, Untranslatable, exact_value
from duckdb._sources.to_arrow import to_arrow

from duckdb_adapter.duckdb_types import MICROSECONDS, or_nan
from duckdb_adapter.sources.rows import has_lengths
from lancefs.datafile.constants import array_of, null_of, scalar_of
from lancefs.scan.sql_literals import has_units, is_binary, of_units

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
# What DuckDB calls the types whose values are the same in Python and in Arrow.
_PLAIN_TYPES = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.large_binary(): "BLOB",
}
# What DuckDB calls times without a zone, by their units.
_TIMESTAMPS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP"}
_OTHER_KINDS = (
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_time,
    pa.types.is_decimal128,
)
_EXACT = Context(prec=80)  # more than a decimal has


def predicate_columns(predicate: Any) -> list[str]:
    """Return the columns that a condition speaks of."""
    found: dict[str, None] = {}
    pending = [predicate]
    while pending:
        node = pending.pop()
        if isinstance(node, Col):
            found[node.parts[0]] = None
        pending.extend([node.operand] if isinstance(node, In) else node._children())
    return list(found)


def is_selective(predicate: Any, kinds: Sequence[pa.DataType]) -> bool:
    """Whether a condition asks for single numbers, or for what lies between two ends.

    Few rows pass mostly, which indices and ranges of values tell sooner than an estimate.

    Args:
        predicate: The condition.
        kinds: The types of its columns.
    """
    if isinstance(predicate, In) or (isinstance(predicate, Binary) and predicate.op == "="):
        return not any(map(has_lengths, kinds))
    if not isinstance(predicate, Binary) or predicate.op != "AND":
        return False
    ends = {getattr(side, "op", "")[:1] for side in (predicate.left, predicate.right)}
    return ends == {"<", ">"} and len(kinds) == 1


def to_arrow_expression(predicate: Any, schema: pa.Schema) -> pc.Expression:
    """Translate a condition.

    Args:
        predicate: The condition.
        schema: Its columns, without encodings.

    Raises:
        Untranslatable: DuckDB has to test it.
    """
    try:
        known = _translate(predicate, schema)
    except RecursionError as error:
        raise Untranslatable(predicate) from error
    return to_arrow(predicate, schema) if known is None else known


def _translate(node: Any, schema: pa.Schema) -> pc.Expression | None:
    """Translate a condition; None for one that DuckDB translates."""
    if isinstance(node, In):
        return _membership(node, schema)
    if isinstance(node, Postfix):
        field, kind = _column(node.operand, schema)
        if field is None or not (kind in _PLAIN_TYPES or any(test(kind) for test in _OTHER_KINDS)):
            return None
        return field.is_null() if node.op == "IS NULL" else field.is_valid()
    if isinstance(node, Unary) and node.op == "NOT":
        inner = _translate(node.operand, schema)
        return None if inner is None else ~inner
    if not isinstance(node, Binary):
        return None
    if node.op in ("AND", "OR"):
        left, right = _translate(node.left, schema), _translate(node.right, schema)
        if left is None or right is None:
            return None
        return left & right if node.op == "AND" else left | right
    return _comparison(node, schema)


def _comparison(node: Any, schema: pa.Schema) -> pc.Expression | None:
    """Translate a comparison of a column with a constant; None for one that DuckDB translates."""
    field, kind = _column(node.left, schema)
    stored = _to_stored(node.right, kind) if isinstance(node.right, Lit) else None
    if field is None or stored is None or node.op not in _COMPARISONS:
        return None
    operator = node.op
    if isinstance(stored, Fraction):
        # No value lies between two units: `>= 1.5` of them is `> 1`.
        operator = {">=": ">", "<": "<="}.get(operator, operator)
        if operator not in (">", "<="):
            return None
        stored = math.floor(stored)
    compared = _COMPARISONS[operator](field, _array([stored], _constant_type(kind))[0])
    return or_nan(compared, field, kind) if operator in (">", ">=") else compared


def _membership(node: Any, schema: pa.Schema) -> pc.Expression | None:
    """Translate `IN` in one step; None for one that DuckDB translates."""
    field, kind = _column(node.operand, schema)
    # Arrow tells 0.0 from -0.0, and DuckDB does not.
    if field is None or not node.values or pa.types.is_floating(kind):
        return None
    values = [_to_stored(each, kind) if isinstance(each, Lit) else None for each in node.values]
    if any(value is None for value in values):
        return None
    exact = [value for value in values if not isinstance(value, Fraction)]
    member = field.isin(_array(exact, kind)) if exact else pc.scalar(scalar_of(False, pa.bool_()))
    return pc.if_else(field.is_valid(), member, null_of(pa.bool_()))


def _column(node: Any, schema: pa.Schema) -> tuple[pc.Expression | None, pa.DataType]:
    """Return a column, or a member of structs, and its type.

    None where a name means several, or a column of an extension type, of which DuckDB decides.
    """
    if not isinstance(node, Col):
        return None, pa.null()
    kind = pa.struct(list(schema))
    for name in node.parts:
        index = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if index < 0:
            return None, pa.null()
        kind = kind.field(index).type
    if isinstance(kind, pa.BaseExtensionType):
        return None, pa.null()
    return pc.field(*node.parts), kind


def _constant_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the constants that values of a type are compared with."""
    if is_binary(kind):
        return pa.binary()
    return pa.string() if pa.types.is_large_string(kind) else kind


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values of a type, given as `_to_stored` returns them."""
    return of_units(values, kind) if has_units(kind) else array_of(values, kind)


def _to_stored(constant: Any, kind: pa.DataType) -> Any:
    """Return a constant as a column stores it: dates and times in their units.

    Args:
        constant: The constant.
        kind: The type of the column.

    Returns:
        A fraction for a time that is no whole number of units; None for a constant that is no
        value of the type, or that DuckDB translates.
    """
    value, name = constant.value, constant.type
    if not exact_value(constant):  # as NaN is not
        return None
    if kind in _PLAIN_TYPES:
        return value if name == _PLAIN_TYPES[kind] else None
    if pa.types.is_date32(kind):
        return (value - date(1970, 1, 1)).days if name == "DATE" else None
    if pa.types.is_decimal128(kind):
        is_same = name == f"DECIMAL({kind.precision},{kind.scale})"
        return int(value.scaleb(kind.scale, _EXACT)) if is_same else None
    return _stored_time(value, name, kind)


def _stored_time(value: Any, name: str, kind: pa.DataType) -> int | Fraction | None:
    """Return a time in units, given what DuckDB calls its type; see `_to_stored`."""
    is_timestamp = pa.types.is_timestamp(kind)
    if not (is_timestamp or pa.types.is_time(kind)) or kind.unit not in MICROSECONDS:
        return None
    if not is_timestamp:
        wanted = "TIME"
    else:
        wanted = _TIMESTAMPS[kind.unit] if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    if name != wanted:
        return None
    if isinstance(value, datetime):
        value = (value - datetime(1970, 1, 1)) // timedelta.resolution
    elif isinstance(value, time):
        midnight = timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
        value = midnight // timedelta.resolution
    units = Fraction(value, MICROSECONDS[kind.unit])
    return int(units) if units.denominator == 1 else units
