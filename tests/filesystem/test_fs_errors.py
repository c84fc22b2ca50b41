"""Paths that do not exist and files that are damaged: the type of the error, and its message."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import fsspec
import lance
import pandas as pd
import pyarrow as pa
import pytest

import lancefs
from lancefs.errors import (
    CorruptFile,
    LanceError,
    MissingFile,
    NoSuchPath,
    NotALanceTable,
    RefNotFound,
)
from lancefs.filesystem import LanceFileSystem

MISSING = {
    "versions/99.arrow": (RefNotFound, "no version 99; the table has 1, 2, 3"),
    "versions/99/columns/id.arrow": (RefNotFound, "no version 99"),
    "versions/07.arrow": (NoSuchPath, "no '07.arrow'"),
    "versions/v1.arrow": (NoSuchPath, "did you mean 1.arrow"),
    "versions/99999999999999999999.arrow": (NoSuchPath, "it has 1, 2, 3"),
    "tags/nope.arrow": (RefNotFound, "no tag 'nope'; the table has the tags prod"),
    "tags/no good.arrow": (NoSuchPath, "it has prod"),
    "tags/...arrow": (NoSuchPath, "it has prod"),
    "branches/nope/latest.arrow": (NoSuchPath, "it has exp, team"),
    "branches/exp/versions/9.arrow": (RefNotFound, "no version 9; the table has 3, 4"),
    "2.arrow": (NoSuchPath, r"did you mean versions/2.arrow\?"),
    "v2.arrows": (NoSuchPath, r"did you mean versions/2.arrows\?"),
    "prod.arrow": (NoSuchPath, r"did you mean tags/prod.arrow\?"),
    "latest.arow": (NoSuchPath, "did you mean latest"),
    "latest/columns/nope.arrow": (NoSuchPath, "no column 'nope'"),
    "latest/columns/id,nope.arrow": (NoSuchPath, "no column 'nope'"),
    "latest/columns/id,name,id.arrow": (NoSuchPath, "the column 'id' is named more than once"),
    "latest/columns/_rowid,_rowid.arrows": (NoSuchPath, "'_rowid' is named more than once"),
    "latest/columns/id,`id`.arrow": (NoSuchPath, "the column 'id' is named more than once"),
    "latest/columns/id.parquet": (NoSuchPath, r"did you mean id.arrow\?"),
    "latest/fragments/99.arrow": (NoSuchPath, "it has 0, 1, 2, 3"),
    "latest/scheme.json": (NoSuchPath, "did you mean schema.json"),
    "latest.arrow/id": (NoSuchPath, "is a file, not a directory"),
    "data/x.lance": (NoSuchPath, "it has latest, versions, history, changes, tags, branches"),
    "../t.lance/latest.arrow": (NoSuchPath, "cannot lead out"),
}


@pytest.mark.parametrize("path", MISSING)
def test_a_path_that_does_not_exist(path: str, fs: LanceFileSystem) -> None:
    kind, message = MISSING[path]
    for ask in (fs.info, fs.open, fs.cat_file, fs.ls, fs.ukey, fs.created):
        with pytest.raises(kind, match=message) as error:
            ask(path)
        assert isinstance(error.value, LanceError)
        assert isinstance(error.value, FileNotFoundError)
    assert not fs.exists(path)


def test_a_directory_cannot_be_opened(fs: LanceFileSystem) -> None:
    for path in ("", "versions", "versions/1", "latest/columns"):
        with pytest.raises(IsADirectoryError, match="Is a directory"):
            fs.open(path)
    with pytest.raises(RefNotFound, match="no version 9"):
        fs.open("versions/9")


def test_a_directory_that_is_opened_names_the_file_with_its_rows(
    fs: LanceFileSystem, shared_table: str
) -> None:
    for path, file in {"": "latest.arrow", "versions/1": "versions/1.arrow"}.items():
        with pytest.raises(IsADirectoryError, match=rf"; the rows are in {file}: "):
            fs.open(path)
    with pytest.raises(IsADirectoryError, match=rf"the rows are in {shared_table}/latest\.arrow: "):
        pd.read_feather(f"lance://{shared_table}")


def test_an_error_says_why_there_is_no_table(tmp_path: Path, lake: Path) -> None:
    cases = {
        f"{tmp_path}/nope.lance": "there is no such directory, or it is empty",
        f"{lake}/notes": "there is no such directory, or it is empty",
        str(lake): "not a Lance table.*did you mean one of one.lance",
    }
    for root, message in cases.items():
        for fs, path in (
            (LanceFileSystem(fo=root), "latest.arrow"),
            (LanceFileSystem(), f"{root}/latest.arrow"),
        ):
            with pytest.raises(NotALanceTable, match=message):
                fs.open(path)
            assert not fs.exists(path)
    with pytest.raises(NoSuchPath, match=r"did you mean one.lance\?"):
        LanceFileSystem().ls(f"{lake}/ona.lance")
    with pytest.raises(FileNotFoundError):
        LanceFileSystem(fo=f"{tmp_path}/nope.lance").ls("")


def test_pandas_shows_the_message(shared_table: str) -> None:
    with pytest.raises(FileNotFoundError, match="no version 99; the table has 1, 2, 3"):
        pd.read_feather(f"lance://{shared_table}/versions/99.arrow")


def test_a_damaged_data_file_is_named(table: str) -> None:
    data = sorted(Path(table).glob("data/*.lance"))
    for path in data:
        path.write_bytes(path.read_bytes()[:100])
    fs = LanceFileSystem(fo=table)
    assert fs.exists("latest.arrow")
    for _ in range(2):
        with pytest.raises(CorruptFile, match=r"data/.*\.lance"):
            fs.cat("latest.arrow")
        with pytest.raises(CorruptFile, match=r"data/.*\.lance"):
            fs.cat("latest.arrows")
    assert fs.cat("latest/schema.json")


def test_a_missing_data_file_is_named(table: str) -> None:
    for path in Path(table).glob("data/*.lance"):
        path.unlink()
    fs = LanceFileSystem(fo=table)
    for path in ("latest.arrow", "latest.arrows", "versions/1/columns/id.arrow"):
        with pytest.raises(MissingFile, match=r"data/.*\.lance"):
            fs.cat(path)


def test_a_stream_that_fails_fails_again(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    table = pa.table({"id": pa.array(range(100_000), pa.int64())})
    lance.write_dataset(table, str(path), max_rows_per_file=50_000)
    name = lancefs.open(path).fragments[1].files[0].path
    (path / "data" / name).unlink()
    with LanceFileSystem(fo=str(path)).open("latest.arrows") as file:
        for _ in range(2):
            with pytest.raises(MissingFile, match=name):
                file.read()


def test_a_damaged_manifest_is_named_and_other_versions_are_read(table: str) -> None:
    newest = min(Path(table).glob("_versions/*.manifest"))
    newest.write_bytes(newest.read_bytes()[:-20])
    fs = LanceFileSystem(fo=table)
    with pytest.raises(CorruptFile, match=newest.name):
        fs.cat("latest.arrow")
    assert fs.cat("versions/2.arrow")


def test_an_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"'follows'.*target_options"):
        fsspec.filesystem("lance", follows="table")
    with pytest.raises(TypeError, match="'url'; the table is given as fo="):
        fsspec.filesystem("lance", url="t.lance")
    with pytest.raises(TypeError, match="'version'; a version is a path"):
        fsspec.filesystem("lance", fo="t.lance", version=2)


def test_an_option_of_the_store_of_a_chained_url_goes_by_its_protocol(shared_table: str) -> None:
    chained = f"lance://latest.arrow::file://{shared_table}"
    with pytest.raises(TypeError, match=r"'anon'; .*storage_options=\{'file': \{…\}\}"):
        pd.read_feather(chained, storage_options={"anon": True})
    assert len(pd.read_feather(chained, storage_options={"file": {"auto_mkdir": False}}))


@pytest.mark.parametrize("options", [{}, {"target_protocol": "memory"}])
def test_the_url_of_another_store_is_no_path(options: dict[str, str]) -> None:
    fs = LanceFileSystem(**options)
    for path, below in (("", "latest.arrow"), ("/versions/2.arrow", "versions/2.arrow")):
        message = rf"fo='s3://b/t.lance'\), .*lance://{below}::s3://b/t.lance$"
        with pytest.raises(NoSuchPath, match=message):
            fs.open(f"s3://b/t.lance{path}")
    with pytest.raises(NoSuchPath, match=r"lance://latest.arrow::s3://b/t.lance$"):
        pd.read_feather("lance://s3://b/t.lance/latest.arrow")
    assert not fs.exists("s3://b/t.lance")


def test_a_table_with_a_version_says_how_files_name_versions(shared_table: str) -> None:
    with pytest.raises(NotALanceTable, match=r"version is lance://versions/7.arrow::t.lance$"):
        fsspec.open(f"lance://latest.arrow::{shared_table}@v2").open()


@pytest.mark.parametrize(
    ("ref", "file"),
    [
        ("v2", "versions/2.arrow"),
        ("7", "versions/7.arrow"),
        ("prod", "tags/prod.arrow"),
        ("exp:latest", "branches/exp/latest.arrow"),
        ("exp:3", "branches/exp/versions/3.arrow"),
    ],
)
def test_a_path_with_a_version_names_the_file_of_that_version(
    ref: str, file: str, shared_table: str
) -> None:
    name = Path(shared_table).name
    with pytest.raises(NoSuchPath, match=rf"did you mean {name}/{file}\?$"):
        fsspec.open(f"lance://{shared_table}@{ref}").open()


def test_a_path_of_thousands_of_parts_takes_little_memory(fs: LanceFileSystem) -> None:
    """Any client of a server may ask for one."""
    path = "/".join(["a"] * 10_000)
    assert not fs.isdir("a")  # the table is known now
    tracemalloc.start()
    try:
        assert not fs.isdir(path)
        with pytest.raises(NoSuchPath, match="no 'a'"):
            fs.open(path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
