"""The conditions that DuckDB 2.0 asks a source to test, as expressions of Arrow.

DuckDB's package translates them, which takes 20 µs for each value, and imports pandas, if it is
installed: more than half of the time that a new process needs for its first query. So comparisons
with numbers, texts and times are translated here, to the same expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Context
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb._sources.nodes import Binary, Col, In, Lit, Postfix, Unary, Untranslatable, exact_value
from duckdb._sources.to_arrow import to_arrow

from duckdb_adapter.sources.rows import is_text
from lancefs.scan.constants import array_of, null_of, scalar_of
from lancefs.scan.sql_literals import of_units

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
}
# The units of times without a zone: what DuckDB calls these, and how long a unit is.
_TIMESTAMPS = {
    "s": ("TIMESTAMP_S", timedelta(seconds=1)),
    "ms": ("TIMESTAMP_MS", timedelta(milliseconds=1)),
    "us": ("TIMESTAMP", timedelta.resolution),
}
_OTHER_KINDS = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal128)
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


def is_narrow(predicate: Any, kinds: Sequence[pa.DataType]) -> bool:
    """Whether a condition asks for single numbers, or for what lies between two ends.

    Few rows pass mostly, which indices and ranges of values tell sooner than an estimate.

    Args:
        predicate: The condition.
        kinds: The types of its columns.
    """
    if isinstance(predicate, In) or (isinstance(predicate, Binary) and predicate.op == "="):
        return not any(map(is_text, kinds))
    if not isinstance(predicate, Binary) or predicate.op != "AND":
        return False
    ends = {getattr(side, "op", "")[:1] for side in (predicate.left, predicate.right)}
    return ends == {"<", ">"} and len(kinds) == 1


def translated(predicate: Any, schema: pa.Schema) -> pc.Expression:
    """Translate a condition.

    Args:
        predicate: The condition.
        schema: Its columns, without encodings.

    Raises:
        Untranslatable: DuckDB has to test it.
    """
    try:
        known = _known(predicate, schema)
    except RecursionError as error:
        raise Untranslatable(predicate) from error
    return to_arrow(predicate, schema) if known is None else known


def _known(node: Any, schema: pa.Schema) -> pc.Expression | None:
    """Translate a condition; None for one that DuckDB translates."""
    if isinstance(node, In):
        return _membership(node, schema)
    if isinstance(node, Postfix):
        field, kind = _column(node.operand, schema)
        if field is None or not (kind in _PLAIN_TYPES or any(test(kind) for test in _OTHER_KINDS)):
            return None
        return field.is_null() if node.op == "IS NULL" else field.is_valid()
    if isinstance(node, Unary) and node.op == "NOT":
        inner = _known(node.operand, schema)
        return None if inner is None else ~inner
    if not isinstance(node, Binary):
        return None
    if node.op in ("AND", "OR"):
        left, right = _known(node.left, schema), _known(node.right, schema)
        if left is None or right is None:
            return None
        return left & right if node.op == "AND" else left | right
    return _comparison(node, schema)


def _comparison(node: Any, schema: pa.Schema) -> pc.Expression | None:
    """Translate a comparison of a column with a constant; None for one that DuckDB translates."""
    field, kind = _column(node.left, schema)
    constant = _constant(node.right, kind) if isinstance(node.right, Lit) else None
    if field is None or constant is None or node.op not in _COMPARISONS:
        return None
    compared = _COMPARISONS[node.op](field, constant)
    if pa.types.is_floating(kind) and node.op in (">", ">="):
        return compared | (field != field)  # NaN, which DuckDB puts after all numbers
    return compared


def _membership(node: Any, schema: pa.Schema) -> pc.Expression | None:
    """Translate `IN` of whole numbers or texts in one step; None for one that DuckDB translates."""
    field, kind = _column(node.operand, schema)
    exact = int if pa.types.is_integer(kind) else str if kind == pa.string() else None
    if field is None or exact is None or not node.values:
        return None
    name = _PLAIN_TYPES[kind]
    for one in node.values:
        if not (isinstance(one, Lit) and one.type == name and type(one.value) is exact):
            return None
    member = field.isin(array_of([one.value for one in node.values], kind))
    return pc.if_else(field.is_valid(), member, null_of(pa.bool_()))


def _column(node: Any, schema: pa.Schema) -> tuple[pc.Expression | None, pa.DataType]:
    """Return a column and its type; None for what is none, or where the name means several."""
    if not isinstance(node, Col) or len(node.parts) != 1:
        return None, pa.null()
    (name,) = node.parts
    if len(schema.get_all_field_indices(name)) != 1:
        return None, pa.null()
    return pc.field(name), schema.field(name).type


def _constant(constant: Any, kind: pa.DataType) -> pa.Scalar | None:
    """Return a constant as a value of a type; None where it is no value of it, or not known."""
    value, name = constant.value, constant.type
    if not exact_value(constant):  # as NaN is not
        return None
    if kind in _PLAIN_TYPES:
        return scalar_of(value, kind) if name == _PLAIN_TYPES[kind] else None
    if pa.types.is_date32(kind) and name == "DATE":
        return of_units([(value - date(1970, 1, 1)).days], kind)[0]
    if pa.types.is_timestamp(kind) and kind.tz is None:
        known, tick = _TIMESTAMPS.get(kind.unit, ("", timedelta.resolution))
        if name != known:
            return None
        return of_units([(value - datetime(1970, 1, 1)) // tick], kind)[0]
    if pa.types.is_decimal128(kind) and name == f"DECIMAL({kind.precision},{kind.scale})":
        return of_units([int(value.scaleb(kind.scale, _EXACT))], kind)[0]
    return None
