"""What the extension of DuckDB 2.0 answers when DuckDB asks what a name stands for.

First with a query that has DuckDB call a function of ours, to which it tells its transaction and
the statement (`pins`); the function returns a query over variables that hold the rows.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from duckdb_adapter.bound_versions import BoundVersions
from duckdb_adapter.claims import Claim, EngineSettings, LookContext, find_claim
from duckdb_adapter.frames import Source
from duckdb_adapter.pins import Asked, Pins, Transactions, question
from duckdb_adapter.queries.nested import count_captured
from duckdb_adapter.storage import ReachedNames, Storage


@dataclass(frozen=True, slots=True)
class NameAnswer:
    """What a name stands for.

    Attributes:
        query: The query.
        alias: What the table is called in a query that gives it no name.
        sources: The values of the variables that the query reads.
    """

    query: str
    alias: str
    sources: Mapping[str, Source] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Look:
    """A name that was looked up outside of any transaction, and will be asked for in one."""

    number: int
    claim: Claim
    pins: Pins
    storage: Storage


class _Last(threading.local):
    """The last look of this thread: DuckDB asks for its rows before it looks for anything else."""

    def __init__(self) -> None:
        self.look: _Look | None = None


class Looks:
    """Answers for all databases of the process."""

    def __init__(self) -> None:
        self._transactions = Transactions()
        self._bound = BoundVersions()
        self._reached = ReachedNames()
        self._numbers = itertools.count(1)
        self._last = _Last()

    def look(self, name: str, database: int, default: Storage) -> NameAnswer | None:
        """Look what a name stands for; None where it is not ours.

        Args:
            name: As it stands in SQL.
            database: A number of the database.
            default: Gives the storage options, for names that carry none, where no connection with
                options of its own asks.

        Returns:
            A query that has DuckDB ask `answer`.

        Raises:
            LanceError: It is ours, but what it stands for cannot be read.
            ValueError: It is ours, but it contradicts itself.
        """
        self._last.look = None
        pins = Pins()
        storage = self._reached.storage_for(database, name, default).with_pins(pins)
        claim = _find(name, storage)
        if claim is None:
            return None
        self._reached.note(database, name, storage)
        number = next(self._numbers)
        self._last.look = _Look(number, claim, pins, storage)
        return NameAnswer(question(number), claim.alias)

    def answer(self, asked: Asked | None, database: int, settings: EngineSettings) -> NameAnswer:
        """Return what a name stands for that was looked up last in this thread.

        Args:
            asked: What DuckDB tells of the transaction and the statement.
            database: A number of the database.
            settings: How DuckDB answers the statement.

        Returns:
            A query, and what it reads.

        Raises:
            LookupError: Nothing was looked up, or the table is gone.
            LanceError: The table cannot be read.
        """
        look, self._last.look = self._last.look, None
        if asked is None or look is None or asked.look != look.number:
            raise LookupError("this function is called by lancefs, for names that it was asked for")
        pins, use = self._transactions.look(database, asked, look.claim.name)
        claim: Claim | None = look.claim
        if not pins.adopt(look.pins):
            claim = find_claim(look.claim.name, look.storage.with_pins(pins))
        if claim is None:
            raise LookupError(f"{look.claim.name}: the table went away; run the query again")
        text = asked.statement
        if asked.is_relation:
            self._bound.note(database, claim)
        elif captured := count_captured(claim.name, text):
            bound = self._bound.find(database, claim) if captured == 1 else None
            # Where it is not clear which version is meant, DuckDB has to read what it captured.
            claim, text = (claim, "") if bound is None else (bound, text)
        claim = claim.restricted_to(text, LookContext(use, settings))
        return NameAnswer(claim.select(), claim.alias, claim.sources())


def _find(name: str, storage: Storage) -> Claim | None:
    """Look whether a name is ours, and say of a failure what the storage knows of it."""
    try:
        return find_claim(name, storage)
    except Exception as error:
        if not storage.note:
            raise
        raise LookupError(f"{error}{storage.note}") from error
