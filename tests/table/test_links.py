"""A stranger's local table: symbolic links and base paths that lead to other files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import fsspec
import lance
import pyarrow as pa
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from support import lead_elsewhere, rewrite_manifest

import duckdb_adapter
import lancefs
from lancefs.cli.main import main
from lancefs.errors import CorruptFile, LanceError, MissingFile, UnsupportedFeature
from lancefs.filesystem import LanceFileSystem
from lancefs.storage.links import Confines
from lancefs.table.base_paths import BaseRules

ROWS = 50
PASSWORD = b"kxq9$6$zvwjQZ81XW##kq0vZy7"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder of tables with `t.lance` and `other.lance`, and private files outside of it."""
    for name in ("t", "other"):
        table = pa.table({"id": range(ROWS)})
        lance.write_dataset(table, str(tmp_path / "lake" / f"{name}.lance"), max_rows_per_file=10)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "shadow").write_bytes(PASSWORD)
    shutil.copytree(tmp_path / "lake" / "t.lance" / "data", tmp_path / "private" / "data")
    return tmp_path / "lake"


def link(path: Path, target: Path | str) -> None:
    """Put a link in the place of a file or directory."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(target)


def first(directory: Path) -> Path:
    return sorted(directory.iterdir())[0]


def link_a_data_file(table: Path, outside: Path) -> None:
    file = first(table / "data")
    link(file, outside / "data" / file.name)


def link_the_data(table: Path, outside: Path) -> None:
    link(table / "data", outside / "data")


def link_the_data_by_way_of_a_link(table: Path, outside: Path) -> None:
    (table / "way").symlink_to(outside)
    link(table / "data", "way/data")


def link_a_directory_below(table: Path, outside: Path) -> None:
    (table / "data" / "deep").symlink_to(outside / "data")

    def change(message: object) -> None:
        for fragment in message.fragments:  # type: ignore[attr-defined]
            for file in fragment.files:
                file.path = f"deep/{file.path}"

    rewrite_manifest(table, change)


def link_the_manifest(table: Path, outside: Path) -> None:
    file = first(table / "_versions")
    shutil.move(file, outside / "manifest")
    file.symlink_to(outside / "manifest")


def link_the_versions(table: Path, outside: Path) -> None:
    shutil.move(table / "_versions", outside / "versions")
    (table / "_versions").symlink_to(outside / "versions")


LINKS = (
    link_a_data_file,
    link_the_data,
    link_the_data_by_way_of_a_link,
    link_a_directory_below,
    link_the_manifest,
    link_the_versions,
)


def by_dataset(path: Path, rules: BaseRules | None) -> int:
    return lancefs.open(path, base_rules=rules).to_table().num_rows


def by_options(path: Path, rules: BaseRules | None) -> int:
    dataset = lancefs.open(path, base_rules=rules, storage_options={"auto_mkdir": False})
    return dataset.to_table().num_rows


def by_view(path: Path, rules: BaseRules | None) -> int:
    fs = LanceFileSystem(fo=str(path), base_rules=rules, skip_instance_cache=True)
    return int(pa.ipc.open_file(fs.cat("latest.arrow")).read_all().num_rows)


def by_directory(path: Path, rules: BaseRules | None) -> int:
    """Through a filesystem of one directory, which stands before the local files."""
    inner = DirFileSystem(str(path.parent), LocalFileSystem(skip_instance_cache=True))
    fs = LanceFileSystem(fo=path.name, fs=inner, base_rules=rules, skip_instance_cache=True)
    return int(pa.ipc.open_file(fs.cat("versions/1.arrow")).read_all().num_rows)


def by_sql(path: Path, rules: BaseRules | None) -> int:
    with duckdb_adapter.connect(base_rules=rules) as connection:
        row = connection.execute(f"SELECT count(id) FROM '{path}' WHERE id >= 0").fetchone()
        assert row is not None
        return int(row[0])


def by_command(path: Path, rules: BaseRules | None) -> int:
    follow = [] if rules is None else ["--follow", rules.follow]
    out = path.parent / "out.csv"
    if main(["export", str(path), str(out), "--overwrite", *follow]):
        raise LanceError("the command has said what is wrong")
    return len(out.read_text().split()) - 1


Door = Callable[[Path, "BaseRules | None"], int]
DOORS = (by_dataset, by_options, by_view, by_directory, by_sql, by_command)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("make", LINKS)
def test_a_link_out_of_the_folder_of_tables_is_not_followed(
    lake: Path, make: Callable[[Path, Path], None], door: Door
) -> None:
    make(lake / "t.lance", lake.parent / "private")
    for rules in (None, BaseRules("table")):
        with pytest.raises(Exception, match=r"link|the command"):
            door(lake / "t.lance", rules)
    assert door(lake / "t.lance", BaseRules("any")) == ROWS


def test_the_error_names_the_link_its_target_and_what_to_pass(lake: Path) -> None:
    link_a_data_file(lake / "t.lance", lake.parent / "private")
    file = first(lake / "t.lance" / "data")
    with pytest.raises(UnsupportedFeature) as caught:
        by_dataset(lake / "t.lance", None)
    assert str(caught.value).startswith(f"{file}: ")
    assert f"a symbolic link leads to {file.readlink()}, outside of {lake}" in str(caught.value)
    assert "BaseRules(follow='any')" in str(caught.value)


@pytest.mark.parametrize("door", DOORS)
def test_a_link_to_a_table_beside_is_followed_unless_only_the_table_is(
    lake: Path, door: Door
) -> None:
    shutil.copytree(lake / "t.lance" / "data", lake / "other.lance" / "data", dirs_exist_ok=True)
    link(lake / "t.lance" / "data", "../other.lance/data")
    assert door(lake / "t.lance", None) == ROWS
    with pytest.raises(Exception, match=r"link|the command"):
        door(lake / "t.lance", BaseRules("table"))


def test_a_link_inside_of_the_table_is_followed(lake: Path) -> None:
    table = lake / "t.lance"
    (table / "data").rename(table / "files")
    (table / "data").symlink_to("files")
    assert by_dataset(table, BaseRules("table")) == ROWS


def test_a_link_that_is_allowed_by_name_is_followed(lake: Path) -> None:
    outside = lake.parent / "private"
    link_the_data(lake / "t.lance", outside)
    rules = BaseRules(moved={str(outside / "data"): str(outside / "data")})
    assert by_dataset(lake / "t.lance", rules) == ROWS


def test_a_dangling_link_and_a_loop_are_errors(lake: Path) -> None:
    file = first(lake / "t.lance" / "data")
    link(file, file.with_name("gone"))
    with pytest.raises(MissingFile, match="gone"):
        by_dataset(lake / "t.lance", None)
    link(file, file)
    with pytest.raises(LanceError, match=file.name):
        by_dataset(lake / "t.lance", None)


@pytest.mark.parametrize("door", DOORS)
def test_a_table_may_be_opened_by_a_link(lake: Path, door: Door) -> None:
    home = lake.parent / "home"
    home.mkdir()
    (home / "link.lance").symlink_to(lake / "t.lance")
    (home / "folder").symlink_to(lake)
    for rules in (None, BaseRules("table")):
        assert door(home / "link.lance", rules) == ROWS
        assert door(home / "folder" / "t.lance", rules) == ROWS


def test_a_clone_that_is_opened_by_a_link_finds_its_parent(lake: Path) -> None:
    lance.dataset(str(lake / "t.lance")).shallow_clone(str(lake / "clone.lance"), 1)
    home = lake.parent / "home"
    home.mkdir()
    (home / "link.lance").symlink_to(lake / "clone.lance")
    (home / "folder").symlink_to(lake)
    assert by_dataset(home / "link.lance", None) == ROWS
    assert by_dataset(home / "folder" / "clone.lance", None) == ROWS


def test_files_of_the_machine_are_not_read_as_data_files(lake: Path) -> None:
    table = lake / "t.lance"
    lead_elsewhere(table, str(lake.parent / "private"), "shadow")
    for door in DOORS:
        # In a filesystem of one directory, all paths begin there.
        message = "is gone" if door is by_directory else r"lies outside of|the command"
        with pytest.raises(Exception, match=message):
            door(table, None)
    message = r"base path 1 \(.*private\) lies outside of .*lake.*moved=.*follow='any'"
    with pytest.raises(UnsupportedFeature, match=message):
        by_dataset(table, None)


@pytest.mark.parametrize("kind", ["a data file", "a link", "an old data file", "a manifest"])
def test_bytes_of_a_file_that_is_not_lances_are_not_quoted(
    lake: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, shadow = lake / "t.lance", lake.parent / "private" / "shadow"
    if kind == "a link":
        link(first(table / "data"), shadow)
    elif kind == "a manifest":
        link(first(table / "_versions"), shadow)
    else:
        lead_elsewhere(table, str(shadow.parent), shadow.name)
    if kind == "an old data file":
        rewrite_manifest(table, _as_legacy)
    with pytest.raises(CorruptFile) as caught:
        by_dataset(table, BaseRules("any"))
    said = f"{caught.value} {caught.value!r} {caplog.text}"
    for start in range(len(PASSWORD) - 3):
        assert PASSWORD[start : start + 4].decode() not in said


def _as_legacy(message: object) -> None:
    for fragment in message.fragments:  # type: ignore[attr-defined]
        for file in fragment.files:
            file.file_major_version, file.file_minor_version = 0, 1


def test_files_cost_no_look_at_their_links(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    is_link = os.path.islink
    monkeypatch.setattr(os.path, "islink", lambda path: looked_at.append(path) or is_link(path))
    monkeypatch.setattr(Confines, "check", None)  # nothing is resolved
    assert by_dataset(lake / "t.lance", None) == ROWS
    ours = [os.path.basename(path) for path in looked_at if str(path).startswith(str(lake))]
    assert sorted(ours) == ["_versions", "data"]


def test_a_cache_before_local_files_follows_the_same_rule(lake: Path, tmp_path: Path) -> None:
    link_a_data_file(lake / "t.lance", lake.parent / "private")
    cache = str(tmp_path / "cache")
    fs = fsspec.filesystem("simplecache", target_protocol="file", cache_storage=cache)
    path = str(lake / "t.lance")
    for rules in (None, BaseRules("any")):
        views = LanceFileSystem(fo=path, fs=fs, base_rules=rules, skip_instance_cache=True)
        if rules is None:
            with pytest.raises(UnsupportedFeature, match="link"):
                views.cat("versions/1.arrow")
        else:
            assert views.cat("versions/1.arrow")
