"""Snapshot isolation: within a transaction, a table name refers to one version.

A statement outside of a transaction is a transaction of its own. `bind_callback` reports in which
transaction DuckDB binds a name.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Any, NamedTuple

from duckdb_adapter.bind_callback import BindCall
from duckdb_adapter.told_views import ToldView
from lancefs.errors import ReadFailed
from lancefs.forks import Lock
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref

# Connections whose transactions are remembered; each takes some hundred bytes.
_MAX_CONNECTIONS = 10_000


class _Pin(NamedTuple):
    """A version: its number, and the version itself as long as somebody has it open.

    Attributes:
        ref: The number, with the branch.
        commit: What tells it from that of a table that was made anew in the place of this one.
        version: The version.
    """

    ref: Ref
    commit: tuple[datetime, str | None]
    version: weakref.ref[OpenVersion]

    @classmethod
    def of(cls, version: OpenVersion) -> _Pin:
        """Return the pin of an open version."""
        manifest = version.manifest
        commit = manifest.timestamp, manifest.transaction_file
        return cls(version.ref, commit, weakref.ref(version))

    def means(self, other: _Pin) -> bool:
        """Return whether another pin is of the same version."""
        return (self.ref, self.commit) == (other.ref, other.commit)


class PinnedVersions:
    """The versions that one transaction has read; threads may open several at a time."""

    def __init__(self) -> None:
        # Pins are added, by one call of the dictionary each, and none is replaced: no lock is held.
        self._pins: dict[Hashable, _Pin] = {}

    def open(self, name: Hashable, ref: Ref, open_ref: Callable[[Ref], OpenVersion]) -> OpenVersion:
        """Open the version that a ref of a table refers to in this transaction.

        Args:
            name: The table.
            ref: The version, as the statement names it.
            open_ref: Opens a version of the table.

        Raises:
            ReadFailed: The table was replaced by another one since the transaction first read it.
        """
        pin = self._pins.get((name, ref))
        version = None if pin is None else pin.version()
        if version is None:
            version = open_ref(ref if pin is None else pin.ref)
        own = _Pin.of(version)
        first = self._pins.setdefault((name, ref), own)
        if first.means(own):
            return version
        version = open_ref(first.ref)
        if not first.means(_Pin.of(version)):
            raise ReadFailed(
                f"{version.name}: the table was deleted and made anew since this transaction first "
                "read it; end the transaction, and run the query again"
            )
        return version

    def adopt(self, other: PinnedVersions) -> bool:
        """Add the versions that another transaction has read of tables that this one has not.

        Returns:
            Whether both read the same versions of all tables of the other one.
        """
        met = [self._pins.setdefault(name, pin).means(pin) for name, pin in other._pins.items()]
        return all(met)


class NameUse:
    """The use of a name by a statement, from when it is first bound until its rows are read.

    DuckDB binds a name once for each place where it stands, also in views and macros, and has bound
    all of them when it reads the first rows.

    Attributes:
        bind_count: How often DuckDB has bound the name.
        is_read: Whether rows have been read.
        view: What tells whether the view that the statement reads is all of the table; None where
            it names the table itself.
    """

    def __init__(self, scans: list[weakref.ref[Any]] | None = None) -> None:
        # Of all names of the statement. A list, since each statement makes one, joined or not.
        self._scans = [] if scans is None else scans
        self.bind_count = 0
        self.is_read = False
        self.view: ToldView | None = None

    @classmethod
    def sole(cls) -> NameUse:
        """Return the use of a name that is bound in one place only, as the statement proves."""
        use = cls()
        use.bind_count = 1
        return use

    def add_scan(self, scan: Any) -> None:
        """Add a scan of the table to those that the statement has; see `sources.joined_keys`."""
        self._scans[:] = [weakref.ref(each) for each in (*self.scans(), scan)]

    def scans(self) -> list[Any]:
        """Return the scans of all tables that the statement has."""
        found = (reference() for reference in self._scans)
        return [scan for scan in found if scan is not None]

    def mark_read(self) -> None:
        """Note that rows are read: the statement does not bind the name again."""
        self.is_read = True

    @property
    def is_sole(self) -> bool:
        """Whether the name has been bound in one place only, which is that in the statement."""
        return self.is_bound_in(1)

    def is_bound_in(self, places: int) -> bool:
        """Whether the name has been bound as often as it stands in the statement.

        Args:
            places: How often that is.
        """
        is_meant = self.view is None or self.view.is_whole_table
        return is_meant and self.bind_count == places


class _Transaction:
    """The newest transaction of a connection.

    Args:
        key: What tells it apart from others.
    """

    def __init__(self, key: tuple[int, int]) -> None:
        self.key = key
        self.pins = PinnedVersions()
        self._run = 0, ""
        self._uses: dict[str, NameUse] = {}
        self._scans = list[weakref.ref[Any]]()

    def use(self, call: BindCall, name: str) -> NameUse:
        """Return the use of a name by the run of a statement, bound once more."""
        if (call.run, call.statement) != self._run:
            self._run, self._uses = (call.run, call.statement), {}
            self._scans = []
        use = self._uses.get(name)
        if use is None or use.is_read:
            use = self._uses[name] = NameUse(self._scans)
        use.bind_count += 1
        return use


class Transactions:
    """The transactions of all databases of the process, the newest of each connection."""

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[int, int], _Transaction] = OrderedDict()
        self._lock = Lock()

    def bind(self, database: int, call: BindCall, name: str) -> tuple[PinnedVersions, NameUse]:
        """Return the versions of a transaction, and how its statement uses a table.

        Args:
            database: A number of the database.
            call: What DuckDB tells of the transaction.
            name: The table.
        """
        key = database, call.connection
        with self._lock:
            newest = self._newest.pop(key, None)
            if newest is None or newest.key != call.transaction:
                newest = _Transaction(call.transaction)
            self._newest[key] = newest
            while len(self._newest) > _MAX_CONNECTIONS:
                self._newest.popitem(last=False)
            return newest.pins, newest.use(call, name)
