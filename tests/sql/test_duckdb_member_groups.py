"""Queries that group by members of structs group by numbers for their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import assert_same_rows, connect, native_rows, needs_install, not_in_2_0_0

from duckdb_adapter.sources import column_values, groups
from duckdb_adapter.sources.groups import GROUP

pytestmark = needs_install

ROWS = 5000
METHODS = ("GET", "POST", "it's", None)


def _rows(seed: int = 5) -> pa.Table:
    random = np.random.default_rng(seed)
    latency = random.random(ROWS).round(3)
    latency[::50] = np.nan
    request = pa.StructArray.from_arrays(
        [
            pa.array([METHODS[n] for n in random.integers(0, 4, ROWS)]),
            pa.array(random.integers(0, 9, ROWS).astype(np.int32)),
            pa.array([f"/page/{n}" for n in random.integers(0, 20, ROWS)]),
        ],
        names=["Method", "status", "it's a path"],
        mask=pa.array(random.random(ROWS) < 0.1),
    )
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "level": pa.array([("info", "warn", None)[n] for n in random.integers(0, 3, ROWS)]),
            "latency": pa.array(latency),
            "req": request,
            "deep": _deep(random),
        }
    )


def _deep(random: np.random.Generator) -> pa.Array:
    city = pa.array([(None, "Ulm", "it's")[n] for n in random.integers(0, 3, ROWS)])
    number = pa.array(random.integers(0, 9, ROWS))
    missing = [pa.array(random.random(ROWS) < 0.1) for _ in range(2)]
    geo = pa.StructArray.from_arrays([city, number], ["City", "n"], mask=missing[0])
    return pa.StructArray.from_arrays([geo, number], ["geo", "m"], mask=missing[1])


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "logs.lance"
    lance.write_dataset(_rows(), str(path), max_rows_per_file=2000)
    lance.dataset(str(path)).delete("id % 97 = 5")
    return path


@pytest.fixture
def kept() -> pa.Table:
    rows = _rows()
    return rows.filter(pa.array(np.arange(ROWS) % 97 != 5))


@pytest.fixture(autouse=True)
def any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any length are long, and so are fragments."""
    monkeypatch.setattr(groups, "_MIN_ROWS", 10)
    monkeypatch.setattr(column_values, "_MIN_FRAGMENT", 1)


# Queries over {t} that group by a member, and by something else.
GROUPED = [
    "SELECT deep.geo.city, level, sum(id) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT deep.geo.city, req.method, max(deep.geo.n), count(deep.m) FROM {t} GROUP BY ALL ORDER "
    "BY ALL",
    "SELECT level, deep.geo.city, round(avg(deep.geo.n), 6) FROM {t} WHERE id > 99 GROUP BY ALL "
    "ORDER BY ALL",
    "SELECT req.method, level, count(*), round(avg(latency), 6)::TEXT AS a FROM {t} "
    "GROUP BY ALL ORDER BY ALL",
    "SELECT req.method, req.status, max(latency)::TEXT AS m FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT req.status, req.method, sum(id) FROM {t} GROUP BY req.status, req.method ORDER BY ALL",
    "SELECT t.req.method m, t.level, min(latency) FROM {t} t GROUP BY m, level ORDER BY ALL",
    'SELECT req.method, req."it\'s a path" p, count(id) FROM {t} WHERE id > 9 GROUP BY ALL '
    "ORDER BY ALL",
    "SELECT req.method, level, max(req.status), count(req.status) FROM {t} GROUP BY 1, 2 "
    "ORDER BY ALL",
    "SELECT req.method, level, count(req.status), count(latency) FROM {t} GROUP BY 1, 2 "
    "ORDER BY ALL",
    "SELECT req.method, level, sum(id) FROM {t} WHERE latency > 0.5 GROUP BY ALL ORDER BY ALL",
    "SELECT req.method, level, sum(id) FROM {t} WHERE level = 'info' GROUP BY ALL ORDER BY ALL",
    "SELECT req.method, level, avg(id) FROM {t} GROUP BY ROLLUP (req.method, level) ORDER BY ALL",
    pytest.param(
        "SELECT req.method, level, avg(id) FROM {t} GROUP BY ALL HAVING req.method > 'H' "
        "ORDER BY ALL",
        marks=not_in_2_0_0("groups by all of a struct of which HAVING uses a member"),
    ),
    "SELECT req.method, level, sum(id) FILTER (req.status = 3) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT DISTINCT req.method, latency::TEXT AS l FROM {t} WHERE id < 100 ORDER BY ALL",
]
# Those that do not, or test a struct of which a member is a key.
OTHERS = [
    "SELECT req.method, max(latency)::TEXT AS m FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT req.method, id % 7, max(latency)::TEXT AS m FROM {t} WHERE req.status = 3 GROUP BY ALL "
    "ORDER BY ALL",
    "SELECT req.method, id % 7, max(req) FROM {t} GROUP BY ALL ORDER BY ALL",
    "SELECT req.method, id % 7, arg_max(id, id) FROM {t} GROUP BY ALL ORDER BY ALL",
]


def _plan(con: Any, query: str) -> str:
    ((_, plan),) = con.execute(f"EXPLAIN {query}").fetchall()
    return str(plan)


@pytest.mark.parametrize("query", GROUPED)
def test_groups_by_members_are_the_same(kept: pa.Table, table: Path, query: str) -> None:
    con = connect("shared")
    with native_rows(kept) as native:
        assert_same_rows(con, native, table, query)
    plan = _plan(con, query.format(t=f"'{table}'"))
    assert GROUP in plan
    assert "INNER" in plan


@pytest.mark.parametrize("query", OTHERS)
def test_other_queries_read_the_members(kept: pa.Table, table: Path, query: str) -> None:
    con = connect("shared")
    with native_rows(kept) as native:
        assert_same_rows(con, native, table, query)
    assert GROUP not in _plan(con, query.format(t=f"'{table}'"))


def test_members_of_tables_without_rows_are_grouped(tmp_path: Path) -> None:
    path, rows = tmp_path / "t.lance", _rows()
    lance.write_dataset(rows, str(path))
    lance.dataset(str(path)).delete("true")
    with native_rows(rows.slice(0, 0)) as native:
        assert_same_rows(connect("install"), native, path, GROUPED[0])
