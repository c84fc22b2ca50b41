"""Conditions of `--where`: what they keep, and what is said of those that are none."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import duckdb
import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancefs
from lancefs.cli.exits import Failure
from lancefs.cli.predicate import parse_predicate
from lancefs.errors import ColumnNotFound
from lancefs.lance_dataset import LanceDataset

START = datetime(2026, 1, 1, tzinfo=UTC)
N = 40


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(N), pa.int32()),
            "price": pa.array(
                [Decimal(i) / 4 if i % 5 else None for i in range(N)], pa.decimal128(8, 2)
            ),
            "x": pa.array([i / 8 for i in range(N)]),
            "city": pa.array([["Gent", "Lyon", "L'Île", None][i % 4] for i in range(N)]),
            "day": pa.array([date(2026, 1, 1) + timedelta(days=i) for i in range(N)]),
            "at": pa.array(
                [START + timedelta(hours=i) for i in range(N)], pa.timestamp("us", "UTC")
            ),
            "gift": pa.array([[True, False, None][i % 3] for i in range(N)]),
            "odd name": pa.array(range(N)),
            "order": pa.array(range(N)),
            "user": pa.array([{"age": i} for i in range(N)], pa.struct([("age", pa.int64())])),
        }
    )


@pytest.fixture(scope="module")
def table(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    path = tmp_path_factory.mktemp("where") / "t.lance"
    lance.write_dataset(rows, path)
    return lancefs.open(path)


def kept(table: LanceDataset, text: str) -> list[int]:
    expression = parse_predicate(text, table.manifest.fields)
    ids: list[int] = table.to_table(columns=["id"], filter=expression)["id"].to_pylist()
    return ids


CONDITIONS = [
    "price > 3",
    "price > 3.125",
    "price = 2.5",
    "price <> 2.5",
    "3 < price",
    "x >= 1e0 and x < 2",
    "id > 3.5",
    "id = -1",
    "city = 'Gent'",
    "city = 'L''Île'",
    "city != 'Lyon' and price is not null",
    "city is null or id in (1, 2, 3)",
    "not city in ('Gent', 'Lyon')",
    "city not in ('Gent')",
    "city like 'L%'",
    "city not like '%on'",
    "id between 5 and 9 and id <> 7",
    "id not between 5 and 35",
    "(id < 3 or id > 36) and not (id = 0)",
    "not not id = 4",
    "day >= '2026-01-20'",
    "\"at\" < '2026-01-01T05:00:00Z'",
    "gift",
    "not gift",
    "gift = true or gift is null",
    '"odd name" = 7',
    '"order" <= 2',
    "user.age = 11",
    "id = x",
    "id == 3",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_keeps_what_sql_keeps(table: LanceDataset, rows: pa.Table, text: str) -> None:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        con.register("t", rows)
        expected = con.sql(f"SELECT id FROM t WHERE {text} ORDER BY id").fetchall()
    assert kept(table, text) == [one for (one,) in expected]


def test_row_metadata_can_be_asked_for(table: LanceDataset) -> None:
    assert kept(table, "_rowid in (3, 5)") == [3, 5]


@given(
    low=st.integers(-5, N + 5),
    high=st.integers(-5, N + 5),
    joined=st.sampled_from(["and", "or"]),
    negated=st.booleans(),
)
def test_comparisons_combine(
    table: LanceDataset, low: int, high: int, joined: str, negated: bool
) -> None:
    text = f"{'not ' if negated else ''}(id >= {low} {joined} id < {high})"
    inside = {
        i for i in range(N) if (i >= low and i < high if joined == "and" else i >= low or i < high)
    }
    assert kept(table, text) == [i for i in range(N) if (i in inside) != negated]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a column or a literal was expected at the end"),
        ("price >", "a column or a literal was expected at the end"),
        ("price", "a comparison was expected"),
        ("price > 3 4", "'and', 'or' or the end was expected at '4'"),
        ("price > 3)", "'and', 'or' or the end was expected at ')'"),
        ("(price > 3", "')' was expected at the end"),
        ("price ; drop", "'; drop' was not understood"),
        ("id = 'three'", "'three' is not a value of the type int32"),
        ("day > 'soon'", "'soon' is not a value of the type date32"),
        ("id in (1, x)", "a literal was expected at 'x)'"),
        ("city like 3", "a pattern in quotes was expected"),
        ("3 < 4", "3 is compared with 4; name a column"),
        ("id in (1.5)", "1.5 is not a value of the type int32"),
        ("city = 'open", "was not understood"),
        ("(" * 200 + "id = 1" + ")" * 200, "nest too deep"),
    ],
)
def test_what_is_no_condition_is_said(table: LanceDataset, text: str, expected: str) -> None:
    with pytest.raises(Failure) as caught:
        parse_predicate(text, table.manifest.fields)
    assert expected in str(caught.value)
    assert caught.value.code == 2


def test_a_column_that_is_not_there_names_the_nearest(table: LanceDataset) -> None:
    with pytest.raises(ColumnNotFound, match="did you mean 'price'"):
        parse_predicate("prize > 3", table.manifest.fields)
    with pytest.raises(ColumnNotFound, match=r"did you mean 'user.age'"):
        parse_predicate("user.ago > 3", table.manifest.fields)
