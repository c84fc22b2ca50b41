"""Addresses of tables: chained and direct URLs, directories of tables, any filesystem."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fs_tables import ids
from fsspec.implementations.memory import MemoryFileSystem
from support import REPOSITORY, corpus_case

from lancefs.errors import ReadFailed, UnsupportedFeature
from lancefs.filesystem import LanceFileSystem
from lancefs.table.base_paths import BaseRules


def test_a_direct_url_opens_a_version(shared_table: str) -> None:
    with fsspec.open(f"lance://{shared_table}/versions/2.arrow") as file:
        assert len(ids(file.read())) == 900


def test_a_chained_url_opens_a_version_on_any_store(shared_table: str, in_memory: str) -> None:
    for target in (f"file://{shared_table}", shared_table, f"memory:/{in_memory}"):
        with fsspec.open(f"lance://tags/prod.arrow::{target}") as file:
            assert len(ids(file.read())) == 900


def test_a_direct_path_on_any_filesystem(in_memory: str) -> None:
    fs = LanceFileSystem(target_protocol="memory")
    # The store is shared by the process: other tests may keep tables in it.
    assert "/lake" in fs.ls("/", detail=False)
    assert fs.ls("/lake", detail=False) == ["/lake/m.lance"]
    for path in (in_memory, in_memory.lstrip("/")):
        assert len(ids(fs.cat(f"{path}/versions/1.arrow"))) == 1000


def test_a_filesystem_object_holds_the_table(in_memory: str) -> None:
    memory = fsspec.filesystem("memory")
    assert LanceFileSystem(fs=memory, fo=in_memory).exists("latest.arrow")
    assert LanceFileSystem(fs=memory).exists(f"{in_memory}/latest.arrow")


def test_an_url_names_the_table(in_memory: str) -> None:
    assert LanceFileSystem(fo=f"memory:/{in_memory}").exists("latest.arrow")


def test_options_are_passed_to_the_target_filesystem(tmp_path: Path, in_memory: str) -> None:
    url = f"lance://latest.arrow::simplecache::memory:/{in_memory}"
    with fsspec.open(url, simplecache={"cache_storage": str(tmp_path / "by protocol")}) as file:
        assert len(ids(file.read())) == 1000
    options = {"target_protocol": "memory", "cache_storage": str(tmp_path / "by argument")}
    with fsspec.open(
        "lance://latest.arrow",
        fo=in_memory,
        target_protocol="simplecache",
        target_options=options,
    ) as file:
        assert len(ids(file.read())) == 1000
    for name in ("by protocol", "by argument"):
        assert list((tmp_path / name).iterdir())


def test_a_chained_url_opens_a_version_in_an_archive(tmp_path: Path, shared_table: str) -> None:
    archive = tmp_path / "tables.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in Path(shared_table).rglob("*"):
            zipped.write(path, Path("in zip.lance") / path.relative_to(shared_table))
    with fsspec.open(f"lance://versions/1.arrow::zip://in zip.lance::file://{archive}") as file:
        assert len(ids(file.read())) == 1000


@pytest.mark.parametrize("cache", ["filecache", "simplecache"])
def test_a_cache_above_the_files(cache: str, shared_table: str, tmp_path: Path) -> None:
    url = f"{cache}::lance://versions/2.arrow::file://{shared_table}"
    for _ in range(2):
        with fsspec.open(url, **{cache: {"cache_storage": str(tmp_path / "kept")}}) as file:
            assert len(ids(file.read())) == 900


@pytest.mark.skipif(os.name != "posix", reason="names are bytes")
def test_a_folder_whose_name_is_no_utf8(shared_table: str, tmp_path: Path) -> None:
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.lance")
    shutil.copytree(shared_table, odd)
    assert len(ids(LanceFileSystem(fo=odd).cat("versions/1.arrow"))) == 1000
    assert len(ids(LanceFileSystem().cat(f"{odd}/versions/1.arrow"))) == 1000


def test_listed_names_are_spelled_like_the_path(
    shared_table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chained = LanceFileSystem(fo=shared_table)
    assert chained.ls("/tags", detail=False)[0] == "/tags/prod.arrow"
    assert chained.ls("lance://tags/", detail=False)[0] == "tags/prod.arrow"
    direct = LanceFileSystem()
    assert direct.ls(f"lance://{shared_table}/tags", detail=False) == [
        f"{shared_table}/tags/prod{end}" for end in (".arrow", ".arrows", "")
    ]
    monkeypatch.chdir(Path(shared_table).parent)
    name = Path(shared_table).name
    assert direct.ls(f"{name}/tags", detail=False)[0] == f"{name}/tags/prod.arrow"
    assert name in direct.ls("", detail=False)


def test_a_path_becomes_an_url_again(shared_table: str) -> None:
    for fs, path in (
        (LanceFileSystem(fo=shared_table), "tags/prod.arrow"),
        (LanceFileSystem(), f"{shared_table}/tags/prod.arrow"),
    ):
        with fsspec.open(fs.unstrip_protocol(path)) as file:
            assert len(ids(file.read())) == 900


def test_a_folder_of_tables_can_be_walked(lake: Path) -> None:
    direct = LanceFileSystem()
    below = [f"{lake}/{name}" for name in ("deep", "notes", "one.lance")]
    assert direct.ls(str(lake), detail=False) == below
    assert direct.ls(f"{lake}/notes") == []
    assert direct.glob(f"{lake}/**/latest.arrow", maxdepth=4)[:2] == [
        f"{lake}/deep/er/two.lance/latest.arrow",
        f"{lake}/one.lance/branches/exp/latest.arrow",
    ]
    chained = LanceFileSystem(fo=str(lake))
    assert len(ids(chained.cat("deep/er/two.lance/tags/prod.arrow"))) == 900
    assert chained.isdir("deep/er")
    assert chained.isdir("deep/er/two.lance")
    assert chained.info("deep/er") == {"name": "deep/er", "size": 0, "type": "directory"}
    assert chained.modified("deep") == fsspec.filesystem("file").modified(str(lake / "deep"))
    assert not chained.exists("README.txt")


def test_the_root_of_the_machine_can_be_listed() -> None:
    assert f"/{Path(__file__).parts[1]}" in LanceFileSystem().ls("/", detail=False)
    assert repr(LanceFileSystem()) == "<LanceFileSystem>"


def test_base_rules_are_an_option() -> None:
    path = corpus_case("feat_shallow_clone-f2.2-w14.0.2").table()
    assert LanceFileSystem(fo=path).cat("latest.arrow").startswith(b"ARROW1")
    for rules in (BaseRules(follow="table"), {"follow": "table"}):
        with pytest.raises(UnsupportedFeature, match="base"):
            LanceFileSystem(fo=path, base_rules=rules).cat("latest.arrow")


def test_directories_above_a_table_need_not_be_readable(in_memory: str) -> None:
    class Guarded(MemoryFileSystem):  # type: ignore[misc]
        cachable = False

        def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
            if not path.startswith(in_memory):
                raise PermissionError(path)
            return super().ls(path, detail, **kwargs)

    fs = LanceFileSystem(fs=Guarded())
    assert len(ids(fs.cat(f"{in_memory}/latest.arrow"))) == 1000
    with pytest.raises(ReadFailed, match="/lake"):
        fs.cat("/lake/latest.arrow")


def test_the_protocol_needs_no_import(shared_table: str, tmp_path: Path) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "lancefs-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: lancefs\nVersion: 0\n")
    entries = project["entry-points"]["fsspec.specs"]
    lines = ["[fsspec.specs]", *(f"{name} = {value}" for name, value in entries.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))
    program = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "import pandas as pd\n"
        "url = f'lance://tags/prod.arrow::file://{sys.argv[3]}'\n"
        "frame = pd.read_feather(url, columns=['id'])\n"
        "print(len(frame), *frame.columns)\n"
    )
    arguments = [str(tmp_path), str(REPOSITORY), shared_table]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
    )
    assert done.stdout == "900 id\n", done.stderr
