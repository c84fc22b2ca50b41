"""What must never happen: a crash, a trace left behind, a process that does not end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow.compute as pc
import pytest
from roads import EACH_ROAD, HAS_EXTENSIONS, ORDERS_ROWS, ROADS, connect, needs_install, run_python
from support import ORDERS, REPOSITORY

import duckdb_adapter
from duckdb_adapter import UnsupportedDuckDB


def test_nothing_is_left_among_the_callers_variables() -> None:
    """After success and failures of every kind, at the top of a module and in a function."""
    printed = run_python(
        """
import sys
def look():
    frame = sys._getframe(1)
    return {name for name in {**frame.f_globals, **frame.f_locals} if 'orders.lance' in name}
def query(con, text):
    try:
        con.execute(text).fetchall()
    except duckdb.Error:
        pass
    return look()
def everywhere(con):
    for text in (f"SELECT count(*) FROM '{ORDERS}'", f"SELECT nothing FROM '{ORDERS}'",
                 f"FROM '{ORDERS}@v9'", f"FROM '{ORDERS}' SELEC",
                 f"FROM lance_versions('{ORDERS}')",
                 f"SELECT 1/0 FROM '{ORDERS}' WHERE error('x') = 1"):
        yield from query(con, text)
if duckdb.__version__ >= "2":
    duckdb_adapter.install()
con = duckdb.connect() if duckdb.__version__ >= "2" else duckdb_adapter.connect()
assert not list(everywhere(con))
con.execute(f"SELECT count(*) FROM '{ORDERS}'").fetchall()
assert not look()
assert not con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
assert not con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal").fetchall()
print("clean")
"""
    )
    assert printed == "clean"


@pytest.mark.parametrize("road", EACH_ROAD)
@pytest.mark.parametrize("setting", ["enable_external_access", "python_enable_replacements"])
def test_settings_that_forbid_it_are_honoured(road: str, setting: str) -> None:
    con = connect(road)
    con.execute(f"SET {setting} = false")
    for query in (
        f"FROM '{ORDERS}'",
        f"FROM lance_scan('{ORDERS}')",
        f"CREATE VIEW orders AS FROM '{ORDERS}'",
    ):
        with pytest.raises(duckdb.CatalogException, match="does not exist"):
            con.execute(query)


@pytest.mark.parametrize("road", EACH_ROAD)
def test_a_result_that_is_fetched_outlives_the_look_at_another_table(road: str) -> None:
    con = connect(road)
    rows = con.execute("FROM range(100000)")
    assert rows.fetchone() == (0,)
    con.sql(f"SELECT count(*) FROM '{ORDERS}'")
    assert rows.fetchone() == (1,)


@pytest.mark.parametrize("road", EACH_ROAD)
def test_no_file_is_touched_where_that_is_forbidden(
    road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = connect(road)
    con.execute("SET enable_external_access = false")
    monkeypatch.setattr("duckdb_adapter.functions.find_table", lambda *_: pytest.fail("looked"))
    with pytest.raises(duckdb.CatalogException, match="does not exist"):
        con.execute(f"FROM '{ORDERS}'")


@needs_install
def test_installing_again_is_no_trap() -> None:
    """Again, after a reload, and from a second copy of the package: every later connect works."""
    printed = run_python(
        """
import importlib, importlib.util, sys
def count():
    return duckdb.connect().execute(f"SELECT count(*) FROM '{ORDERS}'").fetchone()[0]
duckdb_adapter.install()
duckdb_adapter.install(storage_options={"s3": {"anon": True}})
found = [count()]
for name in [name for name in sys.modules if name.startswith("duckdb_adapter")]:
    del sys.modules[name]
again = importlib.import_module("duckdb_adapter")
assert again is not duckdb_adapter
again.install()
found.append(count())
importlib.reload(again)
again.install()
found.append(count())
print(found)
"""
    )
    assert printed == str([ORDERS_ROWS[4]] * 3)


@needs_install
def test_what_the_extension_says_of_itself_outlives_the_call() -> None:
    """DuckDB reads the name after the callback, while other threads fill what memory is free."""
    printed = run_python(
        """
import ctypes, _duckdb
from duckdb_adapter import capi
duckdb_adapter.install()
said = capi.Descriptor(version=capi.DESCRIPTOR_VERSION)
assert _duckdb._lancefs_registration._describe(ctypes.byref(said)) == 0
others = [bytes([number % 7] * size) for number in range(5000) for size in range(5, 12)]
print(said.name, said.extension_version, said.api_version)
"""
    )
    assert printed == "b'lancefs' b'0.1.0' b'v2.0.0'"


@needs_install
def test_an_older_database_gets_its_names_from_wrap() -> None:
    printed = run_python(
        """
old = duckdb.connect()
duckdb_adapter.install()
try:
    old.execute(f"FROM '{ORDERS}'")
except duckdb.CatalogException:
    print("unknown", end=" ")
print(duckdb_adapter.wrap(old).execute(f"SELECT count(*) FROM '{ORDERS}'").fetchone()[0])
"""
    )
    assert printed == f"unknown {ORDERS_ROWS[4]}"


@needs_install
def test_an_unknown_duckdb_gets_a_clear_message() -> None:
    printed = run_python(
        """
duckdb.__version__ = "2.9.1"
try:
    duckdb_adapter.install()
