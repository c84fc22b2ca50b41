"""Versions that are cleaned up while they are read: their rows, or an error that names them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest

import duckdb_adapter
import lancefs
from lancefs.cli.target import Target
from lancefs.errors import MissingFile, RefNotFound
from lancefs.table import open_version

ROWS = 40_000
GONE = r"the file is gone; version 1 of the table needs it and was probably cleaned up"


def rows_of(version: int) -> pa.Table:
    return pa.table({"n": pa.array(range(version, version + ROWS)), "version": [version] * ROWS})


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table whose version 1 has eight fragments."""
    path = str(tmp_path / "t.lance")
    lance.write_dataset(rows_of(1), path, max_rows_per_file=ROWS // 8)
    return path


def clean_up(path: str, version: int = 2) -> None:
    """Write another version, and remove all versions before it, with their files."""
    lance.write_dataset(rows_of(version), path, mode="overwrite", max_rows_per_file=ROWS // 8)
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0))


def cleaning(monkeypatch: pytest.MonkeyPatch, path: str, times: int) -> list[int]:
    """Have the table cleaned up between finding a version and reading its manifest.

    Returns:
        The versions that were written then.
    """
    read_manifest, written = open_version.read_manifest, []

    def too_late(file: Any) -> Any:
        if len(written) < times and file.store.full("").startswith(path):
            written.append(len(written) + 2)
            clean_up(path, written[-1])
        return read_manifest(file)

    monkeypatch.setattr(open_version, "read_manifest", too_late)
    return written


def test_a_scan_gives_the_rows_of_its_version_or_names_it(path: str) -> None:
    batches = lancefs.open(path).to_batches(batch_size=100)
    rows = [next(batches)]
    clean_up(path)
    with pytest.raises(MissingFile, match=GONE):
        rows.extend(batches)
    read = pa.Table.from_batches(rows)
    assert read.num_rows > 0
    assert read.equals(rows_of(1).slice(0, read.num_rows))


def test_a_dataset_that_is_open_names_its_version_in_every_read(path: str) -> None:
    dataset = lancefs.open(path)
    clean_up(path)
    for read in (
        dataset.to_table,
        lambda: dataset.take([1, ROWS - 1]),
        lambda: dataset.head(10),
        lambda: dataset.count_rows("n > 7"),
    ):
        with pytest.raises(MissingFile, match=GONE):
            read()
    assert lancefs.open(path).to_table().equals(rows_of(2))
    with pytest.raises(RefNotFound, match="no version 1; the table has 2"):
        lancefs.open(path, version=1)


def test_files_that_a_newer_version_still_has_are_read(path: str) -> None:
    dataset = lancefs.open(path)
    lance.write_dataset(rows_of(1), path, mode="append")
    lance.dataset(path).cleanup_old_versions(older_than=timedelta(0))
    assert dataset.to_table().equals(rows_of(1))


def test_a_deletion_file_that_is_gone_names_the_version(path: str) -> None:
    lance.dataset(path).delete("n % 3 = 0")
    dataset = lancefs.open(path)
    clean_up(path, 3)
    with pytest.raises(MissingFile, match=r"_deletions/.* gone; version 2 of the table"):
        dataset.to_table()


def test_the_index_of_a_table_that_was_made_anew_is_none_of_an_open_version(path: str) -> None:
    def make_anew(first: int) -> None:
        shutil.rmtree(path)
        lance.write_dataset(pa.table({"n": range(first, first + ROWS)}), path)
        lance.dataset(path).create_scalar_index("n", "BTREE")

    make_anew(0)
    dataset = lancefs.open(path)
    dataset.to_table()
    make_anew(ROWS)  # its manifests have the same names, and sections at the same places
    assert dataset.to_table(filter="n < 500")["n"].to_pylist() == list(range(500))
    assert dataset.count_rows("n < 500") == 500
    assert dataset.count_rows(f"n >= {ROWS}") == 0
    for read in (dataset.indices, dataset.transaction):
        with pytest.raises(MissingFile, match="made anew"):
            read()


def test_a_version_of_a_branch_is_named_with_the_branch(path: str) -> None:
    branch = lance.dataset(path).create_branch("exp")
    lance.write_dataset(rows_of(1), branch.uri, mode="append")
    dataset = lancefs.open(path, branch="exp")
    for file in Path(branch.uri.removeprefix("file://"), "data").iterdir():
        file.unlink()
    with pytest.raises(MissingFile, match=rf"version exp:{dataset.version} of the table"):
        dataset.to_table()


def test_a_view_stays_on_its_version_and_names_it(path: str) -> None:
    fs = lancefs.LanceFileSystem(fo=path, skip_instance_cache=True)
    with fs.open("latest.arrow") as file:
        reader = pa.ipc.open_file(file)
        clean_up(path)
        with pytest.raises(MissingFile, match=GONE):
            reader.read_all()
    with fs.open("latest.arrow") as file:
        assert pa.ipc.open_file(file).read_all().equals(rows_of(2))
    assert pa.ipc.open_stream(fs.cat("latest.arrows")).read_all().equals(rows_of(2))
    with pytest.raises(FileNotFoundError, match="no version 1"):
        fs.open("versions/1.arrow")


def test_a_query_names_its_version_and_the_next_one_reads_the_newest(path: str) -> None:
    query = f"SELECT max(version), count(*) FROM '{path}' WHERE n > 0"
    with duckdb_adapter.connect() as connection:
        connection.execute(f"CREATE VIEW newest AS {query}")
        prepared = connection.sql(query)
        clean_up(path)
        with pytest.raises(duckdb.Error, match=GONE):
            prepared.fetchall()
        assert connection.execute(query).fetchall() == [(2, ROWS)]
        clean_up(path, 3)
        assert connection.execute("FROM newest").fetchall() == [(3, ROWS)]


def by_view(path: str) -> int:
    with lancefs.LanceFileSystem(fo=path, skip_instance_cache=True).open("latest.arrow") as file:
        return int(pa.ipc.open_file(file).read_all()["version"][0].as_py())


def by_sql(path: str) -> int:
    with duckdb_adapter.connect() as connection:
        return int(connection.execute(f"SELECT max(version) FROM '{path}'").fetchall()[0][0])


NEWEST: dict[str, Callable[[str], int]] = {
    "open": lambda path: lancefs.open(path).to_table()["version"][0].as_py(),
    "fresh": lambda path: lancefs.open(path, fresh=True).to_table()["version"][0].as_py(),
    "time": lambda path: lancefs.open(path, as_of=datetime(2100, 1, 1, tzinfo=UTC)).version,
    "view": by_view,
    "DuckDB": by_sql,
    "command line": lambda path: Target(path).dataset.version,
}


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("read", NEWEST.values(), ids=list(NEWEST))
def test_the_newest_version_moves_on_if_it_is_cleaned_up_before_it_is_read(
    read: Callable[[str], int], times: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = cleaning(monkeypatch, path, times)
    assert read(path) == times + 1
    assert len(written) == times


def test_a_pinned_version_that_is_cleaned_up_before_it_is_read_says_what_exists(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaning(monkeypatch, path, 1)
    with pytest.raises(RefNotFound, match="no version 1; the table has 2"):
        lancefs.open(path, version=1)


def test_a_table_that_is_cleaned_up_again_and_again_is_an_error(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = cleaning(monkeypatch, path, 100)
    with pytest.raises(MissingFile, match=r"version \d+ of the table"):
        lancefs.open(path)
    assert len(written) < 10
