"""The storage options for table names in SQL: those of `install`, or of a connection.

DuckDB does not tell an extension which connection asks for a name. A connection that has options
of its own says so for the thread in which it runs a query. The names of a relation are looked for
again when its rows are fetched, which may be anywhere: so it is remembered how each was reached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from types import MappingProxyType
from typing import Any, Self

from duckdb_adapter.paths import options_for
from duckdb_adapter.pinned_versions import PinnedVersions
from lancefs.forks import Lock
from lancefs.table.base_paths import BaseRules

# Names of relations that may be run; each takes some hundred bytes.
_MAX_NAMES = 10_000


class Storage:
    """How the files of tables are reached.

    Args:
        options: Storage options that the user gave, as `options_for` takes them.
        rules: How far base paths of manifests are followed; None for the default rules.
        use_index: Whether filters may be looked up in the indices of tables.
        pins: The versions that the transaction has met.
        found: Options for URLs for which the user gave none.

    Attributes:
        note: What a user should know when the store refuses; empty where there is nothing.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None,
        rules: BaseRules | None = None,
        use_index: bool = True,
        pins: PinnedVersions | None = None,
        found: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        self.options = options
        self.rules = rules
        self.use_index = use_index
        self.pins = pins or PinnedVersions()
        self.note = ""
        self._found = found

    def __call__(self, url: str) -> Mapping[str, Any]:
        """Return the storage options for a URL."""
        return options_for(url, self.options) or self._found.get(url, {})

    def with_pins(self, pins: PinnedVersions) -> Self:
        """Return the same storage for another transaction."""
        other = copy(self)
        other.pins = pins
        return other

    def recorded(self) -> Storage:
        """Return storage that answers for the same URLs without what this one asks: nobody."""
        return self


class _Call(threading.local):
    """The query that a connection with options of its own runs in this thread."""

    storage: Storage | None = None


_call = _Call()


@contextmanager
def reaching_with(storage: Storage) -> Iterator[None]:
    """Have the names that DuckDB looks for in this thread, inside of it, reached with a storage."""
    outer, _call.storage = _call.storage, storage
    try:
        yield
    finally:
        _call.storage = outer


class ReachedNames:
    """How names were reached, for relations that are run when no wrapped connection runs them."""

    def __init__(self) -> None:
        self._storages: OrderedDict[tuple[int, str], Storage] = OrderedDict()
        self._lock = Lock()

    def storage_for(self, database: int, name: str, default: Storage) -> Storage:
        """Return how a name is reached.

        Args:
            database: A number of the database.
            name: As it stands in SQL.
            default: Where no connection of ours runs a query, nor ran one with this name.
        """
        if _call.storage is not None:
            return _call.storage
        return self._storages.get((database, name), default) if self._storages else default

    def note(self, database: int, name: str, storage: Storage) -> None:
        """Remember how a name was reached, where a connection of ours runs a query."""
        if _call.storage is None:
            return
        with self._lock:
            self._storages[database, name] = storage.recorded()
            self._storages.move_to_end((database, name))
            while len(self._storages) > _MAX_NAMES:
                self._storages.popitem(last=False)
