"""pandas reads a version by its URL."""

from __future__ import annotations

from pathlib import Path

import fsspec
import lance
import pandas as pd
import pytest
from support import modules_after


@pytest.fixture
def addresses(table: str) -> list[str]:
    """The table, directly and chained over two stores; where the path in its tree goes is a {}."""
    memory = fsspec.filesystem("memory")
    memory.put(table, "/t.lance", recursive=True)
    return [
        f"lance://{table}/{{}}",
        f"lance://{{}}::file://{table}",
        "lance://{}::memory://t.lance",
    ]


def test_read_feather_of_any_version(table: str, addresses: list[str]) -> None:
    for version in (1, 2, 3, 4):
        expected = lance.dataset(table, version=version).to_table().to_pandas()
        for address in addresses:
            frame = pd.read_feather(address.format(f"versions/{version}.arrow"))
            pd.testing.assert_frame_equal(frame, expected)


def test_read_feather_of_some_columns(table: str, addresses: list[str]) -> None:
    expected = lance.dataset(table).to_table(columns=["cost", "id"]).to_pandas()
    for address in addresses:
        frame = pd.read_feather(address.format("latest.arrow"), columns=["cost", "id"])
        pd.testing.assert_frame_equal(frame[["cost", "id"]], expected)
        frame = pd.read_feather(address.format("latest/columns/cost,id.arrow"))
        pd.testing.assert_frame_equal(frame, expected)


def test_the_first_read_of_a_process_imports_what_it_needs(table: str) -> None:
    url = f"lance://latest.arrow::file://{table}"
    modules = modules_after(f"import pandas; print(pandas.read_feather({url!r}).shape)")
    assert "lancefs.views.open_tables" in modules
    assert not {"lancefs.lance_dataset", "pyarrow.dataset", "pyarrow.acero"} & modules


def test_a_table_that_pandas_made_keeps_its_index_and_types(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    frame = pd.DataFrame(
        {"when": pd.date_range("2026-01-31", periods=3, tz="Europe/Brussels"), "n": [1, 2, 3]},
        index=pd.Index(["x", "y", "z"], name="key"),
    )
    lance.write_dataset(frame, path)
    read = pd.read_feather(f"lance://{path}/latest.arrow")
    expected = lance.dataset(path).to_table().to_pandas()
    pd.testing.assert_frame_equal(read, expected)
    one = pd.read_feather(f"lance://{path}/latest/columns/n.arrow")
    assert one["n"].tolist() == [1, 2, 3]
