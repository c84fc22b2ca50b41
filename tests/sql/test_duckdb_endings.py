"""However a query ends, nothing is left of it: no crash, no thread, no file, no memory."""

from __future__ import annotations

import gc
import inspect
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from leaks import open_files, own_threads_since
from roads import HAS_EXTENSIONS, ORDERS_ROWS, ROADS, needs_install, run_python
from support import ORDERS

import duckdb_adapter
from lancefs.lance_dataset import LanceDataset

ROWS = 1_000_000
SUM = f"SELECT sum(quantity) FROM '{ORDERS}'"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of many batches, so that there is something left to read of it."""
    lance = pytest.importorskip("lance")
    url = str(tmp_path_factory.mktemp("tables") / "long.lance")
    texts = pa.array([f"row {number}" for number in range(ROWS)])
    table = pa.table({"a": range(ROWS), "text": texts})
    lance.write_dataset(table, url, max_rows_per_file=300_000)
    return url


@contextmanager
def interrupting(connection: Any) -> Iterator[None]:
    """Interrupt a query again and again: once is too early where DuckDB has not begun to run it."""
    over = threading.Event()

    def press() -> None:
        while not over.wait(0.3):
            connection.interrupt()

    thread = threading.Thread(target=press)
    thread.start()
    try:
        with suppress(duckdb.InterruptException):
            yield
    finally:
        over.set()
        thread.join()


# A process that is in one of these states, and ends. `query` reads the long table, `slow` does not
# end by itself, `run` runs a query in the background and `read` makes a relation an Arrow stream.
PRELUDE = """
import _thread, gc, os, signal, sys, threading, time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
ROAD, LONG = {road!r}, {long!r}
connect = duckdb_adapter.connect
if ROAD == "install":
    duckdb_adapter.install()
    connect = duckdb.connect
con = connect()
query = f"SELECT a, text FROM '{{LONG}}'"
slow = f"SELECT sum(hash(text, r)) FROM '{{LONG}}', range(10000) AS t(r)"
def run(connection, text, daemon=True):
    def work():
        try:
            connection.execute(text).fetchall()
        except (duckdb.Error, RuntimeError):
            pass
    thread = threading.Thread(target=work, daemon=daemon)
    thread.start()
    time.sleep(0.3)
    return thread
