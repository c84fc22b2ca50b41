"""Functions of filters in SQL text: parts of texts and times, rounded numbers, CASE."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pytest

import lancefs
from lancefs.errors import InvalidFilter
from lancefs.lance_dataset import LanceDataset

TEXTS = [None, "", " ", "Gent", "  Graz", "Lyon  ", "\tx\t", "äöü", "日本語 text", "a,b", "aaa"]
STAMPS = [
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2000, 2, 29, 12, 30, 45, 500),
    datetime.datetime(2024, 12, 29, 0, 0, 1),  # a Sunday
    datetime.datetime(2024, 12, 30, 6),  # in the first week of 2025
]
NUMBERS = [None, 0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.4, 1234.567, -7.125]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    rows = 240
    table = pa.table(
        {
            "id": range(rows),
            "s": [TEXTS[n % 11] for n in range(rows)],
            "u": pa.array([TEXTS[n * 7 % 11] for n in range(rows)], pa.large_string()),
            "x": [NUMBERS[n % 10] for n in range(rows)],
            "i": pa.array([None if n % 9 == 0 else n % 9 - 4 for n in range(rows)], pa.int32()),
            "ts": pa.array([STAMPS[n % 6] for n in range(rows)], pa.timestamp("us")),
            "day": pa.array([one and one.date() for n in range(rows) for one in (STAMPS[n % 6],)]),
            "b": [None if n % 3 == 0 else n % 3 == 1 for n in range(rows)],
        }
    )
    path = tmp_path_factory.mktemp("functions") / "t.lance"
    lance.write_dataset(table, str(path), max_rows_per_file=100)
    return lancefs.open(path)


# Filters that keep the rows that DuckDB keeps, and pylance, where it takes them.
AGREEING = [
    "substr(s, 2) = 'ent'",
    "substr(s, 1, 2) IN ('日本', 'äö', 'Gr')",
    "substring(u, 3, 1) = 'ü'",
    "left(s, 2) = 'Ge' OR right(u, 4) = 'text'",
    "right(s, 0) = '' AND left(s, 0) = ''",
    "trim(s) IN ('Graz', 'Lyon', '')",
    "ltrim(s) = 'Graz' OR rtrim(u) = 'Lyon'",
    "replace(s, 'a', 'zz') = 'zzzzzz'",
    "s || u = 'Gent  Graz' OR s || '!' = 'a,b!'",
    "s || u IS NULL",
    "concat(s, '!', u) = '!'",
    "concat(s, u) = ''",
    "upper(left(s, 1)) || substr(s, 2) LIKE 'G%'",
    "length(trim(s)) > 4",
    "nullif(s, 'Gent') IS NULL",
    "nullif(i, 1) = 2",
    "round(x) IN (1, 3, -3)",
    "round(x, 1) = 1234.6 OR round(x, 2) = -7.13",
    "floor(x) = -3 OR ceil(x) = 3 OR trunc(x) = -7",
    "sqrt(i * i) = 2",
    "power(x, 2) = 6.25",
    "exp(i) > 50 OR log2(i) = 2",
    "floor(i) = 3",
    "date_part('year', ts) = 2024 AND extract(month FROM day) = 12",
    "extract(quarter FROM ts) = 4 AND date_part('dow', ts) = 0",
    "date_part('doy', day) = 60 OR date_part('week', day) = 1",
    "extract(hour FROM ts) = 12 AND extract(minute FROM ts) = 30",
    "date_part('second', ts) IN (45, 59)",
    "year(ts) = 1969 OR month(day) = 2 OR dayofweek(ts) = 0",
    "date_trunc('month', ts) = timestamp '2024-12-01 00:00:00'",
    "date_trunc('week', day) = timestamp '2024-12-30 00:00:00'",
    "date_trunc('hour', ts) < timestamp '1970-01-01 00:00:00'",
    "date_trunc('second', ts) <> ts",
    "CASE WHEN b THEN i WHEN i > 2 THEN 7 ELSE -1 END > 3",
    "CASE i WHEN 1 THEN 'one' WHEN 2 THEN s END = 'one'",
    "CASE WHEN i > 2 THEN x WHEN b THEN 2.5 END = 2.5",
    "CASE WHEN b THEN s ELSE u END IS NULL",
    "NOT CASE WHEN b THEN x > 0 ELSE x < 0 END",
    "coalesce(case when b then 'yes' end, 'no') = 'no'",
]


@pytest.mark.parametrize("condition", AGREEING)
def test_a_filter_keeps_the_rows_that_others_keep(dataset: LanceDataset, condition: str) -> None:
    found = dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist()
    rows = lance.dataset(dataset.uri).to_table()
    with duckdb.connect() as con:
        con.register("t", rows)
        expected = con.execute(f"SELECT id FROM t WHERE {condition} ORDER BY id").fetchall()
    assert found == [row[0] for row in expected]
    assert 0 < len(found) < len(rows)
    assert dataset.count_rows(condition) == len(found)
    peer = rows_of_pylance(dataset.uri, condition)
    assert peer is None or peer == found


def rows_of_pylance(uri: str, condition: str) -> list[int] | None:
    """The rows that pylance keeps; None for a filter that it says it does not take."""
    try:
        found = lance.dataset(uri).to_table(columns=["id"], filter=condition)
    except ValueError as error:
        if "not supported SQL" in str(error) or "Invalid function" in str(error):
            return None
        raise
    ids: list[int] = found["id"].to_pylist()
    return ids


# Filters, and what is said of them.
REFUSED = [
    ("substr(s, 0) = 'a'", "substr counts characters from 1"),
    ("left(s, -1) = 'a'", "left takes a number of characters"),
    ("substr(s, i) = 'a'", "substr takes a number of characters"),
    ("replace(s, '', 'x') = 'a'", "replace takes two texts in quotes, the first not empty"),
    ("i || s = 'a'", "|| takes a string, not int32"),
    ("floor(s) = 1", "floor takes a number, not string"),
    ("round(x, i) = 1", "round takes a number of digits up to 15"),
    ("date_part('decade', ts) = 1", "date_part knows no 'decade'; there are year"),
    ("extract(hour FROM day) = 1", "a date has no hour"),
    ("date_trunc('era', ts) = ts", "date_trunc knows no 'era'"),
    ("year(x) = 1", "year takes a date or a timestamp, not double"),
    ("CASE b = true END", "'when' was expected"),
    ("CASE WHEN b THEN 1", "'end' was expected"),
    ("CASE WHEN b THEN s ELSE i END = 'x'", "CASE of string and int32; cast one"),
    ("extract(year, ts) = 1", "'from' was expected"),
    ("s | u = 'a'", "'|' has no meaning: write or"),
]


@pytest.mark.parametrize(("condition", "message"), REFUSED)
def test_a_filter_that_does_not_fit_is_refused(
    dataset: LanceDataset, condition: str, message: str
) -> None:
    with pytest.raises(InvalidFilter) as refused:
        dataset.to_table(filter=condition)
    assert message in str(refused.value)


def test_parts_of_times_with_a_zone_are_those_of_the_zone(tmp_path: Path) -> None:
    stamp = datetime.datetime(2024, 12, 31, 23, 30, tzinfo=datetime.UTC)
    rows = pa.table({"at": pa.array([stamp], pa.timestamp("us", "Europe/Brussels"))})
    lance.write_dataset(rows, str(tmp_path / "t.lance"))
    dataset = lancefs.open(tmp_path / "t.lance")
    assert dataset.count_rows("year(at) = 2025 and hour(at) = 0") == 1
    assert lance.dataset(str(tmp_path / "t.lance")).count_rows("date_part('hour', at) = 0") == 1


def test_a_column_may_be_called_case(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"case": [1, 2, None]}), str(tmp_path / "t.lance"))
    dataset = lancefs.open(tmp_path / "t.lance")
    assert dataset.count_rows("case > 1") == 1
    assert dataset.count_rows("case is null") == 1
