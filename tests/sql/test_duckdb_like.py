"""Queries with LIKE leave out rows whose texts cannot be what the pattern asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from roads import EACH_INTERFACE, assert_same_rows, connect, needs_install, note_scans
from support import examples

from duckdb_adapter.sources import unpushed_filters

ROWS = 3000
WORDS = ("", "a", "ab", "aab", "b_a", "a%b", "ä", "ÄB", "日本", "abc", "\\", "a\\b", "x" * 40)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(11)
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "host": pa.array([f"host-{n % 20:02d}" for n in range(ROWS)]),
            "text": pa.array([f"request {n} took {n % 700} ms" for n in range(ROWS)]),
            "word": pa.array([WORDS[n] if n else None for n in random.integers(0, 13, ROWS)]),
            "req": pa.array([{"host": f"host-{n % 3}", "size": n} for n in range(ROWS)]),
        }
    )
    path = tmp_path_factory.mktemp("like") / "logs.lance"
    lance.write_dataset(rows, str(path), max_rows_per_file=1100)
    dataset = lance.dataset(str(path))
    dataset.delete("id % 97 = 5")
    dataset.create_scalar_index("text", "NGRAM")
    return path


@pytest.fixture(autouse=True)
def any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any length are long."""
    monkeypatch.setattr(unpushed_filters, "_MIN_ROWS", 10)


