"""`install`, and the DuckDB databases that it has extended.

DuckDB 2.0 asks the extension of `registration` for names. All databases that are opened after
`install` have it, and those that `connect` and `lancefs.sql` open.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from duckdb_adapter.capi import Api
from duckdb_adapter.functions import FUNCTIONS
from duckdb_adapter.lakes import Lake, place_of
from duckdb_adapter.queries.parsing import parse_soon
from duckdb_adapter.registration import WHICH, Registration, wanting_names
from duckdb_adapter.releases import UnsupportedDuckDB, require_known_api
from duckdb_adapter.replacement_scan import Claim, ReplacementScan
from duckdb_adapter.storage import Storage
from lancefs.arguments import options_of
from lancefs.table.base_paths import BaseRules, as_rules

if TYPE_CHECKING:
    import duckdb

_log = logging.getLogger("duckdb_adapter")

# Where the registration is kept: on DuckDB's module, which is loaded once in a process.
_HOME = "_lancefs_registration"

# Folders that are attached, by the database and their names in lower case.
_lakes: dict[tuple[int, str], Lake] = {}
_scan = ReplacementScan()

_NO_CONNECTION = (
    ": install() takes no connection and comes before duckdb.connect(); over a connection that is "
    "open, there is duckdb_adapter.wrap(connection)"
)


def install(
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | Mapping[str, Any] | None = None,
    use_index: bool = True,
) -> None:
    """Have every database that is opened from now on know Lance tables.

    Call it once in a process, before `duckdb.connect()`; the module's default connection is opened
    when it is first used. Calling it again changes the storage options, also for databases that are
    open.

    Args:
        storage_options: For fsspec, such as credentials; or one such mapping for each protocol, as
            in `{"s3": {"anon": True}}`.
        base_rules: Which base paths of manifests are followed: `lancefs.BaseRules`, or its fields.
        use_index: Whether filters may be looked up in the indices of tables.

    Raises:
        TypeError: `storage_options` is no mapping, but a connection, for instance.
        UnsupportedDuckDB: DuckDB is older than 2.0, or newer than what this release knows;
            `connect` and `wrap` work with it all the same.
    """
    options = options_of(storage_options, hint=_NO_CONNECTION)
    registration = _registered()
    registration.storage = Storage(options, as_rules(base_rules), use_index)
    registration.active = True
    parse_soon()


@contextmanager
def opening_known() -> Iterator[None]:
    """Have databases that this thread opens in the context know Lance tables, where they can.

    With DuckDB before 2.0, and in sub-interpreters, they cannot.
    """
    try:
        _registered()
    except UnsupportedDuckDB as error:
        _log.debug("databases do not know Lance tables by themselves: %s", error)
    parse_soon()
    with wanting_names():
        yield


def number_of(connection: duckdb.DuckDBPyConnection) -> int | None:
    """Return the number of the database of a connection; None where it does not know our names."""
    import _duckdb
    import duckdb

    if getattr(_duckdb, _HOME, None) is None:
        return None
    # A transaction would be given up if the name were unknown.
    with connection.cursor() as other, suppress(duckdb.CatalogException):
        row = other.execute(f'FROM "{WHICH}"').fetchone()
        return None if row is None else int(row[0])
    return None


def installed_storage() -> Storage:
    """Return the storage that `install` was given; without options where it was not called."""
    import _duckdb

    registration: Registration | None = getattr(_duckdb, _HOME, None)
    return Storage({}) if registration is None else registration.storage


def remember_lake(connection: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    """Have tables found by name that are added to a folder after it was attached."""
    number = number_of(connection)
    if number is not None:
        _lakes[number, lake.name.lower()] = lake


def _registered() -> Registration:
    """Return the extension of this process, which is registered when it is first asked for.

    Raises:
        UnsupportedDuckDB: It cannot be.
    """
    _require_main_interpreter()
    import _duckdb

    registration: Registration | None = getattr(_duckdb, _HOME, None)
    if registration is None:
        require_known_api()
        registration = Registration(Api(_duckdb.__file__))
        registration.register()
        setattr(_duckdb, _HOME, registration)
    registration.functions = FUNCTIONS
    registration.resolve, registration.bind = _resolve, _scan.bind
    return registration


def _resolve(storage: Storage, name: Sequence[str], database: int) -> Claim | None:
    """Claim a name in a database, which is given by its number."""
    if len(name) == 1:
        return _scan.resolve(name[0], database, storage)
    schema, table = place_of(name)
    lake = _lakes.get((database, schema.lower()))
    query = None if lake is None else lake.find(table)
    return None if query is None else Claim(table, query)


def _require_main_interpreter() -> None:
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters

        is_main = interpreters.get_current()[0] == interpreters.get_main()[0]
    else:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]

        is_main = interpreters.get_current() == interpreters.get_main()
    if not is_main:
        raise UnsupportedDuckDB(
            "duckdb_adapter.install() was called in a sub-interpreter, which DuckDB cannot call "
            "back; call it in the main interpreter"
        )
