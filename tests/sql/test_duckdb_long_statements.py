"""Statements that programs write: long lists, hundreds of columns, of conditions and operators."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from roads import EACH_INTERFACE, assert_same_rows, needs_install

from duckdb_adapter.queries.long_lists import without_long_lists

ROWS = 3_000


def _row(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "host": None if n % 13 == 0 else f"host-{n % 70}",
        "message": f"it's ({n % 50}, {n % 7}), in (1, 2)",
        "req": {"status": n % 90, "trace": f"t{n}"},
        "v": n * 7919 % 3_001,
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "logs.lance"
    rows = pa.Table.from_pylist([_row(n) for n in range(ROWS)])
    lance.write_dataset(rows, str(path), max_rows_per_file=800)
    return path


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in values)


IDS = _listed(range(7, 2_900))
SUMS = ", ".join(f"sum(req.status + {n}) AS c{n}" for n in range(500))
# Statements of which members of structs are read alone, as of short ones.
LONG = {
    "a list of ids": f"SELECT sum(req.status) FROM {{t}} WHERE id IN ({IDS})",
    "no ids": f"SELECT sum(req.status) FROM {{t}} WHERE id NOT IN ({IDS}) AND id <> 5",
    "columns": f"SELECT {SUMS} FROM {{t}}",
    "cases": "SELECT CASE "
    + " ".join(f"WHEN req.status = {n} THEN 'status {n}'" for n in range(600))
    + " END AS s, count(*) FROM {t} GROUP BY ALL ORDER BY ALL",
    "operators": f"SELECT sum({' + '.join(['req.status'] * 150)}) FROM {{t}}",
    "comments": "/* it's \"made by */ SELECT sum(req.status) -- it's ours\n"
    f"FROM {{t}} WHERE id IN ({IDS})",
}


@needs_install
@pytest.mark.parametrize("con", ["shared"], indirect=True)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_statements_read_what_short_ones_do(
    text: str, con: Any, table: Path, native: Any, reads: list[dict[str, Any]]
) -> None:
    assert_same_rows(con, native, table, text)
    columns = {name for options in reads for name in options["columns"]}
    assert columns
    assert columns <= {"id", "req.status"}


@needs_install
@pytest.mark.parametrize("con", ["shared"], indirect=True)
def test_only_first_rows_are_read_of_those_that_a_long_list_leaves(
    con: Any, table: Path, native: Any, read: list[list[str]]
) -> None:
    text = f"SELECT * FROM {{t}} WHERE id IN ({IDS}) ORDER BY v DESC LIMIT 3"
    assert_same_rows(con, native, table, text)
    assert ["v"] in read  # whose first rows are found before others are read


@EACH_INTERFACE
def test_statements_with_lists_give_the_rows_of_other_tables(
    con: Any, table: Path, native: Any, any_table_is_long: None
) -> None:
    draw = random.Random(5)
    for _ in range(24):
        assert_same_rows(con, native, table, _drawn(draw))


def _drawn(draw: random.Random) -> str:
    """Return a statement with lists, of one of the kinds that are answered from fewer rows."""
    shown, rest = draw.choice(
        [
            ("host, count(*), min(v)", "GROUP BY host ORDER BY ALL"),
            ("*", "ORDER BY v DESC, id LIMIT 7"),
            ("id, host", "ORDER BY id"),
            ("count(*), sum(req.status), max(host)", ""),
            ("id", f"QUALIFY row_number() OVER (PARTITION BY {_test(draw)} ORDER BY v) = 1 "
             f"AND row_number() OVER (PARTITION BY {_test(draw)} ORDER BY v) = 1 ORDER BY id"),
            (f"count(*) FILTER ({_test(draw)}), {_test(draw)} AS a, {_test(draw)} AS b",
             "GROUP BY a, b ORDER BY ALL"),
        ]
    )  # fmt: skip
    tests = [_test(draw) for _ in range(draw.randrange(1, 4))]
    where = draw.choice([" AND ", " OR ", " /* it's ' */ AND "]).join(tests)
    return f"SELECT {shown} FROM {{t}} WHERE {where} {rest}"


def _test(draw: random.Random) -> str:
    word = draw.choice(["IN", "not in", "IN -- 'one'\n "])
    count = draw.choice([1, 2, 20, 34, 60])
    if draw.random() < 0.5:
        column = draw.choice(["id", "v", "req.status"])
        return f"{column} {word} ({_listed([draw.randrange(ROWS) for _ in range(count)])})"
    column = draw.choice(["host", "message", "req.trace"])
    texts = [
        draw.choice([f"host-{draw.randrange(70)}", f"t{draw.randrange(ROWS)}", "it''s ', '' (1"])
        for _ in range(count)
    ]
    return f"{column} {word} ({_listed(texts)})".replace("it''s ', '' (1", "it''s '', '''' (1")


MANY = _listed(range(50))


def test_equal_lists_become_one_parameter_and_others_another_one() -> None:
    other = _listed(range(1, 51))
    text = f"SELECT a IN ({MANY}), b IN ({other}), c not in({MANY} ) FROM t"
    assert without_long_lists(text) == (
        "SELECT a IN (0, 1, $lancefs_list_0), b IN (1, 2, $lancefs_list_1), "
        "c not in(0, 1, $lancefs_list_0 ) FROM t"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 'a in ({MANY})' FROM t WHERE b",
        f"SELECT 'it''s', ' in ({MANY})' FROM t",
        f"SELECT E'it\\'s in ({MANY})' FROM t",
        f'SELECT "a in ({MANY})" FROM t',
        f"SELECT 1 -- a in ({MANY})\n FROM t",
        f"SELECT 1 /* it's in ({MANY}) */ FROM t",
        f"SELECT 1 /* /* */ ' */, ' in ({MANY})' FROM t",
        f"SELECT 1 -- it's\r, ' in ({MANY})' FROM t",
        f"SELECT $$ a $$, b IN ({MANY}) FROM t",
        f"SELECT b IN ({MANY}) FROM t WHERE c = ?",
        f"PIVOT t ON b IN ({MANY}) USING count(*)",
        f"SELECT within({MANY}), plain ({MANY}) FROM t",
        f"SELECT \U0001f600in ({MANY}) FROM t",
        f"SELECT a IN ({MANY}, b) FROM t",
        f"SELECT a IN ({_listed([f'2026-01-{n:02}' for n in range(1, 32)] * 2)}) FROM t",
        f"SELECT {MANY} FROM t GROUP BY {MANY}",
    ],
)
def test_all_else_stays_as_it_is(text: str) -> None:
    assert without_long_lists(text) == text


@pytest.mark.parametrize("count", [90, 300])
@EACH_INTERFACE
def test_statements_with_many_levels_are_answered(
    count: int, con: Any, table: Path, native: Any
) -> None:
    chain = ", ".join(f"c{n} AS (FROM c{n - 1})" for n in range(1, count))
    either = " OR ".join(f"(id = {n} AND v > {n})" for n in range(count))
    texts = [
        f"SELECT max(id{' + 1' * count}) FROM {{t}}",
        f"SELECT id FROM {{t}} WHERE {'(' * count}id = 7{' OR id = 9)' * count} ORDER BY v LIMIT 1",
        f"SELECT id FROM {{t}} WHERE id = (SELECT max(id){' - 1' * count} FROM {{t}})",
        f"WITH c0 AS (FROM {{t}}), {chain} SELECT count(req.status) FROM c{count - 1}",
        f"SELECT id FROM {{t}} WHERE {either} ORDER BY v LIMIT 5",
    ]
    for text in texts:
        assert_same_rows(con, native, table, text)
