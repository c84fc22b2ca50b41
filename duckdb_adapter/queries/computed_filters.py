"""Rows that DuckDB finds by few columns: `WHERE lower(host) = 'x'`, `ORDER BY a * b LIMIT 5`.

DuckDB pushes down comparisons of a column with constants only. For any other condition, and for the
first rows in some order, it reads all columns of all rows. What is found here is read first: the
columns of WHERE and ORDER BY alone, of which DuckDB tells the rows that the statement uses
(`sources.deferred_columns`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import ColumnUses, PathUse, member_of, path_from_column
from duckdb_adapter.queries.members import UsedColumns, reduce_uses
from duckdb_adapter.queries.parsing import tail_to_sql
from duckdb_adapter.queries.repeatable import is_of_row
from duckdb_adapter.queries.row_tests import tests_of_term
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.top_n import count_first_rows
from duckdb_adapter.queries.trees import changes_columns, expressions_in, terms_of

# What stands after WHERE of a text that may have such a condition: a call, an operator, a part of a
# text or list, a column on the right. To parse a text takes as long as to look up a row.
_TEXT = re.compile(r"'[^']*'")
_MAY_COMPUTE = re.compile(
    r"\b(?!(?:in|and|or|not|where|between|values)\b)[a-z_]\w*\s*\(|[-+*/%^@&|~\[]|::|\b(?:case|similar|glob)\b"
    r'|[=<>]\s*"?[a-z_]',
    re.IGNORECASE,
)
_LIMITS = {"LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER"}


class ComputedFilter(NamedTuple):
    """How DuckDB finds the rows of a table that a statement uses.

    Attributes:
        tail: `WHERE … ORDER BY … LIMIT …` in SQL, with a blank before it.
        alias: What columns may be qualified with.
        columns: The columns that are read for it, by their names in the table.
        used: What is read of them, where that is less than all.
        first_rows: How many rows there are at most, of those in some order; None for all that pass.
        is_limited: Whether any rows that pass are enough, up to a number of them.
    """

    tail: str
    alias: str
    columns: tuple[str, ...]
    used: UsedColumns
    first_rows: int | None
    is_limited: bool


@kept_by_query
def computed_filter(query: TableQuery) -> ComputedFilter | None:
    """Return how DuckDB finds the rows that a query uses, of which it uses other columns, too.

    None where DuckDB pushes all of that down, and where it may not be the same if done twice.
    """
    node = query.table_select if _may_compute(query.text) else None
    if node is None or node.get("sample"):  # of all rows, before they are tested
        return None
    where, first = node.get("where_clause"), _first_rows_of(node)
    is_pushed = where is None or all(
        tests_of_term(term, query.columns) is not None for term in terms_of(where)
    )
    if first is None and is_pushed:
        return None
    alias = query.alias_of(node["from_table"])
    orders = [] if first is None else node["modifiers"][:1]
    uses = _uses_of([where, orders], query.columns, alias)
    columns = [query.columns[name] for name in uses or ()]
    if not uses or not _uses_others(query, columns):
        return None
    tail = tail_to_sql(where, orders)
    if tail is None:
        return None
    tail = tail if first is None else f"{tail} LIMIT {first}"
    structs = {fold(name): kind for name, kind in query.structs.items()}
    used = reduce_uses(uses, structs, query.columns)
    kinds = {modifier["type"] for modifier in node["modifiers"]}
    is_limited = not kinds.isdisjoint(_LIMITS) and "ORDER_MODIFIER" not in kinds
    return ComputedFilter(tail, alias, tuple(columns), used, first, is_limited)


def _may_compute(text: str) -> bool:
    """Whether it is worthwhile to parse a text."""
    lower = text.lower()
    _, orders, after_order = lower.rpartition("order")
    if orders and "limit" in after_order:
        return True
    tested = lower.partition("where")[2]
    return _MAY_COMPUTE.search(_TEXT.sub("", tested)) is not None


def _first_rows_of(node: Mapping[str, Any]) -> int | None:
    """Return how many first rows a SELECT uses; None where others make a difference."""
    rows = count_first_rows(node)
    if rows is None:
        return None
    orders = [each["expression"] for each in node["modifiers"][0]["orders"]]
    # A number is the place of what is shown, and a name what is shown by this name.
    if any(each["class"] in ("CONSTANT", "STAR") for each in orders):
        return None
    names = set[str]()
    for each in expressions_in(orders):
        names.update(map(fold, each.get("column_names", ())))
    return rows if all(_keeps_rows(each, names) for each in node["select_list"]) else None


def _keeps_rows(shown: Mapping[str, Any], names: Set[str]) -> bool:
    """Whether what is shown is one value for each row, and none that others name."""
    if shown["class"] == "STAR":
        return not changes_columns(shown)
    if fold(shown["alias"]) in names:
        return False
    return all(map(is_of_row, expressions_in(shown)))


def _uses_of(tested: Any, columns: Mapping[str, str], alias: str) -> ColumnUses | None:
    """Return the columns that expressions read; None where they may use something else."""
    if fold(alias) in columns or any("." in column for column in columns):
        return None
    found: ColumnUses = {}
    for expression in expressions_in(tested):
        kind = expression["class"]
        if not is_of_row(expression):
            return None
        if kind != "COLUMN_REF":
            continue
        names = [fold(name) for name in expression["column_names"]]
        path = path_from_column(names, columns)
        if path is None or (len(path) < len(names) and names[0] != fold(alias)):
            return None
        found.setdefault(path[0], {})[member_of(path)] = PathUse(
            is_tested=False, is_count_argument=False
        )
    return found


def _uses_others(query: TableQuery, columns: Collection[str]) -> bool:
    """Whether a query may use columns that its condition does not read."""
    if query.uses is None:
        return len(columns) < len(query.columns)
    return any(query.columns[name] not in columns for name in query.uses)
