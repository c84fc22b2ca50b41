"""Base paths: where files lie, what is followed, and what may not climb out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support import local_store

from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.storage import Store
from lancefs.table.base_paths import BaseRules, TableFiles
from lancefs.table.fragments import DataFile, DeletionFile, DeletionKind, Fragment
from lancefs.table.manifest import BasePath


def data_file(path: str, base: int | None = None, size: int | None = None) -> DataFile:
    return DataFile(path, (0,), (0,), 2, 1, size, base)


def deleted(base: int | None = None) -> Fragment:
    return Fragment(3, (), DeletionFile(DeletionKind.ARROW, 1, 2, None, base))


def files(bases: Sequence[BasePath] = (), rules: BaseRules | None = None) -> TableFiles:
    return TableFiles(local_store("/data/t.lance"), bases, rules)


def test_files_without_a_base_lie_in_the_table() -> None:
    file = files().data_file(data_file("a/b.lance", size=7))
    assert (file.url, file.size) == ("/data/t.lance/data/a/b.lance", 7)
    assert files().deletion_file(deleted()).url == "/data/t.lance/_deletions/3-1-2.arrow"
    assert files().file("", "_refs/x").url == "/data/t.lance/_refs/x"


def test_a_base_is_a_table_or_a_plain_directory() -> None:
    found = files(
        [BasePath(0, None, True, "/data/t2.lance"), BasePath(7, "x", False, "/data/plain/")]
    )
    assert found.data_file(data_file("a.lance", 0)).url == "/data/t2.lance/data/a.lance"
    assert found.data_file(data_file("a.lance", 7)).url == "/data/plain/a.lance"
    assert found.deletion_file(deleted(0)).url == "/data/t2.lance/_deletions/3-1-2.arrow"
    assert found.deletion_file(deleted(7)).url == "/data/plain/3-1-2.arrow"
    first, second = (found.data_file(data_file(name, 0)) for name in ("a", "b"))
    assert first.store is second.store  # read as one round of requests


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "a/../../x", "a/..", "..", "/etc/passwd", "", "..\\x", "a\\..\\..\\x", "a\0b"),
        *(
            "%2e%2e/x",
            "a/%2E%2E/%2e%2e/x",
            ".%2e/x",
            "%252e%252e/x",
            "%2e%2e%2fx",
            "%" + 9 * "25" + "2e%2e",
        ),
    ],
)
def test_a_path_that_leaves_its_base_is_damage(path: str) -> None:
    bases = [BasePath(0, None, True, "/data/t2.lance"), BasePath(1, None, False, "/data/plain")]
    for base in (None, 0, 1):
        with pytest.raises(CorruptFile, match="stays below its base"):
            files(bases).data_file(data_file(path, base))


@pytest.mark.parametrize(
    ("path", "base", "said"),
    [
        ("../x", None, "the manifest names the file '../x'"),
        ("x", 5, "below base path 5"),
        ("x", 0, "base path 0 (/etc) lies outside of /data"),
        ("x", 1, "base path 1 (s3://b/x) lies in another store"),
        ("x", 2, "base path 2 is '../up', not an absolute path"),
    ],
)
def test_errors_about_names_in_a_manifest_tell_the_table_and_the_version(
    path: str, base: int | None, said: str
) -> None:
    places = [("/etc", 0), ("s3://b/x", 1), ("../up", 2)]
    bases = [BasePath(number, None, False, place) for place, number in places]
    found = TableFiles(local_store("/data/t.lance").of_version("3"), bases)
    with pytest.raises((CorruptFile, UnsupportedFeature)) as caught:
        found.data_file(data_file(path, base))
    assert str(caught.value).startswith("/data/t.lance: version 3: ")
    assert said in str(caught.value)


def test_base_paths_with_the_same_id_are_damage_of_a_table() -> None:
    bases = [BasePath(1, None, False, place) for place in ("/data/a", "/data/b")]
    with pytest.raises(CorruptFile, match=r"^/data/t\.lance: two base paths .* have the same id"):
        files(bases)


@pytest.mark.parametrize("path", ["..a", "a..b", "a...", ".a", "x y", "100%", "a%20b", "%zz"])
def test_dots_in_a_name_are_no_way_up(path: str) -> None:
    assert files().data_file(data_file(path)).path == f"data/{path}"


def test_a_base_that_is_not_there_or_there_twice_is_damage() -> None:
    with pytest.raises(CorruptFile, match=r"base path 5, the manifest has \[0\]"):
        files([BasePath(0, None, True, "/x")]).data_file(data_file("a", 5))
    with pytest.raises(CorruptFile, match="same id"):
        files([BasePath(0, None, True, "/x"), BasePath(0, None, True, "/y")])


@pytest.mark.parametrize(
    "path", ["", "/a/../b", "s3://bucket/../x", "s3://bucket/%2e%2e/x", "/a\0b"]
)
def test_a_base_that_climbs_is_damage(path: str) -> None:
    with pytest.raises(CorruptFile, match="not an absolute path"):
        files([BasePath(0, None, True, path)], BaseRules("any")).data_file(data_file("a", 0))


def test_a_base_in_the_same_store_may_be_an_address() -> None:
    for path in ("file:///data/other", "local:///data/other"):
        found = files([BasePath(0, None, True, path)])
        assert found.data_file(data_file("a", 0)).url == "/data/other/data/a"


def test_a_base_in_another_store_is_followed_only_when_allowed() -> None:
    MemoryFileSystem().pipe("/elsewhere/data/a", b"there")
    bases = [BasePath(0, None, True, "memory://elsewhere")]
    with pytest.raises(UnsupportedFeature, match=r"in another store.*follow='any'"):
        files(bases).data_file(data_file("a", 0))
    rules = BaseRules("any", storage_options={"memory": {}})
    assert files(bases, rules).data_file(data_file("a", 0)).read_whole().tobytes() == b"there"


def test_a_remote_table_never_reads_local_files() -> None:
    store = Store(MemoryFileSystem(), "/t.lance")
    for path in ("file:///etc", "local:///etc"):
        with pytest.raises(UnsupportedFeature):
            TableFiles(store, [BasePath(0, None, False, path)]).data_file(data_file("passwd", 0))
    plain = TableFiles(store, [BasePath(0, None, False, "/etc")]).data_file(data_file("passwd", 0))
    assert plain.store.fs is store.fs


def test_bases_may_be_held_to_the_tables_own_directory() -> None:
    root = local_store("/data/t.lance")
    branch = local_store("/data/t.lance/tree/exp")
    bases = [
        BasePath(0, None, True, "/data/t.lance"),
        BasePath(1, None, True, "/data/t.lance/tree/other"),
        BasePath(2, None, True, "/data/t.lance2"),
    ]
    found = TableFiles(branch, bases, BaseRules("table"), root)
    assert found.data_file(data_file("a", 0)).url == "/data/t.lance/data/a"
    assert found.data_file(data_file("a", 1)).url == "/data/t.lance/tree/other/data/a"
    assert found.data_file(data_file("a")).url == "/data/t.lance/tree/exp/data/a"
    with pytest.raises(UnsupportedFeature, match=r"/data/t\.lance2.*outside.*follow='store'"):
        found.data_file(data_file("a", 2))


def test_bases_that_moved_are_followed_to_where_they_are() -> None:
    bases = [
        BasePath(0, None, True, "/old/home/t.lance"),
        BasePath(1, None, True, "/old/homes/t.lance"),
        BasePath(2, None, True, "/old/home"),
    ]
    found = files(bases, BaseRules("any", moved={"/old/home/": "/new/"}))
    urls = [found.data_file(data_file("a", base)).url for base in (0, 1, 2)]
    assert urls == ["/new/t.lance/data/a", "/old/homes/t.lance/data/a", "/new/data/a"]


def test_a_cache_around_a_store_is_used_for_its_bases_too(tmp_path: Path) -> None:
    MemoryFileSystem().pipe("/cached/data/a", b"bytes")
    fs = fsspec.filesystem(
        "simplecache", target_protocol="memory", cache_storage=str(tmp_path / "cache")
    )
    found = TableFiles(Store(fs, "/t.lance"), [BasePath(0, None, True, "memory://cached")])
    assert found.data_file(data_file("a", 0)).store.fs is fs


def test_rules_of_a_kind_that_is_not_known_are_refused() -> None:
    for follow in ("Table", "none", ""):
        with pytest.raises(ValueError, match="'table', 'store', 'any' was expected"):
            BaseRules(follow=follow)  # type: ignore[arg-type]
