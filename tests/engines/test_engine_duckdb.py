"""DuckDB queries a dataset that is a variable, and pushes columns and filters into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from comparison import assert_same_table

import lancefs
from lancefs.filesystem import LanceFileSystem
from lancefs.lance_dataset import LanceDataset


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `scanner()` is asked for during a test."""
    seen: list[dict[str, Any]] = []
    scanner = LanceDataset.scanner

    def noted(self: LanceDataset, **kwargs: Any) -> Any:
        seen.append(kwargs)
        return scanner(self, **kwargs)

    monkeypatch.setattr(LanceDataset, "scanner", noted)
    return seen


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        yield con


def test_a_filter_and_a_projection_arrive(
    table: str, con: duckdb.DuckDBPyConnection, asked: list[dict[str, Any]]
) -> None:
    ds = lancefs.open(table)
    where = "id >= 2990 AND city = 'Lyon'"
    found = con.sql(f"SELECT cost FROM ds WHERE {where} ORDER BY cost").fetchall()
    expected = lance.dataset(table).to_table(filter=where)
    assert [cost for (cost,) in found] == expected["cost"].to_pylist() != []
    assert isinstance(ds, LanceDataset)
    (scan,) = [one for one in asked if one.get("filter") is not None]
    assert set(scan["columns"]) <= {"cost", "id", "city"}
    assert "cost" in scan["columns"]
    assert "2990" in str(scan["filter"])
    assert "Lyon" in str(scan["filter"])


def test_duckdb_reads_all_rows_and_types_of_a_dataset(
    table: str, con: duckdb.DuckDBPyConnection
) -> None:
    for version in (1, 2, 3, 4):
        ds = lancefs.open(table, version=version)
        found = con.sql("FROM ds").to_arrow_table()
        expected = lance.dataset(table, version=version).to_table()
        assert_same_table(found.cast(expected.schema), expected)
        assert ds.version == version


def test_versions_are_compared(table: str, con: duckdb.DuckDBPyConnection) -> None:
    old, new = lancefs.open(table, version=1), lancefs.open(table)
    gone = con.sql("SELECT count(*) FROM old WHERE id NOT IN (SELECT id FROM new)").fetchall()
    assert gone == [(600,)]
    assert (old.version, new.version) == (1, 4)


def test_the_default_connection_pushes_filters_into_a_dataset(
    table: str, asked: list[dict[str, Any]]
) -> None:
    ds = lancefs.open(table, version=2)
    assert duckdb.sql("FROM ds WHERE price < 1").fetchall()[:1] == [(1, "Lyon", 0.125)]
    assert any(one.get("filter") is not None for one in asked)
    assert ds.version == 2


def test_nulls_are_not_matched(table: str, con: duckdb.DuckDBPyConnection) -> None:
    ds = lancefs.open(table)
    expected = lance.dataset(table)
    for where in ("city IS NULL", "city <> 'Gent'", "city IN ('Gent', 'Porto')", "NOT (id > 5)"):
        found = con.sql(f"SELECT count(*) FROM ds WHERE {where}").fetchall()
        assert found == [(expected.count_rows(filter=where),)], where
    assert ds.version == 4


def test_aggregates_need_no_more_than_their_columns(
    table: str, con: duckdb.DuckDBPyConnection, asked: list[dict[str, Any]]
) -> None:
    ds = lancefs.open(table)
    assert con.sql("SELECT max(twice) FROM ds").fetchall() == [(2 * 2999,)]
    assert con.sql("SELECT count(*) FROM ds").fetchall() == [(2400,)]
    assert next(one["columns"] for one in asked if "columns" in one) == ["twice"]
    assert all(len(one["columns"]) == 1 for one in asked if "columns" in one)
    assert ds.version == 4


def test_a_stream_can_be_queried(table: str, con: duckdb.DuckDBPyConnection) -> None:
    with LanceFileSystem(fo=table).open("versions/2/columns/id.arrows") as file:
        reader = pa.ipc.open_stream(file)  # noqa: F841  (DuckDB finds it by its name)
        assert con.sql("SELECT count(*), min(id) FROM reader").fetchall() == [(2400, 1)]
