"""Filters and orders that DuckDB computes: other columns are read of the rows that it finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roads import assert_same_rows, connect, needs_install
from support import examples

from duckdb_adapter.sources.deferred_columns import DeferredRows, MatchingRows

pytestmark = [needs_install, pytest.mark.usefixtures("any_table_is_large")]

ROWS = 6000
WORDS = (None, "", "abc", "B", "äöü", "a" * 40, "x")
# Few of its rows pass each of these.
RARE = [
    "lower(host) = 'host-07' AND id < 400",
    "length(text) > 24",
    "x > y AND id + 1 > 20",
    "x * 2 + y = 7.0",
    "hour(ts) = 3 AND minute(ts) = 7",
    "id % 1000 = 77",
    "x IS NULL AND y + 0 IS NULL",
    "req.size + 1 = 77",
    "T.id // 1000 = 5 AND T.\"we ird\" || T.host = 'w4host-04'",
    "list_contains(tags, 'rare')",
    "CASE WHEN id > 5000 THEN host = 'host-03' AND level = 'error' ELSE id = 3 END",
    "coalesce(x, 998) > 997 AND id BETWEEN 10 AND 1000",
    "id + 0 < 0",
    "regexp_matches(text, '^row 59[0-9][0-9] 7')",
    "id = x::BIGINT AND 'w4' = \"we ird\"",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(7)
    x = random.integers(0, 1000, ROWS).tolist()
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "host": pa.array([f"Host-{n % 20:02d}" for n in range(ROWS)]),
            "level": pa.array([("info", "error")[n % 31 == 0] for n in range(ROWS)]),
            "text": pa.array([f"row {n} {v}" + "!" * (n % 997 == 0) * 20 for n, v in enumerate(x)]),
            "x": pa.array([None if n % 13 == 0 else float(v) for n, v in enumerate(x)]),
            "y": pa.array([None if n % 169 == 0 else 990.0 - n % 7 for n in range(ROWS)]),
            "flag": pa.array([None if n % 3 == 0 else n % 3 == 1 for n in range(ROWS)]),
            "ts": pa.array([n * 61_000_000 for n in range(ROWS)], pa.timestamp("us")),
            "req": pa.array(
                [None if n % 5 == 0 else {"size": n, "path": "p"} for n in range(ROWS)]
            ),
            "tags": pa.array([["rare"] if n % 500 == 4 else ["a", None] for n in range(ROWS)]),
            "price": pa.array(range(ROWS), pa.decimal128(9, 2)),
            "word": pa.array([WORDS[n * n % 7] for n in range(ROWS)]),
            "we ird": pa.array([f"w{n % 9}" for n in range(ROWS)]),
        }
    )
    path = tmp_path_factory.mktemp("computed") / "logs.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=2500)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each scan takes by their positions."""
    seen: list[int] = []
    take = DeferredRows.at_positions

    def note(self: DeferredRows, names: Any, positions: Any, filter: Any) -> Iterator[Any]:
        seen.append(len(positions))
        return take(self, names, positions, filter)

    monkeypatch.setattr(DeferredRows, "at_positions", note)
    return seen


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[list[str | None]]:
    """The values that each scan looks for in place of what DuckDB computes, the null last."""
    seen: list[list[str | None]] = []
    take = MatchingRows.take_positions

    def note(self: MatchingRows) -> Any:
        positions = take(self)
        if positions is not None:
            values = [self._values[place].as_py() for place in positions.tolist()]
            seen.append(sorted(values, key=lambda one: (one is None, one or "")))
        return positions

    monkeypatch.setattr(MatchingRows, "take_positions", note)
    return seen


