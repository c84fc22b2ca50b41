"""NaN with a sign, which Lance puts before all numbers in a BTREE index over floats."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs

COUNT = 20_000
FILTERS = [
    *("x = 7", "x > 19990", "x >= 3 and x <= 9", "x < 3", "x in (1, 2, 19999)", "isnan(x)"),
    *("x = cast('nan' as double)", "x is null", "x is not null", "not (x > 5)", "x <> 7", "x <= 0"),
]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("signs", [(-1, -1, -1), (-1, 1, 1), (1, 1, 1)])
@pytest.mark.parametrize("nulls", [0, 1, 5000])
@pytest.mark.parametrize("nans", [3, 9000])
def test_an_index_finds_what_a_scan_does(
    tmp_path: Path, kind: type, signs: tuple[int, ...], nulls: int, nans: int
) -> None:
    x = np.arange(COUNT).astype(kind)
    places = np.arange(nans) * 2 + 1
    x[places] = np.copysign(np.nan, np.resize(signs, nans)).astype(kind)
    valid = np.arange(COUNT) % 2 == 0
    mask = valid & (np.cumsum(valid) <= nulls)
    rows = pa.table({"x": pa.array(x, mask=mask), "row": range(COUNT)})
    lance.write_dataset(rows, str(tmp_path / "t.lance"))
    lance.dataset(str(tmp_path / "t.lance")).create_scalar_index("x", "BTREE")
    dataset = lancefs.open(str(tmp_path / "t.lance"))
    for filter in FILTERS:
        expected = dataset.without_indices().to_table(["row"], filter=filter)
        assert dataset.to_table(["row"], filter=filter) == expected, filter


@pytest.mark.parametrize("numbers", [[], [-1.0, 2.0], [-1.0, 2.0, np.nan]])
def test_numbers_are_found_where_every_page_begins_with_nan(
    tmp_path: Path, numbers: list[float]
) -> None:
    x = np.array([np.copysign(np.nan, -1), *numbers])
    lance.write_dataset(pa.table({"x": x, "row": range(len(x))}), str(tmp_path / "t.lance"))
    lance.dataset(str(tmp_path / "t.lance")).create_scalar_index("x", "BTREE")
    dataset = lancefs.open(str(tmp_path / "t.lance"))
    for filter in FILTERS:
        expected = dataset.without_indices().to_table(["row"], filter=filter)
        assert dataset.to_table(["row"], filter=filter) == expected, filter
        assert dataset.count_rows(filter) == expected.num_rows, filter
