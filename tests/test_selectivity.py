"""Estimates of how many rows a filter keeps, from a sample of its columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.errors import MissingFile
from lancefs.scan import selectivity
from lancefs.scan.selectivity import Selectivity, estimate_selectivity

ROWS = 20_000


@pytest.fixture(autouse=True)
def any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any length are large."""
    monkeypatch.setattr(selectivity, "_MIN_ROWS", 1000)
    monkeypatch.setattr(selectivity, "_MIN_FRAGMENT_ROWS", 1000)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(5)
    percent = random.integers(0, 100, ROWS)
    rows = {
        "id": pa.array(range(ROWS)),
        "percent": pa.array([None if n % 10 == 0 else v for n, v in enumerate(percent.tolist())]),
        "ratio": pa.array([math.nan if v < 30 else v / 100 for v in percent.tolist()]),
        "word": pa.array([f"word {v:02d}" for v in percent.tolist()]),
        "level": pa.array([("info", "error")[v > 95] for v in percent.tolist()]),
        "flag": pa.array((percent < 85).tolist()),
        "st": pa.array([{"x": v} for v in percent.tolist()]),
        "long": pa.array([f"{n}" * 200 for n in range(ROWS)]),
        "items": pa.array([[n] for n in range(ROWS)]),
        "colour": pa.array([("red", "blue")[n % 2] for n in range(ROWS)]).dictionary_encode(),
    }
    where = str(tmp_path_factory.mktemp("kept") / "t.lance")
    lance.write_dataset(pa.table(rows), where, max_rows_per_file=6000)
    lance.dataset(where).delete("id % 97 = 5")
    return where


@pytest.fixture
def estimate(path: str) -> Callable[[pc.Expression], Selectivity | None]:
    version = lancefs.open(path).opened
    return lambda filter: estimate_selectivity(filter, version)


SCATTERED = [
    (pc.field("percent") < 80, 0.72),
    (pc.field("percent") >= 0, 0.9),
    (~(pc.field("percent") < 80), 0.18),
    (pc.field("percent").is_null() | (pc.field("percent") < 50), 0.55),
    (pc.field("ratio") > 0.5, 0.49),
    (pc.is_nan(pc.field("ratio")), 0.3),
    (pc.field("word") >= "word 20", 0.8),
    (pc.field("level") == "info", 0.96),
    (pc.field("level").isin(["info", "error"]), 1.0),
    (pc.field("flag"), 0.85),
    (pc.field("st", "x") >= 10, 0.9),
    ((pc.field("st", "x") >= 10) & (pc.field("word") < "word 50"), 0.4),
    (pc.add(pc.field("percent"), 1) > 50, 0.45),
]


@pytest.mark.parametrize(("filter", "kept"), SCATTERED, ids=lambda value: str(value)[:40])
def test_the_share_of_rows_is_near_the_real_one(
    estimate: Any, path: str, filter: pc.Expression, kept: float
) -> None:
    found = estimate(filter)
    dataset = lancefs.open(path)
    real = dataset.count_rows(filter=filter) / dataset.count_rows()
    assert abs(real - kept) < 0.02
    assert abs(found.passing_share - real) < 0.06
    assert found.left_out == 0
    assert found.is_scattered


@pytest.mark.parametrize(
    ("filter", "kept"),
    [(pc.field("id") < 15_000, 0.75), (pc.field("id") >= 2000, 0.9), (pc.field("id") == 7, 0)],
    ids=str,
)
def test_rows_that_are_left_out_of_a_sorted_column_lie_together(
    estimate: Any, filter: pc.Expression, kept: float
) -> None:
    found = estimate(filter)
    assert abs(found.passing_share - kept) < 0.07
    assert abs(found.left_out - (1 - kept)) < 0.07
    assert not found.is_scattered


