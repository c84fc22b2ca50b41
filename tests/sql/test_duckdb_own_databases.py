"""Databases that lancefs opens for itself: ahead of their use, once in a process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import duckdb
import pytest

from duckdb_adapter.own_databases import OwnDatabase
from duckdb_adapter.queries import parsing


def test_a_database_is_opened_once_ahead_of_its_use() -> None:
    opened, may_open = [], threading.Event()

    def open_database() -> duckdb.DuckDBPyConnection:
        assert may_open.wait(60)
        opened.append(threading.current_thread().name)
        return duckdb.connect()

    database = OwnDatabase(open_database)
    database.open_ahead()
    database.open_ahead()
    may_open.set()
    with database.cursor() as cursor:  # waits for the thread
        assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    assert opened == ["lancefs-database"]


def test_who_needs_a_database_that_could_not_be_opened_is_told_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def open_database() -> duckdb.DuckDBPyConnection:
        raise duckdb.IOException("no memory for a database")

    database = OwnDatabase(open_database)
    with caplog.at_level(logging.DEBUG, "duckdb_adapter"):
        database.open_ahead()
        with pytest.raises(duckdb.IOException, match="no memory for a database"):
            database.cursor()
        for thread in threading.enumerate():
            if thread.name == "lancefs-database":
                thread.join()
    assert "could not be opened ahead: no memory for a database" in caplog.text


def test_where_no_thread_starts_the_first_user_opens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    database = OwnDatabase(duckdb.connect)
    monkeypatch.setattr(threading.Thread, "start", start)
    database.open_ahead()
    monkeypatch.undo()
    with database.cursor() as cursor:
        assert cursor.execute("SELECT 2").fetchall() == [(2,)]


FORKS = """
import os, sys
import duckdb_adapter
from duckdb_adapter.queries import parsing

for number in range(5):
    connection = duckdb_adapter.connect()
    if number % 2:  # the parent parses too, and its child may not use that connection
        assert parsing.parse(f"SELECT {number}") is not None
    child = os.fork()
    if child == 0:
        found = parsing.parse("SELECT 100")
        os._exit(0 if found is not None and found["type"] == "SELECT_NODE" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    parsing._database._opened_ahead.clear()
    parsing._database._opened.clear()
    parsing._parser._connections.clear()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_waits_for_the_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_a_process_may_end_at_once() -> None:
    code = "import duckdb_adapter; duckdb_adapter.connect()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_statements_are_parsed_where_nothing_was_opened_ahead() -> None:
    node = parsing.parse("SELECT a FROM t WHERE b = 3")
    assert node is not None
    assert node["type"] == "SELECT_NODE"


def test_threads_parse_side_by_side() -> None:
    def names(thread: int) -> list[str]:
        texts = [f"SELECT a{thread}_{number} FROM t" for number in range(50)]
        return [parsing.parse(text)["select_list"][0]["column_names"][0] for text in texts]

    with ThreadPoolExecutor(8) as pool:
        for thread, found in enumerate(pool.map(names, range(8))):
            assert found == [f"a{thread}_{number}" for number in range(50)]


def test_a_database_that_cannot_parse_costs_the_rewrites_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> NoReturn:
        raise duckdb.CatalogException("no json_serialize_sql: SELECT 'secret'")

    parsing._say_unparsed.cache_clear()
    monkeypatch.setattr(parsing, "_database", OwnDatabase(fail))
    # That of this thread has parsed already.
    monkeypatch.setattr(parsing, "_parser", parsing._ThreadParser())
    with caplog.at_level(logging.WARNING, "duckdb_adapter"):
        assert parsing.parse("SELECT 17 AS not_parsed") is None
        assert parsing.parse("SELECT 18 AS not_parsed") is None
        assert parsing.parse("SELEC") is None
    (message,) = caplog.messages
    assert "CatalogException" in message
    assert "secret" not in message
