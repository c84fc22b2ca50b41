"""Indices that other releases of pylance write, where there are Pythons that have them.

LANCEFS_OTHER_PYLANCE names their interpreters, with the separator of PATH between them. The corpus
has indices of other releases too, but none of 0.39 and 4.0 over vectors and texts.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import lance
import numpy as np
import pytest
from old_writer import DIMENSION, SCALAR, VECTORS

import lancefs
from lancefs import PhraseQuery
from lancefs.index import lookup

PYTHONS = [path for path in os.environ.get("LANCEFS_OTHER_PYLANCE", "").split(os.pathsep) if path]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHONS, reason="LANCEFS_OTHER_PYLANCE names no Python"),
]


@pytest.fixture(scope="module", params=PYTHONS or [""])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("other")
    writer = Path(__file__).with_name("old_writer.py")
    subprocess.run([request.param, str(writer), str(path)], check=True, timeout=300)
    return path


@pytest.mark.parametrize(
    ("column", "filter"),
    [
        ("id", "id IN (3, 4, 900)"),
        ("id", "id BETWEEN 5 AND 50"),
        ("cat", "cat = 'c3'"),
        ("cat", "cat IS NULL"),
        ("tags", "array_has(tags, 't2')"),
        ("t", "contains(t, 'w19')"),
    ],
)
def test_filters_are_looked_up(
    home: Path, column: str, filter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "_SMALL_ROWS", 2**20)
    monkeypatch.setattr(lookup, "_SMALL_RANGES", 2**20)
    dataset = lancefs.open(home / "scalar.lance")
    assert column in SCALAR
    assert f"index {column}_idx" in dataset.scanner(filter=filter).explain()
    expected = dataset.to_table(filter=filter, use_index=False)
    assert dataset.to_table(filter=filter).equals(expected)
    assert len(expected)


@pytest.mark.parametrize("query", ["w150", "w5 w60", "w0 w1 w199"])
def test_texts_have_the_scores_of_pylance(home: Path, query: str) -> None:
    path = home / "texts.lance"
    assert "1 of 1 segment used" in lancefs.open(path).text_search(query, ["t"], 20).explain()
    found = lancefs.open(path).search(query, columns=["t"], k=20)
    theirs = lance.dataset(path).to_table(["_score"], full_text_query=query, limit=20)
    np.testing.assert_allclose(
        sorted(found["_score"].to_pylist()), sorted(theirs["_score"].to_pylist()), rtol=1e-5
    )


def test_phrases_are_found(home: Path) -> None:
    dataset = lancefs.open(home / "texts.lance")
    rows = dataset.to_table(["id", "t"]).to_pylist()
    expected = sorted(row["id"] for row in rows if " w0 w1 " in f" {row['t']} ")
    found = dataset.search(PhraseQuery("w0 w1", "t"), k=len(rows), select=["id"])
    assert sorted(found["id"].to_pylist()) == expected != []


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("kind", VECTORS)
def test_vectors_are_found_as_often_as_by_pylance(home: Path, kind: str, metric: str) -> None:
    path = home / f"{kind}-{metric}.lance"
    dataset, theirs = lancefs.open(path), lance.dataset(path)
    options = {"k": 10, "nprobes": 4, "refine_factor": 5}
    ours = pylances = 0
    for q in np.random.default_rng(9).standard_normal((40, DIMENSION)).astype(np.float32):
        assert f"index v_idx ({kind}, {metric})" in dataset.vector_search("v", q).explain()
        exact = dataset.nearest("v", q, 10, metric, columns=["id"], use_index=False)
        distances = dict(zip(exact["id"].to_pylist(), exact["_distance"].to_pylist(), strict=True))
        found = dataset.nearest("v", q, columns=["id"], **options)
        for number, distance in zip(
            *(found[name].to_pylist() for name in found.column_names), strict=True
        ):
            assert distance == pytest.approx(distances.get(number, distance), rel=1e-5)
        asked = {"column": "v", "q": q, **options}
        peer = theirs.to_table(["id", "_distance"], nearest=asked)
        ours += len(distances.keys() & set(found["id"].to_pylist()))
        pylances += len(distances.keys() & set(peer["id"].to_pylist()))
    assert ours >= pylances - 0.01 * 400
