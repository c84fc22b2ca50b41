"""Queries that group by string columns or compute on them value by value.

Such columns are those of `GROUP BY level, host`, and members of structs, if there are several or
many values; those in `count(DISTINCT host)`; and, in aggregating queries, arguments of functions,
as in `WHERE starts_with(host, 'eu-')` and `GROUP BY upper(host)`, which are then computed once for
each distinct value.

The analysis only affects speed, because the replacement has the same rows and columns (see
`sources.groups`). So it need not understand the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.column_uses import path_from_column
from duckdb_adapter.queries.function_names import AGGREGATES, COLLECTING, MAKING_ONE_VALUE
from duckdb_adapter.queries.pivots import pivot_groups
from duckdb_adapter.queries.table_query import TableQuery, kept_by_query
from duckdb_adapter.queries.trees import (
    aggregates,
    arguments_of,
    classes_in,
    column_of,
    constant_text,
    expressions_in,
    name_alone,
    nodes_in,
    number_of,
    terms_of,
)

# A statement without any of these neither aggregates nor is DISTINCT.
_MAY_GROUP = re.compile(
    rf"\bgroup\s+by\b|\bdistinct\b|\bpivot\b|\b({'|'.join(sorted(MAKING_ONE_VALUE))})\b",
    re.IGNORECASE,
)
_MIN_GROUPED = 2
# What DuckDB 2.0 aggregates before a join (its `partial_aggregate_pushdown`): of one argument,
# without DISTINCT, FILTER or order, or `count(*)` beside another one; and what it never does so. A
# join that comes first costs a third more than to group by strings.
_BELOW_JOINS = {
    *("count_star", "count", "count_if", "countif", "approx_count_distinct", "sum", "fsum", "avg"),
    *("mean", "favg", "product", "min", "max", "median", "mad", "any_value", "arbitrary", "first"),
    *("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp", "sem", "skewness"),
    *("kurtosis", "kurtosis_pop", "last", "list", "array_agg", "string_agg", "bool_and", "bool_or"),
    *("bit_and", "bit_or", "bit_xor"),
}
_ABOVE_JOINS = {
    *("arg_max", "arg_max_null", "arg_max_nulls_last", "argmax", "max_by", "corr", "covar_pop"),
    *("arg_min", "arg_min_null", "arg_min_nulls_last", "argmin", "min_by", "covar_samp", "lttb"),
    *("quantile", "quantile_cont", "quantile_disc", "approx_quantile", "reservoir_quantile"),
    *("approx_top_k", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2"),
    *("regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "mode", "histogram", "entropy"),
}
# All aggregate functions, and those whose result depends on the order of rows.
_AGGREGATES = _BELOW_JOINS | _ABOVE_JOINS | AGGREGATES | COLLECTING
_IN_ORDER = _AGGREGATES - AGGREGATES
# Functions that DuckDB computes for each row even of a dictionary, mostly because they may fail.
_BY_ROW = {
    *("regexp_matches", "regexp_full_match", "regexp_extract_all", "left", "right", "lpad", "rpad"),
    *("translate", "base64", "to_base64", "format", "printf", "repeat", "strlen", "unicode", "ord"),
    *("array_slice", "list_slice", "jaccard", "if", "nullif"),
}
# Most columns that are no strings in GROUP BY.
_MAX_OTHERS = 1
# Operators that scans test, see `likes`.
_SCANNED = {"~~", "~~*", "^@"}


class GroupKeys(NamedTuple):
    """Columns of strings that a query takes by groups of rows with the same values.

    Attributes:
        columns: Those by which it groups, or of which a function computes something; members of
            structs by their paths.
        are_joined_last: Whether DuckDB aggregates before it joins what stands for them.
        takes_any_order: Whether the order of rows is nothing to the query.
        alone: The columns of which it pays only if there are many values, since the query groups
            by one value at a time.
    """

    columns: list[str]
    are_joined_last: bool
    takes_any_order: bool
    alone: frozenset[str] = frozenset()


@kept_by_query
def group_keys(query: TableQuery, encoded: frozenset[str]) -> GroupKeys | None:
    """Return columns by which a query groups, or of which it computes something, and no comparison.

    Args:
        query: The query, which names the table or a view of it.
        encoded: The columns that may be returned; members of structs by their paths.

    Returns:
        None if that would not pay, or the query reads the table twice.
    """
    columns = {fold(column): column for column in encoded}
    if len(columns) < len(encoded) or not _may_group_by(columns, query.text):
        return None
    if groups := pivot_groups(query):
        names = [columns[key] for key in dict.fromkeys(groups) if key in columns]
        return GroupKeys(names, False, True) if len(groups) >= _MIN_GROUPED and names else None
    select = _select_from(query)
    return None if select is None else _keys_of(select, query, columns)


def _may_group_by(columns: Collection[str], text: str) -> bool:
    """Whether a statement may aggregate rows, and name one of some columns, in lower case."""
    lower = text.lower() if _MAY_GROUP.search(text) is not None else ""
    return any(column.rpartition(".")[2] in lower for column in columns)


def _keys_of(
    select: Mapping[str, Any], query: TableQuery, columns: Mapping[str, str]
) -> GroupKeys | None:
    """Return what `group_keys` does for a SELECT of the table.

    Args:
        select: Its node.
        query: The query.
        columns: The columns that may be returned, by their names in lower case.
    """
    tested, compared = _tested(select.get("where_clause"), columns)
    strings = _not_tested(columns.keys() - compared, select.get("where_clause"), query.columns)
    keys = _grouped_below_joins(select, query.columns, strings)
    are_joined_last = bool(keys)
    shown = [select[part] for part in ("select_list", "group_expressions", "having", "modifiers")]
    calls = [*_calls_in(shown)]
    in_order = any(call["function_name"].lower() in _IN_ORDER for call in calls)
    takes_any_order = query.names(select["from_table"]) and not in_order  # a view may have a LIMIT
    alone = set[str]()
    if aggregates(select) or _is_distinct(select):  # a join changes the order of rows
        grouped, most = _grouped(select, query.columns, strings)
        keys += [key for key in tested if key not in compared]
        if takes_any_order and not are_joined_last:
            keys += _computed(calls, query.columns, strings)
            alone = set() if most >= _MIN_GROUPED else {*grouped}.difference(keys)
            keys = [*grouped, *keys]
    names = [columns[key] for key in dict.fromkeys(keys)]
    of_many = frozenset(columns[key] for key in alone)
    return GroupKeys(names, are_joined_last, takes_any_order, of_many) if names else None


class RepeatedColumns(NamedTuple):
    """Columns of whose values each is likely to be used many times.

    Attributes:
        columns: Their names, in the order of the table.
        tested: The names of the columns in WHERE.
    """

    columns: Sequence[str] = ()
    tested: Sequence[str] = ()


@kept_by_query
def repeated_columns(query: TableQuery) -> RepeatedColumns:
    """Return the columns that a query tests, and all that it names if it aggregates.

    Those of a query of one table only, which names all that it uses.
    """
    select = query.table_select if _may_repeat_strings(query) else None
    if select is None or not query.uses:
        return RepeatedColumns()
    is_aggregated = aggregates(select) or _is_distinct(select)
    parts = expressions_in(select["where_clause"])
    tested = {column_of(each, query.columns) for each in parts if each["class"] == "COLUMN_REF"}
    used = [
        query.columns[name]
        for name, uses in query.uses.items()
        if (is_aggregated or name in tested) and not all(use.is_tested for use in uses.values())
    ]
    return RepeatedColumns(used, [query.columns[name] for name in query.uses if name in tested])


def _may_repeat_strings(query: TableQuery) -> bool:
    """Whether a statement may test columns of strings, or aggregate them: others are not parsed."""
    text = query.text.replace(query.name, "").lower()
    if _MAY_GROUP.search(text) is None:
        text = text.partition("where")[2]
    strings = (field for field in query.schema if pa.types.is_string(field.type))
    return bool(text) and any(field.name.lower() in text for field in strings)


def _is_distinct(select: Mapping[str, Any]) -> bool:
    """Whether a SELECT returns each of its rows once, whichever order they are in."""
    distinct = [each for each in select["modifiers"] if each["type"] == "DISTINCT_MODIFIER"]
    is_plain = bool(distinct) and not distinct[0]["distinct_on_targets"]
    return is_plain and "WINDOW" not in classes_in([select["select_list"], select["qualify"]])


def _computed(
    calls: Sequence[Mapping[str, Any]], columns: Mapping[str, str], strings: Collection[str]
) -> list[str]:
    """Return the columns of strings of which functions of single values compute something alone."""
    found = list[str]()
    for call in calls:
        if not _names_in(call).isdisjoint(_AGGREGATES | _BY_ROW):
            continue
        parts = [each for each in expressions_in(call) if each["class"] == "COLUMN_REF"]
        names = {column_of(each, columns) for each in parts}
        found += [name for name in names if len(names) == 1 and name is not None]
    return [name for name in found if name in strings]


def _tested(where: Any, columns: Mapping[str, str]) -> tuple[list[str], set[str]]:
    """Return the columns of which a condition computes something alone, and those in others."""
    computed: list[str] = []
    compared: set[str] = set()
    for term in () if where is None else terms_of(where):
        parts = list(expressions_in(term))
        found = [column_of(each, columns) for each in parts if each["class"] == "COLUMN_REF"]
        names = {column for column in found if column is not None}
        calls = _names_in(term)
        is_alone = len(names) == 1 and None not in found and calls.isdisjoint(_BY_ROW)
        if is_alone and calls - _SCANNED and all(each["class"] != "SUBQUERY" for each in parts):
            computed += names
        else:
            compared |= names
    return computed, compared


def _grouped_below_joins(
    select: Mapping[str, Any], columns: Mapping[str, str], strings: Collection[str]
) -> list[str]:
    """Return the columns of strings by which a SELECT groups, if it aggregates before a join."""
    if len(select["group_sets"]) > 1:
        return []
    groups = [column_of(each, columns) for each in _groups(select, columns)]
    keys = list(dict.fromkeys(each for each in groups if each is not None and each in strings))
    others = set(groups) - {*keys}
    if len(keys) < _MIN_GROUPED or None in others or len(others) > _MAX_OTHERS:
        return []
    shown = [select["select_list"], select["having"], select["modifiers"]]
    calls = [*_calls_in(shown)]
    if any(map(_is_above_joins, calls)):
        return []
    arguments = [arguments_of(call) for call in calls if _is_aggregate(call)]
    used = {column_of(part, columns) for part in expressions_in(arguments)}
    return keys if any(arguments) and used.isdisjoint(keys) else []


def _grouped(
    select: Mapping[str, Any], columns: Mapping[str, str], strings: Collection[str]
) -> tuple[list[str], int]:
    """Return the columns of strings by which a SELECT groups, and by how many values at once."""
    found = _groups(select, columns) if aggregates(select) else select["select_list"]
    groups = [each for each in found if _names_in(each).isdisjoint(_AGGREGATES)]
    sizes = [len(each) for each in select["group_sets"]] or [len(groups)]
    counted = [call for call in _calls_in(select["select_list"]) if _looks_up(call)]
    arguments = [argument for call in counted for argument in arguments_of(call)]
    paths = [_path_of(each, columns) for each in (*groups, *arguments)]
    named = dict.fromkeys(path for path in paths if path is not None and path in strings)
    return [*named], max(sizes) + len(counted)


def _looks_up(call: Mapping[str, Any]) -> bool:
    """Whether an aggregate function hashes the values of each row."""
    return bool(call["distinct"]) or call["function_name"].lower() == "approx_count_distinct"


def _not_tested(
    strings: Collection[str], where: Any, columns: Mapping[str, str]
) -> Collection[str]:
    """Return the columns of strings, and those members of whose structs no condition speaks.

    Of structs that are put together after the join, conditions do not reach the scan.
    """
    paths = {_path_of(each, columns) for each in expressions_in(where)}
    structs = {path.partition(".")[0] for path in paths if path is not None}
    return {name for name in strings if name in columns or name.partition(".")[0] not in structs}


def _path_of(expression: Mapping[str, Any], columns: Mapping[str, str]) -> str | None:
    """Return the column that an expression is, or the member by its path; None for others."""
    if expression["class"] != "COLUMN_REF":
        return None
    path = path_from_column([fold(name) for name in expression["column_names"]], columns)
    return None if path is None else ".".join(path)


def _calls_in(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the calls of functions in a node."""
    return (each for each in expressions_in(node) if each["class"] == "FUNCTION")


