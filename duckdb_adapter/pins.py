"""Which versions a transaction reads: within it, the name of a table means one version.

A statement outside of a transaction is one of its own. DuckDB does not tell an extension in which
transaction it looks for a name. So the extension answers with a query that is made by a function of
its own, `FROM query(…)`: DuckDB evaluates the arguments of the function, which tell the transaction
and the statement, and calls it, while it binds the statement. One argument calls `now()`, so that
DuckDB also does so whenever a prepared statement is run.
"""

from __future__ import annotations

import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import NamedTuple

from duckdb_adapter.queries.trees import MAX_TEXT
from lancefs.forks import Lock
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref

# Makes DuckDB look for names anew when a prepared statement is run.
REBINDS = "system.main.now() IS NOT NULL"
# Connections whose transactions are remembered; each takes some hundred bytes.
_MAX_CONNECTIONS = 10_000
# The arguments that tell a look, a transaction, a connection, when the former began, and a run.
_TOLD = re.compile(r"(\d+) (\d+) (\d+) (\d+) (\d+)")
# A relation of Python is bound without a statement: there is no text then, and this is its number.
_NO_STATEMENT = 2**64 - 1
# The function that makes the query, of these arguments and of the statement.
ANSWER = "_lancefs_answer"
ANSWER_PARAMETERS = ("told", "statement")
# A macro of every database that calls it, given the number of a look. DuckDB parses it once, and
# binds and evaluates it in every query; one function takes half as long as many `||`. All functions
# are named with their schema: users may have macros of the same names.
ASK = "_lancefs_ask"
ASK_PARAMETER = "look"
ASK_BODY = (
    f"system.main.{ANSWER}(system.main.concat_ws(' ', {ASK_PARAMETER}, "
    "system.main.current_transaction_id(), system.main.current_connection_id(), "
    "system.main.epoch_us(system.main.now()), system.main.current_query_id()), "
    f"CASE WHEN system.main.current_query_id() <> {_NO_STATEMENT} "
    "THEN system.main.current_query() END)"
)


class _Pin(NamedTuple):
    """A version: its number, and the version itself as long as somebody has it open."""

    ref: Ref
    version: weakref.ref[OpenVersion]


class Pins:
    """The versions that one transaction has met."""

    def __init__(self) -> None:
        self._pins: dict[Hashable, _Pin] = {}
        self._lock = Lock()

    def open(self, name: Hashable, ref: Ref, open_ref: Callable[[Ref], OpenVersion]) -> OpenVersion:
        """Open the version that a ref of a table means in this transaction.

        Args:
            name: The table.
            ref: The version, as it was asked for.
            open_ref: Opens a version of the table.
        """
        with self._lock:
            pin = self._pins.get((name, ref))
        version = None if pin is None else pin.version()
        if version is None:
            version = open_ref(ref if pin is None else pin.ref)
        with self._lock:
            first = self._pins.setdefault((name, ref), _Pin(version.ref, weakref.ref(version)))
        return version if first.ref == version.ref else open_ref(first.ref)

    def adopt(self, other: Pins) -> bool:
        """Take over what another transaction has met and this one has not.

        Returns:
            Whether both have met the same versions of the tables of the other one.
        """
        with self._lock:
            self._pins = {**other._pins, **self._pins}
            return all(self._pins[name].ref == pin.ref for name, pin in other._pins.items())


class Asked(NamedTuple):
    """What DuckDB tells where it asks for what was looked up before.

    Attributes:
        look: The number that `question` was given.
        transaction: What tells it apart from others of the connection.
        connection: Its number in the database.
        run: The number of the run of a statement; the same for all relations that are bound.
        statement: The text of the statement that is run; empty where none is, or it is long.
    """

    look: int
    transaction: tuple[int, int]
    connection: int
    run: int
    statement: str

    @property
    def is_relation(self) -> bool:
        """Whether a relation of Python is bound, and no statement run."""
        return self.run == _NO_STATEMENT


class Use:
    """The use of a table by a statement, from the first look at its name until its rows are read.

    DuckDB looks once for each place where the name stands, also in views and macros, and has looked
    for all of them when it reads the first rows.
    """

    def __init__(self) -> None:
        self.looks = 0
        self.is_read = False

    def read_once(self) -> bool:
        """Note that rows are read; return whether they are used in one place only."""
        self.is_read = True
        return self.looks == 1


class _Transaction:
    """The newest transaction of a connection.

    Args:
        key: What tells it apart from others.
    """

    def __init__(self, key: tuple[int, int]) -> None:
        self.key = key
        self.pins = Pins()
        self._run = 0, ""
        self._uses: dict[str, Use] = {}

    def use(self, asked: Asked, name: str) -> Use:
        """Return the use of a name by the run of a statement, with one look more."""
        if (asked.run, asked.statement) != self._run:
            self._run, self._uses = (asked.run, asked.statement), {}
        use = self._uses.get(name)
        if use is None or use.is_read:
            use = self._uses[name] = Use()
        use.looks += 1
        return use


class Transactions:
    """The transactions of all databases of the process, the newest of each connection."""

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[int, int], _Transaction] = OrderedDict()
        self._lock = Lock()

    def look(self, database: int, asked: Asked, name: str) -> tuple[Pins, Use]:
        """Return the versions of a transaction, and how its statement uses a table.

        Args:
            database: A number of the database.
            asked: What DuckDB asked in the transaction.
            name: The table.
        """
        key = database, asked.connection
        with self._lock:
            newest = self._newest.pop(key, None)
            if newest is None or newest.key != asked.transaction:
                newest = _Transaction(asked.transaction)
            self._newest[key] = newest
            while len(self._newest) > _MAX_CONNECTIONS:
                self._newest.popitem(last=False)
            return newest.pins, newest.use(asked, name)


def question(look: int) -> str:
    """Return the query that has DuckDB ask in which transaction it is, and for which statement."""
    return f"FROM system.main.query(system.main.{ASK}({look}))"


def parse_asked(told: str, statement: str) -> Asked | None:
    """Read the arguments of `ANSWER`; None where somebody wrote them himself.

    Args:
        told: The numbers that `ASK_BODY` puts together.
        statement: The text of the statement.
    """
    match = _TOLD.fullmatch(told)
    if match is None:
        return None
    look, transaction, connection, since, run = map(int, match.groups())
    # Of a text that is longer than those that are read, so much that it is seen to be.
    return Asked(look, (transaction, since), connection, run, statement[: MAX_TEXT + 1])
