"""The replacement scan of DuckDB 2.0: resolving an unknown table name, in two steps.

DuckDB's replacement scan asks for the name: where `ReplacementScan.resolve` claims it, a macro of
ours stands for it (`bind_callback`), which tells the transaction and the statement.
`ReplacementScan.bind` answers that call, with a query over variables that hold the rows.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from typing import NamedTuple
from weakref import WeakValueDictionary

from duckdb_adapter.bind_callback import BindCall
from duckdb_adapter.engine_settings import BindContext, EngineSettings
from duckdb_adapter.frames import Source
from duckdb_adapter.pinned_versions import PinnedVersions, Transactions
from duckdb_adapter.queries.nested import count_captured
from duckdb_adapter.resolved_names import ResolvedName, resolve_name
from duckdb_adapter.sources.rows import Rows
from duckdb_adapter.storage import ReachedNames, Storage
from lancefs.lance_dataset import LanceDataset


class Claim(NamedTuple):
    """A name that is ours.

    Attributes:
        alias: What the table is called in a query that gives it no name.
        query: What it stands for; None for what `ReplacementScan.bind` answers.
    """

    alias: str
    query: str | None = None


class BoundQuery(NamedTuple):
    """What a name stands for in a statement.

    Attributes:
        query: The query.
        sources: The values of the variables that the query reads.
        run: The number of the run of the statement.
        reads_tables: Whether it reads tables of the statement, too.
    """

    query: str
    sources: Mapping[str, Source]
    run: int
    reads_tables: bool


class _Resolution(NamedTuple):
    """A name that was resolved outside of any transaction, and will be bound in one."""

    resolved: ResolvedName
    pins: PinnedVersions
    storage: Storage


class _Last(threading.local):
    """The last name of this thread: DuckDB binds a name before it asks for any other."""

    def __init__(self) -> None:
        self.resolution: _Resolution | None = None


class BoundVersions:
    """The versions that Python relations, `con.sql("SELECT …")`, read: those at their creation.

    DuckDB captures the replacement of a name, all rows of the version, when it creates a relation.
    It resolves the name again when the relation is run, which is when its text is known. The rows
    that the text uses must then come from the captured version.
    """

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


class ReplacementScan:
    """Answers for all databases of the process."""

    def __init__(self) -> None:
        self._transactions = Transactions()
        self._bound = BoundVersions()
        self._reached = ReachedNames()
        self._last = _Last()

    def resolve(self, name: str, database: int, default: Storage) -> Claim | None:
        """Claim a name; None where it is not ours.

        Args:
            name: As it stands in SQL.
            database: A number of the database.
            default: Gives the storage options, for names that carry none, where no connection with
                options of its own asks.

        Raises:
            LanceError: It is ours, but what it stands for cannot be read.
            ValueError: It is ours, but it contradicts itself.
        """
        self._last.resolution = None
        pins = PinnedVersions()
        storage = self._reached.storage_for(database, name, default).with_pins(pins)
        resolved = _resolve(name, storage)
        if resolved is None:
            return None
        self._reached.note(database, name, storage)
        self._last.resolution = _Resolution(resolved, pins, storage)
        return Claim(resolved.alias)

    def bind(self, call: BindCall | None, database: int, settings: EngineSettings) -> BoundQuery:
        """Return what the name that this thread resolved last stands for in a statement.

        Args:
            call: What DuckDB tells of the transaction and the statement.
            database: A number of the database.
            settings: How DuckDB answers the statement.

        Raises:
            LookupError: No name was resolved, or the table is gone.
            LanceError: The table cannot be read.
        """
        last, self._last.resolution = self._last.resolution, None
        if call is None or last is None:
            raise LookupError("this function is called by lancefs, for names that it was asked for")
        name = last.resolved.name
        pins, use = self._transactions.bind(database, call, name)
        resolved: ResolvedName | None = last.resolved
        if not pins.adopt(last.pins):
            resolved = resolve_name(name, last.storage.with_pins(pins))
        if resolved is None:
            raise LookupError(f"{name}: the table went away; run the query again")
        text = call.statement
        if call.is_relation:
            self._bound.note(database, resolved)
        elif captured := count_captured(name, text):
            bound = self._bound.find(database, resolved) if captured == 1 else None
            # Where it is not clear which version is meant, DuckDB has to read what it captured.
            resolved, text = (resolved, "") if bound is None else (bound, text)
        resolved = resolved.restricted_to(text, BindContext(use, settings))
        reads_tables = any(told.reads_tables for told in resolved.told)
        return BoundQuery(resolved.select(), resolved.sources(), call.run, reads_tables)


def _resolve(name: str, storage: Storage) -> ResolvedName | None:
    """Return what a name stands for, and say of a failure what the storage knows of it."""
    try:
        return resolve_name(name, storage)
    except Exception as error:
        if not storage.note:
            raise
        raise LookupError(f"{error}{storage.note}") from error
