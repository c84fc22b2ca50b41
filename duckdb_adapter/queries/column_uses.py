"""Which columns the SELECT of a query uses, and how.

The proof: the text names all columns that the query uses. A macro can contain a query of its own,
but cannot name columns of the query that calls it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from duckdb_adapter.identifiers import fold
from duckdb_adapter.queries.parsing import columns_matching
from duckdb_adapter.queries.trees import arguments_of, constant_text, expressions_in, is_dotted

# Expressions that use nothing but what they are made of.
_KNOWN = {
    *("COLUMN_REF", "CONSTANT", "PARAMETER", "CAST", "TYPE", "CASE", "COMPARISON", "BETWEEN"),
    *("CONJUNCTION", "OPERATOR", "FUNCTION", "WINDOW", "STAR"),
}
# What `COLUMNS(…)` may not have so that it stands for columns by their names.
_CHANGES = (
    "relation_name",
    "replace_list",
    "rename_list",
    "exclude_list",
    "qualified_exclude_list",
)
# `query_location` of nodes that DuckDB makes for keywords such as ALL.
_NOWHERE = 2**64 - 1
_NULL_TESTS = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")


class _UsesAll(Exception):
    """A query may use more than its text names."""


class PathUse(NamedTuple):
    """How a column, or a member of a struct, is used.

    Attributes:
        is_tested: Whether only the validity is used: in `IS NULL`, or by `count(c)`.
        is_count_argument: Whether it is the argument of `count`.
    """

    is_tested: bool
    is_count_argument: bool

    def __and__(self, other: PathUse) -> PathUse:
        return PathUse(
            self.is_tested and other.is_tested, self.is_count_argument or other.is_count_argument
        )


# By the name of the column, and the path of the member in it, such as `geo.city`; that is empty for
# the whole column.
ColumnUses = dict[str, dict[str, PathUse]]


def uses_of(node: Mapping[str, Any], columns: Mapping[str, str], alias: str) -> ColumnUses | None:
    """Return how a query uses the columns of the table that it selects from.

    Args:
        node: Its SELECT.
        columns: The columns by their names in lower case.
        alias: What the table is called where the query gives it no name.

    Returns:
        By the names in lower case; None where it may use more than its text names.
    """
    alias = fold(node["from_table"]["alias"] or alias)
    if alias in columns or any("." in column for column in columns):
        return None
    try:
        return _uses(node, columns, alias)
    except _UsesAll:
        return None


def members_named(struct: pa.StructType, paths: Iterable[str]) -> list[str]:
    """Return members of a struct as its type names them; none where it is not clear which ones.

    Args:
        struct: The type.
        paths: The members in lower case, by their paths: those of members that are structs, too.

    Returns:
        Their paths in the order of the type, without those that are in others; that of a struct in
        it where it is not clear which of its members are meant.
    """
    wanted = inner_paths(paths)
    known = list[str]()
    for field in struct:
        inside = wanted.pop(fold(field.name), None)
        if inside is None:
            continue
        if "." in field.name:
            return []
        if "" in inside:
            known.append(field.name)
            continue
        is_alone = pa.types.is_struct(field.type) and not any("." in each for each in struct.names)
        members = members_named(field.type, inside) if is_alone else []
        known += [f"{field.name}.{member}" for member in members] or [field.name]
    is_clear = not wanted and len({*map(fold, known)}) == len(known)
    return known if is_clear and _are_told_apart(struct, known) else []


def inner_paths(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return what follows the first names of paths, by these; empty texts for the names alone."""
    inner = dict[str, list[str]]()
    for path in paths:
        name, _, rest = path.partition(".")
        inner.setdefault(name, []).append(rest)
    return inner


def _are_told_apart(struct: pa.StructType, known: Iterable[str]) -> bool:
    """Whether no two members are spelled alike of which some are meant."""
    names = Counter(fold(field.name) for field in struct)
    return all(names[fold(path.partition(".")[0])] == 1 for path in known)


