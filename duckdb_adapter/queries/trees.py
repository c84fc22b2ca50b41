"""The nodes of the syntax tree of a query: tables, columns, constants, functions, comparisons.

`parsing` makes the tree. An expression has a `class`, such as COLUMN_REF or FUNCTION; other nodes
have a `type` only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.function_names import MAKING_ONE_VALUE

# Parts of a SELECT that make groups of rows, or leave rows out.
_OF_GROUPS = ("group_expressions", "group_sets", "having", "sample", "qualify")

# The classes of what nodes are made of: other mappings take ten times as long to ask for.
PARTS: Set[type] = {dict, list}

# What nodes say of how and where they stand in a text.
_OF_TEXTS = {"alias", "query_location", "query_location_length"}
# Placeholder for a schema or a column before the name of a function.
_DOTTED = "…."

# Comparisons by which numbers are at most as great as another one, and how much less; those that
# say the same with the sides the other way round.
_LAST = {"COMPARE_EQUAL": 0, "COMPARE_LESSTHANOREQUALTO": 0, "COMPARE_LESSTHAN": -1}
_MIRRORED = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
}
# The kinds of constants, as DuckDB 2.0 calls them, by their types before that.
_KINDS = {"VARCHAR": "STRING", "INTEGER": "INTEGER"}


def is_table(node: Any, name: str) -> bool:
    """Whether a node is the table, with its own names, and without a version or sample."""
    is_qualified = node.get("schema_name") or node.get("catalog_name")
    return is_unmodified_table(node) and not is_qualified and bool(node["table_name"] == name)


def is_unmodified_table(node: Any) -> bool:
    """Whether a node is any table or view, as `is_table` says."""
    others = ("at_clause", "column_name_alias", "sample")
    return node["type"] == "BASE_TABLE" and not any(node.get(key) for key in others)


def shows_rows(node: Mapping[str, Any]) -> bool:
    """Whether a SELECT shows rows one by one, all of those for which its conditions are true."""
    is_free = node["aggregate_handling"] == "STANDARD_HANDLING"
    return is_free and not any(node.get(part) for part in _OF_GROUPS)


def changes_columns(star: Mapping[str, Any]) -> bool:
    """Whether `*` shows other columns than those of what is selected from, or by other names."""
    return any(star.get(key) for key in ("replace_list", "rename_list", "columns", "expr"))


def aggregates(node: Mapping[str, Any]) -> bool:
    """Whether a SELECT returns groups of rows, or one row for all."""
    if node["group_expressions"] or node["aggregate_handling"] == "FORCE_AGGREGATES":
        return True
    return has_aggregates(node["select_list"])


def has_aggregates(node: Any) -> bool:
    """Whether expressions have functions that make one value of rows."""
    calls = (each for each in expressions_in(node) if each["class"] == "FUNCTION")
    return any(call["function_name"].lower() in MAKING_ONE_VALUE for call in calls)


def calls_only(node: Any, functions: Collection[str]) -> bool:
    """Whether expressions call no functions but some, which have no windows; or operators."""
    return all(
        each["class"] != "WINDOW" and ((name := function_of(each)) is None or name in functions)
        for each in expressions_in(node)
    )


def function_of(expression: Mapping[str, Any]) -> str | None:
    """Return the function that an expression calls, in lower case; None where it calls none.

    Operators, which are functions too, and windows are none. What stands before a name is part of
    it: `x.abs()` may call a function of a schema, or `abs` with a column.
    """
    if expression["class"] != "FUNCTION" or expression["is_operator"]:
        return None
    name: str = expression["function_name"].lower()
    return f"{_DOTTED}{name}" if is_dotted(expression) else name


def is_dotted(call: Mapping[str, Any]) -> bool:
    """Whether something stands before the name of a function: a schema, or a column."""
    path = call.get("qualified_name", {}).get("path", ())  # from DuckDB 2.0 on
    return bool(call.get("schema") or call.get("catalog")) or len(path) > 1


def is_scalar(expression: Mapping[str, Any]) -> bool:
    """Whether an expression is a subquery that stands for one value."""
    return bool(expression["class"] == "SUBQUERY" and expression["subquery_type"] == "SCALAR")


def column_of(expression: Mapping[str, Any], columns: Mapping[str, str]) -> str | None:
    """Return the column that an expression is, in lower case; None where it is another one."""
    if expression["class"] != "COLUMN_REF":
        return None
    *table, last = [fold(part) for part in expression["column_names"]]
    # In front of the column there can be the name of the table only, which is no struct.
    is_column = len(table) <= 1 and not any(part in columns for part in table)
    return last if is_column and last in columns else None


def name_alone(expression: Mapping[str, Any]) -> str:
    """Return the unqualified name that an expression is, in lower case; empty for others."""
    parts = expression.get("column_names", ())
    return fold(parts[0]) if len(parts) == 1 else ""


def terms_of(
    node: Mapping[str, Any], conjunction: str = "CONJUNCTION_AND"
) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions that must all be true, or that another conjunction joins."""
    pending = [node]
    while pending:
        each = pending.pop()
        if each["type"] == conjunction:
            pending.extend(reversed(each["children"]))
        else:
            yield each


