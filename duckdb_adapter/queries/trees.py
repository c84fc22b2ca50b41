"""The syntax tree of a query, as DuckDB itself parses it: `json_serialize_sql`.

A database of our own in memory does it, since that of the user is in the middle of the query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duckdb_adapter.own_databases import OwnDatabase
from duckdb_adapter.queries.query_texts import query_in

if TYPE_CHECKING:
    import duckdb

# Longer queries are not parsed a second time. They are written by programs, with long lists.
MAX_TEXT = 10_000

# Parts of a SELECT that make groups of rows, or leave rows out.
_OF_GROUPS = ("group_expressions", "group_sets", "having", "sample", "qualify")
_IN_ORDER = re.compile(r"\b(group|order)\s+by\b", re.IGNORECASE)
_LIMIT = re.compile(r"\blimit\b", re.IGNORECASE)

# Comparisons by which numbers are at most as great as another one, and how much less; those that
# say the same with the sides the other way round.
_LAST = {"COMPARE_EQUAL": 0, "COMPARE_LESSTHANOREQUALTO": 0, "COMPARE_LESSTHAN": -1}
_MIRRORED = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
}

# Functions that make one value of those of all rows, or of a group, whatever order these are in.
AGGREGATES = {
    *("count", "count_star", "count_if", "countif", "sum", "avg", "mean", "min", "max", "median"),
    *("histogram", "approx_count_distinct", "quantile", "quantile_cont", "quantile_disc", "mad"),
    *("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "skewness"),
    *("kurtosis", "entropy", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"),
}
# Functions that collect values in the order of rows; with DISTINCT, in no order of them.
COLLECTING = {"list", "array_agg", "string_agg", "group_concat", "listagg"}
_OF_MANY = AGGREGATES | COLLECTING
# Functions of single values, which may stand beside these.
OF_VALUES = {
    *("lower", "upper", "length", "len", "strlen", "trim", "ltrim", "rtrim", "reverse", "concat"),
    *("concat_ws", "substring", "substr", "left", "right", "lpad", "rpad", "replace", "split_part"),
    *("regexp_extract", "regexp_matches", "regexp_replace", "contains", "prefix", "suffix"),
    *("starts_with", "ends_with", "position", "strpos", "instr", "format", "printf"),
    *("abs", "sign", "round", "floor", "ceil", "ceiling", "trunc", "mod", "sqrt", "ln", "log"),
    *("log2", "log10", "exp", "pow", "power", "if", "ifnull", "nullif", "greatest", "least"),
    *("year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofmonth", "dayofyear"),
    *("dayname", "monthname", "last_day", "date_trunc", "datetrunc", "date_part", "datepart"),
    *("strftime", "age", "date_diff", "datediff", "epoch", "epoch_ms", "hour", "minute", "second"),
}
# What a statement has that needs all rows before it returns one, mostly; and what may need few.
_ALL_ROWS = re.compile(
    rf"\b(group\s+by|order\s+by|distinct|{'|'.join(sorted(AGGREGATES))})\b"
    r"|\A\s*(create|insert|copy)\b",
    re.IGNORECASE,
)
_FEW_ROWS = re.compile(r"\b(limit|exists|sample)\b", re.IGNORECASE)


def _open_database() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(config={"threads": 1})


_database = OwnDatabase(_open_database)


def parse_soon() -> None:
    """Get ready to parse, while others go on: a statement is likely to come soon."""
    _database.open_ahead()


@lru_cache(maxsize=16)
def parse(text: str) -> dict[str, Any] | None:
    """Parse the query of a statement.

    Args:
        text: One statement in SQL; see `query_in`.

    Returns:
        The root node: one that selects rows, or joins such nodes. None where the text is no single
        SELECT, has none, is long, or is not understood.
    """
    import duckdb

    if len(text) > MAX_TEXT:
        return None
    try:
        with _database.cursor() as cursor:
            answer = cursor.execute("SELECT json_serialize_sql(?)", [query_in(text)]).fetchone()
    except duckdb.Error:  # the user's database says what is wrong with the query
        return None
    found = json.loads(answer[0]) if answer else {}
    statements = found.get("statements", [])
    if found.get("error") is not False or len(statements) != 1:
        return None
    node: dict[str, Any] = statements[0]["node"]
    return node


def needs_all_rows(text: str) -> bool:
    """Guess whether a statement needs all rows of its tables before it returns one.

    A wrong guess costs time: it decides how long the first batches are.

    Args:
        text: The whole statement; empty where it is not known.
    """
    text = _without_last_limit(text)
    return _ALL_ROWS.search(text) is not None and _FEW_ROWS.search(text) is None


def _without_last_limit(text: str) -> str:
    """Return a statement without the LIMIT that ends it, if that takes groups or rows in order.

    The first of these are known when all rows are.
    """
    end = max((found.start() for found in _LIMIT.finditer(text)), default=len(text))
    is_last = ")" not in text[end:]
    return text[:end] if is_last and _IN_ORDER.search(text, 0, end) else text


def is_table(node: Any, name: str) -> bool:
    """Whether a node is the table, with its own names, and without a version or sample."""
    is_qualified = node.get("schema_name") or node.get("catalog_name")
    return is_plain_table(node) and not is_qualified and bool(node["table_name"] == name)


def is_plain_table(node: Any) -> bool:
    """Whether a node is any table or view, as `is_table` says."""
    others = ("at_clause", "column_name_alias", "sample")
    return node["type"] == "BASE_TABLE" and not any(node.get(key) for key in others)


def shows_rows(node: Mapping[str, Any]) -> bool:
    """Whether a SELECT shows rows one by one, all of those for which its conditions are true."""
    is_free = node["aggregate_handling"] == "STANDARD_HANDLING"
    return is_free and not any(node.get(part) for part in _OF_GROUPS)


def aggregates(node: Mapping[str, Any]) -> bool:
    """Whether a SELECT returns groups of rows, or one row for all."""
    if node["group_expressions"] or node["aggregate_handling"] == "FORCE_AGGREGATES":
        return True
    calls = (each for each in expressions_in(node["select_list"]) if each["class"] == "FUNCTION")
    return any(call["function_name"].lower() in _OF_MANY for call in calls)


def calls_only(node: Any, functions: Collection[str]) -> bool:
    """Whether expressions call no functions but some, which have no windows; or operators."""
    return all(
        each["class"] != "WINDOW" and ((name := function_of(each)) is None or name in functions)
        for each in expressions_in(node)
    )


def function_of(expression: Mapping[str, Any]) -> str | None:
    """Return the function that an expression calls, in lower case; None where it calls none.

    Operators, which are functions too, and windows are none.
    """
    is_call = expression["class"] == "FUNCTION" and not expression["is_operator"]
    return expression["function_name"].lower() if is_call else None


def column_of(expression: Mapping[str, Any], columns: Mapping[str, str]) -> str | None:
    """Return the column that an expression is, in lower case; None where it is another one."""
    if expression["class"] != "COLUMN_REF":
        return None
    *table, last = [part.lower() for part in expression["column_names"]]
    # In front of the column there can be the name of the table only, which is no struct.
    is_column = len(table) <= 1 and not any(part in columns for part in table)
    return last if is_column and last in columns else None


def terms_of(
    node: Mapping[str, Any], conjunction: str = "CONJUNCTION_AND"
) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions that must all be true, or that another conjunction joins."""
    if node["type"] != conjunction:
        yield node
        return
    for child in node["children"]:
        yield from terms_of(child, conjunction)


