"""What the tests of the server share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from serving import Served, serving


@pytest.fixture(scope="module")
def teas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with versions, deletions, a tag, a branch, and names that mean something in HTML."""
    path = tmp_path_factory.mktemp("serve") / "teas <b>&.lance"
    names = ["Assam", "<script>alert(1)</script>", None]
    rows = pa.table(
        {
            "id": pa.array(range(300)),
            "tea": pa.array([names[i % 3] for i in range(300)]),
            "a/b, <i>": pa.array([i / 4 for i in range(300)]),
        }
    )
    lance.write_dataset(rows, path, max_rows_per_file=100)
    lance.dataset(path).delete("id >= 290")
    lance.dataset(path).tags.create("clean", 2)
    lance.dataset(path).create_branch("exp", 1)
    return path


@pytest.fixture(scope="module")
def served(teas: Path) -> Iterator[Served]:
    """A server of the table."""
    with serving(teas) as one:
        yield one
