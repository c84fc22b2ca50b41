"""The history of a table and the changes between its versions, as files."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from comparison import assert_same_table
from fs_tables import read, rows

import lancefs
from lancefs.errors import NoSuchPath, RefNotFound
from lancefs.filesystem import LanceFileSystem


def names(fs: LanceFileSystem, path: str) -> list[str]:
    return [name.removeprefix(path).lstrip("/") for name in fs.ls(path, detail=False)]


def test_the_history_is_a_file(fs: LanceFileSystem, shared_table: str) -> None:
    shown = read(fs.cat("history.arrow"))
    assert_same_table(shown, lancefs.open(shared_table).history())
    assert shown["operation"].to_pylist() == ["Overwrite", "Delete", "Append"]
    assert shown["rows"].to_pylist() == [1000, 900, 1000]
    assert shown["tags"].to_pylist() == [[], ["prod"], []]
    assert_same_table(pa.ipc.open_stream(fs.cat("history.arrows")).read_all(), shown)


def test_a_branch_has_a_history_of_its_own(fs: LanceFileSystem) -> None:
    shown = read(fs.cat("branches/team/exp/history.arrow"))
    assert set(shown["branch"].to_pylist()) == {"team/exp"}
    assert shown["version"].to_pylist() == [3, 4]


def test_a_history_grows_and_names_the_current_tags(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    before, key = fs.cat("history.arrow"), fs.ukey("history.arrow")
    assert fs.cat("history.arrow") == before
    assert (fs.ukey("history.arrow"), fs.info("history.arrow")["size"]) == (key, len(before))
    lance.dataset(table).tags.create("first", 1)
    assert read(fs.cat("history.arrow"))["tags"].to_pylist() == [["first"], ["prod"], []]
    lance.write_dataset(rows(1100, 1101), table, mode="append")
    assert read(fs.cat("history.arrow"))["version"].to_pylist() == [1, 2, 3, 4]
    assert fs.ukey("history.arrow") != key


def test_changes_between_versions_are_files(fs: LanceFileSystem, shared_table: str) -> None:
    assert names(fs, "changes") == ["1..2.arrow", "2..3.arrow"]
    for since, until in ((1, 2), (2, 3), (1, 3), (2, 2)):
        shown = read(fs.cat(f"changes/{since}..{until}.arrow"))
        expected = lancefs.open(shared_table, version=until).changes(since)
        assert_same_table(shown, expected)
        stream = pa.ipc.open_stream(fs.cat(f"changes/{since}..{until}.arrows")).read_all()
        assert_same_table(stream, expected)
    assert set(read(fs.cat("changes/1..2.arrow"))["_change_type"].to_pylist()) == {"delete"}
    on_a_branch = read(fs.cat("branches/exp/changes/3..4.arrow"))
    assert min(on_a_branch["id"].to_pylist()) == 100


def test_changes_never_change(fs: LanceFileSystem) -> None:
    info = fs.info("changes/1..3.arrow")
    assert info["size"] == len(fs.cat("changes/1..3.arrow"))
    assert info["version"] == 3
    assert fs.ukey("changes/1..3.arrow") != fs.ukey("changes/2..3.arrow")
    with fs.open("branches/exp/changes/3..4.arrow") as file:
        assert file._fixed_path == "branches/exp/changes/3..4.arrow"


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("changes/1..9.arrow", RefNotFound, "no version 9; the table has 1, 2, 3"),
        ("changes/0..2.arrow", RefNotFound, "no version 0"),
        ("changes/3..1.arrow", NoSuchPath, "there is no '3..1.arrow'"),
        ("changes/newest.arrow", NoSuchPath, "those between any two versions, the older one first"),
        ("changes/1-3.arrow", NoSuchPath, r"it has 1\.\.2, 2\.\.3|did you mean"),
        ("changes/1..3", NoSuchPath, "there is no '1..3'"),
        ("changes/01..3.arrow", NoSuchPath, "there is no"),
        ("history", NoSuchPath, r"did you mean history.arrow\?"),
        ("branches/exp/histroy.arrow", NoSuchPath, r"did you mean history.arrow\?"),
    ],
)
def test_changes_that_do_not_exist(
    path: str, error: type[Exception], message: str, fs: LanceFileSystem
) -> None:
    assert not fs.exists(path)
    with pytest.raises(error, match=message):
        fs.cat(path)


def test_the_transaction_document_describes_what_made_a_version(fs: LanceFileSystem) -> None:
    done = json.loads(fs.cat("versions/2/transaction.json"))
    assert (done["operation"], done["read_version"]) == ("Delete", 1)
    assert done["details"]["predicate"] == "id % 10 = 3"
    assert json.loads(fs.cat("latest/indices.json")) == []


def test_a_document_lists_the_indices(table: str) -> None:
    lance.dataset(table).create_scalar_index("id", "BTREE")
    lance.write_dataset(rows(1100, 1105), table, mode="append")
    (index,) = json.loads(LanceFileSystem(fo=table).cat("latest/indices.json"))
    assert (index["name"], index["type"], index["columns"]) == ("id_idx", "BTree", ["id"])
    assert (index["uncovered_rows"], index["fragment_ids"]) == (5, [0, 1, 2, 3])


def test_a_document_lists_the_fragment_reuse_index(table: str) -> None:
    dataset = lance.dataset(table)
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files(defer_index_remap=True)
    found = json.loads(LanceFileSystem(fo=table).cat("latest/indices.json"))
    (reuse,) = [index for index in found if index["type"] == "FragmentReuse"]
    (group,) = reuse["details"]["legacy_versions"][0]["groups"]
    assert len(group["new_fragments"]) == 1


def test_a_version_whose_transaction_was_cleaned_up_says_so(table: str) -> None:
    fs = LanceFileSystem(fo=table)
    manifest = json.loads(fs.cat("versions/1/manifest.json"))
    (Path(table) / "_transactions" / manifest["transaction_file"]).unlink()
    document = json.loads(fs.cat("versions/1/transaction.json"))
    if manifest["transaction_section"] is None:
        assert "the file is gone" in document["note"]
    else:  # the manifest holds the transaction, too
        assert document["operation"] == "Overwrite"
