"""Fixtures of the tests of views: a table of several batches, and a store that counts."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from leaks import forget_views, no_thread_is_left
from protocol import registered
from store_doubles import CountingFileSystem

__all__ = ["no_thread_is_left", "registered"]  # pytest finds them here

ROWS = 150_000


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """Clear the caches of views before each test."""
    forget_views()


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of two fragments, with deletions in the first: 20 numbers, some nulls, strings."""
    path = str(tmp_path_factory.mktemp("wide") / "wide.lance")
    rng = np.random.default_rng(7)
    columns: dict[str, Any] = {f"n{i:02}": rng.integers(0, 2**60, ROWS) for i in range(20)}
    columns["holes"] = pa.array(np.arange(ROWS), mask=rng.random(ROWS) < 0.1)
    columns["text"] = [
        f"text {i % 1000} " + "x" * (i % 13) if i % 11 else None for i in range(ROWS)
    ]
    columns["list"] = pa.array([[i, i + 1] if i % 3 else None for i in range(ROWS)])
    table = pa.table(columns)
    lance.write_dataset(table, path, max_rows_per_file=100_000).delete("n00 % 7 = 0")
    return path


@pytest.fixture
def counting(wide: str) -> CountingFileSystem:
    """A store with the wide table as `/wide.lance` that counts fetched bytes."""
    fs = CountingFileSystem()
    fs.put_tree(wide, "/wide.lance")
    return fs