def expressions_in(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the expressions in a node, also those that others are made of."""
    children: Iterable[Any] = node if isinstance(node, list) else ()
    if isinstance(node, dict):  # not any mapping: that takes ten times as long to ask
        if "class" in node:
            yield node
        children = node.values()
    for child in children:
        yield from expressions_in(child)


def classes_in(node: Any) -> set[str]:
    """Return the classes of the expressions in a node, and of those that they are made of."""
    return {each["class"] for each in expressions_in(node)}


def query_of(expression: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the query of a common table expression."""
    query = expression.get("query_node")  # from DuckDB 2.0 on
    found: Mapping[str, Any] = expression["query"]["node"] if query is None else query
    return found


def constant_text(node: Mapping[str, Any], *kinds: str) -> str | None:
    """Return how a constant of some kinds stands in the text, without quotes; None for others."""
    literal = node.get("literal") if node["class"] == "CONSTANT" else None  # from DuckDB 2.0 on
    return literal["text"] if literal is not None and literal["kind"] in kinds else None


def ranks_within(term: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield what a condition compares with the first whole numbers, and the last of these.

    That is `… = n`, `… <= n` and `… < n`, with the sides either way, and `… BETWEEN m AND n`.
    """
    if term["class"] == "BETWEEN":
        last = number_of(term["upper"]) if term["type"] == "COMPARE_BETWEEN" else None
        if last is not None:
            yield term["input"], last
        return
    if term["class"] != "COMPARISON":
        return
    kind, number, limit = term["type"], term["left"], number_of(term["right"])
    if limit is None:
        kind, number, limit = _MIRRORED.get(kind, ""), term["right"], number_of(term["left"])
    if limit is not None and kind in _LAST:
        yield number, limit + _LAST[kind]


def same_expression(one: Any, other: Any) -> bool:
    """Whether two expressions say the same, wherever they stand and whatever they are called."""
    if isinstance(one, dict) and isinstance(other, dict):
        names = one.keys() | other.keys()
        return all(
            same_expression(one.get(name), other.get(name))
            for name in names
            if name not in ("alias", "query_location")
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_expression, one, other))
    return bool(one == other)


def number_of(node: Any) -> int | None:
    """Return a constant of LIMIT or OFFSET; None where it is none."""
    if isinstance(node, int):
        return node
    if node is None or node["class"] != "CONSTANT":
        return None
    literal = node.get("literal")  # from DuckDB 2.0 on
    value = node["value"]["value"] if literal is None else literal["text"]
    return int(value) if str(value).isdecimal() else None
