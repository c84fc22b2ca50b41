"""Many queries at once find what each of them finds alone, and read each partition once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from vector_tables import rows, write

import lancefs
from lancefs.index.vectors import partitions, stored
from lancefs.index.vectors.partitions import VectorPartitions
from lancefs.search import candidates

DIMENSION = 16
PARTITIONS = 8


@pytest.fixture(scope="module", params=["stable", "addresses"])
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> str:
    """A table whose index covers most rows, some of which were deleted later."""
    path = write(
        tmp_path_factory.mktemp("batches") / "t.lance",
        rows(2000, DIMENSION),
        max_rows_per_file=700,
        enable_stable_row_ids=request.param == "stable",
    )
    lance.dataset(path).create_index("v", "IVF_PQ", num_partitions=PARTITIONS, num_sub_vectors=8)
    lance.dataset(path).delete("id % 3 = 1")
    return path


def _queries(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).normal(0, 3, (count, DIMENSION)).astype(np.float32)


@pytest.mark.parametrize("options", [{}, {"nprobes": 2}, {"refine_factor": 3}])
@pytest.mark.parametrize("k", [1, 10, 400, 600])
def test_a_batch_finds_what_each_query_finds_alone(
    path: str, k: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "_QUERIES_AT_ONCE", 7)
    dataset, queries = lancefs.open(path), _queries(20)
    for filter in (None, "small < 5"):
        found = dataset.nearest("v", queries, k, columns=["id"], filter=filter, **options)
        for number, query in enumerate(queries):
            own = found.filter(np.asarray(found["query_index"]) == number)
            alone = dataset.nearest("v", query, k, columns=["id"], filter=filter, **options)
            assert own.select(["id", "_distance"]).equals(alone)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("IVF_FLAT", {}),
        ("IVF_PQ", {"num_sub_vectors": 8, "num_bits": 4}),
        ("IVF_SQ", {}),
        ("IVF_RQ", {}),
    ],
)
def test_a_batch_of_any_index_finds_what_each_query_finds_alone(
    tmp_path: Path, kind: str, options: Any, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t.lance", rows(600, DIMENSION))
    lance.dataset(path).create_index("v", kind, num_partitions=3, metric=metric, **options)
    dataset, queries = lancefs.open(path), _queries(9)
    for filter in (None, "small < 5"):
        asked = dict[str, Any](columns=["id"], filter=filter, nprobes=2)
        alone = [dataset.nearest("v", query, 20, **asked) for query in queries]
        expected = pa.concat_tables(alone)
        for largest in (1 << 20, 500):  # where it is small, a partition is compared in steps
            monkeypatch.setattr(partitions, "_MAX_DISTANCES", largest)
            monkeypatch.setattr(stored, "_TABLES_BYTES", largest)
            found = dataset.nearest("v", queries, 20, **asked)
            assert found.select(["id", "_distance"]).equals(expected)


def test_a_partition_is_read_once_for_all_queries(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    original = VectorPartitions._read

    def spy(self: Any, numbers: Sequence[int]) -> Iterator[Any]:
        asked.extend(numbers)
        return original(self, numbers)

    monkeypatch.setattr(partitions.VectorPartitions, "_read", spy)
    lancefs.open(path).nearest("v", _queries(50), 3, columns=["id"], nprobes=4)
    assert sorted(asked) == sorted(set(asked))
    assert len(asked) <= PARTITIONS
