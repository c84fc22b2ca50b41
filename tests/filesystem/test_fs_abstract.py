"""The read side of fsspec's own tests of filesystems, on `LanceFileSystem`.

Those tests make files called `file1` or `subdir/subfile1`, which a tree of fixed names cannot hold:
here the functions that join names put ours in their place, for source and target alike. What needs
files of any name or nesting, or writes, is left out; getting directories is tested below instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

from lancefs.filesystem import LanceFileSystem

NAMES = {
    "source": "versions/2",
    "file1": "schema.json",
    "file2": "manifest.json",
    "subdir": "columns",
    "subfile1": "id.arrow",
    "subfile2": "name.arrow",
}
POSSIBLE = {
    "test_get_file_to_existing_directory",
    "test_get_file_to_new_directory",
    "test_get_file_to_file_in_existing_directory",
    "test_get_file_to_file_in_new_directory",
    "test_get_list_of_files_to_existing_directory",
    "test_get_list_of_files_to_new_directory",
}


def join(*parts: Any) -> str:
    return os.path.join(*(NAMES.get(str(part), str(part)) for part in parts))


class LanceFixtures(AbstractFixtures):  # type: ignore[misc]
    @pytest.fixture
    def fs(self, shared_table: str) -> LanceFileSystem:
        return LanceFileSystem(fo=shared_table)

    @pytest.fixture
    def fs_path(self) -> str:
        return ""

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return join

    @pytest.fixture
    def local_join(self) -> Callable[..., str]:
        return join

    @pytest.fixture
    def local_fs(self) -> LocalFileSystem:
        return LocalFileSystem(auto_mkdir=False)  # in old releases, pytest warns of fsspec's own

    @pytest.fixture
    def local_path(self, tmp_path: Path) -> str:
        return str(tmp_path)

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, fs: LanceFileSystem) -> Iterator[str]:
        assert all(fs.isfile(join("source", name)) for name in ("file1", "file2"))
        yield join("source")
        assert fs.exists(join("source"))  # nobody removed anything


class TestGet(LanceFixtures, AbstractGetTests):  # type: ignore[misc]
    pass


for name in dir(AbstractGetTests):
    if name.startswith("test_") and name not in POSSIBLE:
        setattr(TestGet, name, None)


def test_all_applicable_tests_of_fsspec_run() -> None:
    assert {name for name in dir(TestGet) if callable(getattr(TestGet, name))} >= POSSIBLE


@pytest.mark.parametrize("slash", ["", "/"])
def test_directories_are_downloaded_recursively(
    slash: str, fs: LanceFileSystem, tmp_path: Path
) -> None:
    target = str(tmp_path / "target")
    local = LocalFileSystem()
    expected = {path.removeprefix("versions/2/"): path for path in fs.find("versions/2")}
    for _ in range(2):  # into a new directory, then into one that is there
        fs.get(f"versions/2{slash}", target, recursive=True)
        for name, path in expected.items():
            assert (tmp_path / "target" / name).read_bytes() == fs.cat_file(path)
    assert local.exists(f"{target}/2") == (slash == "")


def test_globs_are_downloaded_with_and_without_subdirectories(
    fs: LanceFileSystem, tmp_path: Path
) -> None:
    fs.get("versions/2/*", str(tmp_path / "flat") + "/")
    assert sorted(os.listdir(tmp_path / "flat")) == sorted(
        name.rpartition("/")[2] for name in fs.ls("versions/2", detail=False) if fs.isfile(name)
    )
    fs.get("versions/2/col*", str(tmp_path / "deep") + "/", recursive=True)
    got = [path.name for path in (tmp_path / "deep").rglob("*.arrow")]
    assert sorted(got) == sorted(
        path.rpartition("/")[2] for path in fs.ls("versions/2/columns", detail=False)
    )
