"""Which members of structs a query uses, as its text tells: `SELECT sum(req.status)`.

DuckDB asks the Arrow scan for whole structs. Where the text of the query proves that it uses some
members only, DuckDB is shown structs of these members. A proof needs that the text names all that
it uses. A macro can have a query of its own, but cannot name columns of the query that calls it.
What is not understood counts as a use of everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from duckdb_adapter.query_trees import expressions_in, select_from
from lancefs.lance_dataset import LanceDataset

# Expressions that use nothing but what they are made of.
_KNOWN = {
    *("COLUMN_REF", "CONSTANT", "PARAMETER", "CAST", "TYPE", "CASE", "COMPARISON", "BETWEEN"),
    *("CONJUNCTION", "OPERATOR", "FUNCTION", "WINDOW"),
}


class _UsesAll(Exception):
    """A query may use more than its text names."""


def used_members(text: str, name: str, dataset: LanceDataset) -> dict[str, list[str]]:
    """Return the members that a query uses of structs, for those of which it does not use all.

    That holds for the table that the query selects from, and for no other use of it.

    Args:
        text: The whole statement.
        name: The table, as it stands in the text.
        dataset: Its rows.

    Returns:
        Names of members, in the order of the type, by the name of the column.
    """
    if "." not in text.replace(name, ""):  # which stands before each member
        return {}
    schema, lower = dataset.schema, text.lower()
    structs = {one.name.lower(): one.type for one in schema if pa.types.is_struct(one.type)}
    if not any(struct in lower for struct in structs):
        return {}
    select = select_from(text, name, schema)
    if select is None or any("." in column for column in select.columns):
        return {}
    node, columns = select
    if node["from_table"]["alias"].lower() in columns:
        return {}
    try:
        found = _members(node, structs, columns)
    except _UsesAll:
        return {}
    return {columns[struct]: members for struct, members in found.items()}


def _members(
    node: Mapping[str, Any], structs: Mapping[str, pa.StructType], columns: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the members that are used of structs that are not used as a whole.

    Raises:
        _UsesAll: Something is not understood.
    """
    shown = {each["alias"].lower() for each in node["select_list"]} - {""}
    used: dict[str, set[str]] = {}
    for expression in expressions_in({**node, "from_table": None}):
        if expression["class"] not in _KNOWN:
            raise _UsesAll
        if expression["class"] == "COLUMN_REF":
            path = _path_from_column([one.lower() for one in expression["column_names"]], columns)
            if path is None and expression["column_names"][-1].lower() not in shown:
                raise _UsesAll
            if path is not None and path[0] in structs:
                used.setdefault(path[0], set()).add(path[1] if len(path) > 1 else "")
    return {
        struct: members
        for struct, names in used.items()
        if (members := _in_type(structs[struct], names))
    }


def _path_from_column(path: list[str], columns: Mapping[str, str]) -> list[str] | None:
    """Return the path of a reference from its column on; None where it is none of a column."""
    if path[0] in columns:
        return path
    # In front of the column there can be the name of the table.
    return path[1:] if len(path) > 1 and path[1] in columns else None


def _in_type(struct: pa.StructType, names: set[str]) -> list[str]:
    """Return members as the type names them; none where not some are meant, each once."""
    known = [field.name for field in struct if field.name.lower() in names]
    is_clear = len(known) == len(names) < struct.num_fields
    return known if is_clear and not any("." in name for name in known) else []
