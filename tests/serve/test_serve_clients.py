"""Programs that read URLs: fsspec with pandas and pyarrow, curl, Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from serving import Served

import lancefs
from lancefs.errors import NotALanceTable

TABLE = "teas%20%3Cb%3E%26.lance"


def test_fsspec_lists_the_tree(served: Served) -> None:
    """Links to pages are no entries."""
    fs = fsspec.filesystem("http", skip_instance_cache=True)
    top = f"{served.url}{TABLE}/"
    assert fs.ls(served.url, detail=False) == [f"{served.url}{TABLE}/"]
    found = {one["name"].removeprefix(top): one["type"] for one in fs.ls(top)}
    assert found == {
        "latest.arrow": "file",
        "latest.arrows": "file",
        "latest/": "directory",
        "versions/": "directory",
        "history.arrow": "file",
        "changes/": "directory",
        "tags/": "directory",
        "branches/": "directory",
    }
    assert fs.glob(f"{top}versions/*.arrow") == [f"{top}versions/{one}.arrow" for one in (1, 2)]


def test_pandas_reads_a_column_of_a_tag(served: Served) -> None:
    frame = pd.read_feather(f"{served.url}{TABLE}/tags/clean.arrow", columns=["id"])
    assert frame["id"].tolist() == list(range(290))


def test_lancefs_names_the_file_that_has_the_rows(served: Served) -> None:
    with pytest.raises(NotALanceTable, match=r"as 'lancefs serve' shows them; latest\.arrow has"):
        lancefs.open(f"{served.url}{TABLE}")


def test_pyarrow_reads_versions_as_a_dataset(served: Served) -> None:
    fs = fsspec.filesystem("http", skip_instance_cache=True)
    files = [f"{served.url}{TABLE}/versions/{number}.arrow" for number in (1, 2)]
    both = pads.dataset(files, filesystem=fs, format="ipc")
    assert both.count_rows() == 590


def test_curl_downloads_a_file_in_parts(served: Served, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    copy = tmp_path / "copy.arrow"
    url = f"{served.url}{TABLE}/versions/1.arrow"
    for part in ("0-999", "1000-"):
        done = subprocess.run(["curl", "-sSf", "-r", part, url], capture_output=True, check=True)
        with copy.open("ab") as file:
            file.write(done.stdout)
    assert pa.ipc.open_file(pa.OSFile(str(copy))).read_all().num_rows == 300


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_node_reads_a_table(served: Served, tmp_path: Path) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "apache-arrow"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"apache-arrow cannot be installed: {done.stderr[-200:]}")
    program = """
const { tableFromIPC } = require('apache-arrow');
tableFromIPC(fetch(process.argv[1])).then((table) =>
  console.log(table.numRows, table.getChild('tea').get(0)));
"""
    url = f"{served.url}{TABLE}/tags/clean.arrows"
    done = subprocess.run(
        ["node", "-e", program, url], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "290 Assam\n", done.stderr
