"""What a query uses of columns, as its text tells: `SELECT sum(req.status), count(message)`.

DuckDB asks the Arrow scan for whole structs, and for the values of columns of which a query only
counts those that are there. Where the text of the query proves that it uses some members only,
DuckDB is shown structs of these members; where it uses a column or a member only in `count(…)` and
`IS [NOT] NULL`, DuckDB is shown a column of booleans with the same nulls. A proof needs that the
text names all that it uses. A macro can have a query of its own, but cannot name columns of the
query that calls it. What is not understood counts as a use of everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from duckdb_adapter.query_trees import expressions_in, select_from
from lancefs.lance_dataset import LanceDataset

# Expressions that use nothing but what they are made of.
_KNOWN = {
    *("COLUMN_REF", "CONSTANT", "PARAMETER", "CAST", "TYPE", "CASE", "COMPARISON", "BETWEEN"),
    *("CONJUNCTION", "OPERATOR", "FUNCTION", "WINDOW"),
}
_NULL_TESTS = ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL")
# What a text has that may test whether values are missing.
_TESTS = re.compile(r"\bcount\s*\(\s*[^*\s]|null\b", re.IGNORECASE)
# What a text has that counts rows.
_COUNTS = re.compile(r"\bcount\s*\(\s*[*)]", re.IGNORECASE)


class UsedColumns(NamedTuple):
    """What a query uses of columns, where that is less than all.

    Attributes:
        members: Names of members, in the order of the type, by the name of the struct, of which the
            query uses no others.
        tested: Columns, and members by their paths, of which it uses whether values are missing.
        counts: Whether it does so by `count`, which may also be the name of a macro.
        no_values: Whether it uses nothing but this, and how many rows there are.
    """

    members: Mapping[str, list[str]] = {}
    tested: frozenset[str] = frozenset()
    counts: bool = False
    no_values: bool = False


class _UsesAll(Exception):
    """A query may use more than its text names."""


def used_columns(text: str, name: str, alias: str, dataset: LanceDataset) -> UsedColumns:
    """Return what a query uses of columns.

    That holds for the table that the query selects from, and for no other use of it.

    Args:
        text: The whole statement.
        name: The table, as it stands in the text.
        alias: What the table is called where the query gives it no name.
        dataset: Its rows.
    """
    schema, rest = dataset.schema, text.replace(name, "").lower()
    tests_nulls = _TESTS.search(text) is not None
    counts_rows = _COUNTS.search(text) is not None and not _has_any(schema.names, rest)
    if not (tests_nulls or counts_rows or "." in rest):  # which stands before each member
        return UsedColumns()
    structs = {one.name.lower(): one.type for one in schema if pa.types.is_struct(one.type)}
    if not (tests_nulls or counts_rows or _has_any(structs, rest)):
        return UsedColumns()
    select = select_from(text, name, schema)
    if select is None or any("." in column for column in select.columns):
        return UsedColumns()
    node, columns = select
    alias = (node["from_table"]["alias"] or alias).lower()
    if alias in columns:
        return UsedColumns()
    try:
        uses = _uses(node, columns, alias)
    except _UsesAll:
        return UsedColumns()
    return _reduced(uses, structs, columns)


def _has_any(columns: Iterable[str], text: str) -> bool:
    """Whether the name of a column may stand in a text, which is in small letters."""
    return any(column.lower() in text for column in columns)


class _Use(NamedTuple):
    """How a column, or a member of a struct, is used.

    Attributes:
        is_tested: Whether only for whether values are missing.
        is_counted: Whether `count` asks for that.
    """

    is_tested: bool
    is_counted: bool

    def __and__(self, other: _Use) -> _Use:
        return _Use(self.is_tested and other.is_tested, self.is_counted or other.is_counted)


# By the name of the column, and of the member; that is empty for the whole column.
_Uses = dict[str, dict[str, _Use]]


def _uses(node: Mapping[str, Any], columns: Mapping[str, str], alias: str) -> _Uses:
    """Return how columns are used, by their names in small letters.

    Raises:
        _UsesAll: Something is not understood.
    """
    expressions = list(expressions_in({**node, "from_table": None}))
    if any(expression["class"] not in _KNOWN for expression in expressions):
        raise _UsesAll
    shown = {each["alias"].lower() for each in node["select_list"]} - {"", alias}
    nulls = {
        id(each) for one in expressions if one["type"] in _NULL_TESTS for each in one["children"]
    }
    counted = {id(each) for one in expressions for each in _counted(one)}
    uses: _Uses = {}
    for expression in expressions:
        if expression["class"] != "COLUMN_REF":
            continue
        names = [one.lower() for one in expression["column_names"]]
        path = _path_from_column(names, columns)
        if path is None:
            if len(names) > 1 or names[0] not in shown:
                raise _UsesAll
            continue
        is_counted = id(expression) in counted
        is_tested = len(path) <= 2 and (is_counted or id(expression) in nulls)
        members = uses.setdefault(path[0], {})
        member, use = path[1] if len(path) > 1 else "", _Use(is_tested, is_counted)
        members[member] = use & members.get(member, use)
    return uses


def _counted(expression: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the argument of `count(…)` without DISTINCT and order; nothing of others."""
    if expression["class"] != "FUNCTION" or expression["function_name"].lower() != "count":
        return ()
    special = ("schema", "catalog", "distinct", "is_operator", "export_state")
    if any(expression.get(key) for key in special) or expression["order_bys"]["orders"]:
        return ()
    arguments = expression.get("arguments") or ()
    return [each["expression"] for each in arguments] if len(arguments) == 1 else ()


def _reduced(
    uses: _Uses, structs: Mapping[str, pa.StructType], columns: Mapping[str, str]
) -> UsedColumns:
    """Return what is less than the whole columns that are used."""
    members: dict[str, list[str]] = {}
    tested: dict[str, _Use] = {}
    for column, of_column in uses.items():
        name, whole = columns[column], of_column.get("")
        if whole is not None:
            if len(of_column) == 1 and whole.is_tested:
                tested[name] = whole
            continue
        if column not in structs:
            continue
        known = _in_type(structs[column], of_column)
        own = {f"{name}.{each}": of_column[each.lower()] for each in known}
        own = {path: use for path, use in own.items() if use.is_tested}
        if known and (own or len(known) < structs[column].num_fields):
            members[name] = known
            tested |= own
    counts = any(use.is_counted for use in tested.values())
    no_values = len(tested) == sum(map(len, uses.values()))
    return UsedColumns(members, frozenset(tested), counts, no_values)


def _path_from_column(path: list[str], columns: Mapping[str, str]) -> list[str] | None:
    """Return the path of a reference from its column on; None where it is none of a column."""
    if path[0] in columns:
        return path
    # In front of the column there can be the name of the table.
    return path[1:] if len(path) > 1 and path[1] in columns else None


def _in_type(struct: pa.StructType, names: Iterable[str]) -> list[str]:
    """Return members as the type names them; none where it is not clear which ones are meant."""
    wanted = set(names)
    known = [field.name for field in struct if field.name.lower() in wanted]
    is_clear = len(known) == len(wanted)
    return known if is_clear and not any("." in name for name in known) else []