@pytest.fixture
def filters(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The filter of each scan that has one, in order."""
    seen: list[str] = []

    def note(options: dict[str, Any]) -> None:
        if options.get("filter") is not None:
            seen.append(str(options["filter"]))

    note_scans(monkeypatch, note)
    return seen


# Queries over {t} that use rows with certain texts only, and what the scan is asked for.
LEAVING_ROWS_OUT = [
    ("SELECT count(*), min(id) FROM {t} WHERE host LIKE '%-07%'", ["match_substring(host"]),
    ("SELECT * FROM {t} WHERE host LIKE 'host-1%' ORDER BY id", ["starts_with(host"]),
    ("SELECT id FROM {t} AS t WHERE t.text LIKE '%699 ms' ORDER BY id", ["ends_with(text"]),
    ("FROM {t} WHERE text LIKE 'r%12_ took 4%' ORDER BY id", ["starts_with(text", " took 4"]),
    ("SELECT host, count(*) AS n FROM {t} WHERE id > 50 AND (text LIKE '%5 ms' AND id < 2000) "
     "GROUP BY ALL HAVING n > 1 ORDER BY ALL", ["ends_with(text", "id > 50", "id < 2000"]),
    ("SELECT lower(host) AS word, upper(word) AS host FROM {t} WHERE host LIKE '%-07%' "
     "ORDER BY id", ["match_substring(host"]),
    ("SELECT count(*) FROM {t} WHERE host ILIKE '%HOST-07%'", ["match_substring(utf8_lower(host"]),
    ("SELECT id FROM {t} WHERE host ^@ 'host-1' ORDER BY id", ["starts_with(host"]),
    ("SELECT id FROM {t} WHERE host LIKE '%-07%' OR text LIKE '%699 ms' AND id > 9 ORDER BY id",
     ["match_substring(host", " or ends_with(text"]),
    ("SELECT n, count(*) FROM {t} AS a JOIN (VALUES ('host-07', 1), ('host-17', 2)) AS h(host, n) "
     "USING (host) WHERE a.text LIKE '%5 ms' GROUP BY n ORDER BY n", ["ends_with(text"]),
    ("SELECT n, count(id) FROM (VALUES (1), (2), (3)) AS h(n) LEFT JOIN {t} AS a ON a.id % 5 = n "
     "WHERE text LIKE '%5 ms' AND a.id > 9 GROUP BY n ORDER BY n", ["ends_with(text", "id > 9"]),
    ("SELECT n, id FROM {t} AS a FULL JOIN range(9) AS r(n) ON a.id = n WHERE host LIKE '%-07%' "
     "ORDER BY ALL", ["match_substring(host"]),
    ("SELECT id FROM {t} WHERE host LIKE '%-07%' UNION ALL SELECT 1 ORDER BY id",
     ["match_substring(host"]),
    ("WITH e AS (SELECT * FROM {t} WHERE text LIKE '%699 ms'), h AS (SELECT 'host-07' AS host) "
     "SELECT count(*) FROM h JOIN e USING (host)", ["ends_with(text"]),
    ("SELECT n, s.id FROM range(9) AS r(n), LATERAL (SELECT * FROM {t} WHERE host LIKE '%-07%' "
     "AND id % 9 = n) AS s ORDER BY ALL", ["match_substring(host"]),
]  # fmt: skip


@needs_install
@pytest.mark.parametrize(("query", "asked"), LEAVING_ROWS_OUT)
def test_texts_that_cannot_match_are_left_out(
    native: Any, table: Path, filters: list[str], query: str, asked: list[str]
) -> None:
    assert_same_rows(connect("shared"), native, table, query)
    assert len(filters) == 1
    assert all(part in filters[0] for part in asked)


@needs_install
def test_of_rows_that_may_match_the_members_are_read_that_are_used(
    native: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[str], bool]] = []

    def note(options: dict[str, Any]) -> None:
        seen.append(({*options["columns"]}, options.get("filter") is not None))

    note_scans(monkeypatch, note)
    query = "SELECT sum(req.size), count(word) FROM {t} WHERE text LIKE '%699 ms'"
    assert_same_rows(connect("install"), native, table, query)
    assert seen[-1] == ({"req.size", "word", "text"}, True)


# Queries over {t} that use other rows, too, or whose conditions are not on a text alone.
ALL_ROWS = [
    "SELECT count(*) FROM {t} WHERE host NOT LIKE '%-07%'",
    "SELECT count(*) FROM {t} WHERE NOT host LIKE '%-07%'",
    "SELECT count(*) FROM {t} WHERE host LIKE '%-07%' OR id < 10",
    "SELECT count(*) FROM {t} WHERE host ILIKE '%Ä%'",
    "SELECT count(*) FROM {t} WHERE contains(host, '-07')",
    "SELECT count(*) FROM {t} WHERE host ^@ ''",
    "SELECT count(*) FROM {t} WHERE host LIKE '%-07%' OR host LIKE '%-08%' OR length(host) > 7",
    "SELECT count(*) FROM {t} WHERE host LIKE '%!-07%' ESCAPE '!'",
    "SELECT count(*) FROM {t} WHERE req.host LIKE '%-1%'",
    "SELECT count(*) FROM {t} WHERE host || text LIKE '%-07%'",
    "SELECT count(*) FROM {t} WHERE 'host-07' LIKE host",
    "SELECT count(*) FROM {t} WHERE id::VARCHAR LIKE '%7'",
    "SELECT count(*) FROM {t} WHERE host LIKE '%'",
    "SELECT count(*) FROM {t} WHERE host LIKE NULL",
    "SELECT count(*) FILTER (host LIKE '%-07%'), count(*) FROM {t}",
    "SELECT count(*), (SELECT count(*) FROM {t}) FROM {t} WHERE host LIKE '%-07%'",
    "SELECT count(*) FROM {t} WHERE host LIKE '%-07%' AND id IN (SELECT id + 1 FROM {t})",
    "SELECT count(*) FROM {t} AS a LEFT JOIN {t} AS b USING (id) WHERE a.host LIKE '%-07%'",
    "SELECT count(*) FROM {t} WHERE host LIKE '%-07%' UNION ALL SELECT count(*) FROM {t}",
    "WITH c AS (FROM {t}) SELECT count(*), (SELECT count(*) FROM c) FROM c WHERE host LIKE '%-07%'",
    "SELECT count(*) FROM {t} AS t(a, host) WHERE host LIKE '%-07%'",
    "SELECT count(*) FROM (FROM {t} LIMIT 500) WHERE host LIKE '%-07%'",
    "SELECT n, t.id FROM (VALUES (100), (2000)) AS a(n) ASOF JOIN {t} AS t ON n >= t.id "
    "WHERE t.host LIKE '%-07%' ORDER BY ALL",
    "SELECT count(*) FROM {t} AS t POSITIONAL JOIN range(2000) AS r(n) WHERE host LIKE '%-07%'",
    "SELECT * FROM (SELECT 'x-07' AS host, 3 AS id) AS r ANTI JOIN {t} AS t USING (id) "
    "WHERE host LIKE '%-07%'",
    "SELECT count(*) FROM {t} AS t JOIN (SELECT 'a-07' AS host) AS h ON true "
    "WHERE h.host LIKE '%-07%'",
    "SELECT count(*) FROM {t} JOIN range(9) AS r(n) ON id = n WHERE host LIKE '%-07%' OR n < 4",
    "SELECT n, (SELECT count(*) FROM {t} WHERE host LIKE '%-07%' AND id > n) FROM range(3) AS r(n) "
    "ORDER BY n",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r JOIN {t} ON id = n "
    "WHERE host LIKE '%-0%') SELECT max(n) FROM r",
]


@EACH_INTERFACE
@pytest.mark.parametrize("query", ALL_ROWS)
def test_rows_that_other_parts_of_a_query_use_are_read(
    con: Any, native: Any, table: Path, filters: list[str], query: str
) -> None:
    assert_same_rows(con, native, table, query)
    assert not any("host" in each for each in filters)


@pytest.mark.parametrize("definition", ["MACRO other() AS (SELECT {})", "VIEW other AS SELECT {}"])
def test_rows_that_macros_and_views_use_are_read(
    con: Any, table: Path, filters: list[str], definition: str
) -> None:
    where = f"'{table}'"
    con.execute(f"CREATE {definition.format(f'count(*) AS n FROM {where}')}")
    other = "other()" if "MACRO" in definition else "(SELECT n FROM other)"
    query = f"SELECT count(*), {other} FROM {where} WHERE host LIKE '%-07%'"
    total = lance.dataset(str(table)).count_rows()
    found = lance.dataset(str(table)).count_rows("host = 'host-07'")
    assert con.execute(query).fetchall() == [(found, total)]
    query = f"WITH unused AS (FROM {where} WHERE host LIKE '%-07%') SELECT * FROM {other} AS o(n)"
    if "VIEW" in definition:
        assert con.execute(query).fetchall() == [(total,)]
    assert not any("host" in each for each in filters)


@needs_install
def test_a_statement_that_is_run_again_leaves_texts_out_again(
    native: Any, table: Path, filters: list[str]
) -> None:
    con = connect("install")
    con.execute("BEGIN")
    for _ in range(3):
        assert_same_rows(con, native, table, "SELECT count(*) FROM {t} WHERE host LIKE '%-07%'")
    assert len(filters) == 3


@needs_install
@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT"])
def test_collations_are_followed(
    table: Path, native: Any, filters: list[str], collation: str
) -> None:
    con, mine = connect("install"), native.cursor()
    con.execute(f"PRAGMA default_collation = {collation}")
    mine.execute(f"PRAGMA default_collation = {collation}")
    for pattern in ("%HOST-07%", "%a%", "Ä%"):
        query = f"SELECT count(*) FROM {{t}} WHERE host LIKE '{pattern}' OR word LIKE '{pattern}'"
        assert_same_rows(con, mine, table, query)
        assert_same_rows(
            con, mine, table, f"SELECT count(*) FROM {{t}} WHERE word LIKE '{pattern}'"
        )
    mine.execute("RESET default_collation")
    assert not filters


@needs_install
def test_texts_that_nearly_all_match_are_tested_once(
    native: Any, table: Path, filters: list[str]
) -> None:
    assert_same_rows(
        connect("install"), native, table, "SELECT count(*) FROM {t} WHERE host LIKE 'host%'"
    )
    assert not filters


def test_patterns_of_prepared_statements_are_duckdbs(con: Any, native: Any, table: Path) -> None:
    prepared = "SELECT count(*) FROM {t} WHERE host LIKE ?"
    for pattern in ("%-07%", "%-1%"):
        expected = native.execute(prepared.format(t="native"), [pattern]).fetchall()
        found = con.execute(prepared.format(t=f"'{table}'"), [pattern]).fetchall()
        assert found == expected


patterns = st.text(st.sampled_from("abB%_\\ä日"), max_size=6)


@needs_install
def test_any_pattern_finds_what_duckdb_finds(native: Any, table: Path) -> None:
    con = connect("install")

    @settings(max_examples=examples(150))
    @given(pattern=patterns, other=patterns)
    def check(pattern: str, other: str) -> None:
        query = f"SELECT count(*), sum(id) FROM {{t}} WHERE word LIKE '{pattern}'"
        assert_same_rows(con, native, table, query)
        assert_same_rows(con, native, table, f"{query} AND word LIKE '{other}'")
        assert_same_rows(con, native, table, f"{query} OR word ILIKE '{other}'")
        assert_same_rows(con, native, table, f"{query} AND NOT word ILIKE '{other}'")

    check()
