"""Text searches in a remote table: rounds of requests."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from store_doubles import ChainFileSystem

from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose index files are larger than the end of a file that is read at once."""
    path = tmp_path_factory.mktemp("remote") / "t.lance"
    picked = np.random.default_rng(0).zipf(1.3, (60_000, 5)).clip(max=300)
    rows = pa.table({"t": [" ".join(map("word{}".format, row)) for row in picked.tolist()]})
    lance.write_dataset(rows, path)
    lance.dataset(path).create_scalar_index("t", "INVERTED", with_position=True)
    return path


def test_the_first_search_takes_three_rounds_of_requests_and_the_next_one_less(table: Path) -> None:
    fs = ChainFileSystem()
    dataset = LanceDataset(OpenVersion(resolve(Store(fs, str(table)))))

    def rounds_of_search(words: str) -> int:
        with fs.counting() as counted:
            assert "1 of 1 segment used" in dataset.text_search(words).explain()
        return counted["rounds"]

    assert rounds_of_search("word1 word12") <= 3
    assert rounds_of_search("word1 word12") == 0
    assert rounds_of_search("word13 word12 word200") <= 2


def test_a_search_opens_the_files_of_a_small_table(table: Path) -> None:
    """They are open when it is known which of them has the rows: a round less."""
    fs = ChainFileSystem()
    dataset = LanceDataset(OpenVersion(resolve(Store(fs, str(table)))))
    dataset.text_search("word1 word12").explain()
    asked = {request.removeprefix("GET ") for request in fs.requests}
    assert {str(each) for each in table.glob("data/*")} < asked
