"""Which flags a query wants to be set, or not, as its text tells: `WHERE is_active`.

DuckDB asks the Arrow scan for comparisons only, as `is_active = true` is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.queries.named_columns import NamedColumns


def flag_condition(
    term: Mapping[str, Any], columns: NamedColumns, schema: pa.Schema
) -> pc.Expression | None:
    """Return what a flag must be for a condition; None for other conditions.

    Args:
        term: The condition.
        columns: The columns of the table, as the query names them.
        schema: Their types.
    """
    is_not = term["type"] == "OPERATOR_NOT"
    column = columns.find(term["children"][0] if is_not else term)
    if column is None or not pa.types.is_boolean(schema.field(column).type):
        return None
    return ~pc.field(column) if is_not else pc.field(column)
