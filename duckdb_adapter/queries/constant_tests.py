"""Whether a statement of several tables compares columns of one of them with constants.

DuckDB pushes such comparisons down to a scan, and takes a scan with any of them for a fifth of its
rows, but for the Arrow scan, of which it asks the number of rows before. By these numbers it
chooses the sides of joins. So this is a guess about speed only, and nothing has to be proven.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from duckdb_adapter.queries.comparisons import comparison_in
from duckdb_adapter.queries.named_columns import NamedColumns
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import classes_in, terms_of

# A statement without WHERE, or that reads one table alone, is not parsed.
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_SEVERAL = re.compile(r"\bjoin\b|\bselect\b.*\bselect\b|\bfrom\b[^()]*,", re.IGNORECASE | re.DOTALL)
_OR = "CONJUNCTION_OR"
_CONSTANTS = {"CONSTANT", "PARAMETER", "CAST", "TYPE", "FUNCTION"}


def tests_constants(query: TableQuery) -> bool:
    """Whether a statement joins rows of the table for which a comparison with constants is true.

    Args:
        query: The statement with the table.
    """
    if not query.columns or not _WHERE.search(query.text) or not _SEVERAL.search(query.text):
        return False
    read = query.table_read
    where = None if read is None else read.select.get("where_clause")
    if read is None or where is None:
        return False
    columns = NamedColumns(query.columns, query.table_names(read.source))
    return any(_is_constant_test(term, columns) for term in terms_of(where))


def _is_constant_test(term: Mapping[str, Any], columns: NamedColumns) -> bool:
    if term["type"] == _OR:
        return all(
            any(_is_constant_test(each, columns) for each in terms_of(part))
            for part in terms_of(term, _OR)
        )
    if term["type"] == "COMPARE_IN":
        column, *others = term["children"]
    elif (compared := comparison_in(term, columns.by_name)) is not None:
        column, others = compared.column, list(compared.others)
    else:
        return False
    return columns.find(column) is not None and all(
        classes_in(other) <= _CONSTANTS for other in others
    )