def read(relation, rows):
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return reader(rows)
""" + inspect.getsource(interrupting)
CHECK = """
assert con.execute(f"SELECT count(*), sum(a) FROM '{LONG}'").fetchone() == (1000000, 499999500000)
"""
# What the process does -> whether the connection still answers afterwards.
STATES = {
    "nothing": ("pass", True),
    "a query that was read to its end": ("con.execute(query).fetchall()", True),
    "a result with rows left": ("result = con.execute(query); result.fetchmany(3)", True),
    "a query that was abandoned for another": (
        "con.execute(query).fetchmany(3); con.execute('SELECT 1').fetchall()",
        True,
    ),
    "a relation that was never read": ("relation = con.sql(query)", True),
    "a stream with batches left": (
        "reader = read(con.sql(query), 10); reader.read_next_batch()",
        False,
    ),
    "a connection closed with rows left": (
        "result = con.execute(query); result.fetchmany(3); con.close()",
        False,
    ),
    "a connection closed below a stream": (
        "reader = read(con.sql(query), 10); reader.read_next_batch(); con.close()",
        False,
    ),
    "a cursor with rows left, of a closed connection": (
        "other = con.cursor(); other.execute(query).fetchmany(3); con.close()",
        False,
    ),
    "a connection dropped with rows left": (
        "con.execute(query).fetchmany(3); del con; gc.collect(); con = connect()",
        True,
    ),
    "an interrupted query": (
        "with interrupting(con):\n    con.execute(slow)\n    sys.exit('not interrupted')",
        True,
    ),
    # DuckDB itself looks for it between the pieces of a query at best, so that one long query may
    # go on; but where it arrives in code of ours, it must come out, and not as DuckDB's error. One
    # that arrives while DuckDB looks for what an object can do is lost: who waits for nothing to
    # happen presses again.
    "Ctrl-C among queries": (
        "import warnings; warnings.simplefilter('ignore', ResourceWarning)\n"
        # A shell has what it runs in the background ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "out = threading.Event()\n"
        "def press():\n"
        "    while not out.wait(0.7):\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=press, daemon=True).start()\n"
        "try:\n"
        "    for _ in range(2000):\n"
        "        try:\n            con.execute(f\"SELECT sum(a) FROM '{LONG}'\").fetchall()\n"
        "        except duckdb.Error:\n            time.sleep(1)\n"
        "    sys.exit('not interrupted')\n"
        "except (KeyboardInterrupt, RuntimeError):\n    out.set()  # the latter is DuckDB's\n",
        True,
    ),
    "a query that failed half-way": (
        "try:\n"
        "    con.execute(f\"SELECT if(a = 900000, error('no'), a) FROM '{LONG}'\").fetchall()\n"
        "    sys.exit('did not fail')\n"
        "except duckdb.Error:\n    pass",
        True,
    ),
    "a query interrupted in a thread": (
        "thread = run(con, slow)\nwhile thread.is_alive():\n    con.interrupt(); thread.join(0.1)",
        True,
    ),
    "results kept by the module": (
        "sys.modules['keeper'] = type(sys)('keeper'); import keeper\n"
        "keeper.result = con.execute(query); keeper.result.fetchone()\n"
        "keeper.other = connect()\n"
        "keeper.reader = read(keeper.other.sql(query), 10); keeper.reader.read_next_batch()",
        False,
    ),
    "an exit without clean-up": ("con.execute(query).fetchmany(3); os._exit(0)", False),
    "an exit by an exception": ("con.execute(query).fetchmany(3); sys.exit(0)", False),
}
OPENED = ROADS[:2]  # a process wraps a connection that is open as `connect` does
QUICK = ("a result with rows left", "a connection closed with rows left", "an interrupted query")


def end_in(state: str, road: str, long: str) -> None:
    code, still_answers = STATES[state]
    run_python(PRELUDE.format(road=road, long=long) + code + (CHECK if still_answers else ""))


@pytest.mark.parametrize("state", QUICK)
def test_a_process_ends_well(state: str, long: str) -> None:
    end_in(state, ROADS[0], long)


@pytest.mark.slow
@pytest.mark.parametrize("road", OPENED)
@pytest.mark.parametrize("state", STATES)
def test_a_process_ends_well_in_every_state(state: str, road: str, long: str) -> None:
    end_in(state, road, long)


def test_an_interrupt_before_the_first_line_of_a_callback_is_handled() -> None:
    """No bytecode runs between the signal and the callback, as where it arrives in DuckDB."""
    run_python(
        """
import ctypes, signal
from functools import partial
from operator import call
from duckdb_adapter.interrupts import catch_early
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
interrupt = ctypes.pythonapi.PyErr_SetInterrupt
handled = []
def callback(slot):
    handled.append("called")
catch_early([callback.__code__], lambda given, error: handled.append((given["slot"], repr(error))))
function = partial(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(callback), 7)
list(map(call, [function, interrupt, function, function]))
assert handled == ["called", (7, "KeyboardInterrupt()"), "called"], handled
"""
    )


@needs_install
def test_an_interrupt_before_an_answer_fails_the_statement() -> None:
    """DuckDB would read an answer that nobody gave from memory that nobody has written."""
    run_python(
        """
import ctypes, sys, threading, _duckdb
from functools import partial
from operator import call
duckdb_adapter.install()
registration = _duckdb._lancefs_registration
told = []
registration._api.set_error = lambda slot, message: told.append((slot, message))
functions = [registration._bind, registration._scan]
given = [partial(one, 1, 2, 3) for one in functions]
interrupt = ctypes.pythonapi.PyErr_SetInterrupt
try:
    list(map(call, [interrupt, given[0], interrupt, given[1]]))
    threading.Event().wait(10)
    sys.exit("lost")
except KeyboardInterrupt:
    pass