# Conditions of one column of strings with few values, in dictionaries.
OF_VALUES = [
    "lower(host) = 'host-07'",
    "upper(host) || '!' IN ('HOST-03!', 'HOST-19!')",
    "lower(host) = 'none'",
    "coalesce(lower(word), 'x') = 'x'",
    "length(word) > 2 AND word <> 'abc'",
    "lower(word) IN ('', 'b', NULL)",
    "word || 'a' IS NULL",
    "substr(host, 6) = '11' AND (id % 2 = 1 OR host = 'x')",
]


@pytest.mark.parametrize("condition", OF_VALUES)
def test_values_of_a_column_with_dictionaries_are_tested_in_place_of_rows(
    native: Any, table: Path, matched: list[list[str | None]], condition: str
) -> None:
    for shown in ("id, text", "*", "word, count(id)"):
        tail = "GROUP BY word ORDER BY word" if "count" in shown else "ORDER BY id"
        query = f"SELECT {shown} FROM {{t}} AS T WHERE {condition} {tail}"
        assert_same_rows(connect("install"), native, table, query)
    one_column = "id" not in condition
    column = "word" if "word" in condition else "host"
    passing = f"SELECT DISTINCT {column} FROM native WHERE {condition} ORDER BY 1"
    expected = [row[0] for row in native.execute(passing).fetchall()]
    assert matched == ([expected] * 3 if one_column else [])


@pytest.mark.parametrize("condition", RARE)
def test_few_rows_are_read_of_the_other_columns(
    native: Any, table: Path, taken: list[int], condition: str
) -> None:
    query = f"SELECT * FROM {{t}} AS T WHERE {condition} ORDER BY id"
    assert_same_rows(connect("install"), native, table, query)
    passing = native.execute(f"SELECT count(*) FROM native AS T WHERE {condition}").fetchall()[0][0]
    assert taken == [passing]


# Statements over {t}, and whether rows are taken by their positions.
STATEMENTS = [
    ("SELECT id, price FROM {t} WHERE lower(host) = 'host-07' AND id < 400 ORDER BY id", True),
    ("SELECT host, sum(price) FROM {t} WHERE id % 1000 = 77 GROUP BY host ORDER BY 1", True),
    ("SELECT id, host FROM {t} WHERE text[1:2] = 'zz' ORDER BY id", True),
    ("SELECT id, host FROM {t} WHERE text SIMILAR TO 'zz.*' ORDER BY id", True),
    ("SELECT id, text FROM {t} WHERE x * 2 > 1990 ORDER BY y DESC, id LIMIT 3", True),
    ("WITH t AS (SELECT * FROM {t} WHERE length(text) > 24) SELECT id, host FROM t ORDER BY 1",
     True),
    ("SELECT * FROM {t} ORDER BY length(text) DESC, id LIMIT 5", True),
    ("SELECT id, text FROM {t} ORDER BY x * y DESC NULLS LAST, id LIMIT 3 OFFSET 2", True),
    ("SELECT * FROM {t} WHERE upper(level) = 'ERROR' ORDER BY x DESC, id LIMIT 4", True),
    ("SELECT id, host FROM {t} AS T ORDER BY T.req.size % 7 DESC, T.id LIMIT 4", True),
    ("SELECT * FROM (SELECT * FROM {t}) ORDER BY x + y, id LIMIT 3", True),
    ("SELECT upper(host) AS x, id FROM {t} ORDER BY x || '', id LIMIT 3", False),
    ("SELECT id, host FROM {t} ORDER BY 2, 1 LIMIT 3", False),
    ("SELECT unnest([x, x]), id, host FROM {t} ORDER BY id % 7, id LIMIT 3", False),
    ("SELECT id, host, sum(id) OVER () FROM {t} ORDER BY id % 7, id LIMIT 3", False),
    ("SELECT id, host FROM {t} ORDER BY id % 7, id LIMIT 1%", False),
    ("SELECT count(*), max(level) FROM {t} GROUP BY id % 7 ORDER BY id % 7 LIMIT 1", False),
    ("SELECT * REPLACE (-id AS id) FROM {t} ORDER BY id % 7, x, text LIMIT 3", False),
    ("SELECT DISTINCT level, ts FROM {t} WHERE length(text) > 24 AND id > 1000 ORDER BY 2", True),
    ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM {t} WHERE hash(id) % 500 = 3 "
     "ORDER BY id", False),  # no other column
    ("SELECT sum(x) FROM {t} WHERE length(text) > 0", False),  # which all rows pass
    ("SELECT count(*) FROM {t} WHERE length(text) > 24", False),
    ("SELECT id, host FROM {t} WHERE id = 17", False),  # which DuckDB pushes down
    ("SELECT lower(host) AS h, id FROM {t} WHERE h = 'host-07' AND id % 1000 = 77 ORDER BY 2",
     False),
    ("SELECT id, host FROM {t} WHERE id % 1000 = (SELECT 77) ORDER BY id", False),
    ("SELECT a.id, a.host FROM {t} AS a, {t} AS b WHERE a.id % 1000 = 77 AND b.id = a.id "
     "ORDER BY 1", False),
    ("SELECT id, (SELECT max(id) FROM {t}) AS most FROM {t} WHERE x * 2 > 1990 ORDER BY 1", False),
    ("SELECT id, host FROM {t} WHERE id % 1000 = 77 UNION ALL SELECT id, host FROM {t} "
     "WHERE id = 3 ORDER BY id", False),
]  # fmt: skip