def _names_in(node: Any) -> set[str]:
    """Return the names of functions that are called in a node, in lower case."""
    return {call["function_name"].lower() for call in _calls_in(node)}


def _is_aggregate(call: Mapping[str, Any]) -> bool:
    return call["function_name"].lower() in _BELOW_JOINS


def _is_above_joins(call: Mapping[str, Any]) -> bool:
    """Whether DuckDB makes a value of a group of rows only when they are joined."""
    special = call["distinct"] or call["filter"] or call["order_bys"]["orders"]
    several = _is_aggregate(call) and len(arguments_of(call)) > 1
    return bool(special) or several or call["function_name"].lower() in _ABOVE_JOINS


def _select_from(query: TableQuery) -> Mapping[str, Any] | None:
    """Return the SELECT of a statement that reads a table; None where several may do so.

    A statement that does not name the table reads a view of it.
    """
    selects = [each for each in nodes_in(query.query_root) if each.get("type") == "SELECT_NODE"]
    named = [node for node in selects if query.names(node["from_table"])]
    found = named or [node for node in selects if _reads_one_table(node["from_table"])]
    return found[0] if len(found) == 1 else None


def _reads_one_table(node: Mapping[str, Any]) -> bool:
    """Whether what a SELECT reads is a table or a view, with its own names of columns."""
    return node["type"] == "BASE_TABLE" and not node.get("column_name_alias")


def _groups(select: Mapping[str, Any], columns: Collection[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the expressions by which a SELECT groups."""
    shown = select["select_list"]
    if select["aggregate_handling"] == "FORCE_AGGREGATES":  # GROUP BY ALL
        yield from (each for each in shown if not any(map(_is_aggregate, _calls_in(each))))
    named = {fold(each["alias"]): each for each in shown if each["alias"]}
    for expression in select["group_expressions"]:
        position, name = _position(expression), name_alone(expression)
        if position is not None:
            yield from shown[position - 1 : position]
        else:
            yield expression if name in columns else named.get(name, expression)


def _position(expression: Mapping[str, Any]) -> int | None:
    """Return the number by which `GROUP BY 1` means an expression; None for other groups."""
    is_number = constant_text(expression, "INTEGER") is not None
    return number_of(expression) if is_number else None
