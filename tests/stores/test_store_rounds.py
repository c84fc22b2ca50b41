"""How many requests of a remote table wait for one another: rounds, by what is read."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from store_doubles import SlowFileSystem

import lancefs
from lancefs.errors import MissingFile
from lancefs.lance_dataset import LanceDataset

FRAGMENTS = 12


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of several fragments, each with a deletion file and three data files.

    Version 1 has the rows, version 2 lacks some, and versions 3 and 4 have one more column each.
    """
    path = tmp_path_factory.mktemp("rounds") / "t.lance"
    numbers = np.random.default_rng(5).random(40_000 * FRAGMENTS)  # no file comes whole
    rows = pa.table({"id": pa.array(range(len(numbers))), "x": numbers})
    lance.write_dataset(rows, str(path), max_rows_per_file=40_000)
    lance.dataset(str(path)).delete("id % 1000 = 7")
    for name, factor in (("y", 2), ("z", 3)):
        lance.dataset(str(path)).add_columns({name: f"x * {factor}"})
    lance.dataset(str(path)).tags.create("prod", 2)
    return path


def remote(path: Path) -> tuple[SlowFileSystem, LanceDataset]:
    fs = SlowFileSystem(0.0)
    dataset = lancefs.open(str(path), filesystem=fs)
    fs.rounds = 0
    fs.requests.clear()
    return fs, dataset


def test_the_first_rows_take_three_rounds_whatever_files_they_are_in(table: Path) -> None:
    """The ends of the data files with the deletion file, then the chunks, then the values."""
    fs, dataset = remote(table)
    assert dataset.head(10).equals(lance.dataset(str(table)).head(10))
    assert fs.rounds <= 3


def test_rows_up_to_a_limit_take_as_many_rounds_as_a_table_and_no_fragment_behind_them(
    table: Path,
) -> None:
    """Their fragments are opened together, then their values are read."""
    fs, dataset = remote(table)
    fs.seconds = 0.1  # in which the other threads begin
    rows = dataset.to_table(columns=["x"], limit=100_000)
    assert rows.equals(lance.dataset(str(table)).to_table(["x"]).slice(0, 100_000))
    assert fs.rounds <= 3
    files = {request for request in fs.requests if request.endswith(".lance")}
    assert len(files) == 3


def test_few_rows_that_pass_a_filter_are_looked_for_in_few_rounds(tmp_path: Path) -> None:
    """In more rows with each round; where the first ones pass, nothing behind them is read."""
    path, rows = str(tmp_path / "t.lance"), 2_000_000
    numbers = np.random.default_rng(5).random(rows)
    lance.write_dataset(pa.table({"id": range(rows), "x": numbers}), path)
    fs, dataset = remote(Path(path))
    assert dataset.to_table(filter="id >= 10", limit=1)["id"].to_pylist() == [10]
    assert fs.rounds <= 3
    assert len(fs.requests) <= 4
    for condition, passing in ((f"id >= {rows - 2}", 2), ("x < -1", 0)):
        fs, dataset = remote(Path(path))
        assert dataset.to_table(filter=condition, limit=5).num_rows == passing
        assert fs.rounds <= 16  # of 32 batches: threads may find a round begun


