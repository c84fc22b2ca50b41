"""The versions that Python relations, `con.sql("SELECT …")`, read: those at their creation.

DuckDB captures the replacement of a name, all rows of the version, when it creates a relation. It
resolves the name again when the relation is run, which is when its text is known. The rows that the
text uses must then come from the captured version.
"""

from __future__ import annotations

import itertools
from weakref import WeakValueDictionary

from duckdb_adapter.resolved_names import ResolvedName
from duckdb_adapter.sources.rows import Rows
from lancefs.lance_dataset import LanceDataset


class BoundVersions:
    """The versions that relations were bound to, as long as somebody may run these."""

    def __init__(self) -> None:
        self._datasets: WeakValueDictionary[tuple[int, str, int], LanceDataset]
        self._datasets = WeakValueDictionary()
        self._numbers = itertools.count()

    def note(self, database: int, resolved: ResolvedName) -> None:
        """Note what a name stands for in a relation that is being made.

        Args:
            database: A number of the database.
            resolved: The name.
        """
        if isinstance(resolved.rows, Rows):
            key = database, resolved.name, next(self._numbers)
            self._datasets[key] = resolved.rows.dataset

    def find(self, database: int, resolved: ResolvedName) -> ResolvedName | None:
        """Return what a name stands for in a relation that is run.

        Args:
            database: A number of the database.
            resolved: What the name stands for now.

        Returns:
            None where the relations that may be run are of several versions.
        """
        key = database, resolved.name
        # Copied in one call: other threads make relations, and drop them, at any time.
        noted = [each for each in self._datasets.valuerefs() if each.key[:2] == key]
        found = [dataset for each in noted if (dataset := each()) is not None]
        if len({dataset.opened for dataset in found}) != 1:
            return None
        return resolved._replace(rows=Rows(found[0]), reader="bound reader")
