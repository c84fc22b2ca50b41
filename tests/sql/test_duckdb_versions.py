"""Which version a query reads: one in a transaction, the newest in each new one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from roads import HAS_EXTENSIONS, ORDERS_ROWS, connect, needs_install
from support import ORDERS

from duckdb_adapter.bind_callback import parse_call
from duckdb_adapter.pinned_versions import Transactions
from duckdb_adapter.queries.parsing import MAX_TEXT


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1]}), path)
    return path


def add_row(table: str) -> None:
    lance.write_dataset(pa.table({"a": [0]}), table, mode="append")


def rows(con: Any, query: str) -> int:
    return int(con.execute(query).fetchone()[0])


PLACES = ["'{}'", "lance_scan('{}')", "lance_scan('{}', row_metadata := ['_rowid'])"]


@pytest.mark.parametrize("place", PLACES)
def test_a_transaction_reads_one_version(con: Any, table: str, place: str) -> None:
    query = f"SELECT count(*) FROM {place.format(table)}"
    con.execute("BEGIN")
    assert rows(con, query) == 1
    add_row(table)
    assert rows(con, query) == 1
    assert rows(con, f"SELECT count(*) FROM 'file://{table}'") == 1
    assert rows(con, f"SELECT count(*) FROM '{table}@latest'") == 1
    assert rows(con, f"SELECT count(*) FROM '{table}@v2'") == 2
    con.execute("COMMIT")
    assert rows(con, query) == 2


def test_a_transaction_does_not_read_a_table_that_was_made_anew(con: Any, table: str) -> None:
    query = f"SELECT count(*) FROM '{table}'"
    con.execute("BEGIN")
    assert rows(con, query) == 1
    shutil.rmtree(table)
    lance.write_dataset(pa.table({"a": [1, 2]}), table)  # version 1 again
    try:
        told = f"{rows(con, query)} row"  # the version may still be open
    except duckdb.InvalidInputException as error:
        told = str(error)
    assert told == "1 row" or "made anew since this transaction" in told
    con.execute("ROLLBACK")
    assert rows(con, query) == 2


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "/* over */ end", "ABORT"])
def test_a_transaction_ends_in_any_way(con: Any, table: str, end: str) -> None:
    con.execute(f"-- now\nSTART TRANSACTION; SELECT count(*) FROM '{table}'")
    add_row(table)
    assert rows(con, f"SELECT count(*) FROM '{table}'") == 1
    con.execute(end)
    assert rows(con, f"SELECT count(*) FROM '{table}'") == 2
    con.begin()
    add_row(table)
    assert rows(con, f"SELECT count(*) FROM '{table}'") == 3
    add_row(table)
    assert rows(con, f"SELECT count(*) FROM '{table}'") == 3
    con.rollback()
    assert rows(con, f"SELECT count(*) FROM '{table}'") == 4


def test_each_connection_is_in_its_own_transaction(con: Any, table: str) -> None:
    query = f"SELECT count(*) FROM '{table}'"
    con.execute("BEGIN")
    assert rows(con, query) == 1
    add_row(table)
    with con.cursor() as other:
        other.execute("BEGIN")
        assert rows(other, query) == 2
        add_row(table)
        assert (rows(con, query), rows(other, query)) == (1, 2)


def test_a_table_that_is_named_twice_is_one_version(
    con: Any, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duckdb_adapter import open_names

    opened = open_names.open_cached

    def open_and_write(*args: Any, **kwargs: Any) -> Any:
        version = opened(*args, **kwargs)
        add_row(table)
        return version

    monkeypatch.setattr(open_names, "open_cached", open_and_write)
    query = f"""
        SELECT (SELECT count(*) FROM '{table}'), (SELECT count(*) FROM '{table}/'),
            (SELECT count(*) FROM 'file://{table}'), (SELECT count(*) FROM lance_scan('{table}'))
    """
    assert len(set(con.execute(query).fetchone())) == 1


def assert_follows_versions(con: Any, table: str, counting: str) -> None:
    """Check that a statement counts the rows of the newest version, of one in a transaction."""
    assert rows(con, counting) == 1
    add_row(table)
    assert rows(con, counting) == 2
    con.execute("BEGIN")
    assert rows(con, counting) == 2
    add_row(table)
    assert rows(con, counting) == 2
    con.execute("COMMIT")
    assert rows(con, counting) == 3


@pytest.mark.parametrize("place", PLACES)
def test_a_prepared_statement_reads_the_newest_version_when_it_is_run(
    con: Any, table: str, place: str
) -> None:
    con.execute(f"PREPARE counted AS SELECT count(*) FROM {place.format(table)} WHERE a >= $1")
    assert_follows_versions(con, table, "EXECUTE counted(0)")
    assert rows(con, "EXECUTE counted(1)") == 1


def test_a_prepared_statement_without_parameters_reads_the_newest_version(
    con: Any, table: str
) -> None:
    con.execute(f"PREPARE counted AS SELECT count(*) FROM '{table}'")
    assert_follows_versions(con, table, "EXECUTE counted")


def test_a_view_reads_the_newest_version_and_one_in_a_transaction(con: Any, table: str) -> None:
    con.execute(f"CREATE VIEW v AS FROM '{table}'")
    con.execute("PREPARE counted AS SELECT count(*) FROM v")
    add_row(table)
    assert rows(con, "SELECT count(*) FROM v") == rows(con, "EXECUTE counted") == 2
    con.execute("BEGIN")
    assert rows(con, "SELECT count(*) FROM v") == 2
    add_row(table)
    assert rows(con, "SELECT count(*) FROM v") == rows(con, "EXECUTE counted") == 2
    con.execute("COMMIT")
    assert rows(con, "EXECUTE counted") == 3


def test_a_prepared_statement_follows_columns_that_are_added(con: Any, table: str) -> None:
    con.execute(f"PREPARE everything AS SELECT a.* FROM '{table}' AS a")
    assert con.execute("EXECUTE everything").fetchall() == [(1,)]
    lance.dataset(table).add_columns({"b": "a + 1"})
    assert con.execute("SELECT count(b) FROM (FROM '" + table + "')").fetchone() == (1,)


def test_a_relation_keeps_the_version_of_its_creation(con: Any, table: str) -> None:
    relation = con.sql(f"SELECT count(*) FROM '{table}'")
    add_row(table)
    assert relation.fetchall() == [(1,)]


@pytest.mark.skipif(not HAS_EXTENSIONS, reason="this DuckDB has no interface for extensions")
def test_databases_do_not_share_transactions(tmp_path: Path) -> None:
    """Even if their connections and transactions have the same numbers."""
    table = str(tmp_path / "t.lance")
    shutil.copytree(ORDERS, table)
    query = f"SELECT count(*) FROM '{table}'"
    one, two = connect("install"), connect("install")
    one.execute("BEGIN")
    before = rows(one, query)
    lance.dataset(table).delete("true")
    two.execute("BEGIN")
    assert (rows(one, query), rows(two, query)) == (before, 0)


def test_the_transaction_of_a_connection_is_remembered_and_the_last_ones_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("duckdb_adapter.pinned_versions._MAX_CONNECTIONS", 3)
    known = Transactions()

    def pins(connection: int, transaction: int) -> object:
        call = parse_call(f"{transaction} {connection} 99 5 FROM t")
        assert call is not None
        assert call.statement == "FROM t"
        return known.bind(7, call, "t")[0]

    first = pins(1, 10)
    assert pins(1, 10) is first
    assert pins(1, 11) is not first
    assert pins(1, 10) is not first
    last = pins(1, 10)
    for connection in (2, 3):
        pins(connection, 1)
    assert pins(1, 10) is last
    for connection in (4, 5, 6):
        pins(connection, 1)
    assert pins(1, 10) is not last


@needs_install
@pytest.mark.parametrize(
    "query",
    [
        "FROM _lancefs_replacement()",
        "SELECT _lancefs_bind('2 3 4 5 FROM t')",
        "SELECT _lancefs_bind('orders.lance')",
        "SELECT _lancefs_bind(NULL)",
        "SELECT _lancefs_bind(n::VARCHAR) FROM range(5) AS t(n)",
    ],
)
def test_a_function_of_lancefs_that_is_called_by_hand_says_so(query: str) -> None:
    con = connect("shared")
    with pytest.raises(duckdb.Error, match="called by lancefs, for names that it was asked for"):
        con.execute(query)
    assert rows(con, f"SELECT count(*) FROM '{ORDERS}'") == ORDERS_ROWS[4]


def test_of_a_long_statement_is_told_that_it_is_long() -> None:
    call = parse_call("2 3 4 5 " + "x" * (MAX_TEXT + 10))
    assert call is not None
    assert len(call.statement) == MAX_TEXT + 1


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("AT (VERSION => 1)", "write '{0}@v7' or lance_scan('{0}', version := 7)"),
        ("at(timestamp=>now())", "write lance_scan('{0}', as_of := TIMESTAMP '2030-"),
        ("/* then */ AS t AT -- ?\n (VERSION => 1)", "lance_scan('{0}', version := 7)"),
    ],
)
def test_a_version_in_duckdbs_words_is_told_in_ours(table: str, asked: str, told: str) -> None:
    con = connect("wrap")
    with pytest.raises(duckdb.Error, match=re.escape(told.format(table))):
        con.execute(f"SELECT count(*) FROM '{table}' {asked}")
    assert rows(con, f"SELECT count(*) FROM '{table}@v1'") == 1


def test_other_tables_at_a_version_are_duckdbs_trouble(table: str) -> None:
    con = connect("wrap")
    con.execute("CREATE TABLE own AS SELECT 1 AS a")
    with pytest.raises(duckdb.Error, match="Catalog type does not support time travel"):
        con.execute(f"SELECT * FROM own AT (VERSION => 1), '{table}'")
    with pytest.raises(duckdb.Error, match="there is no Lance table of this name"):
        con.execute("SELECT * FROM 'missing.lance' AT (VERSION => 1)")
