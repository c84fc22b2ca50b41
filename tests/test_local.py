"""Local tables are found, listed and read as fsspec would, and without it."""

from __future__ import annotations

from pathlib import Path

import fsspec
import lance
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

import lancefs
from lancefs.cli.target import Target
from lancefs.errors import NotALanceTable
from lancefs.filesystem import LanceFileSystem
from lancefs.storage import Store
from lancefs.storage.local_files import list_directory, local_path


@pytest.mark.parametrize(
    "url", ["/", "/a/b", "/a/b/", "/a/../b", ".", "./a", "a/b/", "../a", "a b"]
)
def test_a_plain_path_is_what_fsspec_makes_of_it(url: str) -> None:
    assert local_path(url) == fsspec.core.url_to_fs(url)[1]


@pytest.mark.parametrize(
    "url", ["s3://b/t", "file:///a", "file:a", "zip://a::/b", "~/a", "~user/a"]
)
def test_urls_that_are_not_plain_paths_are_left_to_fsspec(url: str) -> None:
    assert local_path(url) is None


def test_a_path_with_colons_in_it_is_no_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain `a::b` would be read as the folder `a`, whatever follows."""
    for name, rows in {"a": 1, "a::b.lance": 3}.items():
        lance.write_dataset(pa.table({"x": range(rows)}), tmp_path / "t")
        (tmp_path / "t").rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for path in ("a::b.lance", "./a::b.lance", f"{tmp_path}/a::b.lance"):
        assert lancefs.open(path).count_rows() == 3
        assert LanceFileSystem(fo=path).info("latest.arrow")["version"] == 1
        assert Target(path).dataset.count_rows() == 3
    assert lancefs.open(f"{tmp_path}/a::b.lance@v1").count_rows() == 3
    with pytest.raises(NotALanceTable, match=r"/a::c\.lance: there is no such directory"):
        lancefs.open(f"{tmp_path}/a::c.lance")
    assert fsspec.filesystem("lance", fo="a::b.lance").root == f"{tmp_path}/a::b.lance"


def test_a_listing_is_that_of_fsspec(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"four")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "to folder").symlink_to(tmp_path / "folder")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    listed = LocalFileSystem().ls(str(tmp_path), detail=True)
    expected = {info["name"].rpartition("/")[2]: info for info in listed}
    found = dict(list_directory(str(tmp_path)))
    assert found.keys() == expected.keys()
    for name, info in found.items():
        assert (info["name"], info["size"]) == (expected[name]["name"], expected[name]["size"])
    assert {name: info["type"] for name, info in found.items()} == {
        "file": "file",
        "folder": "directory",
        "link": "file",
        "to folder": "directory",
        "dangling": "other",
    }


def test_a_listing_of_anything_but_a_directory_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"four")
    store = Store(None, str(tmp_path))
    assert store.entries("nothing") == store.entries("file") == []
    assert store.names() == ["file"]


def test_a_new_version_is_seen(tmp_path: Path) -> None:
    store = Store(None, str(tmp_path))
    assert store.names() == []
    (tmp_path / "later").write_bytes(b"")
    store.refresh("")
    assert store.names() == ["later"]


def test_the_local_filesystem_is_created_on_demand(tmp_path: Path) -> None:
    store = Store(None, str(tmp_path))
    assert store.is_local
    assert isinstance(store.fs, LocalFileSystem)
    assert store.url("a") == Store(LocalFileSystem(), str(tmp_path)).url("a")
