"""What DuckDB 2.0 is told to call while it binds a statement, and what it tells of the statement.

DuckDB does not tell an extension in which transaction it looks for a name. So the extension answers
with a query that a function of its own makes, `FROM query(…)`: DuckDB evaluates the arguments of
the function, which tell the transaction and the statement, and calls it, while it binds the
statement. One argument calls `now()`, so that DuckDB also does so whenever a prepared statement is
run.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from duckdb_adapter.queries.parsing import MAX_TEXT

# Makes DuckDB look for names anew when a prepared statement is run.
REBINDS = "system.main.now() IS NOT NULL"
# The numbers of a name, a transaction, a connection, when the transaction began, and of a run.
_NUMBERS = re.compile(r"(\d+) (\d+) (\d+) (\d+) (\d+)")
# A relation of Python is bound without a statement: there is no text then, and this is its number.
_NO_STATEMENT = 2**64 - 1
# The function that makes the query, of these numbers and of the statement.
BIND_FUNCTION = "_lancefs_bind"
BIND_PARAMETERS = ("numbers", "statement")
# A macro of every database that calls the function, given the number of a name that was resolved.
# DuckDB parses the macro once, and binds and evaluates it in every query; one function takes half
# as long as many `||`. All functions are named with their schema: users may have macros of the same
# names.
BIND_MACRO = "_lancefs_query"
BIND_MACRO_PARAMETER = "name"
BIND_MACRO_BODY = (
    f"system.main.{BIND_FUNCTION}(system.main.concat_ws(' ', {BIND_MACRO_PARAMETER}, "
    "system.main.current_transaction_id(), system.main.current_connection_id(), "
    "system.main.epoch_us(system.main.now()), system.main.current_query_id()), "
    f"CASE WHEN system.main.current_query_id() <> {_NO_STATEMENT} "
    "THEN system.main.current_query() END)"
)


class BindCall(NamedTuple):
    """What DuckDB tells where it binds a name that was resolved before.

    Attributes:
        number: The number of the name that `binding_query` was given.
        transaction: The number of the transaction and when it began, in microseconds: what tells it
            apart from others of the connection.
        connection: The number of the connection in its database.
        run: The number of the run of a statement; the same for all relations that are bound.
        statement: The text of the statement that is run; empty where none is.
    """

    number: int
    transaction: tuple[int, int]
    connection: int
    run: int
    statement: str

    @property
    def is_relation(self) -> bool:
        """Whether a relation of Python is bound, and no statement run."""
        return self.run == _NO_STATEMENT


def binding_query(number: int) -> str:
    """Return the query that has DuckDB call `BIND_FUNCTION` for a name.

    Args:
        number: A number of the name; `BindCall` has it.
    """
    return f"FROM system.main.query(system.main.{BIND_MACRO}({number}))"


def parse_call(numbers: str, statement: str) -> BindCall | None:
    """Read the arguments of `BIND_FUNCTION`; None where a user calls it.

    Args:
        numbers: The numbers that `BIND_MACRO_BODY` joins.
        statement: The text of the statement.
    """
    match = _NUMBERS.fullmatch(numbers)
    if match is None:
        return None
    number, transaction, connection, since, run = map(int, match.groups())
    # One character more than `MAX_TEXT` is kept, by which `parse` knows that a text is too long.
    text = statement[: MAX_TEXT + 1]
    return BindCall(number, (transaction, since), connection, run, text)
