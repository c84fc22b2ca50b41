"""Which versions the relations of Python read, `con.sql("SELECT …")`: those of when they were made.

DuckDB captures what a name stood for when it makes a relation, all rows of the version, and looks
for the name anew when the relation is run, for then there is a text. What the text uses of the
table is to be read of the captured version.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from weakref import WeakValueDictionary

from duckdb_adapter.claims import Claim
from duckdb_adapter.sources.rows import Rows
from lancefs.lance_dataset import LanceDataset


class BoundVersions:
    """The versions that relations were bound to, as long as somebody may run these."""

    def __init__(self) -> None:
        self._datasets: WeakValueDictionary[tuple[int, str, int], LanceDataset]
        self._datasets = WeakValueDictionary()
        self._numbers = itertools.count()

    def note(self, database: int, claim: Claim) -> None:
        """Note what a name stands for in a relation that is being made.

        Args:
            database: A number of the database.
            claim: The name.
        """
        if isinstance(claim.rows, Rows):
            key = database, claim.name, next(self._numbers)
            self._datasets[key] = claim.rows.dataset

    def find(self, database: int, claim: Claim) -> Claim | None:
        """Return what a name stands for in a relation that is run.

        Args:
            database: A number of the database.
            claim: What the name stands for now.

        Returns:
            None where the relations that may be run are of several versions.
        """
        found = [
            dataset
            for (where, name, _), dataset in list(self._datasets.items())
            if (where, name) == (database, claim.name)
        ]
        if len({dataset.opened for dataset in found}) != 1:
            return None
        return replace(claim, rows=Rows(found[0]), reader="bound reader")
