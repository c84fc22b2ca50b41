"""The table names in the views of an attached folder, which identify the folder and the view.

So a statement `SELECT … FROM lake.orders` is known to read all of the table, where the view of the
user's own that has the same name may leave rows out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from duckdb_adapter.identifiers import fold, quoted

SCHEMA = "main"
_QUOTED = '"((?:[^"]|"")*)"'
_NAME = re.compile(rf"lance table {_QUOTED} of {_QUOTED}: (.*)", re.DOTALL)


class LakeTable(NamedTuple):
    """A table of a folder that is attached as a database.

    Attributes:
        table: What it is called there.
        lake: What the database is called.
        address: The table, as a name in SQL.
    """

    table: str
    lake: str
    address: str

    def name(self) -> str:
        """Return the name that the view reads."""
        return f"lance table {quoted(self.table)} of {quoted(self.lake)}: {self.address}"

    def is_read_by(self, node: Mapping[str, Any]) -> bool:
        """Whether a node of a syntax tree is the view, named with the database.

        Args:
            node: What a SELECT selects from, with its own names of columns.
        """
        named = [fold(node.get(part, "")) for part in ("catalog_name", "schema_name")]
        lake = fold(self.lake)
        is_here = named in (["", lake], [lake, SCHEMA])
        return is_here and fold(node["table_name"]) == fold(self.table)


def parse_lake_name(name: str) -> LakeTable | None:
    """Read a name that a view reads; None for other names."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    table, lake, address = match.groups()
    return LakeTable(table.replace('""', '"'), lake.replace('""', '"'), address)