def expressions_in(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the expressions in a node, also those that others are made of."""
    return (each for each in nodes_in(node) if "class" in each)


def nodes_in(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes in a node or a list of nodes, itself too, each before those in it."""
    pending = [node]
    while pending:  # calls within each other would take three times as long
        parts: Any = pending.pop()
        if isinstance(parts, dict):
            yield parts
            parts = parts.values()
        elif not isinstance(parts, list):
            continue
        pending += [part for part in reversed(parts) if part and part.__class__ in PARTS]


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
    if node["class"] != "CONSTANT":
        return None
    kind, text = _constant(node)
    return text if kind in kinds else None


def _constant(node: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the kind of a constant, None for one that has no name here, and its text."""
    literal = node.get("literal")  # from DuckDB 2.0 on
    if literal is not None:
        return literal["kind"], literal["text"]
    value = node["value"]
    if value["is_null"]:
        return None, ""
    return _KINDS.get(value["type"]["id"]), str(value["value"])


def arguments_of(call: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the arguments of a function or an operator."""
    arguments = call.get("arguments")  # from DuckDB 2.0 on
    if arguments is None:
        return list(call.get("children", ()))
    return [each["expression"] for each in arguments]


def windows_by_name(select: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the windows that a SELECT shows, by their names in lower case.

    Those are left out whose name something else that is shown has, besides `*`.
    """
    shown = [(_name_of(each), each) for each in select["select_list"]]
    count = Counter(name for name, _ in shown)
    return {
        name: each
        for name, each in shown
        if name and each["class"] == "WINDOW" and count[name] == 1
    }


def _name_of(expression: Mapping[str, Any]) -> str:
    """Return the name of what a SELECT shows, in lower case; empty where DuckDB makes one."""
    return fold(expression["alias"] or expression.get("column_names", ("",))[-1])


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
    pending = [(one, other)]
    while pending:
        one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            names = (one.keys() | other.keys()) - _OF_TEXTS
            pending += [(one.get(name), other.get(name)) for name in names]
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pending += zip(one, other, strict=True)
        elif one != other:
            return False
    return True


def number_of(node: Any) -> int | None:
    """Return a constant of LIMIT or OFFSET; None where it is none."""
    if isinstance(node, int):
        return node
    if node is None or node["class"] != "CONSTANT":
        return None
    _, text = _constant(node)
    return int(text) if text.isdecimal() else None


class NamedColumns(NamedTuple):
    """The columns of a table, and how a query may name them.

    Attributes:
        by_name: The columns by their names in lower case.
        tables: The qualifiers that mean this table, in lower case; None if it is the only table.
    """

    by_name: Mapping[str, str]
    tables: Set[str] | None

    def find(self, expression: Mapping[str, Any]) -> str | None:
        """Return the column that an expression is; None where it is another one."""
        column = column_of(expression, self.by_name)
        if column is None:
            return None
        table = [fold(part) for part in expression["column_names"][:-1]]
        is_ours = self.tables is None or {*table} <= self.tables
        return self.by_name[column] if is_ours else None


# By the names of Arrow's functions, also for the sides the other way round.
_COMPARISONS = {
    "COMPARE_EQUAL": ("equal", "equal"),
    "COMPARE_NOTEQUAL": ("not_equal", "not_equal"),
    "COMPARE_LESSTHAN": ("less", "greater"),
    "COMPARE_GREATERTHAN": ("greater", "less"),
    "COMPARE_LESSTHANOREQUALTO": ("less_equal", "greater_equal"),
    "COMPARE_GREATERTHANOREQUALTO": ("greater_equal", "less_equal"),
}


class ComparedColumn(NamedTuple):
    """A column and what it is compared with.

    Attributes:
        column: The expression that may be the column.
        operators: The functions of Arrow that must all be true.
        others: What each of them compares the column with.
    """

    column: Mapping[str, Any]
    operators: Sequence[str]
    others: Sequence[Mapping[str, Any]]


class ComparedValue(NamedTuple):
    """A comparison of a column of a table with something.

    Attributes:
        column: The column.
        operator: The function of Arrow.
        other: What the column is compared with.
    """

    column: str
    operator: str
    other: Mapping[str, Any]


def compared_values(term: Mapping[str, Any], columns: NamedColumns) -> Iterator[ComparedValue]:
    """Yield what a condition compares a column with; nothing for any other condition.

    Args:
        term: The condition; `BETWEEN` is two comparisons.
        columns: The columns of the table, as the query names them.
    """
    compared = comparison_in(term, columns.by_name)
    column = None if compared is None else columns.find(compared.column)
    if compared is not None and column is not None:
        for operator, other in zip(compared.operators, compared.others, strict=True):
            yield ComparedValue(column, operator, other)


def comparison_in(term: Mapping[str, Any], columns: Mapping[str, str]) -> ComparedColumn | None:
    """Return the comparison that a condition is; None for any other condition.

    Args:
        term: The condition; `BETWEEN` is two comparisons.
        columns: The columns of the table by their names in lower case.
    """
    kind = term["type"]
    if kind == "COMPARE_BETWEEN":
        ends = [term["lower"], term["upper"]]
        return ComparedColumn(term["input"], ["greater_equal", "less_equal"], ends)
    if kind not in _COMPARISONS:
        return None
    operator, mirrored = _COMPARISONS[kind]
    if column_of(term["left"], columns) is None:
        return ComparedColumn(term["right"], [mirrored], [term["left"]])
    return ComparedColumn(term["left"], [operator], [term["right"]])
