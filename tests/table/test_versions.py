"""Versions: what is one, which is the latest, and how it is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support import local_store

from lancefs.errors import CorruptFile, NotALanceTable, RefNotFound
from lancefs.storage import Store
from lancefs.table.versions import (
    Scheme,
    is_newest,
    latest,
    list_versions,
    parse_name,
    pick,
)


def v2(version: int) -> str:
    return f"{2**64 - 1 - version:020}.manifest"


def make(directory: Path, *names: str) -> Store:
    (directory / "_versions").mkdir()
    for name in names:
        (directory / "_versions" / name).write_bytes(b"x" * 7)
    return local_store(directory)


@pytest.mark.parametrize("name", [lambda v: f"{v}.manifest", v2], ids=["V1", "V2"])
def test_versions_are_listed_oldest_first_with_their_sizes(tmp_path: Path, name) -> None:
    store = make(tmp_path, *map(name, [9, 10, 1, 100]))
    versions = list_versions(store)
    assert [file.version for file in versions] == [1, 9, 10, 100]
    assert {file.size for file in versions} == {7}
    assert versions[0].path == f"_versions/{name(1)}"
    assert latest(store).version == 100


@pytest.mark.parametrize("name", [lambda v: f"{v}.manifest", v2], ids=["V1", "V2"])
def test_versions_are_the_same_whether_or_not_sizes_are_asked_for(tmp_path: Path, name) -> None:
    store = make(tmp_path, *map(name, [9, 10, 1, 100]), "x.manifest", "latest_version_hint.json")
    (tmp_path / "_versions" / name(11)).mkdir()
    (tmp_path / "_versions" / name(13)).symlink_to(tmp_path / "_versions" / name(9))
    sized, named = list_versions(store), list_versions(store, with_sizes=False)
    assert [file.version for file in named] == [1, 9, 10, 13, 100]
    assert list(named) == [file._replace(size=None) for file in sized]
    assert list(named[1:3]) == list(named)[1:3]


def test_detached_versions_hints_and_stray_files_are_passed_over(tmp_path: Path) -> None:
    store = make(
        tmp_path,
        v2(1),
        v2(2),
        "d9223372036854775809.manifest",
        "latest_version_hint.json",
        ".tmp_7.manifest_9c100374-3298-4537-afc6-f5ee7913666d",
        "3.manifest-6a1b",
        f"{v2(3)}-6a1b",
        "00000000000000000005.manifest",  # would be a detached version
        "99999999999999999999.manifest",  # beyond 64 bits
        "07.manifest",
        "x.manifest",
        "4.manifest.bak",
    )
    (tmp_path / "_versions" / v2(8)).mkdir()
    assert [file.version for file in list_versions(store)] == [1, 2]


def test_a_hint_that_lies_is_never_believed(tmp_path: Path) -> None:
    store = make(tmp_path, v2(4))
    (tmp_path / "_versions" / "latest_version_hint.json").write_text('{"version": 99}')
    assert latest(store).version == 4


def test_the_newest_version_is_known_to_be_the_newest_one_still(tmp_path: Path) -> None:
    store = make(
        tmp_path, v2(9), v2(10), "latest_version_hint.json", "d9223372036854775809.manifest"
    )
    versions = list_versions(store, with_sizes=False)
    assert [is_newest(store, file) for file in versions] == [False, True]
    (tmp_path / "_versions" / v2(9)).unlink()  # cleaned up
    (tmp_path / "_versions" / v2(12)).mkdir()
    assert is_newest(store, versions[-1])
    (tmp_path / "_versions" / v2(11)).touch()
    assert not is_newest(store, versions[-1])
    assert is_newest(store, latest(store))


@pytest.mark.parametrize(
    "other",
    [
        "2.manifest",
        "3.manifest",
        "x.manifest",
        "00000000000000000005.manifest",
    ],
)
def test_where_names_differ_only_the_listing_tells_the_newest_version(
    tmp_path: Path, other: str
) -> None:
    store = make(tmp_path, v2(2))
    file = latest(store)
    (tmp_path / "_versions" / other).touch()
    assert not is_newest(store, file)


def test_a_version_that_is_gone_is_not_the_newest_one(tmp_path: Path) -> None:
    store = make(tmp_path, v2(1), v2(2))
    file = latest(store)
    (tmp_path / "_versions" / v2(2)).unlink()
    assert not is_newest(store, file)
    (tmp_path / "_versions" / v2(1)).unlink()
    assert not is_newest(store, file)


@pytest.mark.parametrize(
    "beside",
    [
        [],
        [f"{2**64 - 1 - 2**63:020}.manifest"],  # detached
        ["0000000000000000000x.manifest"],
        ["!" * 20 + ".manifest", "12.manifest.tmp"],
        ["\N{ARABIC-INDIC DIGIT ZERO}" * 20 + ".manifest"],
        [f"{2**64:020}.manifest"],
    ],
)
def test_the_newest_version_is_the_last_one_of_the_list(tmp_path: Path, beside: list[str]) -> None:
    store = make(tmp_path, v2(9), v2(10), *beside)
    (tmp_path / "_versions" / v2(11)).mkdir()
    assert latest(store) == list_versions(store, with_sizes=False)[-1]
    assert latest(store).version == 10


def test_a_mixture_of_schemes_is_an_error(tmp_path: Path) -> None:
    store = make(tmp_path, "1.manifest", v2(2))
    with pytest.raises(CorruptFile, match=r"_versions: .*two schemes.*1\.manifest \(V1\)"):
        list_versions(store)


def test_a_directory_without_versions_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotALanceTable, match="no such directory"):
        list_versions(local_store(tmp_path / "nowhere"))
    (tmp_path / "one.lance").mkdir()
    with pytest.raises(NotALanceTable, match=r"did you mean one of one\.lance"):
        list_versions(local_store(tmp_path))
    (tmp_path / "_versions").mkdir()
    with pytest.raises(NotALanceTable, match="no manifest"):
        list_versions(local_store(tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(NotALanceTable):
        list_versions(local_store(tmp_path / "file"))


def test_an_unknown_version_is_answered_with_existing_ones(tmp_path: Path) -> None:
    store = make(tmp_path, *map(v2, range(5, 30)))
    versions = list_versions(store)
    assert pick(store, versions, 17).version == 17
    with pytest.raises(RefNotFound, match=r"no version 3; the table has 5 … 20, .*29.*cleaned up"):
        pick(store, versions, 3)
    with pytest.raises(RefNotFound, match=r"no version 30; .*29$"):
        pick(store, versions, 30)


def test_one_listing_suffices_and_is_fresh() -> None:
    listed = []

    class Counting(MemoryFileSystem):
        store = {}  # noqa: RUF012 - the class's own, apart from other tests
        pseudo_dirs = [""]  # noqa: RUF012

        def ls(self, path, detail=True, **kwargs):
            listed.append(path)
            return super().ls(path, detail, **kwargs)

        def invalidate_cache(self, path=None):
            listed.append("forget")

    fs = Counting(skip_instance_cache=True)
    for version in range(1, 4):
        fs.pipe(f"/t.lance/_versions/{v2(version)}", b"x")
    listed.clear()
    assert latest(Store(fs, "/t.lance")).version == 3
    assert listed == ["forget", "/t.lance/_versions"]


def test_names_are_read_by_length() -> None:
    assert parse_name("7.manifest") == (7, Scheme.V1)
    assert parse_name("0.manifest") == (0, Scheme.V1)
    assert parse_name(v2(7)) == (7, Scheme.V2)
    assert parse_name("9223372036854775807.manifest") == (2**63 - 1, Scheme.V1)
    assert parse_name("9223372036854775808.manifest") is None
    assert parse_name("") is None
