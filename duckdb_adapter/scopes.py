"""The Python variables in which DuckDB looks up a name while a wrapped connection runs a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckdb_adapter.bind_callback import REBINDS
from duckdb_adapter.duckdb_types import loses_filters
from duckdb_adapter.engine_settings import NEEDED_SETTINGS, BindContext, EngineSettings
from duckdb_adapter.functions import differ_in_time, find_call, is_call
from duckdb_adapter.identifiers import fold, literal, quoted
from duckdb_adapter.interrupts import QUERY_SCOPE
from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.called_functions import CalledFunctions, functions_of_sole_use
from duckdb_adapter.queries.long_lists import without_long_lists
from duckdb_adapter.releases import is_new
from duckdb_adapter.resolved_names import ResolvedName, builtins_test, resolve_name
from duckdb_adapter.secrets import SecretStorage
from lancefs.errors import LanceError
from lancefs.forks import cached_property

if TYPE_CHECKING:
    import duckdb

_NO_TABLE = "Table with name ", " does not exist!"
# What DuckDB says of a function that is no macro, where only an aggregate can stand.
_IS_SCALAR = " is a Scalar Function"
# Runs a method of the connection from a scope whose variables are the ones that we chose.
_RUN = compile("__lance_result = __lance_run(*__lance_args, **__lance_kwargs)", QUERY_SCOPE, "exec")
# A query names a few tables; more of them than this are names that come back again and again.
_MAX_NAMES = 1000
# Settings that decide which rows a statement uses.
_SETTINGS = ("default_collation", "default_order", "preserve_insertion_order")
_TRUE = "true"
# A query that tells settings by the name of its column, when it is bound.
_ASKED = ", ".join(
    f"system.main.current_setting('{name}')" for name in (*NEEDED_SETTINGS, *_SETTINGS)
)
_ASK = (
    "FROM system.main.query(system.main.concat('SELECT 1 AS \"', "
    f"system.main.concat_ws('|', {_ASKED}), '\"'))"
)


class Scope:
    """The variables of the code that runs a query, and the Lance tables that the query names.

    Args:
        connection: The connection that runs the query.
        storage: How tables are reached, and the versions that the transaction has met.
        variables: Those of the caller.
        text: The statement, where its text is known.
        is_transaction: Whether a transaction is open, which a failure may end.

    Attributes:
        storage: As it was given.
        names: The names of Lance tables that were added.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        storage: SecretStorage,
        variables: Mapping[str, Any],
        text: str = "",
        is_transaction: bool = False,
    ) -> None:
        self._connection = connection
        self.storage = storage
        self._variables = dict(variables)
        self._text = without_long_lists(text)
        self._is_transaction = is_transaction
        self.names: set[str] = set()

    def run(self, method: Any, args: Any, kwargs: Any) -> Any:
        """Call a method of a connection so that DuckDB searches these variables."""
        variables = self._variables
        variables["__lance_run"], variables["__lance_args"] = method, args
        variables["__lance_kwargs"] = kwargs
        try:
            exec(_RUN, variables)
            return variables["__lance_result"]
        finally:
            variables.pop("__lance_result", None)

    def add(self, message: str) -> bool:
        """Add the table that DuckDB says it does not know; tell whether it is ours, and new."""
        call = find_call(message)
        names = unknown_names(message) if call is None else [call]
        return any(self.add_name(name) for name in names)

    def add_name(self, name: str) -> bool:
        """Add the table that a name means; tell whether it means one, and was not here.

        Raises:
            duckdb.InvalidInputException: It means one that cannot be read.
        """
        import duckdb

        if name in self.names or len(self.names) > _MAX_NAMES:
            return False
        found = self.find(name)
        if found is None:
            return False
        try:
            context = self._context_of(found)
            self._variables[name] = self._relation(found.restricted_to(self._text, context))
        except LanceError as error:
            raise duckdb.InvalidInputException(f"Invalid Input Error: {error}") from error
        self.names.add(name)  # only now: an error in a rehearsal is raised when the query is run
        return True

    def find(self, name: str) -> ResolvedName | None:
        """Look whether a name is ours.

        Raises:
            duckdb.InvalidInputException: It is, but what it stands for cannot be read.
        """
        import duckdb

        if self._settings is None:
            return None
        try:
            return resolve_name(name, self.storage)
        except Exception as error:
            text = f"Invalid Input Error: {error}{self.storage.note}"
            raise duckdb.InvalidInputException(text) from error

    def moves(self, message: str) -> bool:
        """Whether DuckDB asked again for a call that was added, at another time."""
        call = find_call(message)
        known = [name for name in self.names if is_call(name)]
        return call is not None and any(differ_in_time(call, name) for name in known)

    def names_called(self, alias: str) -> Iterator[str]:
        """Yield the names that were added whose table has this name without its folder."""
        for name in self.names:
            found = None if is_call(name) else self.find(name)
            if found is not None and fold(found.alias) == fold(alias):
                yield name

    @cached_property
    def _settings(self) -> EngineSettings | None:
        """The settings; None where they do not let DuckDB read what is outside of the database.

        The connection itself is asked, since no other one has what `SET SESSION` sets. A query that
        was run would end a result that the user is fetching; this one is bound only.
        """
        (answer,) = self._connection.sql(_ASK).columns
        texts = dict(zip((*NEEDED_SETTINGS, *_SETTINGS), answer.split("|"), strict=True))
        if not all(texts[name] == _TRUE for name in NEEDED_SETTINGS):
            return None
        find, is_set = partial(_finds_file, self._connection), lambda name: texts[name] == _TRUE
        return EngineSettings(texts.__getitem__, is_set, find, lambda name: None, calls_back=False)

    def _context_of(self, found: ResolvedName) -> BindContext | None:
        """Return how the statement uses a name; None where its text does not prove it."""
        query = found.query_in(self._text)
        functions = None if query is None else functions_of_sole_use(query)
        if functions is None or self._settings is None or not self._are_builtin(functions):
            return None
        return BindContext(NameUse.sole(), self._settings)

    def _are_builtin(self, functions: CalledFunctions) -> bool:
        """Whether functions are DuckDB's own, and no macros of the user."""
        if functions == CalledFunctions():
            return True
        if self._is_transaction:
            return False  # nobody asks
        aggregates = functions.aggregates
        if aggregates and self._refusal(builtins_test(aggregates)):
            return False
        # DuckDB refuses operators with FILTER, too, and says whether they are functions or macros.
        tests = (f"{quoted(one)}(NULL, NULL) FILTER (WHERE true)" for one in functions.operators)
        return all(_IS_SCALAR in self._refusal(test) for test in tests)

    def _refusal(self, expression: str) -> str:
        """Return what DuckDB says against an expression when it binds it; empty if nothing."""
        import duckdb

        try:
            self._connection.sql(f"SELECT {expression}")
        except duckdb.Error as error:
            return str(error)
        return ""

    def _relation(self, found: ResolvedName) -> Any:
        datasets = found.datasets()
        self._variables |= datasets
        guards = {name: _guards(rows.schema) for name, rows in datasets.items()}
        return self.run(self._connection.sql, (found.select(guards),), {}).filter(REBINDS)


def _finds_file(connection: duckdb.DuckDBPyConnection, path: str) -> bool:
    """Return whether there is a file that a statement may read."""
    import duckdb

    # On another connection: what is not allowed would end a transaction.
    with connection.cursor() as cursor, suppress(duckdb.PermissionException):
        return cursor.execute(f"FROM glob({literal(path)})").fetchone() is not None
    return False


def _guards(schema: pa.Schema) -> str:
    """Return what keeps DuckDB before 2.0 from handing on filters that it would spoil."""
    if is_new():
        return ""
    names = [quoted(field.name) for field in schema if loses_filters(field)]
    guarded = (f"CASE WHEN {name} IS NULL THEN NULL ELSE {name} END AS {name}" for name in names)
    return f" REPLACE ({', '.join(guarded)})" if names else ""


def unknown_names(message: str) -> Iterator[str]:
    """Yield what may be the name in DuckDB's message that there is no such table.

    The message does not quote the name, which may itself say that something does not exist.
    """
    before, after = _NO_TABLE
    _, _, rest = message.partition(before)
    parts = rest.split(after)
    for count in range(1, len(parts)):
        yield after.join(parts[:count])
