"""Changing a Lance table in SQL is refused, and makes nothing in DuckDB in its place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from roads import connect, needs_install
from support import ORDERS

CHANGES = {
    "INSERT INTO '{0}' SELECT * FROM '{0}'": "INSERT",
    "INSERT OR REPLACE INTO '{0}' VALUES (1)": "INSERT",
    "DELETE FROM '{0}' WHERE quantity > 1": "DELETE",
    "UPDATE '{0}' SET quantity = 1": "UPDATE",
    "TRUNCATE '{0}'": "DELETE",
    "CREATE TABLE '{0}' (a INT)": "CREATE",
    'CREATE OR REPLACE TABLE "{0}" AS SELECT 1 AS a': "CREATE",
    "/* one */ CREATE TEMP TABLE IF NOT EXISTS -- two\n '{0}' (a INT)": "CREATE",
}


@pytest.fixture
def table(tmp_path: Path) -> str:
    shutil.copytree(ORDERS, tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_with_a_sentence(table: str, change: str) -> None:
    con = connect("wrap")
    text = f"t.lance: lancefs only reads Lance tables, and refuses this {CHANGES[change]}"
    with pytest.raises(duckdb.InvalidInputException, match=text):
        con.execute(change.format(table))
    assert con.execute("SHOW ALL TABLES").fetchall() == []
    assert con.execute(f"SELECT count(*) FROM '{table}'").fetchone() == (1191,)


@pytest.mark.parametrize("name", ["new.lance", "s3://bucket/new.lance", "t.lance@v3"])
def test_a_table_with_the_name_of_a_lance_table_is_not_created(name: str) -> None:
    con = connect("wrap")
    with pytest.raises(duckdb.InvalidInputException, match="lancefs only reads"):
        con.execute(f"CREATE TABLE '{name}' AS SELECT 1 AS a")
    assert con.execute("SHOW ALL TABLES").fetchall() == []


@pytest.mark.parametrize("options", ["", " (HEADER);", " -- all\n;"])
def test_a_csv_file_with_the_name_of_a_lance_table_is_not_written(
    options: str, tmp_path: Path
) -> None:
    con, out = connect("wrap"), tmp_path / "new.lance"
    for method in (con.execute, con.sql):
        with pytest.raises(duckdb.InvalidInputException, match="and refuses this COPY"):
            method(f"COPY (SELECT 1 AS a) TO '{out}'{options}")
    assert not out.exists()
    for ending in (" (FORMAT csv)", " (HEADER, format CSV)"):
        con.execute(f"COPY (SELECT 1 AS a) TO '{out}'{ending}")
    con.execute(f"COPY (SELECT 'TO ''x.lance''' AS a) TO '{tmp_path}/lance.csv'")


def test_tables_of_duckdb_are_changed_as_always(con: Any, table: str) -> None:
    con.execute(f"CREATE TABLE mine AS FROM '{table}'")
    con.execute(f"INSERT INTO mine SELECT * FROM '{table}'")
    con.execute(f"DELETE FROM mine WHERE city IN (SELECT city FROM '{table}')")
    assert con.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    con.execute("CREATE TABLE \"create table 'x.lance'\" (a INT)")
    con.execute("CREATE VIEW \"v.lance\" AS SELECT 'CREATE TABLE ''x.lance''' AS a")
    assert con.execute('SELECT count(*) FROM "v.lance"').fetchone() == (1,)
    with pytest.raises(duckdb.CatalogException, match="nothing does not exist"):
        con.execute(f"INSERT INTO mine SELECT * FROM nothing, '{table}'")


@needs_install
def test_installed_names_are_not_changed_either(table: str) -> None:
    con = connect("install")
    for change in ("INSERT INTO '{0}' VALUES (1)", "DELETE FROM '{0}'", "UPDATE '{0}' SET a = 1"):
        with pytest.raises(duckdb.Error):
            con.execute(change.format(table))
    assert con.execute(f"SELECT count(*) FROM '{table}'").fetchone() == (1191,)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_pivot_makes_a_table_and_leaves_the_transaction_as_it_was(
    con: Any, table: str, is_open: bool
) -> None:
    """DuckDB makes several statements of it, which ask for the values of the column first."""
    pivot = f"PIVOT '{table}' ON tea USING sum(quantity) GROUP BY city ORDER BY city"
    expected = con.execute(pivot).fetchall()
    if is_open:
        con.execute("BEGIN")
        con.execute("CREATE TABLE earlier AS SELECT 1 AS a")
    con.execute(f"CREATE TABLE mine AS {pivot}")
    con.execute(f"INSERT INTO mine {pivot}")
    assert con.execute("SELECT DISTINCT * FROM mine ORDER BY city").fetchall() == expected
    assert con.execute("SELECT count(*) FROM mine").fetchone() == (2 * len(expected),)
    if is_open:
        con.execute("ROLLBACK")
        assert con.execute("SHOW TABLES").fetchall() == []
    failing = f"PIVOT '{table}' ON tea USING sum(city::INT) GROUP BY city"
    with pytest.raises(duckdb.ConversionException):
        con.execute(f"CREATE TABLE other AS {failing}")
    assert ("other",) not in con.execute("SHOW TABLES").fetchall()
    con.execute("BEGIN")
