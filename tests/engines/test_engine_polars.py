"""polars reads a version as a dataset, and as a file."""

from __future__ import annotations

from typing import Any

import lance
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lancefs
from lancefs.filesystem import LanceFileSystem
from lancefs.lance_dataset import LanceDataset


@pytest.fixture
def expected(table: str) -> pl.DataFrame:
    frame = pl.from_arrow(lance.dataset(table).to_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


def test_scan_pyarrow_dataset_pushes_columns_and_filters(
    table: str, expected: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    scanner = LanceDataset.scanner

    def noted(self: LanceDataset, **kwargs: Any) -> Any:
        asked.append(kwargs)
        return scanner(self, **kwargs)

    monkeypatch.setattr(LanceDataset, "scanner", noted)
    lazy = pl.scan_pyarrow_dataset(lancefs.open(table))
    found = lazy.filter(pl.col("id") > 2990, pl.col("city") == "Gent").select("cost").collect()
    where = (pl.col("id") > 2990) & (pl.col("city") == "Gent")
    assert_frame_equal(found, expected.filter(where).select("cost"))
    assert len(found) > 0
    # polars asks for the columns of the filter too, when it means to look at the rows again.
    assert all(set(one["columns"]) <= {"cost", "id", "city"} for one in asked)
    assert any("2990" in str(one.get("filter")) for one in asked)


def test_polars_reads_files_and_streams(table: str, expected: pl.DataFrame) -> None:
    fs = LanceFileSystem(fo=table)
    with fs.open("latest.arrow") as file:
        assert_frame_equal(pl.read_ipc(file), expected)
    with fs.open("latest.arrow") as file:
        assert_frame_equal(pl.scan_ipc(file).select("id").collect(), expected.select("id"))
    with fs.open("latest.arrows") as file:
        assert_frame_equal(pl.read_ipc_stream(file), expected)


def test_a_dataset_becomes_a_frame(table: str, expected: pl.DataFrame) -> None:
    assert_frame_equal(pl.DataFrame(lancefs.open(table)), expected)
    assert_frame_equal(lancefs.open(table).to_polars(), expected)
