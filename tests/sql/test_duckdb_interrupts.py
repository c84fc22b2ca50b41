"""Ctrl-C while DuckDB reads, in every read of a file: it comes out, and the connection goes on."""

from __future__ import annotations

from roads import needs_install, run_python

QUERY = """
import signal, time
# A job in the background of a shell ignores Ctrl-C, and so would this process.
signal.signal(signal.SIGINT, signal.default_int_handler)
from duckdb_adapter import version_cache
from lancefs.storage import open_files
opened, left = open_files.open_regular, None
def counted(*args, **kwargs):
    global left
    if left is not None:
        left -= 1
        if left < 0:
            left = None
            raise KeyboardInterrupt
    return opened(*args, **kwargs)
open_files.open_regular = counted
def wait_for_it():
    for _ in range(3000):  # an interrupt in a thread of DuckDB comes a little later
        time.sleep(0.01)
    raise SystemExit("no interrupt came")
query = f"SELECT count(*), sum(quantity), max(city) FROM '{ORDERS}'"
con = duckdb_adapter.connect()
expected = con.execute(query).fetchall()
for number in range(1000):
    version_cache.forget()  # its files are open
    con, left = duckdb_adapter.connect(), number
    try:
        con.execute(query).fetchall()
        if left is not None:
            break
        wait_for_it()
    except (duckdb.Error, RuntimeError) as error:
        try:
            if str(error) != "Query interrupted":  # DuckDB's own word for Ctrl-C
                wait_for_it()
        except KeyboardInterrupt:
            pass
    except KeyboardInterrupt:
        time.sleep(0.2)  # it comes once
    assert con.execute(query).fetchall() == expected
print(number)
"""


def test_a_connection_whose_query_was_interrupted_gives_the_same_rows() -> None:
    assert int(run_python(QUERY)) > 3


OPENING = """
import signal, time
signal.signal(signal.SIGALRM, signal.default_int_handler)
duckdb_adapter.install()
duckdb.connect().close()
for _ in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)  # most likely while DuckDB opens the database
        duckdb.connect().close()
        for _ in range(3000):  # it may come a little later
            time.sleep(0.01)
        raise SystemExit("no interrupt came")
    except KeyboardInterrupt:
        time.sleep(0.1)  # it comes once
with duckdb.connect() as con:
    print(con.execute(f"SELECT count(*) FROM '{ORDERS}'").fetchone()[0])
"""


@needs_install
def test_an_interrupt_while_a_database_is_opened_comes_out_as_one() -> None:
    assert int(run_python(OPENING)) > 0
