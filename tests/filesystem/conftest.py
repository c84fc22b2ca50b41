"""Tables that the tests of the filesystem read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fs_tables import write_table
from leaks import no_thread_is_left
from protocol import registered

from lancefs.filesystem import LanceFileSystem

__all__ = ["no_thread_is_left", "registered"]  # pytest finds them here


@pytest.fixture(scope="session")
def shared_table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table that no test changes; see `write_table`."""
    path = str(tmp_path_factory.mktemp("shared") / "a table é.lance")
    write_table(path)
    return path


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table that the test may change, alone in its directory; see `write_table`."""
    path = str(tmp_path / "t.lance")
    write_table(path)
    return path


@pytest.fixture
def fs(shared_table: str) -> LanceFileSystem:
    """A filesystem whose paths begin in the shared table."""
    return LanceFileSystem(fo=shared_table)


@pytest.fixture
def in_memory(shared_table: str) -> Iterator[str]:
    """Path of a copy of the shared table in fsspec's memory filesystem."""
    memory = fsspec.filesystem("memory")
    memory.put(shared_table, "/lake/m.lance", recursive=True)
    yield "/lake/m.lance"
    memory.rm("/lake", recursive=True)


@pytest.fixture
def lake(tmp_path: Path, shared_table: str) -> Path:
    """A directory with tables at two depths, an empty directory, and a file."""
    for name in ("one.lance", "deep/er/two.lance"):
        shutil.copytree(shared_table, tmp_path / "lake" / name)
    (tmp_path / "lake" / "notes").mkdir()
    (tmp_path / "lake" / "README.txt").write_text("not a table")
    return tmp_path / "lake"
