"""A table of several batches, and stores and readers that count, for the tests of views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from leaks import no_thread_is_left
from views_support import CountingFileSystem, forget

from lancefs.filesystem import LanceFileSystem
from lancefs.table.fragment_reader import FragmentReader

__all__ = ["no_thread_is_left"]  # pytest finds it here

ROWS = 150_000


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """The filesystem under its protocol, and nothing remembered of earlier tests."""
    fsspec.register_implementation("lance", LanceFileSystem, clobber=True)
    forget()
    yield
    LanceFileSystem.clear_instance_cache()


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
def counting(wide: str) -> Iterator[CountingFileSystem]:
    """The wide table as `/wide.lance` in a store that counts what is fetched."""
    fs = CountingFileSystem()
    fs.store.clear()
    for path in Path(wide).rglob("*"):
        if path.is_file():
            fs.pipe_file(f"/wide.lance/{path.relative_to(wide)}", path.read_bytes())
    fs.fetched.clear()
    yield fs
    fs.store.clear()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns whose values are decoded during a test, once for each batch."""
    return _noted(monkeypatch, outlines=False)


@pytest.fixture
def outlined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns of which outlines are read during a test, once for each batch."""
    return _noted(monkeypatch, outlines=True)


def _noted(monkeypatch: pytest.MonkeyPatch, outlines: bool) -> list[str]:
    seen: list[str] = []
    read = FragmentReader.read

    def noted(self: FragmentReader, fields: Any, *arguments: Any) -> list[pa.Array]:
        seen.extend(field.name for field in fields if field.is_outline == outlines)
        return read(self, fields, *arguments)

    monkeypatch.setattr(FragmentReader, "read", noted)
    return seen
