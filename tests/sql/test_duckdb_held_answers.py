"""Functions in relations of Python, `con.sql(…)`, are answered once, though DuckDB asks again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from roads import connect, needs_install

from lancefs import LanceDataset
from lancefs.search.text_search import TextSearch
from lancefs.search.vector_search import VectorSearch

pytestmark = needs_install

ROWS, DIMENSION = 300, 8


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Return a table of vectors and texts in two versions, the first of which has a tag."""
    path = str(tmp_path / "t.lance")
    vectors = np.random.default_rng(1).standard_normal(ROWS * DIMENSION).astype("f4")
    rows = {
        "id": np.arange(ROWS),
        "text": [f"a fox of {'red' if one % 2 else 'brown'} colour" for one in range(ROWS)],
        "v": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
    }
    lance.write_dataset(pa.table(rows), path).tags.create("first", 1)
    lance.dataset(path).delete("id < 5")
    return path


@pytest.fixture(params=["install", "connect"])
def con(request: pytest.FixtureRequest) -> Any:
    return connect(request.param)


def _counted(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str
) -> Callable[[Callable[[], object]], int]:
    """Return a function that tells how often another function calls a method."""
    calls: list[object] = []
    original = getattr(owner, method)

    def count(own: Any, *arguments: Any, **named: Any) -> Any:
        calls.append(own)
        return original(own, *arguments, **named)

    monkeypatch.setattr(owner, method, count)

    def times(run: Callable[[], object]) -> int:
        calls.clear()
        run()
        return len(calls)

    return times


_NEAREST = f"SELECT id FROM lance_vector_search('{{t}}', 'v', {[0.5] * DIMENSION})"
QUERIES: list[tuple[type, str, str]] = [
    (VectorSearch, "to_table", _NEAREST),
    (TextSearch, "to_table", "SELECT id FROM lance_fts('{t}', 'text', 'red')"),
    (LanceDataset, "changes", "SELECT count(*) FROM lance_changes('{t}', 1, 2)"),
    (LanceDataset, "history", "SELECT version FROM lance_versions('{t}')"),
]


@pytest.mark.parametrize(("owner", "method", "query"), QUERIES)
def test_a_relation_that_is_run_is_answered_once(
    con: Any, table: str, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, query: str
) -> None:
    text = query.format(t=table)
    expected = con.execute(text).fetchall()
    assert expected
    times = _counted(monkeypatch, owner, method)
    assert times(lambda: con.execute(text).fetchall()) == 1
    assert times(lambda: con.sql(text).fetchall()) == 1
    relation = con.sql(text)
    assert relation.fetchall() == relation.fetchall() == expected


def test_statements_beside_a_relation_see_what_has_changed(con: Any, table: str) -> None:
    versions = f"SELECT version, tags FROM lance_versions('{table}')"
    tagged = f"SELECT count(*) FROM lance_changes('{table}', 'first')"
    search = f"SELECT id FROM lance_vector_search('{table}', 'v', {[0.5] * DIMENSION}, k := 999)"
    relations = [con.sql(query) for query in (versions, tagged, search)]
    before = [relation.fetchall() for relation in relations]
    assert before[:2] == [[(1, ["first"]), (2, [])], [(5,)]]

    lance.dataset(table).tags.update("first", 2)
    assert con.execute(versions).fetchall() == [(1, []), (2, ["first"])]
    assert con.execute(tagged).fetchall() == [(0,)]
    lance.dataset(table).delete("id < 8")
    assert con.execute(versions).fetchall() == [(1, []), (2, ["first"]), (3, [])]
    assert con.execute(tagged).fetchall() == [(3,)]
    assert len(con.execute(search).fetchall()) == ROWS - 8
    assert [relation.fetchall() for relation in relations] == before