def test_no_row_and_all_rows_are_told(estimate: Any) -> None:
    assert estimate(pc.field("id") < 0) == (0, 1)
    assert not estimate(pc.field("id") < 0).is_scattered
    assert estimate(pc.field("id") >= 0) == (1, 0)
    assert estimate(pc.field("id") >= 0).is_scattered


@pytest.mark.parametrize(
    "filter",
    [
        pc.field("percent").is_valid(),  # reads no values
        pc.field("percent").is_null(),
        pc.field("percent").is_valid() & (pc.field("id") > 5),
        pc.field("long") > "5",  # long values
        pc.field("st").is_null(),
        pc.list_value_length(pc.field("items")) > 0,
        pc.field("colour") == "red",
        pc.field("_rowid") > 5,  # is known without a column
        pc.scalar(True),
        pc.field("id").isin(range(5000)),
    ],
    ids=str,
)
def test_some_filters_are_not_estimated(estimate: Any, filter: pc.Expression) -> None:
    assert estimate(filter) is None


def test_small_tables_and_small_fragments_are_not_estimated(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, filter = lancefs.open(path).opened, pc.field("id") > 5
    monkeypatch.setattr(selectivity, "_MIN_FRAGMENT_ROWS", 8000)
    assert estimate_selectivity(filter, version) is None
    monkeypatch.setattr(selectivity, "_MIN_FRAGMENT_ROWS", 1000)
    monkeypatch.setattr(selectivity, "_MIN_ROWS", 512 * 1024)
    assert estimate_selectivity(filter, version) is None


def test_a_remote_table_is_not_sampled(path: str) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(path, "/selectivity/t.lance", recursive=True)
    version = lancefs.open("memory://selectivity/t.lance").opened
    assert estimate_selectivity(pc.field("percent") < 80, version) is None


def test_equal_values_are_left_to_the_indices_of_a_table(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"level": ["info"] * 5000, "id": range(5000)}), where)
    same, more = pc.field("level") == "info", pc.field("level") >= "info"
    assert estimate_selectivity(same, lancefs.open(where).opened) == (1, 0)
    lance.dataset(where).create_scalar_index("level", "BITMAP")
    version = lancefs.open(where).opened
    assert estimate_selectivity(same, version) is None
    assert estimate_selectivity(pc.field("level").isin(["info", "error"]), version) is None
    assert estimate_selectivity(more, version) == (1, 0)


def test_a_column_is_sampled_once_for_an_open_version(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = lancefs.open(path).opened
    first = estimate_selectivity(pc.field("percent") < 80, version)
    assert estimate_selectivity(pc.field("percent") < 80, version) is first
    monkeypatch.setattr(selectivity, "_read_sample", None)
    assert estimate_selectivity(pc.field("percent") < 0, version) == (0, 1)
    with pytest.raises(TypeError):
        estimate_selectivity(pc.field("percent") < 80, lancefs.open(path).opened)


def test_a_sample_outlives_a_memory_pool_that_the_user_sets_and_drops(path: str) -> None:
    version, filter = lancefs.open(path).opened, pc.field("word") >= "word 20"
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        first = estimate_selectivity(filter, version)
    finally:
        pa.set_memory_pool(before)
    assert pool.bytes_allocated() == 0
    del pool
    assert estimate_selectivity(filter, version) == first


def test_each_version_has_its_own_sample(tmp_path: Path) -> None:
    where, filter = str(tmp_path / "t.lance"), pc.field("n") > 0
    lance.write_dataset(pa.table({"n": [1] * 5000}), where)
    lance.write_dataset(pa.table({"n": [0] * 5000}), where, mode="overwrite")
    assert estimate_selectivity(filter, lancefs.open(f"{where}@v1").opened) == (1, 0)
    assert estimate_selectivity(filter, lancefs.open(where).opened) == (0, 1)


def test_a_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    where = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"n": [1] * 5000}), str(where))
    (file,) = (where / "data").iterdir()
    file.unlink()
    with pytest.raises(MissingFile):
        estimate_selectivity(pc.field("n") > 0, lancefs.open(str(where)).opened)
