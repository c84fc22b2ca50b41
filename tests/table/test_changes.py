"""Changes between two versions: which rows there are, and how they are paired."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st
from lance.file import LanceFileWriter
from lance.fragment import DataFile

import lancefs
from lancefs.datafile.container import Container
from lancefs.errors import ColumnNotFound, MissingFile, RefNotFound, UnsupportedFeature
from lancefs.storage import Store
from lancefs.table.changes import AFTER, IdShare, read_changes
from lancefs.table.open_version import open_version
from lancefs.table.refs import Ref
from lancefs.table.version_rows import NumberPlaces

Row = tuple[Any, ...]


def said(changes: pa.Table, *columns: str) -> list[Row]:
    """Some columns of changes, a tuple a row."""
    names = ["_change_type", "_commit_version", *columns]
    return list(zip(*(changes[name].to_pylist() for name in names), strict=True))


def small(path: Path, stable: bool = True) -> Any:
    table = pa.table({"id": [1, 2, 3, 4], "x": ["a", "b", "c", "d"]})
    return lance.write_dataset(table, path, max_rows_per_file=2, enable_stable_row_ids=stable)


def test_rows_are_inserted_updated_and_deleted(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.insert(pa.table({"id": [5], "x": ["e"]}))
    dataset.update({"x": "'B'"}, where="id = 2")
    dataset.delete("id = 3")
    dataset.optimize.compact_files()
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id", "x", "_rowid") == [
        ("insert", 2, 5, "e", 4),
        ("update_preimage", 3, 2, "b", 1),
        ("update_postimage", 3, 2, "B", 1),
        ("delete", 4, 3, "c", 2),
    ]


def test_without_stable_ids_an_update_is_a_delete_and_an_insert(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance", stable=False)
    dataset.update({"x": "'B'"}, where="id = 2")
    dataset.update({"x": "x"}, where="id = 3")  # nothing changes
    changes = lancefs.open(tmp_path / "t.lance").changes(1, 3)
    assert said(changes, "id", "x") == [("delete", 2, 2, "b"), ("insert", 2, 2, "B")]


def test_rows_without_a_struct_are_changes_where_a_member_has_no_nulls(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    struct = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string(), nullable=False)])
    dataset = lance.write_dataset(pa.table({"id": [1, 2]}), path)
    dataset.add_columns(pa.schema([pa.field("s", struct)]))
    lance.write_dataset(pa.table({"id": [3]}), path, mode="append")
    changes = lancefs.open(path).changes(2, 3)
    assert changes.select(["id", "s"]).to_pylist() == [{"id": 3, "s": None}]


def test_with_a_key_an_update_is_a_pair_that_names_the_columns(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance", stable=False)
    dataset.update({"x": "'B'"}, where="id = 2")
    dataset.delete("id = 3")
    dataset.insert(pa.table({"id": [5], "x": ["e"]}))
    changes = lancefs.open(tmp_path / "t.lance").changes(1, key=["id"])
    assert changes.schema.names[-2:] == ["_commit_timestamp", "_changed_columns"]
    assert said(changes, "id", "x", "_changed_columns") == [
        ("update_preimage", 2, 2, "b", ["x"]),
        ("update_postimage", 2, 2, "B", ["x"]),
        ("delete", 3, 3, "c", None),
        ("insert", 4, 5, "e", None),
    ]


@pytest.mark.parametrize("stable", [False, True], ids=["values", "stable"])
def test_a_table_that_was_written_anew_is_compared_by_a_key(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t.lance"
    small(path, stable)
    anew = pa.table({"new": [0, 0, 0, 0], "x": ["a", "B", "d", "e"], "id": [1, 2, 4, 5]})
    lance.write_dataset(anew, path, mode="overwrite")
    changes = lancefs.open(path).changes(1, key=["id"])
    found = [(kind, one, x) for kind, _, one, x in said(changes, "id", "x")]
    assert found == [
        ("delete", 3, "c"),
        ("update_preimage", 2, "b"),
        ("update_postimage", 2, "B"),
        ("insert", 5, "e"),
    ]


def test_an_update_that_changes_a_key_is_a_delete_and_an_insert(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.update({"id": "20"}, where="id = 2")
    changes = lancefs.open(tmp_path / "t.lance").changes(1, key=["id"])
    assert said(changes, "id", "x") == [("delete", 2, 2, "b"), ("insert", 2, 20, "b")]


def test_a_key_may_have_several_columns_and_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    table = pa.table({"a": [1, 1, None, None], "b": ["x", "y", "x", "x"], "v": [1, 2, 3, 4]})
    lance.write_dataset(table, path).update({"v": "v + 10"})
    changes = lancefs.open(path).changes(1, key=["b", "a"])
    assert said(changes, "a", "b", "v") == [
        *(("delete", 2, None, "x", 3), ("delete", 2, None, "x", 4)),
        *(("update_preimage", 2, 1, "x", 1), ("update_postimage", 2, 1, "x", 11)),
        *(("update_preimage", 2, 1, "y", 2), ("update_postimage", 2, 1, "y", 12)),
        *(("insert", 2, None, "x", 13), ("insert", 2, None, "x", 14)),
    ]


def test_a_key_that_tells_rows_not_apart_is_refused(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance", stable=False)
    dataset.insert(pa.table({"id": [7, 7], "x": ["e", "f"]}))
    dataset.add_columns({"late": "id"})
    ours = lancefs.open(tmp_path / "t.lance")
    with pytest.raises(ValueError, match=r"t\.lance@3: 2 changed rows have the key id = 7"):
        ours.changes(1, key=["id"])
    with pytest.raises(ValueError, match=r"t\.lance@1 has no such column"):
        ours.changes(1, key=["late"])
    with pytest.raises(ColumnNotFound, match="did you mean"):
        ours.changes(1, key=["idd"])
    with pytest.raises(ValueError, match="the key is empty"):
        ours.changes(1, key=[])
    with pytest.raises(TypeError, match=r"a list of names was expected: \['id'\]"):
        ours.changes(1, key="id")


def test_a_version_is_named_in_any_way(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.delete("id = 1")
    dataset.tags.create("before", 1)
    dataset.delete("id = 4")
    ours = lancefs.open(tmp_path / "t.lance")
    expected = [("delete", 2, 1), ("delete", 3, 4)]
    for since in (1, "v1", "before", Ref(version=1)):
        assert said(ours.changes(since), "id") == expected
    assert said(ours.changes("before", 2), "id") == expected[:1]
    assert said(lancefs.open(tmp_path / "t.lance", version=2).changes(1), "id") == expected[:1]
    nothing = ours.changes(3, 3)
    assert nothing.num_rows == 0
    assert nothing.schema.equals(ours.changes(1).schema)


def test_versions_in_the_wrong_order_or_of_another_branch_are_refused(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.delete("id = 1")
    dataset.create_branch("exp", 2)
    ours = lancefs.open(tmp_path / "t.lance")
    with pytest.raises(ValueError, match="an older and a newer version"):
        ours.changes(2, 1)
    with pytest.raises(ValueError, match="the same branch"):
        ours.changes(1, "exp:latest")
    with pytest.raises(RefNotFound, match="no version 9"):
        ours.changes(9)


def test_a_column_that_a_row_did_not_have_is_null(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.add_columns({"y": "id * 10"})
    dataset.delete("id = 1")
    dataset.update({"x": "'D'"}, where="id = 4")
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id", "x", "y") == [
        ("delete", 3, 1, "a", None),
        ("update_preimage", 4, 4, "d", None),
        ("update_postimage", 4, 4, "D", 40),
    ]


def test_an_id_of_a_column_that_is_used_again_is_not_the_same_column(tmp_path: Path) -> None:
    """Lance gives the id of the dropped column to the next one."""
    dataset = small(tmp_path / "t.lance")
    dataset.drop_columns(["x"])
    dataset.add_columns({"z": "cast(id as string)"})
    dataset.delete("id = 1")
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id", "z") == [("delete", 4, 1, None)]


def test_an_id_of_a_member_that_is_used_again_is_not_the_same_member(tmp_path: Path) -> None:
    """Lance gives it away when no data file holds the member any more."""
    path = str(tmp_path / "t.lance")
    rows = pa.table({"id": [1, 2], "s": [{"a": 1, "b": 2}, {"a": 3, "b": 4}]})
    dataset = lance.write_dataset(rows, path, max_rows_per_file=1)
    dataset.drop_columns(["s.b"])
    dataset.optimize.compact_files()
    dataset.add_columns(pa.field("s", pa.struct([pa.field("c", pa.int64())])))
    ours = lancefs.open(path)
    old, new = (one.manifest.fields[1] for one in (ours.checkout(1), ours))
    assert [part.id for part in old.walk()] == [part.id for part in new.walk()]
    assert ours.changes(1).num_rows == 0
    dataset.delete("id = 1")
    assert said(lancefs.open(path).changes(1), "id", "s")[0][2:] == (1, {"a": 1, "c": None})


def test_columns_of_a_table_that_was_overwritten_by_a_version_that_is_gone(tmp_path: Path) -> None:
    """Ids tell nothing there: only `a` has the same one in both versions."""
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": [1, 2], "b": [5, 6], "c": [7, 8]}), path)
    lance.write_dataset(pa.table({"a": [1, 2], "c": [7, 8], "b": [50, 6]}), path, mode="overwrite")
    lance.dataset(path).delete("a = 2")
    sorted((path / "_versions").glob("*.manifest"))[1].unlink()
    changes = lancefs.open(path).changes(1)
    assert said(changes, "a", "b", "c") == [
        ("delete", 3, 1, 5, 7),
        ("delete", 3, 2, 6, 8),
        ("insert", 3, 1, 50, 7),
    ]


def test_members_in_another_order_since_a_version_that_is_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.lance"
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    lance.write_dataset(pa.table({"id": [1, 2], "s": rows}), path)
    swapped = [{"b": 2, "a": 1}, {"b": 4, "a": 30}]
    lance.write_dataset(pa.table({"id": [1, 2], "s": swapped}), path, mode="overwrite")
    lance.dataset(path).insert(pa.table({"id": [3], "s": swapped[:1]}))
    sorted((path / "_versions").glob("*.manifest"))[1].unlink()
    changes = lancefs.open(path).changes(1, key=["id"])
    assert said(changes, "id", "s") == [
        ("update_preimage", 3, 2, {"a": 3, "b": 4}),
        ("update_postimage", 3, 2, {"a": 30, "b": 4}),
        ("insert", 3, 3, {"a": 1, "b": 2}),
    ]


def test_a_change_that_the_row_versions_do_not_tell_is_found_after_a_compaction(
    tmp_path: Path,
) -> None:
    """A commit of `update_columns` leaves the row versions as they were."""
    path = str(tmp_path / "t.lance")
    dataset = small(tmp_path / "t.lance")
    fragment, modified = dataset.get_fragments()[0].update_columns(
        pa.table({"id": [2], "x": ["B"]}), left_on="id", right_on="id"
    )
    operation = lance.LanceOperation.Update(updated_fragments=[fragment], fields_modified=modified)
    dataset = lance.LanceDataset.commit(path, operation, read_version=1)
    dataset.optimize.compact_files()
    versions = dataset.to_table(columns=["_row_last_updated_at_version"]).column(0).to_pylist()
    assert versions == [1, 1, 1, 1]
    changes = lancefs.open(path).changes(1)
    assert said(changes, "id", "x") == [
        ("update_preimage", 4, 2, "b"),
        ("update_postimage", 4, 2, "B"),
    ]


def test_rows_that_overlays_change_in_turn_have_versions_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
    path = tmp_path / "t.lance"
    small(path)
    for version, offset in ((1, 1), (2, 0)):
        file = DataFile(f"{version}.lance", [1], [0], 2, 1)
        schema = pa.schema([("x", pa.string())])
        with LanceFileWriter(str(path / "data" / file.path), schema, version="2.1") as writer:
            writer.write_batch(pa.table({"x": [f"new {version}"]}))
        overlay = lance.LanceOperation.DataOverlayFile(file, [offset])
        group = lance.LanceOperation.DataOverlayGroup(0, [overlay])
        operation = lance.LanceOperation.DataOverlay([group])
        lance.LanceDataset.commit(str(path), operation, read_version=version)
    changes = lancefs.open(path).changes(1)
    assert said(changes.filter(pc.field("_change_type") == AFTER), "id", "x") == [
        ("update_postimage", 2, 2, "new 1"),
        ("update_postimage", 3, 1, "new 2"),
    ]


def test_a_column_with_the_name_of_one_that_is_added_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"_commit_version": [1], "_changed_columns": [2]}), path)
    ours = lancefs.open(path)
    with pytest.raises(UnsupportedFeature, match="a column _commit_version, which changes add"):
        ours.changes(1)
    lance.write_dataset(pa.table({"_changed_columns": [2]}), path, mode="overwrite")
    assert lancefs.open(path).changes(2).num_rows == 0
    with pytest.raises(UnsupportedFeature, match="a column _changed_columns, which changes add"):
        lancefs.open(path).changes(2, key=["_changed_columns"])


@pytest.mark.parametrize("more", [0, 1, 2])
def test_versions_of_a_table_that_was_made_anew_are_not_compared(tmp_path: Path, more: int) -> None:
    path = tmp_path / "t.lance"
    small(path).delete("id = 1")
    ours = lancefs.open(path)
    shutil.rmtree(path)
    dataset = small(path)
    for number in range(more):
        dataset.delete(f"id = {number}")
    with pytest.raises(MissingFile, match=r"t\.lance@2: the table was deleted and made anew"):
        ours.changes(1)
    assert ours.checkout(1).version == 1


def test_a_share_needs_stable_ids_and_no_key(tmp_path: Path) -> None:
    small(tmp_path / "t.lance", stable=False)
    version = open_version(Store(LocalFileSystem(), str(tmp_path / "t.lance")), Ref())
    with pytest.raises(
        ValueError, match=r"t\.lance@1: a share .* needs stable row ids, and no key"
    ):
        read_changes(version, version, share=IdShare(0, 2, 1))


def test_versions_between_that_are_gone_are_done_without(tmp_path: Path) -> None:
    dataset = small(tmp_path / "t.lance")
    dataset.delete("id = 1")
    dataset.update({"x": "'D'"}, where="id = 4")
    dataset.delete("id = 2")
    files = sorted((tmp_path / "t.lance" / "_versions").glob("*.manifest"))
    files[2].unlink()  # version 2
    changes = lancefs.open(tmp_path / "t.lance").changes(1)
    assert said(changes, "id") == [
        ("delete", 3, 1),
        ("update_preimage", 3, 4),
        ("update_postimage", 3, 4),
        ("delete", 4, 2),
    ]


@pytest.mark.parametrize("stable", [False, True])
def test_fragments_that_did_not_change_are_not_read(
    tmp_path: Path, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = small(tmp_path / "t.lance", stable)
    dataset.insert(pa.table({"id": [5], "x": ["e"]}))
    dataset.delete("id = 3")
    opened: list[str] = []
    original = Container.__init__

    def noting(self: Container, file: Any, *args: Any) -> None:
        opened.append(file.path)
        original(self, file, *args)

    monkeypatch.setattr(Container, "__init__", noting)
    changes = lancefs.open(tmp_path / "t.lance").changes(2, 3)
    assert said(changes, "id") == [("delete", 3, 3)]
    assert len(opened) == 1


def test_blobs_are_compared_by_their_bytes(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    table = pa.table({"id": [1, 2, 3], "b": [b"one", b"two", b"three"]}, schema=schema)
    path = tmp_path / "t.lance"
    dataset = lance.write_dataset(table, path, data_storage_version="2.1", max_rows_per_file=2)
    dataset.insert(pa.table({"id": [4], "b": [b"four"]}, schema=schema))
    dataset.delete("id = 1")
    dataset.optimize.compact_files()
    changes = lancefs.open(path).changes(2)
    assert said(changes, "id") == [("delete", 3, 1)]


@given(
    st.lists(st.integers(0, 40), unique=True),
    st.lists(st.integers(0, 40), unique=True),
    st.sampled_from([1, 10**15]),
)
def test_numbers_that_two_arrays_share_are_paired(
    old: list[int], new: list[int], unit: int
) -> None:
    ids = [np.array(numbers, np.uint64) * np.uint64(unit) for numbers in (old, new)]
    in_old, in_new = NumberPlaces.of(ids[0]).pairs(ids[1])
    assert in_new.tolist() == [place for place, number in enumerate(new) if number in old]
    assert in_old.tolist() == [old.index(number) for number in new if number in old]
