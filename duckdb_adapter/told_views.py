"""Whether a view is all of a table, as DuckDB tells while it runs a statement."""

from __future__ import annotations

import json
from collections.abc import Collection

from duckdb_adapter.identifiers import literal
from duckdb_adapter.queries.guessed_views import GuessedView, is_whole_table
from duckdb_adapter.queries.scan_calls import ScanCall
from duckdb_adapter.told_values import ToldValues

# Whether a view is where names are looked for first.
_IS_HERE = (
    "temporary OR (database_name = system.main.current_database() "
    "AND schema_name = system.main.current_schema())"
)


class ToldView(ToldValues):
    """A view of which DuckDB tells what it selects.

    Args:
        view: The view.
        name: The table that it is guessed to be all of, as it stands in a statement.
        call: The arguments of `lance_scan`, if the name stands for a call of it.
        builtins: Functions that have to be DuckDB's own.

    Attributes:
        is_whole_table: Whether it is all of the table, and the functions are DuckDB's own; False
            as long as that is not known.
    """

    def __init__(
        self, view: GuessedView, name: str, call: ScanCall | None, builtins: Collection[str]
    ) -> None:
        super().__init__()
        self.is_whole_table = False
        self._view = view
        self._name = name
        self._call = call
        self._builtins = sorted(builtins)

    def told(self) -> str:
        """Return the condition that tells it; see `condition`.

        Names mean the same in the view and around it if the view is in the current schema, or a
        temporary one, and nothing else has its name.
        """
        name = literal(self._view.name)
        is_sole = f"NOT EXISTS (FROM {_named('table', name)})"
        if self._builtins:  # which takes DuckDB as long as to read a million numbers
            functions = f"({', '.join(map(literal, self._builtins))})"
            is_one = f"system.main.lower(function_name) IN {functions}"
            macros = f"system.main.duckdb_functions() WHERE {is_one}"
            is_sole += f" AND NOT EXISTS (FROM {macros} AND function_type LIKE '%macro%')"
        listed = "CAST(system.main.to_json(system.main.list(sql)) AS VARCHAR)"
        views = f"CASE WHEN {is_sole} AND system.main.bool_and({_IS_HERE}) THEN {listed} END"
        return self.condition(f"coalesce({views}, '[]')", f"FROM {_named('view', name)}")

    def note(self, told: str) -> None:
        """Note what it selects."""
        views = json.loads(told)
        self.is_whole_table = len(views) == 1 and is_whole_table(views[0], self._name, self._call)


def _named(kind: str, name: str) -> str:
    """Return the tables or views with a name, given in SQL, as a part of a FROM clause."""
    is_it = f"system.main.lower({kind}_name) = system.main.lower({name})"
    return f"system.main.duckdb_{kind}s() WHERE {is_it}"
