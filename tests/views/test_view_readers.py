"""Every reader of Arrow files reads the views."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from comparison import assert_same_table

import lancefs
from lancefs.filesystem import LanceFileSystem

PATH = "versions/2.arrow"


@pytest.fixture
def expected(wide: str) -> pa.Table:
    return lancefs.open(wide).to_table()


@pytest.fixture
def copy(wide: str, tmp_path: Path) -> Path:
    """A view, copied to a local file."""
    LanceFileSystem(fo=wide).get_file(PATH, str(tmp_path / "copy.arrow"))
    return tmp_path / "copy.arrow"


def test_pyarrow_reads_the_file(wide: str, expected: pa.Table) -> None:
    with LanceFileSystem(fo=wide).open(PATH) as file:
        reader = pa.ipc.open_file(file)
        assert reader.get_batch(1).num_rows > 20_000
        assert_same_table(reader.read_all(), expected)


def test_pyarrow_maps_a_copy_into_memory(copy: Path, expected: pa.Table) -> None:
    with pa.memory_map(str(copy)) as file:
        before = pa.total_allocated_bytes()
        table = pa.ipc.open_file(file).read_all()
        assert pa.total_allocated_bytes() - before < 100_000
        assert_same_table(table, expected)
        del table


def test_pyarrow_reads_a_dataset_of_views(wide: str, expected: pa.Table) -> None:
    fs = LanceFileSystem(fo=wide)
    dataset = pads.dataset([PATH], format="ipc", filesystem=fs)
    found = dataset.to_table(columns=["n01", "text"])
    assert_same_table(found, expected.select(["n01", "text"]))


def test_pandas_reads_columns_of_a_view(wide: str, expected: pa.Table) -> None:
    frame = pd.read_feather(f"lance://{PATH}::file://{wide}", columns=["holes", "text"])
    pd.testing.assert_frame_equal(frame, expected.select(["holes", "text"]).to_pandas())


def test_polars_reads_a_view(wide: str, copy: Path, expected: pa.Table) -> None:
    frame = pl.from_arrow(expected)
    assert isinstance(frame, pl.DataFrame)
    with LanceFileSystem(fo=wide).open(PATH) as file:
        assert pl.read_ipc(file, use_pyarrow=False).equals(frame)
    assert pl.scan_ipc(copy).select("text", "list").collect().equals(frame.select("text", "list"))


def test_duckdb_reads_a_copy_of_a_view(copy: Path, expected: pa.Table) -> None:
    shown = pads.dataset([str(copy)], format="ipc")
    got = duckdb.sql("SELECT count(*), count(holes), sum(length(text)) FROM shown").fetchall()
    lengths = [len(one) for one in expected["text"].to_pylist() if one is not None]
    holes = expected["holes"].length() - expected["holes"].null_count
    assert got == [(expected.num_rows, holes, sum(lengths))]
    del shown


@pytest.mark.parametrize("cache", ["filecache", "simplecache"])
def test_views_are_read_through_caches_of_fsspec(
    cache: str, wide: str, tmp_path: Path, expected: pa.Table
) -> None:
    url = f"{cache}::lance://{PATH}::file://{wide}"
    options: dict[str, Any] = {cache: {"cache_storage": str(tmp_path / "kept")}}
    for _ in range(2):
        with fsspec.open(url, **options) as file:
            assert_same_table(pa.ipc.open_file(file).read_all(), expected)


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with Node's apache-arrow."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    directory = tmp_path_factory.mktemp("node")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "apache-arrow"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"apache-arrow cannot be installed: {done.stderr[-200:]}")
    return directory


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_node_reads_a_copy_of_a_view(node: Path, copy: Path, expected: pa.Table) -> None:
    program = """
const { tableFromIPC } = require('apache-arrow');
const table = tableFromIPC(require('fs').readFileSync(process.argv[1]));
const text = table.getChild('text'), list = table.getChild('list'), n = table.getChild('n19');
const rows = [0, 5, 70000, table.numRows - 1].map((i) => [
  text.get(i), list.get(i) && Array.from(list.get(i), String), String(n.get(i))]);
console.log(JSON.stringify([table.numRows, table.getChild('holes').nullCount, rows]));
"""
    done = subprocess.run(
        ["node", "-e", program, str(copy)], cwd=node, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = []
    for index in (0, 5, 70_000, expected.num_rows - 1):
        one = expected.slice(index, 1).to_pylist()[0]
        rows.append([one["text"], one["list"] and [str(i) for i in one["list"]], str(one["n19"])])
    assert json.loads(done.stdout) == [expected.num_rows, expected["holes"].null_count, rows]
