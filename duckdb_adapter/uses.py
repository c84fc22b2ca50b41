"""What a query uses of a table, as its text tells: members of structs, and the first rows.

DuckDB asks the Arrow scan for whole structs, and for all rows of all columns before it knows which
rows come first. Where the text of the query proves that less is enough, less is read. A proof needs
that the text is all that there is: every table in it is the one that is asked about, by its path,
so that nothing is hidden in views. Macros see only what they are given, and functions whose rows
are a table are not understood. What is not understood counts as a use of everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from duckdb_adapter.query_trees import parse
from lancefs.datafile.fields import Field
from lancefs.lance_dataset import LanceDataset
from lancefs.table.members import walk_down

# Nodes of a tree that are no expressions; there are others, which are not understood.
_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "ORDER_MODIFIER", "LIMIT_MODIFIER"}
_NODES |= {"DISTINCT_MODIFIER", "BASE_TABLE", "JOIN", "SUBQUERY"}
_NODES |= {"ASCENDING", "DESCENDING", "ORDER_DEFAULT"}
_EXPRESSIONS = {"COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR"}
_EXPRESSIONS |= {"CAST", "CASE", "BETWEEN", "WINDOW", "SUBQUERY", "PARAMETER", "TYPE"}
# Joins that name the columns that they compare; NATURAL ones do not.
_JOINS = {"REGULAR", "CROSS", "ASOF"}
# Directions of ORDER BY: whether they are descending. A setting decides where none is given.
_DIRECTIONS = {"ASCENDING": (False,), "DESCENDING": (True,), "ORDER_DEFAULT": (False, True)}
# Parts of a SELECT that must be empty where the first rows of a table are the first of the answer.
_EMPTY = ("where_clause", "group_expressions", "group_sets", "having", "sample", "qualify")
# More rows than these are not looked for before the others are left out.
MOST_FIRST_ROWS = 4096


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows of a table in some order, which are all that a query uses.

    Attributes:
        column: The column by which rows are ordered first.
        descending: Whether the greatest value comes first; both where that is unknown.
        rows: How many.
    """

    column: str
    descending: tuple[bool, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Uses:
    """What a query uses of a table.

    Attributes:
        members: Names of members, such as `st.x`, by the column that is used through them alone.
        first: The rows that are enough; None for all.
    """

    members: Mapping[str, tuple[str, ...]]
    first: FirstRows | None


def uses_of(text: str, name: str, alias: str, dataset: LanceDataset) -> Uses | None:
    """Return what a query uses of a table; None where it may use everything.

    Args:
        text: The whole statement.
        name: The table, as it stands in the text.
        alias: What the table is called where the text gives it no name.
        dataset: Its rows.
    """
    columns = {field.name.lower(): field for field in dataset.schema}
    structs = {lower for lower, field in columns.items() if pa.types.is_struct(field.type)}
    orders = "order" in text.lower() and "limit" in text.lower()
    if not (structs or orders) or len(columns) < len(dataset.schema):
        return None
    node = parse(text)
    if node is None:
        return None
    fields = {lower: dataset.opened.named_fields[field.name] for lower, field in columns.items()}
    first = _first_rows(node, name, fields) if orders else None
    members = _members(node, name, alias, {lower: fields[lower] for lower in structs})
    return Uses(members, first) if members or first else None


def _is_table(node: Any, name: str) -> bool:
    """Whether a node is the table, with its own names of columns, and without a sample."""
    is_plain = node["type"] == "BASE_TABLE" and node["table_name"] == name
    others = ("schema_name", "catalog_name", "at_clause", "column_name_alias", "sample")
    return is_plain and not any(node.get(key) for key in others)


# The members of structs


def _members(
    node: dict[str, Any], name: str, alias: str, structs: Mapping[str, Field]
) -> dict[str, tuple[str, ...]]:
    """Return the members by which a query uses structs, by the names of these columns."""
    names = _Names({name.lower(), alias.lower()})
    if not structs or not names.collect(node, name):
        return {}
    if any(path[-1] in names.tables for path in names.columns):
        return {}  # a table as a value, which is a struct of all of its columns
    found = {}
    for lower, field in structs.items():
        paths = [
            path[at + 1 :]
            for path in names.columns
            for at, part in enumerate(path)
            if part == lower
        ]
        ways = [_way(field, path) for path in paths]
        if ways and lower not in names.others and all(len(way) > 1 for way in ways):
            found[field.name] = tuple(_outermost(ways))
    return found


class _Names:
    """The names in a tree, in lower case.

    Args:
        tables: Those of the table that is asked about.

    Attributes:
        columns: Names of columns, with those of tables before and of members behind them.
        tables: Names of tables and of queries in FROM.
        others: All texts elsewhere.
    """

    def __init__(self, tables: set[str]) -> None:
        self.columns: set[tuple[str, ...]] = set()
        self.tables = tables
        self.others: set[str] = set()

    def collect(self, node: Any, name: str) -> bool:
        """Collect the names in a tree.

        Args:
            node: The root of the tree.
            name: The one table that may be in it.

        Returns:
            Whether the tree uses no columns but those that it names.
        """
        if isinstance(node, list):
            return all(self.collect(each, name) for each in node)
        if isinstance(node, str):
            self.others.add(node.lower())
        if not isinstance(node, dict):
            return True
        if not _is_understood(node, name):
            return False
        if "class" not in node and node.get("alias"):
            self.tables.add(node["alias"].lower())
        left = dict(node)
        if node.get("class") == "COLUMN_REF":
            self.columns.add(tuple(part.lower() for part in left.pop("column_names")))
        return all(self.collect(each, name) for each in left.values())


def _is_understood(node: Mapping[str, Any], name: str) -> bool:
    """Whether a node uses no columns but those that it names."""
    kind = node.get("type")
    if "class" in node:
        return node["class"] in _EXPRESSIONS
    if not isinstance(kind, str) or kind.endswith("_TYPE_INFO"):
        return True
    if kind == "BASE_TABLE":
        return _is_table(node, name)
    return kind in _NODES and (kind != "JOIN" or node["ref_type"] in _JOINS)


def _way(column: Field, path: Sequence[str]) -> tuple[Field, ...]:
    """Return the way to a member, as DuckDB finds it: whatever the case of the letters is."""
    names, field = [], column
    for part in path:
        found = [child for child in field.children if child.name.lower() == part.lower()]
        if len(found) != 1 or "." in found[0].name or "." in column.name:
            break
        field = found[0]
        names.append(field.name)
    is_found = len(names) == len(path) or field.logical_type != "struct"
    return walk_down(column, names) if is_found else (column,)


def _outermost(ways: Sequence[tuple[Field, ...]]) -> Iterator[str]:
    """Yield the names of members, without those that are inside of another one."""
    for way in sorted(set(ways), key=lambda way: [field.id for field in way]):
        if not any(way[: len(other)] == other for other in ways if len(other) < len(way)):
            yield ".".join(field.name for field in way)


# The first rows


def _first_rows(node: dict[str, Any], name: str, fields: Mapping[str, Field]) -> FirstRows | None:
    """Return what `SELECT … FROM the table ORDER BY a column LIMIT n` needs; None for others."""
    if node["type"] != "SELECT_NODE" or any(node.get(part) for part in _EMPTY):
        return None
    if node["cte_map"]["map"] or node["aggregate_handling"] != "STANDARD_HANDLING":
        return None
    kinds = [modifier["type"] for modifier in node["modifiers"]]
    if kinds != ["ORDER_MODIFIER", "LIMIT_MODIFIER"] or not _is_table(node["from_table"], name):
        return None
    order, limit = node["modifiers"]
    rows, offset = _number(limit["limit"]), _number(limit["offset"] or 0)
    key = order["orders"][0]
    column = _column(key["expression"], fields)
    if column is None or rows is None or offset is None or rows + offset > MOST_FIRST_ROWS:
        return None
    is_clear = all(_is_shown(each, column) for each in node["select_list"])
    if not is_clear or limit.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
        return None
    return FirstRows(fields[column].name, _DIRECTIONS[key["type"]], rows + offset)


def _column(expression: Mapping[str, Any], fields: Mapping[str, Field]) -> str | None:
    """Return the column that an expression is, in lower case; None where it is another one."""
    if expression["class"] != "COLUMN_REF":
        return None
    *table, last = [part.lower() for part in expression["column_names"]]
    # In front of the column there can be the name of the table only, which is no struct.
    is_column = len(table) <= 1 and not any(part in fields for part in table)
    return last if is_column and last in fields else None


def _is_shown(expression: Mapping[str, Any], column: str) -> bool:
    """Whether an expression shows columns, no other one under the name of the one that orders."""
    if expression["class"] == "STAR":
        others = ("replace_list", "rename_list", "columns", "expr")
        return not any(expression.get(key) for key in others)
    is_plain = expression["class"] in ("COLUMN_REF", "CONSTANT")
    return is_plain and expression["alias"].lower() != column


def _number(node: Any) -> int | None:
    """Return a constant of LIMIT or OFFSET; None where it is none."""
    if isinstance(node, int):
        return node
    if node is None or node["class"] != "CONSTANT":
        return None
    literal = node.get("literal")  # from DuckDB 2.0 on
    value = node["value"]["value"] if literal is None else literal["text"]
    return int(value) if str(value).isdecimal() else None