@pytest.mark.parametrize(("query", "is_taken"), STATEMENTS)
def test_a_statement_gives_the_rows_that_it_gives_over_a_table_of_duckdb(
    native: Any, table: Path, taken: list[int], query: str, is_taken: bool
) -> None:
    assert_same_rows(connect("install"), native, table, query)
    assert bool(taken) == is_taken


def test_of_a_remote_table_a_filter_that_more_rows_pass_is_left_alone(
    table: Path, native: Any, taken: list[int]
) -> None:
    fs = fsspec.filesystem("memory")
    fs.put(str(table), "/computed/logs.lance", recursive=True)
    con = connect("install")
    for condition, is_taken in (("id + 0 = 77", True), ("id % 200 = 77", False)):
        query = f"SELECT * FROM {{t}} WHERE {condition} ORDER BY id"
        found = con.execute(query.format(t="'memory://computed/logs.lance'")).fetchall()
        assert found == native.execute(query.format(t="native")).fetchall()
        assert taken == [1] * is_taken
        taken.clear()
    fs.rm("/computed", recursive=True)


def test_a_sample_is_drawn_of_all_rows(table: Path, taken: list[int]) -> None:
    query = f"SELECT id, host FROM '{table}' WHERE id % 1000 = 77 USING SAMPLE 100 PERCENT (system)"
    assert len(connect("install").execute(query).fetchall()) == 6
    few = f"SELECT id, host FROM '{table}' WHERE id % 1000 = 77 USING SAMPLE reservoir(1 ROWS)"
    found = [len(connect("install").execute(few).fetchall()) for _ in range(20)]
    assert sum(found) < 10  # one row of 5,900 is seldom one of the six
    assert not taken


def test_rows_keep_their_order(table: Path, taken: list[int]) -> None:
    query = f"SELECT id, host FROM '{table}' WHERE id % 500 IN (7, 499) AND length(text) > 0"
    found = [row[0] for row in connect("install").execute(query).fetchall()]
    assert found == sorted(found)
    assert taken == [len(found)]


def test_a_macro_in_place_of_a_function_decides(table: Path, native: Any) -> None:
    con = connect("install")
    con.execute("CREATE OR REPLACE TEMP MACRO lower(t) AS upper(t)")
    query = f"SELECT id, text FROM '{table}' WHERE lower(host) = 'HOST-07' AND id < 50"
    assert [row[0] for row in con.execute(query).fetchall()] == [7, 27, 47]
    con.execute("DROP MACRO lower")
    assert con.execute(query).fetchall() == []


