"""The ways to Lance tables in DuckDB, for tests that run on both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import _duckdb
import duckdb
import pyarrow as pa
import pytest
from support import NOT_INTERACTIVE, ORDERS, REPOSITORY

import duckdb_adapter
from lancefs.lance_dataset import LanceDataset

# Rows of the versions of the table of the demo: all orders; without the tests among them; with a
# column `total`, tagged `prod`; with three more.
ORDERS_ROWS = {1: 1200, 2: 1188, 3: 1188, 4: 1191}

HAS_EXTENSIONS = int(duckdb.__version__.split(".")[0]) >= 2

needs_install = pytest.mark.skipif(
    not HAS_EXTENSIONS, reason="this DuckDB has no interface for extensions from Python"
)


def not_in_2_0_0(reason: str) -> pytest.MarkDecorator:
    """Skip a test of what DuckDB 2.0.0 does otherwise than the releases after it.

    Args:
        reason: What it does, after the name of the release.
    """
    return pytest.mark.skipif(duckdb.__version__ == "2.0.0", reason=f"DuckDB 2.0.0 {reason}")


ROADS = ["install", "connect", "wrap"] if HAS_EXTENSIONS else ["wrap"]
# Those that differ in how DuckDB gets the rows.
INTERFACES = [road for road in ROADS if road != "connect"]
# For tests of all of them: with DuckDB 2.0, few people wrap a connection that is open.
EACH_ROAD = [
    pytest.param(road, marks=pytest.mark.slow) if road == "wrap" and HAS_EXTENSIONS else road
    for road in ROADS
]


def _first_of(road: str) -> pytest.MarkDecorator:
    slow = [pytest.param(other, marks=pytest.mark.slow) for other in INTERFACES[1:]]
    return pytest.mark.parametrize("con", [road, *slow], indirect=True)


# For statements by the dozen, which do not need each road: with DuckDB 2.0, `connect` gets the rows
# as `install` does, and hands statements over as `wrap` does. Queries leave nothing behind, and
# share a database.
EACH_DATABASE = _first_of(ROADS[0])
EACH_INTERFACE = _first_of("shared" if HAS_EXTENSIONS else ROADS[0])


def connect(road: str, *args: Any, **kwargs: Any) -> Any:
    """Open a database on which Lance tables work.

    Args:
        road: One of ROADS; or `shared` for a cursor of one database of this process, opened as by
            `install`, for queries that change neither it nor its settings. DuckDB takes 20 ms of
            processor time to open another one.
    """
    if road == "shared":
        return _shared_database().cursor()
    if road == "install":
        duckdb_adapter.install()
        return duckdb.connect(*args, **kwargs)
    if road == "connect":
        return duckdb_adapter.connect(*args, **kwargs)
    # Once installed, databases know our names by themselves, which is not what is to be tested.
    registration = getattr(_duckdb, "_lancefs_registration", None)
    if registration is None:
        return duckdb_adapter.wrap(duckdb.connect(*args, **kwargs))
    was_active, registration.active = registration.active, False
    try:
        return duckdb_adapter.wrap(duckdb.connect(*args, **kwargs))
    finally:
        registration.active = was_active


@cache
def _shared_database() -> Any:
    return connect("install")


def run_python(code: str) -> str:
    """Run code in a process of its own and return what it printed.

    The names `duckdb`, `duckdb_adapter` and `ORDERS` are there.
    """
    head = f"{NOT_INTERACTIVE}import duckdb, duckdb_adapter\nORDERS = {ORDERS!r}\n"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", head + code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip()


def note_scans(monkeypatch: pytest.MonkeyPatch, note: Callable[[dict[str, Any]], object]) -> None:
    """Have the arguments of each scan of a dataset noted before it is made.

    Args:
        monkeypatch: Ends it.
        note: Called with the arguments by their names.
    """
    scanner = LanceDataset.scanner

    def noted(self: LanceDataset, columns: Any = None, *args: Any, **options: Any) -> Any:
        note({"columns": columns, **options})
        return scanner(self, columns, *args, **options)

    monkeypatch.setattr(LanceDataset, "scanner", noted)


def scanned(reads: list[dict[str, Any]], run: Callable[[], object]) -> list[Any]:
    """Return the columns and filters of what a query reads.

    Args:
        reads: The fixture.
        run: Runs the query.
    """
    del reads[:]
    run()
    return [(list(read["columns"] or []), str(read.get("filter"))) for read in reads]


@contextmanager
def native_rows(rows: pa.Table) -> Iterator[Any]:
    """Open a database whose own table `native` has some rows, which tells the right answers."""
    connection = duckdb.connect()
    connection.register("rows", rows)
    connection.execute("CREATE TABLE native AS FROM rows")
    yield connection
    connection.close()


def with_wide_halves(rows: pa.Table) -> pa.Table:
    """Return rows with the column `half`, if any, as DuckDB has it, which knows no half floats."""
    if "half" not in rows.column_names:
        return rows
    half = rows["half"].cast(pa.float32())
    return rows.set_column(rows.schema.get_field_index("half"), "half", half)


def assert_same_rows(con: Any, native: Any, table: Path, query: str) -> None:
    """Check that a query finds the same in a Lance table and in DuckDB's own.

    Args:
        con: A connection on which Lance tables work.
        native: A connection to the table `native` of the same rows.
        table: The Lance table.
        query: SQL, in which `{t}` stands for the table.
    """
    expected = native.execute(query.format(t="native")).fetchall()
    assert con.execute(query.format(t=f"'{table}'")).fetchall() == expected, query


def assert_same_rows_under(setting: str, con: Any, native: Any, table: Path, query: str) -> None:
    """Check that a query finds the same under a setting, `name = value`; see `assert_same_rows`."""
    own = native.cursor()
    for connection in (con, own):
        connection.execute(f"SET {setting}")
    assert_same_rows(con, own, table, query)
    own.execute(f"RESET {setting.partition(' ')[0]}")


def write_logs(path: Path, rows: int, mode: str = "create") -> None:
    """Write a table of messages, with a struct and with times in no order."""
    import lance

    of_logs = pa.table(
        {
            "id": range(rows),
            "level": [("debug", "info", "error")[n % 3] for n in range(rows)],
            "message": [f"request {n}" for n in range(rows)],
            "req": [{"status": n % 5, "latency": -n} for n in range(rows)],
            "ts": pa.array([n * 7919 % rows for n in range(rows)], pa.timestamp("us")),
        }
    )
    lance.write_dataset(of_logs, str(path), mode=mode)


def assert_reads_each_time(
    native: Any, table: Path, reads: list[dict[str, Any]], query: str
) -> None:
    """Check that a query finds the same as in DuckDB's own table, and scans, whenever it is run.

    Args:
        native: As for `assert_same_rows`.
        table: The Lance table.
        reads: The fixture.
        query: SQL, in which `{t}` stands for the table.
    """
    con = connect("install")
    for _ in range(2):
        del reads[:]
        assert_same_rows(con, native, table, query)
        assert reads != []
