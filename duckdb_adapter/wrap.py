"""Lance tables on a connection of its own: any DuckDB from 1.4 on, any database.

Databases of DuckDB 2.0 that `connect` opens ask our extension for names (`extension.py`); it is
told here with which storage options.

All others know nothing of Lance tables. DuckDB looks for names that it does not know among the
variables of the code that runs the query. A wrapped connection runs queries from a scope of its
own, with a copy of the caller's variables. When DuckDB says that there is no table of some name,
and the name is ours, the rows are added to that scope and the query is prepared again. Nothing has
run by then: several statements in one text are run one by one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from duckdb_adapter.endings import close_at_exit, let_go
from duckdb_adapter.extension import number_of, opening_known
from duckdb_adapter.functions import BY_NAME, FUNCTIONS
from duckdb_adapter.identifiers import quoted
from duckdb_adapter.lakes import Lake
from duckdb_adapter.pinned_versions import PinnedVersions
from duckdb_adapter.queries.parsing import parse_soon
from duckdb_adapter.releases import is_new
from duckdb_adapter.scopes import Scope, unknown_names
from duckdb_adapter.secrets import SecretStorage
from duckdb_adapter.statements import (
    alias_advice,
    are_made_at_once,
    begins_transaction,
    copied_table,
    created_table,
    is_refused_change,
    kind_of,
    moving_time_advice,
    parameter_advice,
    refusal,
    target_of,
    unknown_alias,
    versioned_names,
)
from duckdb_adapter.storage import reaching_with
from lancefs.arguments import options_of
from lancefs.errors import LanceError
from lancefs.table.base_paths import BaseRules, as_rules

if TYPE_CHECKING:
    import duckdb


_NO_FUNCTION = re.compile(r"Table Function with name \"?(\w+)\"? does not exist!")
# What DuckDB says of names of remote tables, before it asks for variables, from 1.5 on.
_NO_READER = "'httpfs"
# What DuckDB 1.4 says of a view on a table to which columns were added.
_OTHER_COLUMNS = "Contents of view were altered"
# Statements that list what is in a lake.
_LISTS = re.compile(r"\b(show|describe|information_schema|duckdb_\w+|pg_\w+)\b", re.IGNORECASE)
# Methods that return rows of the last query and need no connection afterwards.
_OF_ROWS = {
    *("fetchone", "fetchall", "fetchmany", "fetchnumpy", "fetchdf", "fetch_df", "df"),
    *("description", "rowcount"),
}
# Most prepared statements whose names of tables are remembered.
_MAX_NAMES = 1000


class LanceConnection:
    """A DuckDB connection on which names of Lance tables, and our functions, work.

    All that a `duckdb.DuckDBPyConnection` has is there; `execute`, `executemany`, `sql`, `query`,
    `from_query`, `table` and `cursor` know Lance tables.

    Args:
        connection: The connection; it can still be used by itself.
        storage_options: For fsspec, as `install` takes them.
        base_rules: Which base paths of manifests are followed: `lancefs.BaseRules`, or its fields.
        use_index: Whether filters may be looked up in the indices of tables.
        is_owned: Whether nobody else has the connection, so that it is closed when it is dropped.

    Attributes:
        lakes: What `attach` has attached, by its name in lower case.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        storage_options: Mapping[str, Any] | None = None,
        base_rules: BaseRules | Mapping[str, Any] | None = None,
        use_index: bool = True,
        is_owned: bool = False,
    ) -> None:
        self._connection = connection
        self._is_owned = is_owned
        # Whether something was given away that may use the connection after the wrapper is gone.
        self._is_shared = False
        self._options = options_of(storage_options)
        self._rules = as_rules(base_rules)
        self._use_index = use_index
        self.lakes: dict[str, Lake] = {}
        # What the open transaction has met; None outside of one.
        self._transaction: PinnedVersions | None = None
        self._prepared: set[str] = set()
        self._knows_names: bool | None = None  # until it is asked
        if not is_new():
            close_at_exit(connection)

    def __del__(self) -> None:
        connection = self.__dict__.get("_connection")
        if connection is not None and not sys.is_finalizing() and not is_new():
            let_go(connection, self._is_owned, self._is_shared)

    def __repr__(self) -> str:
        return f"<LanceConnection of {self._connection!r}>"

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._connection, name)
        self._is_shared |= name not in _OF_ROWS
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
        self._is_shared = True
        return self._storage(None)

    def _storage(self, pins: PinnedVersions | None) -> SecretStorage:
        return SecretStorage(self._connection, self._options, self._rules, self._use_index, pins)

    def cursor(self) -> LanceConnection:
        """Return another connection to the same database, wrapped as well."""
        return self._beside(self._connection.cursor())

    def duplicate(self) -> LanceConnection:
        """Return another connection to the same database, wrapped as well."""
        return self._beside(self._connection.duplicate())

    def _beside(self, connection: duckdb.DuckDBPyConnection) -> LanceConnection:
        other = LanceConnection(connection, self._options, self._rules, self._use_index, True)
        other.lakes = self.lakes
        other._knows_names = self._knows_names
        return other

    def reaching(
        self,
        storage_options: Mapping[str, Any] | None,
        base_rules: BaseRules | Mapping[str, Any] | None,
        use_index: bool,
    ) -> LanceConnection:
        """Return this connection with other options; the arguments are those of the class."""
        other = LanceConnection(self._connection, storage_options, base_rules, use_index)
        other.lakes = self.lakes
        other._knows_names = self._database_knows_names()
        return other

    def _database_knows_names(self) -> bool:
        """Whether the database asks our extension for names that it does not know."""
        if self._knows_names is None:
            self._knows_names = number_of(self._connection) is not None
        return self._knows_names

    def begin(self) -> Any:
        """Begin a transaction, as the connection's method of this name does."""
        return self.run("execute", "BEGIN TRANSACTION", (), {}, sys._getframe(1))

    def commit(self) -> Any:
        """Commit the transaction."""
        return self.run("execute", "COMMIT", (), {}, sys._getframe(1))

    def rollback(self) -> Any:
        """Roll the transaction back."""
        return self.run("execute", "ROLLBACK", (), {}, sys._getframe(1))

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a query, as the connection's method of this name does."""
        return self.run("execute", query, args, kwargs, sys._getframe(1))

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a query for many sets of parameters."""
        return self.run("executemany", query, args, kwargs, sys._getframe(1))

    def sql(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a query as a relation."""
        return self.run("sql", query, args, kwargs, sys._getframe(1))

    def query(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a query as a relation."""
        return self.run("query", query, args, kwargs, sys._getframe(1))

    def from_query(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a query as a relation."""
        return self.run("from_query", query, args, kwargs, sys._getframe(1))

    def table(self, name: str) -> Any:
        """Return a table as a relation."""
        caller = sys._getframe(1)
        variables = {**caller.f_globals, **caller.f_locals}
        scope = Scope(self._connection, self._storage(self._transaction), variables)
        if scope.find(name) is None:
            return self._run("table", (name,), {}, scope, "")
        return self.run("sql", f"FROM {quoted(name)}", (), {}, caller)

    def run(self, method: str, query: Any, args: Any, kwargs: Any, caller: FrameType) -> Any:
        """Run all statements of a query, and return what the last one returned.

        Args:
            method: The method of the connection that runs the last one.
            query: The statements.
            args: Further arguments of the method.
            kwargs: Those that are given by name.
            caller: The code whose variables are tables as well.
        """
        statements = self._connection.extract_statements(query) if isinstance(query, str) else []
        # A text is not parsed a second time; its statement says what it is.
        last = statements[-1] if statements else query
        if are_made_at_once(statements):
            return self._run_at_once(method, statements, args, kwargs, caller)
        for statement in statements[:-1]:
            self._run_statement("execute", statement, (), {}, caller)
            self._drop_rows()
        if len(statements) < 2:
            return self._run_statement(method, last, args, kwargs, caller, query)
        return self._run_statement(method, last, args, kwargs, caller)

    def _drop_rows(self) -> None:
        """Run the last statement to its end, without its rows.

        DuckDB 2.0 refuses another statement before that; older ones had run it when they returned.
        """
        if is_new():
            self._connection.complete()

    def _run_at_once(
        self, method: str, statements: Any, args: Any, kwargs: Any, caller: FrameType
    ) -> Any:
        """Run statements that DuckDB makes of one, all of them or none.

        In a transaction that is begun here, or in the one that is open: DuckDB would give up its
        own at the first name that it does not know.

        Args:
            method: The method of the connection that runs the last one.
            statements: The statements, see `are_made_at_once`.
            args: Further arguments of the method.
            kwargs: Those that are given by name.
            caller: The code whose variables are tables as well.
        """
        first, *others, last = statements
        begins = kind_of(first) == "TRANSACTION"
        if begins:
            self.begin()
        try:
            for statement in others:
                self._run_statement("execute", statement, (), {}, caller)
        except BaseException:
            if begins:
                self.rollback()
            raise
        return self._run_statement(method, last, args, kwargs, caller)

    def _run_statement(
        self,
        method: str,
        statement: Any,
        args: Any,
        kwargs: Any,
        caller: FrameType,
        query: Any = None,
    ) -> Any:
        """Run one statement, and follow the transaction that it begins or ends."""
        import duckdb

        kind = kind_of(statement)
        written = created_table(statement) or copied_table(statement)
        if written is not None:
            raise duckdb.InvalidInputException(refusal(written, statement))
        pins = PinnedVersions() if self._transaction is None else self._transaction
        variables = {**caller.f_globals, **caller.f_locals}
        text = getattr(statement, "query", "")
        is_transaction = self._transaction is not None
        scope = Scope(self._connection, self._storage(pins), variables, text, is_transaction)
        if _LISTS.search(text):
            self._refresh_lakes()
        arguments = (statement if query is None else query, *args)
        try:
            result = self._run(method, arguments, kwargs, scope, kind)
        except duckdb.Error as error:
            reason = self._reason(statement, str(error), scope)
            if reason is None:
                raise
            raise duckdb.InvalidInputException(reason) from error
        finally:
            if kind == "TRANSACTION" and not begins_transaction(statement):
                self._transaction = None
        if kind == "TRANSACTION" and begins_transaction(statement):
            self._transaction = PinnedVersions()
        if kind == "PREPARE" and len(self._prepared) < _MAX_NAMES:
            self._prepared |= scope.names
        return result

    def _run(self, method: str, args: Any, kwargs: Any, scope: Scope, kind: str) -> Any:
        """Run a method, again after each name that was not known and is ours."""
        import duckdb

        knows_names = self._database_knows_names()
        if is_new() and not knows_names:
            self._rehearse(args, kwargs, scope, kind)
        run = getattr(self._connection, method)
        defined, refreshed = knows_names, False
        while True:
            try:
                with reaching_with(scope.storage):
                    result = scope.run(run, args, kwargs)
                if result is self._connection:
                    return self
                self._is_shared = True
                if scope.names and isinstance(result, duckdb.DuckDBPyRelation):
                    self._check_fetchable(result, method, args, scope)
                return result
            except duckdb.Error as error:
                message = str(error)
                if not defined and _is_our_function(message):
                    defined = True
                    _define_functions(self._connection)
                elif not knows_names and self._add(message, args, scope):
                    pass
                elif not refreshed and self._refresh_lakes(message):
                    refreshed = True
                else:
                    raise

    def _check_fetchable(self, relation: Any, method: str, args: Any, scope: Scope) -> None:
        """Check that a relation can be computed later, without the variables of its scope.

        DuckDB keeps what the names in the text of a relation stand for, but looks again for those
        in the queries of views.

        Raises:
            duckdb.InvalidInputException: It reads Lance tables by a view.
        """
        import duckdb

        text = "" if method == "table" else str(getattr(args[0], "query", args[0]))
        if all(name in text for name in scope.names):
            return
        try:
            relation.explain()  # plans it, and reads no rows
        except duckdb.CatalogException as error:
            hidden = next((name for name in unknown_names(str(error)) if name in scope.names), None)
            if hidden is None:
                raise
            raise duckdb.InvalidInputException(
                f"Invalid Input Error: {hidden}: a relation cannot read this Lance table by a view "
                f"or an attached folder on this database; execute(…) the statement in place of "
                f"{method}(…), or open the database with duckdb_adapter.connect() of DuckDB 2.0"
            ) from error

    def _add(self, message: str, args: Any, scope: Scope) -> bool:
        """Add what DuckDB says it cannot read; tell whether it is ours, and new."""
        if _NO_READER not in message:
            return scope.add(message)
        text = getattr(args[0], "query", args[0])
        with self._connection.cursor() as other:
            names = other.get_table_names(text) if isinstance(text, str) else ()
        added = [scope.add_name(name) for name in names]
        return any(added)

    def _reason(self, statement: Any, message: str, scope: Scope) -> str | None:
        """Return why a statement failed, where we can say it better than DuckDB; None elsewhere."""
        if scope.moves(message):
            return moving_time_advice()
        advice = parameter_advice(statement, message)
        if advice is not None:
            return advice
        name = self._refused(statement, message, scope)
        if name is not None:
            return refusal(name, statement)
        alias = unknown_alias(message)
        if alias is not None:
            return next((alias_advice(one, alias) for one in scope.names_called(alias)), None)
        versioned = versioned_names(statement, message)
        return next((versioned[one] for one in versioned if scope.find(one) is not None), None)

    def _refused(self, statement: Any, message: str, scope: Scope) -> str | None:
        """Return the Lance table that a statement would change; None where it would not."""
        if not is_refused_change(statement, message):
            return None
        target = target_of(statement)
        if len(target) > 1 and target[0].lower() in self.lakes:
            return ".".join(target)
        named = [*unknown_names(message), *(target if len(target) == 1 else ())]
        return next((name for name in named if scope.find(name) is not None), None)

    def _refresh_lakes(self, message: str | None = None) -> bool:
        """Attach lakes again in which tables, or columns, appeared or went away.

        Not in a transaction, which keeps what it has met.

        Args:
            message: DuckDB's, of a failure that may come of it; None where nothing failed.

        Returns:
            Whether there was such a lake.
        """
        import duckdb

        is_altered = message is not None and _OTHER_COLUMNS in message
        is_unknown = message is None or any(True for _ in unknown_names(message))
        if self._transaction is not None or not (is_altered or is_unknown):
            return False
        # Without lakes, so that nothing that fails in there comes here again.
        bare = LanceConnection(self._connection, self._options, self._rules, self._use_index)
        try:
            refreshed = [lake.refresh(bare, is_altered) for lake in list(self.lakes.values())]
        except (LanceError, OSError) as error:
            text = f"Invalid Input Error: an attached folder cannot be listed: {error}"
            raise duckdb.InvalidInputException(text) from error
        return any(refreshed)

    def _rehearse(self, args: Any, kwargs: Any, scope: Scope, kind: str) -> None:
        """Find the names in a query on another connection.

        From 2.0 on, DuckDB gives up a transaction in which it met a name that it does not know. The
        other connection does not see what the transaction has made, so that names are still looked
        for when the query is run.
        """
        import duckdb

        text = getattr(args[0], "query", args[0])
        if not isinstance(text, str):
            return
        # An error of the query comes when it is run.
        with suppress(duckdb.Error):
            for name in sorted(self._prepared) if kind == "EXECUTE" else ():
                scope.add_name(name)
        with self._connection.cursor() as other, suppress(duckdb.Error):
            for name in sorted(other.get_table_names(text)):
                scope.add_name(name)
        has_functions = any(f"{name}(" in text for name in BY_NAME)
        if not has_functions and self._transaction is None:
            return
        if has_functions:
            _define_functions(self._connection)
        with self._connection.cursor() as other, suppress(duckdb.Error):
            _define_functions(other)
            while not self._explain(other, (text, *args[1:]), kwargs, scope):
                pass

    def _explain(self, other: Any, args: Any, kwargs: Any, scope: Scope) -> bool:
        """Prepare a query on another connection; tell whether all that is ours was found."""
        import duckdb

        text, *parameters = args
        # The parameters have one name in `execute`, and another in `sql`.
        named = (kwargs[name] for name in ("parameters", "params") if name in kwargs)
        try:
            scope.run(other.execute, (f"EXPLAIN {text}", *parameters, *named), {})
        except duckdb.CatalogException as error:
            return not scope.add(str(error))
        return True


def wrap(
    connection: duckdb.DuckDBPyConnection,
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | Mapping[str, Any] | None = None,
    use_index: bool = True,
) -> LanceConnection:
    """Return a connection on which Lance tables work, over one that is open.

    Args:
        connection: Any connection of DuckDB 1.4 or later. It stays open when the wrapper goes
            away: its opener closes it.
        storage_options: For fsspec, as `install` takes them.
        base_rules: Which base paths of manifests are followed: `lancefs.BaseRules`, or its fields.
        use_index: Whether filters may be looked up in the indices of tables.
    """
    parse_soon()
    return LanceConnection(connection, storage_options, base_rules, use_index)


def connect(
    *args: Any,
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | Mapping[str, Any] | None = None,
    use_index: bool = True,
    **kwargs: Any,
) -> LanceConnection:
    """Open a database, as `duckdb.connect` does, with a connection on which Lance tables work.

    Args:
        *args: As for `duckdb.connect`.
        storage_options: For fsspec, as `install` takes them.
        base_rules: Which base paths of manifests are followed: `lancefs.BaseRules`, or its fields.
        use_index: Whether filters may be looked up in the indices of tables.
        **kwargs: As for `duckdb.connect`.
    """
    connection = open_known(*args, **kwargs)
    # DuckDB gives its one default connection to all who ask for it.
    is_shared = ":default:" in (*args[:1], kwargs.get("database"))
    is_owned = not is_shared
    return LanceConnection(connection, storage_options, base_rules, use_index, is_owned)


def open_known(*args: Any, **kwargs: Any) -> duckdb.DuckDBPyConnection:
    """Open a database, as `duckdb.connect` does, that knows Lance tables if it can."""
    import duckdb

    with opening_known():
        return duckdb.connect(*args, **kwargs)


def _define_functions(connection: duckdb.DuckDBPyConnection) -> None:
    for function in FUNCTIONS:
        connection.execute(function.statement)


def _is_our_function(message: str) -> bool:
    match = _NO_FUNCTION.search(message)
    return match is not None and match[1].lower() in BY_NAME
