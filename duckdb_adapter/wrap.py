"""Lance tables on a connection that knows nothing of them: any DuckDB from 1.4 on, any database.

DuckDB looks for names that it does not know among the variables of the code that runs the query. A
wrapped connection runs queries from a scope of its own, with a copy of the caller's variables. When
DuckDB says that there is no table of some name, and the name is ours, the rows are added to that
scope and the query is prepared again. Nothing has run by then: several statements in one text are
run one by one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from duckdb_adapter.arrow_source import CountedDataset
from duckdb_adapter.claims import NEEDED_SETTINGS, Claim, find_claim
from duckdb_adapter.duckdb_types import loses_filters
from duckdb_adapter.endings import close_at_exit, let_go
from duckdb_adapter.functions import BY_NAME, FUNCTIONS, find_call
from duckdb_adapter.interrupts import QUERY_SCOPE
from duckdb_adapter.paths import quoted
from duckdb_adapter.secrets import SecretStorage
from lancefs.errors import LanceError

if TYPE_CHECKING:
    import duckdb

    from lancefs.table.base_paths import BaseRules

_NO_TABLE = "Table with name ", " does not exist!"
_NO_FUNCTION = re.compile(r"Table Function with name \"?(\w+)\"? does not exist!")
# Runs a method of the connection from a scope whose variables are the ones that we chose.
_RUN = compile("__lance_result = __lance_run(*__lance_args, **__lance_kwargs)", QUERY_SCOPE, "exec")
# A query names a few tables; more of them than this are names that come back again and again.
_MOST_NAMES = 1000


class LanceConnection:
    """A DuckDB connection on which names of Lance tables, and our functions, work.

    All that a `duckdb.DuckDBPyConnection` has is there; `execute`, `executemany`, `sql`, `query`,
    `from_query`, `table` and `cursor` know Lance tables.

    Args:
        connection: The connection; it can still be used by itself.
        storage_options: For fsspec, as `install` takes them.
        base_rules: How far base paths that manifests name are followed.
        use_index: Whether filters may be looked up in the indices of tables.
        is_owned: Whether nobody else has the connection, so that it is closed when it is dropped.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        storage_options: Mapping[str, Any] | None = None,
        base_rules: BaseRules | None = None,
        use_index: bool = True,
        is_owned: bool = False,
    ) -> None:
        self._connection = connection
        self._is_owned = is_owned
        self._options = dict(storage_options or {})
        self._rules = base_rules
        self._use_index = use_index
        if not _is_new():
            close_at_exit(connection)

    def __del__(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None and not sys.is_finalizing() and not _is_new():
            let_go(connection, self._is_owned)

    def __repr__(self) -> str:
        return f"<LanceConnection of {self._connection!r}>"

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._connection, name)
        if not self._is_owned or not callable(value):
            return value
        # `connect().execute(…).fetchall()`: a method keeps the wrapper, which would close the
        # connection. A function of ours would be one more scope in which DuckDB finds variables.
        method = partial(value)
        method.__dict__["wrapper"] = self
        return method

    def __enter__(self) -> LanceConnection:
        self._connection.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._connection.__exit__(*exception)

    def storage(self) -> SecretStorage:
        """Return what gives the storage options for URLs: those given, or those of a secret."""
        return SecretStorage(self._connection, self._options, self._rules, self._use_index)

    def cursor(self) -> LanceConnection:
        """Return another connection to the same database, wrapped as well."""
        return self._beside(self._connection.cursor())

    def duplicate(self) -> LanceConnection:
        """Return another connection to the same database, wrapped as well."""
        return self._beside(self._connection.duplicate())

    def _beside(self, connection: duckdb.DuckDBPyConnection) -> LanceConnection:
        return LanceConnection(connection, self._options, self._rules, self._use_index, True)

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a query, as the connection's method of this name does."""
        return self._run_all("execute", query, args, kwargs, sys._getframe(1))

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a query for many sets of parameters."""
        return self._run_all("executemany", query, args, kwargs, sys._getframe(1))

    def sql(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a query as a relation."""
        return self._run_all("sql", query, args, kwargs, sys._getframe(1))

    def query(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a query as a relation."""
        return self._run_all("query", query, args, kwargs, sys._getframe(1))

    def from_query(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a query as a relation."""
        return self._run_all("from_query", query, args, kwargs, sys._getframe(1))

    def table(self, name: str) -> Any:
        """Return a table as a relation."""
        claim = self._find(name)
        if claim is None:
            return self._connection.table(name)
        return self._run("sql", (f"FROM {quoted(name)}",), {}, sys._getframe(1))

    def _run_all(self, method: str, query: Any, args: Any, kwargs: Any, caller: FrameType) -> Any:
        statements = self._connection.extract_statements(query) if isinstance(query, str) else []
        if len(statements) > 1:
            *before, query = statements
            for statement in before:
                self._run("execute", (statement,), {}, caller)
        return self._run(method, (query, *args), kwargs, caller)

    def _run(self, method: str, args: Any, kwargs: Any, caller: FrameType) -> Any:
        """Run a method, again after each name that was not known and is ours."""
        import duckdb

        scope = {**caller.f_globals, **caller.f_locals}
        known: set[str] = set()
        if _is_new():
            self._rehearse(args, kwargs, scope, known)
        run = getattr(self._connection, method)
        defined = False
        while True:
            try:
                result = _run_in(scope, run, args, kwargs)
                return self if result is self._connection else result
            except duckdb.CatalogException as error:
                message = str(error)
                if not defined and _is_our_function(message):
                    defined = True
                    _define_functions(self._connection)
                elif not self._add(message, scope, known):
                    raise

    def _rehearse(self, args: Any, kwargs: Any, scope: dict[str, Any], known: set[str]) -> None:
        """Find the names in a query on another connection.

        From 2.0 on, DuckDB gives up a transaction in which it met a name that it does not know. The
        other connection does not see what the transaction has made, so that names are still looked
        for when the query is run.
        """
        import duckdb

        text = getattr(args[0], "query", args[0])
        if not isinstance(text, str):
            return
        with self._connection.cursor() as other, suppress(duckdb.Error):
            # What is wrong with the query is said when it is run.
            for name in sorted(other.get_table_names(text)):
                self._add_name(name, scope, known)
        if not any(f"{name}(" in text for name in BY_NAME):
            return
        _define_functions(self._connection)
        with self._connection.cursor() as other, suppress(duckdb.Error):
            _define_functions(other)
            while not self._explain(other, (text, *args[1:]), kwargs, scope, known):
                pass

    def _explain(
        self, other: Any, args: Any, kwargs: Any, scope: dict[str, Any], known: set[str]
    ) -> bool:
        """Prepare a query on another connection; tell whether all that is ours was found."""
        import duckdb

        text, *parameters = args
        try:
            _run_in(scope, other.execute, (f"EXPLAIN {text}", *parameters), kwargs)
        except duckdb.CatalogException as error:
            return not self._add(str(error), scope, known)
        return True

    def _add(self, message: str, scope: dict[str, Any], known: set[str]) -> bool:
        """Add the table that DuckDB says it does not know; tell whether it is ours, and new."""
        call = find_call(message)
        names = _unknown_names(message) if call is None else [call]
        return any(self._add_name(name, scope, known) for name in names)

    def _add_name(self, name: str, scope: dict[str, Any], known: set[str]) -> bool:
        import duckdb

        if name in known or len(known) > _MOST_NAMES:
            return False
        claim = self._find(name)
        if claim is None:
            return False
        try:
            scope[name] = self._relation(claim)
        except LanceError as error:
            raise duckdb.InvalidInputException(f"Invalid Input Error: {error}") from error
        known.add(name)  # only now: an error in a rehearsal is raised when the query is run
        return True

    def _find(self, name: str) -> Claim | None:
        """Look whether a name is ours.

        Raises:
            duckdb.InvalidInputException: It is, but what it stands for cannot be read.
        """
        import duckdb

        if not self._is_allowed():
            return None
        storage = self.storage()
        try:
            return find_claim(name, storage)
        except Exception as error:
            text = f"Invalid Input Error: {error}{storage.note}"
            raise duckdb.InvalidInputException(text) from error

    def _is_allowed(self) -> bool:
        """Whether the settings let DuckDB read what is outside of the database."""
        settings = ", ".join(f"current_setting('{name}')" for name in NEEDED_SETTINGS)
        with self._connection.cursor() as cursor:
            answer = cursor.execute(f"SELECT {settings}").fetchone()
        return all(answer or ())

    def _relation(self, claim: Claim) -> Any:
        rows = claim.dataset()
        relation = self._connection.from_arrow(rows)
        if isinstance(rows, CountedDataset):
            relation = relation.project(f"*{claim.left_out}{_guards(rows.schema)}")
        return relation


def wrap(
    connection: duckdb.DuckDBPyConnection,
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | None = None,
    use_index: bool = True,
) -> LanceConnection:
    """Return a connection on which Lance tables work, over one that is open.

    Args:
        connection: Any connection of DuckDB 1.4 or later. It stays open when the wrapper goes
            away: who opened it closes it.
        storage_options: For fsspec, as `install` takes them.
        base_rules: How far base paths that manifests name are followed.
        use_index: Whether filters may be looked up in the indices of tables.
    """
    return LanceConnection(connection, storage_options, base_rules, use_index)


def connect(
    *args: Any,
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | None = None,
    use_index: bool = True,
    **kwargs: Any,
) -> LanceConnection:
    """Open a database, as `duckdb.connect` does, with a connection on which Lance tables work.

    Args:
        *args: As for `duckdb.connect`.
        storage_options: For fsspec, as `install` takes them.
        base_rules: How far base paths that manifests name are followed.
        use_index: Whether filters may be looked up in the indices of tables.
        **kwargs: As for `duckdb.connect`.
    """
    import duckdb

    connection = duckdb.connect(*args, **kwargs)
    # DuckDB gives its one default connection to all who ask for it.
    is_shared = ":default:" in (*args[:1], kwargs.get("database"))
    is_owned = not is_shared
    return LanceConnection(connection, storage_options, base_rules, use_index, is_owned)


def _run_in(scope: dict[str, Any], run: Any, args: Any, kwargs: Any) -> Any:
    """Call a method of a connection so that DuckDB searches a scope for variables."""
    scope["__lance_run"], scope["__lance_args"], scope["__lance_kwargs"] = run, args, kwargs
    try:
        exec(_RUN, scope)
        return scope["__lance_result"]
    finally:
        scope.pop("__lance_result", None)


def _define_functions(connection: duckdb.DuckDBPyConnection) -> None:
    for function in FUNCTIONS:
        connection.execute(function.statement)


def _is_new() -> bool:
    import duckdb

    return int(duckdb.__version__.split(".")[0]) >= 2


def _guards(schema: pa.Schema) -> str:
    """Return what keeps DuckDB before 2.0 from handing on filters that it would spoil."""
    if _is_new():
        return ""
    names = [quoted(field.name) for field in schema if loses_filters(field.type)]
    guarded = (f"CASE WHEN {name} IS NULL THEN NULL ELSE {name} END AS {name}" for name in names)
    return f" REPLACE ({', '.join(guarded)})" if names else ""


def _unknown_names(message: str) -> Iterator[str]:
    """Yield what may be the name in DuckDB's message that there is no such table.

    The message does not quote the name, which may itself say that something does not exist.
    """
    before, after = _NO_TABLE
    _, _, rest = message.partition(before)
    parts = rest.split(after)
    for count in range(1, len(parts)):
        yield after.join(parts[:count])


def _is_our_function(message: str) -> bool:
    match = _NO_FUNCTION.search(message)
    return match is not None and match[1].lower() in BY_NAME
