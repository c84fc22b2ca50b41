"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from running import Here


@pytest.fixture
def here(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    """Runs a command in this process."""
    return Here(capsysbinary)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tables; one has versions, deletions, a tag and a branch."""
    folder = tmp_path_factory.mktemp("shop")
    path = folder / "teas.lance"
    rows = pa.table(
        {
            "id": pa.array(range(100)),
            "tea": pa.array([["Assam", "Sencha", None][i % 3] for i in range(100)]),
            "price": pa.array([i / 4 for i in range(100)]),
        }
    )
    lance.write_dataset(rows, path, max_rows_per_file=40, enable_stable_row_ids=True)
    lance.dataset(path).delete("id >= 90")
    lance.dataset(path).tags.create("clean", 2)
    lance.dataset(path).update({"price": "price + 1"}, where="id < 5")
    lance.dataset(path).create_branch("exp", 1)
    (folder / "more").mkdir()
    lance.write_dataset(pa.table({"a": [1]}), folder / "more" / "deep.lance")
    return folder