def test_settings_of_the_connection_decide(table: Path) -> None:
    query = f"SELECT id, text FROM '{table}' WHERE id / 1000 = 5 AND id + 0 > 5001"
    con = connect("install")
    assert con.execute(query).fetchall() == []
    con.execute("SET integer_division = true")
    try:
        assert len(con.execute(query).fetchall()) > 900
    finally:
        con.execute("RESET integer_division")


def test_prepared_statements_and_relations_see_new_versions(
    tmp_path: Path, table: Path, taken: list[int]
) -> None:
    path = tmp_path / "t.lance"
    rows = lance.dataset(str(table)).to_table(columns=["id", "host"])
    lance.write_dataset(rows, str(path))
    con = connect("install")
    query = f"SELECT * FROM '{path}' WHERE id % 5000 = 4999"
    con.execute(f"PREPARE rare AS {query}")
    assert con.execute("EXECUTE rare").fetchall() == [(4999, "Host-19")]
    relation = con.sql(query)
    lance.write_dataset(pa.table({"id": [9999], "host": ["new"]}), str(path), mode="append")
    assert con.execute("EXECUTE rare").fetchall() == [(4999, "Host-19"), (9999, "new")]
    assert relation.fetchall() == [(4999, "Host-19")]
    assert con.execute(query).fetchall() == [(4999, "Host-19"), (9999, "new")]
    assert taken


def test_an_error_of_the_filter_is_that_of_the_statement(table: Path) -> None:
    query = f"SELECT * FROM '{table}' WHERE text::INTEGER > 0"
    with pytest.raises(duckdb.ConversionException, match="row 0"):
        connect("install").execute(query).fetchall()


def test_a_filter_that_more_rows_pass_than_the_sample_told_reads_all_rows(
    tmp_path: Path, taken: list[int], native: Any
) -> None:
    rows = pa.table({"id": range(40_000), "x": np.arange(40_000) // 1000, "other": ["a"] * 40_000})
    lance.write_dataset(rows, str(tmp_path / "t.lance"))
    between = "x + 0 = 1 AND id + 0 < 1900"  # 900 rows, more than a 64th, between two places
    query = f"SELECT count(other), min(id), max(id) FROM '{tmp_path / 't.lance'}' WHERE {between}"
    assert connect("install").execute(query).fetchall() == [(900, 1000, 1899)]
    assert taken == []


def test_damage_behind_the_filter_is_an_error(tmp_path: Path, table: Path) -> None:
    path = tmp_path / "t.lance"
    rows = pa.table({"id": range(300_000), "v": np.random.default_rng(3).random(300_000)})
    lance.write_dataset(rows, str(path))
    (file,) = (path / "data").glob("*.lance")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(duckdb.Error, match=r"t\.lance"):
        connect("install").execute(f"SELECT * FROM '{path}' WHERE id % 999 = 7").fetchall()


OPERANDS = st.sampled_from(["id", "x", "y", "length(text)", "id % 100", "req.size", "3", "77"])
COMPARED = st.builds(
    "({} {} {})".format, OPERANDS, st.sampled_from(["=", "<", ">", "<>"]), OPERANDS
)
CONDITIONS = st.recursive(
    COMPARED | st.sampled_from(["flag", "lower(host) = 'host-03'", "x IS NULL", "level = 'error'"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("(NOT {})".format, inner)
    ),
    max_leaves=4,
)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(condition=CONDITIONS, order=OPERANDS, limited=st.booleans())
def test_random_conditions_and_orders_give_the_same_rows(
    native: Any, table: Path, condition: str, order: str, limited: bool
) -> None:
    query = f"SELECT * FROM {{t}} WHERE id + 0 > 10 AND {condition} ORDER BY {order} + 0, id"
    assert_same_rows(connect("install"), native, table, query + " LIMIT 5" * limited)
