"""What profiles of two versions tell: how their values differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lancefs
from lancefs.profile.drift import ColumnDrift

ROWS = 4000


def _drift(path: Path, old: pa.Table, new: pa.Table) -> dict[str, ColumnDrift]:
    """Write two versions, and return how the columns of the second differ."""
    lance.write_dataset(old, path)
    lance.write_dataset(new, path, mode="overwrite")
    dataset = lancefs.open(path)
    found = dataset.describe().drift(dataset.checkout(1).describe())
    return {one.name: one for one in found}


def _largest_difference(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> float:
    """Return the largest difference of the shares of values up to any number."""
    places = np.union1d(old, new)
    shares = [np.searchsorted(np.sort(one), places, side="right") / len(one) for one in (old, new)]
    return float(np.abs(shares[0] - shares[1]).max())


def test_a_version_does_not_differ_from_itself(tmp_path: Path) -> None:
    rows = pa.table({"x": range(100), "s": ["a", None] * 50, "l": [[1], []] * 50})
    lance.write_dataset(rows, tmp_path / "t.lance")
    profile = lancefs.open(tmp_path / "t.lance").describe()
    for drift in profile.drift(profile):
        assert (drift.change, drift.distance, drift.shares) == (None, 0.0, ())


@pytest.mark.parametrize("shift", [0.0, 0.1, 1.0, 10.0])
def test_the_distance_of_numbers_is_that_of_their_distributions(
    tmp_path: Path, shift: float
) -> None:
    rng = np.random.default_rng(1)
    old, new = rng.normal(size=ROWS), rng.normal(size=ROWS) + shift
    drift = _drift(tmp_path / "t.lance", pa.table({"x": old}), pa.table({"x": new}))["x"]
    assert drift.distance == pytest.approx(_largest_difference(old, new), abs=0.011)
    assert drift.quantiles is not None
    for share, (before, now) in drift.quantiles.items():
        assert before == np.quantile(old, share, method="inverted_cdf")
        assert now == np.quantile(new, share, method="inverted_cdf")


@pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 3), (3, 3), (9, 40), (150, 200)])
def test_the_distance_of_few_numbers_is_exact(tmp_path: Path, before: int, now: int) -> None:
    rng = np.random.default_rng(before)
    old, new = rng.normal(size=before), rng.normal(size=now)
    drift = _drift(tmp_path / "t.lance", pa.table({"x": old}), pa.table({"x": new}))["x"]
    assert drift.distance == pytest.approx(_largest_difference(old, new))


def test_the_distance_of_texts_is_half_of_what_their_shares_differ_by(tmp_path: Path) -> None:
    old = pa.table({"s": ["a"] * 50 + ["b"] * 30 + [None] * 20})
    new = pa.table({"s": ["a"] * 40 + ["b"] * 20 + ["c"] * 40})
    drift = _drift(tmp_path / "t.lance", old, new)["s"]
    assert drift.distance == pytest.approx((0.1 + 0.1 + 0.4 + 0.2) / 2)
    found = {one.value: (one.old, one.new) for one in drift.shares}
    assert next(iter(found)) == "c"
    assert found == {"a": (0.5, 0.4), "b": (0.3, 0.2), "c": (0.0, 0.4), None: (0.2, 0.0)}


def test_times_and_vectors_drift_as_numbers_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    days, vectors = rng.integers(0, 1000, ROWS), rng.normal(size=(ROWS, 4)).astype("f4")

    def table(later: int, longer: float) -> pa.Table:
        return pa.table(
            {
                "day": pa.array((days + later).astype("i4")).cast(pa.date32()),
                "vector": pa.array((vectors * longer).tolist(), pa.list_(pa.float32(), 4)),
            }
        )

    found = _drift(tmp_path / "t.lance", table(0, 1), table(200, 2))
    assert found["day"].distance == pytest.approx(_largest_difference(days, days + 200), abs=0.011)
    norms = np.linalg.norm(vectors, axis=1)
    expected = _largest_difference(norms, 2 * norms)
    assert found["vector"].distance == pytest.approx(expected, abs=0.011)


def test_texts_that_are_all_different_are_compared_by_their_lengths(tmp_path: Path) -> None:
    old = pa.table({"s": [f"{i:08}" for i in range(12_000)]})
    new = pa.table({"s": [f"{i:016}" for i in range(12_000)]})
    assert _drift(tmp_path / "t.lance", old, new)["s"].distance == 1.0
    assert _drift(tmp_path / "u.lance", old, old)["s"].distance == 0.0


def test_many_values_that_come_in_another_order_are_the_same(tmp_path: Path) -> None:
    texts = [f"{i % 2500:05}" for i in range(5000)]
    old, new = pa.table({"s": texts}), pa.table({"s": texts[::-1]})
    drift = _drift(tmp_path / "t.lance", old, new)["s"]
    assert (drift.distance, drift.shares) == (0.0, ())


def test_missing_values_are_part_of_the_distance(tmp_path: Path) -> None:
    old = pa.table({"x": pa.array(range(100))})
    new = pa.table({"x": pa.array([None if i % 4 else i for i in range(100)])})
    assert _drift(tmp_path / "t.lance", old, new)["x"].distance == 0.75


def test_columns_that_came_went_or_changed_their_type_are_told(tmp_path: Path) -> None:
    old = pa.table({"gone": [1], "kept": [1], "typed": [1], "wider": pa.array([1], pa.int32())})
    new = pa.table({"kept": [1], "come": [1], "typed": ["1"], "wider": pa.array([1], pa.int64())})
    found = _drift(tmp_path / "t.lance", old, new)
    assert list(found) == ["kept", "come", "typed", "wider", "gone"]
    assert [one.change for one in found.values()] == [
        None,
        "added",
        "retyped",
        "retyped",
        "dropped",
    ]
    assert found["typed"].distance is None
    assert found["wider"].distance == 0.0
    assert found["come"].old is None
    assert found["gone"].new is None


def test_versions_without_rows_are_at_no_distance(tmp_path: Path) -> None:
    empty = pa.table({"x": pa.array([], pa.int64())})
    drift = _drift(tmp_path / "t.lance", empty, pa.table({"x": [1]}))["x"]
    assert (drift.distance, drift.change) == (None, None)


def test_what_drifted_is_told_as_python_values(tmp_path: Path) -> None:
    drift = _drift(tmp_path / "t.lance", pa.table({"x": [1, 1]}), pa.table({"x": [1, 2]}))["x"]
    said = drift.to_dict()
    assert said["name"] == "x"
    assert said["quantiles"]["0.99"] == [1, 2]
    assert said["shares"][0] == {"value": 1, "old": 1.0, "new": 0.5}
    assert (said["old"]["max"], said["new"]["max"]) == (1, 2)