assert told == [(3, "interrupted")] * 2, told
"""
    )


@pytest.mark.slow
@pytest.mark.parametrize("road", OPENED)
def test_a_process_waits_for_threads_that_query(road: str, long: str) -> None:
    """As it does for all threads but daemons, at which DuckDB aborts over its own tables too."""
    scan = "SELECT sum(x.a + y.a) FROM '{LONG}' x JOIN '{LONG}' y USING (text)"
    code = f'for _ in range(4):\n    run(con.cursor(), f"{scan}", daemon=False)\n'
    run_python(PRELUDE.format(road=road, long=long) + code)


def test_a_connection_that_the_caller_opened_outlives_its_wrapper() -> None:
    connection = duckdb.connect()
    assert duckdb_adapter.wrap(connection).execute(SUM).fetchall()
    gc.collect()
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_the_default_connection_outlives_its_wrapper() -> None:
    run_python(
        "import gc\n"
        "duckdb_adapter.connect(':default:').execute('SELECT 1').fetchall()\n"
        "gc.collect()\n"
        "assert duckdb.execute('SELECT 2').fetchall() == [(2,)]\n"
    )


@pytest.mark.parametrize(
    "opened", ["duckdb_adapter.connect()", "duckdb_adapter.wrap(duckdb.connect())"]
)
def test_a_connection_can_be_dropped_while_rows_are_left(opened: str, long: str) -> None:
    run_python(
        "import gc\nfor _ in range(3):\n"
        f"    {opened}.execute(\"SELECT a, text FROM '{long}'\").fetchmany(3); gc.collect()\n"
    )


def test_threads_can_drop_cursors_of_which_they_fetched_a_row() -> None:
    """DuckDB before 2.0 waits with the interpreter locked for its threads, which may need it."""
    run_python(
        f"""
import threading
connect = duckdb_adapter.connect
con = connect()
def query(cursor):
    for _ in range(20):
        cursor.execute("{SUM}").fetchone()
for _ in range({2 if HAS_EXTENSIONS else 8}):
    threads = [threading.Thread(target=query, args=(con.cursor(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
    )


@pytest.mark.skipif(
    duckdb.__version__ < "1.5", reason="relations of DuckDB 1.4 need their connection"
)
def test_a_relation_outlives_the_connection_that_made_it() -> None:
    run_python(
        "import gc\n"
        f'relation = duckdb_adapter.connect().sql("{SUM}")\n'
        "gc.collect()\n"
        f'assert relation.fetchall() == duckdb_adapter.connect().execute("{SUM}").fetchall()\n'
    )


def test_an_interrupted_query_leaves_the_connection_usable(con: Any, long: str) -> None:
    with interrupting(con):
        con.execute(f"SELECT count(*) FROM '{long}' x, '{long}' y WHERE x.a + y.a < 0").fetchall()
        pytest.fail("not interrupted")
    assert con.execute(f"SELECT count(*) FROM '{ORDERS}'").fetchone() == (ORDERS_ROWS[4],)


def alive() -> int:
    gc.collect()
    return sum(isinstance(one, LanceDataset) for one in gc.get_objects())


def test_abandoned_queries_hold_no_memory(con: Any) -> None:
    """Datasets are gone when the queries that read them are."""
    con.execute(SUM).fetchall()
    before = alive()
    for _ in range(20):
        con.execute(f"FROM '{ORDERS}'")
        con.execute(SUM).fetchall()
    con.execute("SELECT 1").fetchall()
    assert alive() <= before + 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be counted here")
def test_abandoned_queries_hold_no_thread_and_no_file(con: Any, long: str) -> None:
    before = threading.enumerate()
    for _ in range(10):
        con.execute(f"SELECT a, text FROM '{long}'").fetchmany(3)
        con.execute(f"SELECT a FROM '{long}' LIMIT 1").fetchall()
    con.execute("SELECT 1").fetchall()
    gc.collect()
    give_up = time.monotonic() + 20  # DuckDB's threads may be a little behind
    while time.monotonic() < give_up and (own_threads_since(before) or open_files(long)):
        time.sleep(0.05)
    assert own_threads_since(before) == open_files(long) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("road", OPENED)
def test_five_hundred_queries_hold_their_memory(road: str, long: str) -> None:
    """Also those that were not read to their end, and those that failed."""
    printed = run_python(
        PRELUDE.format(road=road, long=long)
        + """
from pathlib import Path
def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
for number in range(600):
    con.execute(f"SELECT city, sum(quantity) FROM '{ORDERS}' GROUP BY 1").fetchall()
    con.execute(f"SELECT city, price FROM '{ORDERS}@v{number % 4 + 1}'").fetchmany(3)
    con.execute(f"FROM lance_versions('{ORDERS}')").fetchmany(1)
    con.execute(f"SELECT a FROM '{LONG}' LIMIT 10").fetchall()
    try:
        con.execute(f"SELECT 1 / 0, error(city) FROM '{ORDERS}'").fetchall()
    except duckdb.Error:
        pass
    if number == 100:
        before = resident()
print((resident() - before) // 2**20)
"""
    )
    assert int(printed) < 20
