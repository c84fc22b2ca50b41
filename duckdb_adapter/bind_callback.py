"""The callback that DuckDB 2.0 calls while it binds a statement, and the arguments it passes.

DuckDB does not tell an extension in which transaction it looks for a name. So the extension answers
with a macro, whose query a function of its own makes, `FROM query(…)`: DuckDB evaluates the
argument of the function, which tells the transaction and the statement, and calls it, while it
binds the statement. The argument calls `now()`, so that DuckDB also does so whenever a prepared
statement is run.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from duckdb_adapter.queries.long_lists import without_long_lists
from duckdb_adapter.queries.parsing import MAX_TEXT

# Makes DuckDB look for names anew when a prepared statement is run.
REBINDS = "system.main.now() IS NOT NULL"
# The numbers of a transaction, a connection, when the transaction began, and of a run; and the text
# of the statement.
_TOLD = re.compile(r"(\d+) (\d+) (\d+) (\d+)(?: |$)")
# A relation of Python is bound without a statement: there is no text then, and this is its number.
_NO_STATEMENT = 2**64 - 1
# The function that makes the query. One argument is bound and read sooner than several.
BIND_FUNCTION = "_lancefs_bind"
BIND_PARAMETER = "told"
# A macro of every database, which a name that was resolved stands for: a macro takes less time than
# a query, which DuckDB would parse each time. All functions are named with their schema: users may
# have macros of the same names.
BIND_MACRO = "_lancefs_replacement"
BIND_MACRO_BODY = (
    f"FROM system.main.query(system.main.{BIND_FUNCTION}(system.main.concat_ws(' ', "
    "system.main.current_transaction_id(), system.main.current_connection_id(), "
    "system.main.epoch_us(system.main.now()), system.main.current_query_id(), "
    f"CASE WHEN system.main.current_query_id() <> {_NO_STATEMENT} "
    "THEN system.main.current_query() END)))"
)


class BindCall(NamedTuple):
    """What DuckDB tells where it binds a name that was resolved before.

    Attributes:
        transaction: The number of the transaction and when it began, in microseconds: what tells it
            apart from others of the connection.
        connection: The number of the connection in its database.
        run: The number of the run of a statement; the same for all relations that are bound.
        statement: The text of the statement that is run, see `without_long_lists`; empty where none
            is.
    """

    transaction: tuple[int, int]
    connection: int
    run: int
    statement: str

    @property
    def is_relation(self) -> bool:
        """Whether a relation of Python is bound, and no statement run."""
        return self.run == _NO_STATEMENT


def parse_call(told: str) -> BindCall | None:
    """Read the argument of `BIND_FUNCTION`; None where a user calls it.

    Args:
        told: What `BIND_MACRO_BODY` joins.
    """
    match = _TOLD.match(told)
    if match is None:
        return None
    transaction, connection, since, run = map(int, match.groups())
    # One character more than `MAX_TEXT` is kept, by which `parse` knows that a text is too long.
    text = without_long_lists(told[match.end() :])[: MAX_TEXT + 1]
    return BindCall((transaction, since), connection, run, text)