def _uses(node: Mapping[str, Any], columns: Mapping[str, str], alias: str) -> ColumnUses:
    """Return how columns are used, by their names in lower case.

    Raises:
        _UsesAll: Something is not understood.
    """
    parts = {**node, "from_table": None, "modifiers": list(map(_but_all, node["modifiers"]))}
    expressions = list(expressions_in(parts))
    if any(expression["class"] not in _KNOWN for expression in expressions):
        raise _UsesAll
    if any(one["class"] == "FUNCTION" and is_dotted(one) for one in expressions):
        raise _UsesAll  # `name.upper()` uses a column without a reference to it
    shown = {fold(each["alias"]) for each in node["select_list"]} - {"", alias}
    nulls = {
        id(each) for one in expressions if one["type"] in _NULL_TESTS for each in one["children"]
    }
    calls = [one for one in expressions if one["class"] == "FUNCTION"]
    counts = [call for call in calls if call["function_name"].lower() == "count"]
    counted = {id(sole_argument(call)) for call in counts}
    uses: ColumnUses = {}
    for expression in expressions:
        is_count_argument = id(expression) in counted
        is_tested = is_count_argument or id(expression) in nulls
        for path in _paths_in(expression, columns, shown):
            member = member_of(path)
            is_clear = bool(member) or len(path) == 1
            members = uses.setdefault(path[0], {})
            use = PathUse(is_clear and is_tested, is_count_argument)
            members[member] = use & members.get(member, use)
    return uses


def _paths_in(
    expression: Mapping[str, Any], columns: Mapping[str, str], shown: Collection[str]
) -> Sequence[Sequence[str]]:
    """Return the paths of the columns that an expression stands for, from the column on.

    Args:
        expression: Without those that it is made of.
        columns: The columns by their names in lower case.
        shown: The other names that a query gives to what it shows, in lower case.

    Raises:
        _UsesAll: It may stand for others.
    """
    if expression["class"] == "STAR":
        starred = columns_of_star(expression, columns)
        if not starred:
            raise _UsesAll
        return [[fold(column)] for column in starred]
    if expression["class"] != "COLUMN_REF":
        return []
    names = [fold(one) for one in expression["column_names"]]
    path = path_from_column(names, columns)
    if path is None and (len(names) > 1 or names[0] not in shown):
        raise _UsesAll
    return [] if path is None else [path]


def columns_of_star(star: Mapping[str, Any], columns: Mapping[str, str]) -> Sequence[str]:
    """Return the columns that `COLUMNS(*)` or `COLUMNS('a|b')` stands for; none for other stars.

    Args:
        star: The expression, of a query that selects from one table.
        columns: The columns of the table by their names in lower case.
    """
    if not star.get("columns") or any(star.get(change) for change in _CHANGES):
        return []
    if not star.get("expr"):
        return list(columns.values())
    pattern = constant_text(star["expr"], "STRING")
    return [] if pattern is None else columns_matching(pattern, tuple(columns.values()))


def _but_all(modifier: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what changes the rows of a SELECT; nothing for `ORDER BY ALL`, all that it shows."""
    first, *others = [each["expression"] for each in modifier.get("orders", ())] or [None]
    is_all = first is not None and first["class"] == "STAR" and not (first["expr"] or others)
    return {} if is_all and first["query_location"] == _NOWHERE else modifier


def sole_argument(call: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the one argument of a function by its name alone; None with DISTINCT or an order."""
    special = ("schema", "catalog", "distinct", "is_operator", "export_state")
    if any(call.get(key) for key in special) or call["order_bys"]["orders"]:
        return None
    arguments = arguments_of(call)
    return arguments[0] if len(arguments) == 1 else None


def member_of(path: Sequence[str]) -> str:
    """Return the path of a member in its column; empty for the column, or where names have dots.

    Args:
        path: The names from the column on; see `path_from_column`.
    """
    return "" if any("." in name for name in path[1:]) else ".".join(path[1:])


def path_from_column(path: Sequence[str], columns: Mapping[str, str]) -> Sequence[str] | None:
    """Return the path of a reference from its column on; None where it is none of a column.

    Args:
        path: The names of the reference, in lower case.
        columns: The columns by their names in lower case.
    """
    if path[0] in columns:
        return path
    # In front of the column there can be the name of the table.
    return path[1:] if len(path) > 1 and path[1] in columns else None