except duckdb_adapter.UnsupportedDuckDB as error:
    print(error)
assert not duckdb.connect().execute(
    "SELECT * FROM duckdb_extensions() WHERE extension_name = 'lancefs'").fetchall()
"""
    )
    assert "this is 2.9.1" in printed
    assert "duckdb_adapter.connect()" in printed


@pytest.mark.skipif(len(ROADS) > 1, reason="this DuckDB can be extended")
def test_an_old_duckdb_gets_a_clear_message() -> None:
    with pytest.raises(UnsupportedDuckDB, match=r"duckdb_adapter\.connect\(\)"):
        duckdb_adapter.install()


@needs_install
def test_a_subinterpreter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters
    other = interpreters.create()
    try:
        monkeypatch.setattr(
            interpreters, "get_main", lambda: (other, 0) if sys.version_info >= (3, 13) else other
        )
        with pytest.raises(UnsupportedDuckDB, match="sub-interpreter"):
            duckdb_adapter.install()
    finally:
        interpreters.destroy(other)


def test_importing_the_package_does_not_import_duckdb() -> None:
    code = "import duckdb_adapter, sys; assert not {'duckdb', '_duckdb'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("road", ROADS[:2])
def test_a_forked_child_can_query(road: str) -> None:
    printed = run_python(
        f"""
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of any fork beside threads
connect = duckdb_adapter.connect
if {road!r} == "install":
    duckdb_adapter.install()
    connect = duckdb.connect
query = f"SELECT sum(quantity) FROM '{{ORDERS}}'"
before = connect(config={{"threads": 1}}).execute(query).fetchall()
child = os.fork()
if child == 0:
    after = connect(config={{"threads": 1}}).execute(query).fetchall()
    os._exit(0 if after == before else 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    assert printed == "0"


def test_threads_do_not_meet(con: Any) -> None:
    """Eight of them share one connection's database, and the variables of one module."""
    text = "SELECT count(*), sum(quantity) FROM '{}@v{}'"
    expected = {
        version: con.execute(text.format(ORDERS, version)).fetchone() for version in ORDERS_ROWS
    }
    wrong: list[object] = []

    def query(cursor: Any, version: int) -> None:
        for _ in range(20):
            found = cursor.execute(text.format(ORDERS, version)).fetchone()
            if found != expected[version]:
                wrong.append((version, found))

    threads = [
        threading.Thread(target=query, args=(con.cursor(), number % 4 + 1)) for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "kill"), reason="signals are needed")
@pytest.mark.parametrize("road", ROADS[:2])
def test_ctrl_c_while_a_table_is_opened_is_raised(road: str) -> None:
    printed = run_python(
        f"""
import os, signal, time
connect = duckdb_adapter.connect
if {road!r} == "install":
    duckdb_adapter.install()
    connect = duckdb.connect
import duckdb_adapter.functions as functions
def find_table(name, options):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
functions.find_table = find_table
con = connect()
try:
    con.execute(f"FROM '{{ORDERS}}'")
    time.sleep(1)
except KeyboardInterrupt:
    print("interrupted")
except duckdb.Error as error:
    try:
        time.sleep(1)
    except KeyboardInterrupt:
        print("interrupted")
"""
    )
    assert printed == "interrupted"


# Macros by the names of functions that lancefs uses itself.
MACROS = [
    "now() AS NULL::TIMESTAMPTZ",
    "current_setting(a) AS false",
    "current_query() AS 'SELECT 1'",
    "current_query_id() AS 5",
    "current_transaction_id() AS 5",
    "current_connection_id() AS 5",
    "concat_ws(a, b, c, d, e, f) AS 'nothing'",
    "epoch_us(a) AS 0",
    "replace(a, b, c) AS 'nothing'",
    "to_json(a) AS '{}'::JSON",
    "query(a) AS TABLE SELECT 7 AS number",
    "query_table(a) AS TABLE SELECT 7 AS number",
    "range(a) AS TABLE SELECT 7 AS number",
]


def test_macros_of_the_users_own_change_nothing(con: Any, tmp_path: Path) -> None:
    table = str(tmp_path / "t.lance")
    shutil.copytree(ORDERS, table)
    for macro in MACROS:
        con.execute(f"CREATE MACRO {macro}")
    paths = [f"'{table}'", f"lance_scan('{table}')", f"lance_scan('{table}', version := 2)"]
    for path, version in zip(paths, (4, 4, 2), strict=True):
        rows = lance.dataset(table, version).to_table()
        expected = rows.num_rows, pc.max(rows["order_id"]).as_py()
        assert con.execute(f"SELECT count(*), max(order_id) FROM {path}").fetchone() == expected
    con.execute(f"PREPARE p AS SELECT count(*) FROM '{table}'")
    con.execute("BEGIN")
    assert con.execute(f"SELECT count(*) FROM '{table}'").fetchone() == (ORDERS_ROWS[4],)
    lance.dataset(table).delete("true")
    assert con.execute(f"SELECT count(*) FROM '{table}'").fetchone() == (ORDERS_ROWS[4],)
    con.execute("COMMIT")
    assert con.execute(f"SELECT count(*) FROM '{table}'").fetchone() == (0,)
    if HAS_EXTENSIONS:  # else DuckDB does not look again for a statement without parameters
        assert con.execute("EXECUTE p").fetchone() == (0,)
