"""Conditions in WHERE that DuckDB computes itself: `lower(host) = 'x'`, `latency > bytes`.

DuckDB pushes down comparisons of a column with constants only. For any other condition it reads all
columns of all rows. What is found here is read first: the columns of WHERE alone, of which DuckDB
tells the rows that pass (`sources.deferred_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import ColumnUses, PathUse, path_from_column
from duckdb_adapter.queries.function_names import OF_VALUES
from duckdb_adapter.queries.members import UsedColumns, reduce_uses
from duckdb_adapter.queries.parsing import to_sql
from duckdb_adapter.queries.row_tests import tests_of_term
from duckdb_adapter.queries.table_query import TableQuery
from duckdb_adapter.queries.trees import expressions_in, is_dotted, terms_of

# Expressions that use nothing but the row. A subquery may read tables, and a parameter has no value
# in the text.
_OF_ROWS = {
    *("COLUMN_REF", "CONSTANT", "CAST", "TYPE", "CASE", "COMPARISON", "BETWEEN", "CONJUNCTION"),
    *("OPERATOR", "FUNCTION"),
}
# More functions that are the same each time that they are called.
_SAME = OF_VALUES | {
    *("hash", "md5", "sha256", "bit_count", "levenshtein", "jaccard", "jaro_winkler_similarity"),
    *(
        "list_contains",
        "array_contains",
        "list_has",
        "list_position",
        "array_length",
        "list_has_any",
    ),
    *(
        "list_has_all",
        "array_has_any",
        "array_has_all",
        "list_extract",
        "array_extract",
        "struct_extract",
    ),
    *(
        "map_extract",
        "cardinality",
        "json_array_length",
        "json_valid",
        "json_type",
        "json_contains",
    ),
    *("isfinite", "isinf", "century", "decade", "yearweek", "epoch_us", "epoch_ns", "millisecond"),
    *(
        "microsecond",
        "coalesce",
        "ascii",
        "unicode",
        "ord",
        "bit_length",
        "translate",
        "list_value",
    ),
    *("array_distance", "list_distance", "array_cosine_similarity", "array_inner_product", "now"),
    *("current_date", "today", "current_timestamp", "get_current_timestamp", "regexp_extract_all"),
    *("+", "-", "*", "/", "//", "%", "**", "^", "||", "&", "|", "<<", ">>", "~", "@", "->", "->>"),
    *("~~", "!~~", "~~*", "!~~*", "~~~", "^@"),
}


# What stands after WHERE of a text that may have such a condition: a call, an operator, a column on
# the right. To parse a text takes as long as to look up a row.
_TEXT = re.compile(r"'[^']*'")
_MAY_COMPUTE = re.compile(
    r"\b(?!(?:in|and|or|not|where|between|values)\b)[a-z_]\w*\s*\(|[-+*/%^@&|~]|::|\bcase\b"
    r'|[=<>]\s*"?[a-z_]',
    re.IGNORECASE,
)


class ComputedFilter(NamedTuple):
    """What WHERE tests, where DuckDB pushes down a part of it at most.

    Attributes:
        where: The condition in SQL.
        alias: What it may qualify columns with.
        columns: The columns that it reads, by their names in the table.
        used: What it reads of them, where that is less than all.
        is_limited: Whether any rows that pass are enough, up to a number of them.
    """

    where: str
    alias: str
    columns: tuple[str, ...]
    used: UsedColumns
    is_limited: bool


def computed_filter(query: TableQuery) -> ComputedFilter | None:
    """Return what WHERE tests, where the query uses other columns, too, of the rows that pass.

    None where DuckDB pushes all of it down, and where it may not be the same if tested twice.
    """
    tested = query.text.lower().partition("where")[2]
    may_compute = _MAY_COMPUTE.search(_TEXT.sub("", tested)) is not None
    node = query.table_select if may_compute else None
    where = None if node is None else node.get("where_clause")
    if node is None or where is None:
        return None
    if all(tests_of_term(term, query.columns) is not None for term in terms_of(where)):
        return None
    alias = query.alias_of(node["from_table"])
    uses = _uses_of(where, query.columns, alias)
    columns = [query.columns[name] for name in uses or ()]
    if not uses or not _uses_others(query, columns):
        return None
    text = to_sql(where)
    structs = {fold(name): kind for name, kind in query.structs.items()}
    used = reduce_uses(uses, structs, query.columns)
    kinds = {modifier["type"] for modifier in node["modifiers"]}
    is_limited = bool(kinds) and "ORDER_MODIFIER" not in kinds
    return None if text is None else ComputedFilter(text, alias, tuple(columns), used, is_limited)


def _uses_of(where: Mapping[str, Any], columns: Mapping[str, str], alias: str) -> ColumnUses | None:
    """Return the columns that a condition reads; None where it may use something else."""
    if fold(alias) in columns or any("." in column for column in columns):
        return None
    found: ColumnUses = {}
    for expression in expressions_in(where):
        kind = expression["class"]
        if kind not in _OF_ROWS or (kind == "FUNCTION" and not _is_same(expression)):
            return None
        if kind != "COLUMN_REF":
            continue
        names = [fold(name) for name in expression["column_names"]]
        path = path_from_column(names, columns)
        if path is None or (len(path) < len(names) and names[0] != fold(alias)):
            return None
        member = "" if any("." in name for name in path[1:]) else ".".join(path[1:])
        found.setdefault(path[0], {})[member] = PathUse(is_tested=False, is_count_argument=False)
    return found


def _is_same(call: Mapping[str, Any]) -> bool:
    return call["function_name"].lower() in _SAME and not is_dotted(call)


def _uses_others(query: TableQuery, columns: Collection[str]) -> bool:
    """Whether a query may use columns that its condition does not read."""
    if query.uses is None:
        return len(columns) < len(query.columns)
    return any(query.columns[name] not in columns for name in query.uses)
