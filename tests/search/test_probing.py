"""How many partitions a search looks at where that is not said: as many as pylance."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from vector_tables import vector_array

import lancefs

PARTITIONS = 480
ROWS = 64  # of each partition: the least number of partitions has as many as are wanted
DIMENSION = 8
K = [1, 2, 10, 11, 100, 101, 200, 201, 500, 501, 1000, 1001, 1900]


def centroids(metric: str, step: float) -> np.ndarray[Any, Any]:
    """Centroids whose squared distances from the first axis, or from 0, grow by a share."""
    draw = np.random.default_rng(3)
    squares = 0.5 * (1 + step * np.arange(PARTITIONS))
    away = draw.normal(size=(PARTITIONS, DIMENSION))
    if metric == "cosine":
        away[:, 0] = 0
    away /= np.linalg.norm(away, axis=1)[:, None]
    if metric == "l2":
        return (away * np.sqrt(squares)[:, None]).astype(np.float32)
    cosines = 1 - np.minimum(squares, 3.9) / 2
    found = away * np.sqrt(1 - cosines**2)[:, None]
    found[:, 0] = cosines
    return found.astype(np.float32)


def probed_by_pylance(path: str, q: object, k: int) -> int:
    nearest = {"column": "v", "q": q, "k": k}
    plan = lance.dataset(path).scanner(columns=["_distance"], nearest=nearest).analyze_plan()
    return max(int(number) for number in re.findall(r"partitions_searched=(\d+)", plan))


def probed(path: str, q: object, k: int) -> int:
    told = lancefs.open(path).vector_search("v", q, k).explain()
    found = re.search(r": (\d+) of", told)
    assert found is not None, told
    return int(found[1])


# Shares with which the least number of partitions, the margin, and the most count; no margin is a
# multiple of one, since distances are rounded.
@pytest.mark.parametrize("step", [0.3, 0.0127, 0.0041, 0.0001])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_as_many_partitions_are_probed_as_by_pylance(
    tmp_path: Path, metric: str, step: float
) -> None:
    path = str(tmp_path / "t.lance")
    centres = centroids(metric, step)
    vectors = np.repeat(centres, ROWS, axis=0)
    table = pa.table({"id": range(len(vectors)), "v": vector_array(vectors, None)})
    lance.write_dataset(table, path).create_index(
        "v", "IVF_FLAT", metric=metric, num_partitions=PARTITIONS, ivf_centroids=centres
    )
    q = np.eye(1, DIMENSION, dtype=np.float32)[0] * (metric == "cosine")
    assert [probed(path, q, k) for k in K] == [probed_by_pylance(path, q, k) for k in K]