def test_a_time_among_many_versions_is_found_in_few_rounds(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    written = lance.write_dataset(pa.table({"id": [0]}), path)
    for number in range(30):
        written.update_config({"number": str(number)})
    for version in (1, 2, 17, 30, 31):
        when = lancefs.open(path, version=version).manifest.timestamp
        fs = SlowFileSystem(0.0)
        found = lancefs.open(path, as_of=when, filesystem=fs)
        assert found.version == lancefs.open(path, as_of=when).version == version
        assert fs.rounds <= 4  # the listing, the newest version, eight of all, those in between


def test_rows_that_pass_a_filter_are_deleted_in_no_round_of_their_own(table: Path) -> None:
    fs, dataset = remote(table)
    found = dataset.fragments[0].id
    scanner = dataset.scanner(columns=["x"], filter="id < 2000", fragments=[found])
    assert scanner.to_table().num_rows == 2000 - 2
    assert fs.rounds <= 4


def test_the_files_of_columns_that_a_filter_does_not_read_are_opened_together(
    tmp_path: Path,
) -> None:
    """Fragments of a table whose columns came one by one have a data file for each."""
    path, numbers = str(tmp_path / "t.lance"), np.random.default_rng(5).random(50_000)
    rows = pa.table({"id": range(len(numbers)), "x": numbers})
    lance.write_dataset(rows, path, max_rows_per_file=25_000)  # no file comes whole
    for number in range(8):
        lance.dataset(path).add_columns({f"y{number}": f"x * {number}"})
    for condition in ("x < 0.001", "id = 30000", "_rowid = 4294967300"):
        fs, dataset = remote(Path(path))
        found = dataset.scanner(filter=condition, fragments=[1]).to_table()
        assert found.num_rows > 0
        assert found.equals(lancefs.open(path).scanner(filter=condition, fragments=[1]).to_table())
        assert fs.rounds <= 6  # three for the filter, and three for the other columns


def test_a_manifest_of_some_hundred_kilobytes_is_read_once(tmp_path: Path) -> None:
    """With its sections, which tell of indices and of the transaction."""
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"id": range(10)}), str(path))
    lance.dataset(str(path)).create_scalar_index("id", "BTREE")
    lance.dataset(str(path)).update_config({"note": "x" * 300_000})
    fs = SlowFileSystem(0.0)
    dataset = lancefs.open(str(path), filesystem=fs)
    assert [one.name for one in dataset.indices()] == ["id_idx"]
    assert dataset.transaction() is not None
    assert [request.split()[0] for request in fs.requests] == ["LIST", "GET"]


def test_what_is_open_is_not_asked_for_again(table: Path) -> None:
    fs, dataset = remote(table)
    dataset.head(10)
    asked = list(fs.requests)
    fs.requests.clear()
    dataset.head(10)
    assert not [one for one in fs.requests if "_deletions" in one]
    assert len(fs.requests) < len(asked)


def test_threads_that_read_one_fragment_ask_for_its_files_once(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    numbers = np.random.default_rng(5).random(300_000)
    rows = pa.table({f"x{i}": numbers for i in range(12)})  # several parts of a fragment
    lance.write_dataset(rows, str(path), max_rows_per_file=100_000)
    lance.dataset(str(path)).delete("x0 < 0.001")
    fs, dataset = remote(path)
    fs.seconds = 0.02  # in which the other threads begin
    assert sum(len(batch) for batch in dataset.to_batches()) == np.count_nonzero(numbers >= 0.001)
    assert sorted(one for one in fs.requests if "_deletions" in one) == sorted(
        f"GET {one}" for one in (path / "_deletions").iterdir()
    )


@pytest.mark.parametrize("until", [2, 4])
def test_the_files_that_changes_need_are_not_opened_one_after_another(
    table: Path, until: int
) -> None:
    fs, dataset = remote(table)
    assert_same_table(dataset.changes(1, until), lancefs.open(str(table)).changes(1, until))
    assert fs.rounds < 2 * FRAGMENTS  # one after another, the files alone would take more


def test_the_history_takes_three_rounds(table: Path) -> None:
    """The versions with the tags' names, the tags, the manifests."""
    fs, dataset = remote(table)
    fs.seconds = 0.1  # in which the other thread begins
    assert dataset.history()["tags"].to_pylist() == [[], ["prod"], [], []]
    assert fs.rounds <= 3


def test_fragments_that_only_have_one_more_column_are_not_read_for_changes(table: Path) -> None:
    fs, dataset = remote(table)
    assert dataset.changes(3, 4).num_rows == 0
    assert not [one for one in fs.requests if "/data/" in one or "_deletions" in one]


def test_a_file_that_is_gone_is_named_where_files_are_opened_together(
    table: Path, tmp_path: Path
) -> None:
    names = [f.path for f in lancefs.open(str(table)).fragments[0].files]
    for kind, lost in (("data", names[1]), ("_deletions", None)):
        copy = tmp_path / f"{kind}.lance"
        for one in table.rglob("*"):
            if one.is_file():
                target = copy / one.relative_to(table)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(one.read_bytes())
        gone = copy / kind / lost if lost else min((copy / kind).iterdir())
        _, dataset = remote(copy)
        gone.unlink()
        with pytest.raises(MissingFile, match=f"{gone.name}: the file is gone"):
            dataset.to_table()
