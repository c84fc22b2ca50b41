"""Searches in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from roads import connect

import lancefs

ROWS, DIMENSION = 3000, 16


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a table with vectors, and an index over them, in its second version."""
    lance = pytest.importorskip("lance")
    path = str(tmp_path_factory.mktemp("searches") / "t.lance")
    vectors = np.random.default_rng(7).standard_normal(ROWS * DIMENSION).astype(np.float32)
    rows = {
        "id": np.arange(ROWS),
        "kind": [f"k{one % 5}" for one in range(ROWS)],
        "v": pa.FixedSizeListArray.from_arrays(vectors, DIMENSION),
    }
    dataset = lance.write_dataset(pa.table(rows), path)
    dataset.create_index("v", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    return path


def vector(number: int = 3) -> list[float]:
    found: list[float] = np.random.default_rng(number).standard_normal(DIMENSION).tolist()
    return found


def ids(con: Any, query: str, *parameters: Any) -> list[int]:
    return [row[0] for row in con.execute(query, list(parameters)).fetchall()]


def test_lance_vector_search_returns_the_nearest_rows_with_their_distances(
    con: Any, table: str
) -> None:
    found = con.execute("FROM lance_vector_search(?, 'v', ?, k := 7)", [table, vector()])
    assert [column[0] for column in found.description] == ["id", "kind", "v", "_distance"]
    rows = found.fetchall()
    expected = lancefs.open(table).nearest("v", vector(), 7)
    assert [row[0] for row in rows] == expected["id"].to_pylist()
    assert [row[3] for row in rows] == pytest.approx(expected["_distance"].to_pylist())


def test_vectors_are_arrays_lists_and_variables(con: Any, table: str) -> None:
    expected = lancefs.open(table).nearest("v", vector(), 10)["id"].to_pylist()
    for text in (f"{vector()}::FLOAT[{DIMENSION}]", f"{vector()}::DOUBLE[]", f"{vector()}"):
        assert ids(con, f"SELECT id FROM lance_vector_search('{table}', 'v', {text})") == expected
    con.execute(f"SET VARIABLE q = (SELECT v FROM '{table}' WHERE id = 42)")
    query = f"SELECT id FROM lance_vector_search('{table}', 'v', getvariable('q'), k := 1)"
    assert ids(con, query) == [42]


def test_a_search_takes_the_options_of_nearest(con: Any, table: str) -> None:
    dataset = lancefs.open(table)
    exact = f"SELECT id FROM lance_vector_search('{table}', 'v', ?, use_index := false)"
    assert (
        ids(con, exact, vector())
        == dataset.nearest("v", vector(), use_index=False)["id"].to_pylist()
    )
    for name in ("nprobes", "nprobs"):
        options = f"{name} := 2, refine_factor := 4"
        probing = f"SELECT id FROM lance_vector_search('{table}', 'v', ?, {options})"
        expected = dataset.nearest("v", vector(), nprobes=2, refine_factor=4)["id"].to_pylist()
        assert ids(con, probing, vector()) == expected
    cosine = f"SELECT id FROM lance_vector_search('{table}', 'v', ?, metric := 'cosine')"
    assert (
        ids(con, cosine, vector())
        == dataset.nearest("v", vector(), metric="cosine")["id"].to_pylist()
    )


def test_a_filter_is_before_the_search_and_a_where_after_it(con: Any, table: str) -> None:
    search = f"lance_vector_search('{table}', 'v', ?, k := 20"
    kept = ids(con, f"SELECT id FROM {search}, filter := 'kind = ''k2''')", vector())
    assert len(kept) == 20
    assert all(one % 5 == 2 for one in kept)
    found = ids(con, f"SELECT id FROM {search})", vector())
    after = [one for one in found if one % 5 == 2]
    assert ids(con, f"SELECT id FROM {search}) WHERE kind = 'k2'", vector()) == after
    late = f"SELECT id FROM {search}, filter := 'kind = ''k2''', prefilter := false)"
    assert ids(con, late, vector()) == after


def test_a_search_is_in_any_version(con: Any, table: str) -> None:
    expected = lancefs.open(table, version=1).nearest("v", vector())["id"].to_pylist()
    query = f"SELECT id FROM lance_vector_search('{table}', 'v', ?, version := 1)"
    assert ids(con, query, vector()) == expected
    assert (
        ids(con, f"SELECT id FROM lance_vector_search('{table}@v1', 'v', ?)", vector()) == expected
    )


def test_a_search_is_joined_and_read_again(con: Any, table: str) -> None:
    query = f"""
        SELECT count(*), min(_distance) FROM lance_vector_search('{table}', 'v', ?, k := 3) AS found
        JOIN '{table}' AS t ON t.id = found.id
    """
    assert con.execute(query, [vector()]).fetchone()[0] == 3
    con.execute(f"PREPARE near AS SELECT id FROM lance_vector_search('{table}', 'v', $1, k := 1)")
    for number in (3, 4):
        expected = lancefs.open(table).nearest("v", vector(number), 1)["id"].to_pylist()
        assert ids(con, f"EXECUTE near({vector(number)})") == expected


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a table of texts with a full-text index."""
    lance = pytest.importorskip("lance")
    path = str(tmp_path_factory.mktemp("texts") / "t.lance")
    words = ["brown", "fox", "lazy", "dog", "red"]
    bodies = [" ".join(words[(i + j * j) % 5] for j in range(i % 7 + 1)) for i in range(500)]
    dataset = lance.write_dataset(pa.table({"id": range(500), "body": bodies}), path)
    dataset.create_scalar_index("body", "INVERTED", with_position=True)
    return path


def test_lance_fts_returns_the_best_rows_with_their_scores(con: Any, texts: str) -> None:
    found = con.execute("FROM lance_fts(?, 'body', 'lazy dog', k := 7)", [texts])
    assert [column[0] for column in found.description] == ["id", "body", "_score"]
    rows = found.fetchall()
    expected = lancefs.open(texts).search("lazy dog", ["body"], 7)
    assert [row[0] for row in rows] == expected["id"].to_pylist()
    assert [row[2] for row in rows] == pytest.approx(expected["_score"].to_pylist())
    query = f"SELECT id FROM lance_fts('{texts}', ['body'], '\"lazy dog\"', k := 3)"
    expected = lancefs.open(texts).search('"lazy dog"', k=3)
    assert ids(con, query) == expected["id"].to_pylist()


def test_a_text_search_takes_filters_before_and_after(con: Any, texts: str) -> None:
    search = f"lance_fts('{texts}', 'body', 'fox', k := 20"
    kept = ids(con, f"SELECT id FROM {search}, filter := 'id < 100')")
    assert kept == lancefs.open(texts).search("fox", k=20, filter="id < 100")["id"].to_pylist()
    found = ids(con, f"SELECT id FROM {search})")
    after = [one for one in found if one < 100]
    assert ids(con, f"SELECT id FROM {search}) WHERE id < 100") == after
    assert ids(con, f"SELECT id FROM {search}, filter := 'id < 100', prefilter := false)") == after
    assert ids(con, f"SELECT id FROM {search}, use_index := false)") == found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a table of texts and vectors, with indices over both from its third version on."""
    lance = pytest.importorskip("lance")
    path = str(tmp_path_factory.mktemp("both") / "t.lance")
    draw = np.random.default_rng(11)
    words = ["brown", "fox", "lazy", "dog", "red", "tea", "cup", "moon"]
    bodies = [" ".join(draw.choice(words, draw.integers(1, 7))) for _ in range(400)]
    vectors = draw.standard_normal(400 * 8).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(vectors, 8)
    dataset = lance.write_dataset(pa.table({"id": range(400), "body": bodies, "v": column}), path)
    dataset.create_scalar_index("body", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=2)
    lance.dataset(path).delete("id % 7 = 1")
    return path


Q = [0.5, -0.25, 1.0, 0.0, -1.5, 0.75, 0.1, -0.3]
BOTH = f"'v', {Q}::FLOAT[8], 'body', 'brown fox moon'"


def test_lance_hybrid_search_returns_the_best_rows_with_all_scores(con: Any, both: str) -> None:
    found = con.execute(f"FROM lance_hybrid_search(?, {BOTH}, k := 7)", [both])
    assert [column[0] for column in found.description] == [
        *("id", "body", "v", "_distance", "_score", "_hybrid_score")
    ]
    rows = found.fetchall()
    dataset = lancefs.open(both)
    search = dataset.hybrid_search("v", Q, "brown fox moon", 7, alpha=0.5, oversample_factor=4)
    assert [row[0] for row in rows] == search.to_table()["id"].to_pylist()
    scores = search.to_table()["_hybrid_score"].to_pylist()
    assert [row[5] for row in rows] == pytest.approx(scores)


def test_lance_hybrid_search_takes_the_options_of_both_searches(con: Any, both: str) -> None:
    dataset = lancefs.open(both)
    search = f"lance_hybrid_search('{both}', {BOTH}, k := 9"

    def found(more: str, where: str = "") -> list[int]:
        return ids(con, f"SELECT id FROM {search}{more}) {where}")

    def expected(**options: Any) -> list[int]:
        options = {"alpha": 0.5, "oversample_factor": 4, **options}
        table = dataset.hybrid_search("v", Q, "brown fox moon", 9, **options).to_table()
        return [int(one) for one in table["id"].to_pylist()]

    assert found(", alpha := 0.9, oversample_factor := 2") == expected(
        alpha=0.9, oversample_factor=2
    )
    assert found(", filter := 'id < 200'") == expected(filter="id < 200")
    late = expected(filter="id < 200", prefilter=False)
    assert found(", filter := 'id < 200', prefilter := false") == late
    after = [one for one in found("") if one < 200]
    assert found("", "WHERE id < 200") == after
    assert found(", use_index := false") == expected(use_index=False)
    assert found(", nprobs := 1, refine_factor := 2") == expected(nprobes=1, refine_factor=2)
    assert found(", metric := 'cosine'") == expected(metric="cosine")
    old = lancefs.open(both, version=3)
    first = old.hybrid_search("v", Q, "brown fox moon", 9, alpha=0.5, oversample_factor=4)
    assert found(", version := 3") == first.to_table()["id"].to_pylist()
    assert found(", version := 3") != found("")


def test_a_hybrid_search_has_the_scores_of_the_extension_lance(both: str) -> None:
    package = pytest.importorskip("duckdb_extension_lance")
    (file,) = Path(package.__path__[0]).rglob("lance.duckdb_extension")
    extension, con = duckdb.connect(), connect("wrap")
    extension.execute(f"LOAD '{file}'")
    for options in ("k := 5", "k := 8, alpha := 0.8", "k := 3, alpha := 0, oversample_factor := 2"):
        query = (
            f"SELECT _hybrid_score, _distance, _score FROM lance_hybrid_search('{both}', {BOTH}, "
            f"{options}) ORDER BY ALL DESC"
        )
        scores = np.array(con.execute(query).fetchall(), float)
        np.testing.assert_allclose(
            scores, np.array(extension.execute(query).fetchall(), float), 1e-5
        )


def test_searches_explain_which_indices_they_use(con: Any, both: str) -> None:
    def told(call: str) -> str:
        found = con.execute(f"FROM {call}, explain := true)")
        assert [column[0] for column in found.description] == ["explain"]
        return "\n".join(row[0] for row in found.fetchall())

    dataset = lancefs.open(both)
    vectors = told(f"lance_vector_search('{both}', 'v', {Q}")
    assert "index v_idx (IVF_FLAT, l2)" in vectors
    assert vectors == dataset.vector_search("v", Q).explain()
    words = told(f"lance_fts('{both}', 'body', 'fox'")
    assert "index body_idx over body" in words
    assert words == dataset.text_search("fox", ["body"]).explain()
    hybrid = told(f"lance_hybrid_search('{both}', {BOTH}")
    assert "index v_idx" in hybrid
    assert "index body_idx" in hybrid
    assert "exact search" in told(f"lance_vector_search('{both}', 'v', {Q}, use_index := false")


def test_a_search_that_makes_no_sense_says_what_is_missing(
    con: Any, table: str, texts: str, both: str
) -> None:
    wrong = {
        f"lance_vector_search('{table}', 'v')": "the argument vector was expected",
        f"lance_vector_search('{table}')": "the argument column was expected",
        f"lance_vector_search('{table}', 'v', [1.0, 2.0])": "16",
        f"lance_vector_search('{table}', 'id', [1.0])": "id",
        f"lance_vector_search('{table}', 'nothing', [1.0])": "nothing",
        f"lance_vector_search('{table}', 'v', {vector()}, k := -1)": "k",
        f"lance_vector_search('{table}', 'v', {vector()}, prefilter := true)": "filter := ",
        f"lance_vector_search('{table}', 'v', {vector()}, nprobes := 1, nprobs := 1)": "leave one",
        f"lance_vector_search('{table}', 'v', {vector()}, filter := 'id >')": "id >",
        f"lance_fts('{texts}', 'body')": "the argument query was expected",
        f"lance_fts('{texts}', 'id', 'fox')": "id",
        f"lance_fts('{texts}', 'body', 'fox', k := 0)": "k is 0",
        f"lance_fts('{texts}', 'body', 'fox', prefilter := true)": "filter := ",
        f"lance_hybrid_search('{both}', 'v', {Q}, 'body')": "the argument query was expected",
        f"lance_hybrid_search('{both}', 'v', query := 'x')": "the argument vector was expected",
        f"lance_hybrid_search('{both}', {BOTH}, alpha := 2)": "alpha is 2",
        f"lance_hybrid_search('{both}', {BOTH}, k := 0)": "k is 0",
        f"lance_hybrid_search('{both}', {BOTH}, prefilter := true)": "filter := ",
        f"lance_hybrid_search('{both}', {BOTH}, nprobes := 1, nprobs := 1)": "leave one",
    }
    for call, message in wrong.items():
        with pytest.raises(duckdb.Error, match=message):
            con.execute(f"FROM {call}")


def test_long_vectors_are_searched(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    path = str(tmp_path / "wide.lance")
    vectors = np.random.default_rng(1).standard_normal((50, 3072)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), 3072)
    lance.write_dataset(pa.table({"id": np.arange(50), "v": column}), path)
    con = connect("wrap")
    query = f"SELECT id, _distance FROM lance_vector_search('{path}', 'v', ?, k := 1)"
    assert con.execute(query, [vectors[17].tolist()]).fetchall() == [(17, 0.0)]
