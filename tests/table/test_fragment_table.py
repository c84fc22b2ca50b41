"""The fragments of a version as a table: what protobuf reads of them, and what is looked up."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from manifest_messages import check_as_protobuf_reads_it, messages_of, mutant, real_messages
from support import CorpusCase, examples, frame, local_store, of_each_case
from wire_messages import manifests, varint

import lancefs
from lancefs.errors import CorruptFile
from lancefs.proto import table_pb2
from lancefs.table import fragment_table
from lancefs.table.fragment_table import Fragments, parse_manifest
from lancefs.table.fragments import Fragment
from lancefs.table.manifest import read_manifest


@settings(max_examples=examples(1000))
@given(manifests())
@example(b"\x12" + varint(11) + b"\x08" + varint(2**64 - 1))
@example(b"\x12\x02\x1a\x00")  # a deletion file of which nothing is said
@example(b"\x12\x06\x1a\x00\x1a\x02\x20\x07")  # two parts of one deletion file
@example(b"\x0a\x03\x12\x01\xff")  # a field whose name is no text
def test_a_manifest_is_read_as_protobuf_reads_it(data: bytes) -> None:
    check_as_protobuf_reads_it(data)


@of_each_case
def test_real_manifests_are_read_as_protobuf_reads_them(case: CorpusCase) -> None:
    for data in messages_of(case.store()):
        check_as_protobuf_reads_it(data)


def test_damaged_manifests_are_read_as_protobuf_reads_them() -> None:
    sound = real_messages(10)
    for number in range(500):
        check_as_protobuf_reads_it(mutant(sound, np.random.default_rng(number)))


def of(*fragments: tuple[int, int, int]) -> Fragments:
    """Return fragments, given as id, rows and deleted rows; −1 where these are not recorded."""
    message = table_pb2.Manifest()
    for number, rows, deleted in fragments:
        fragment = message.fragments.add(id=number, physical_rows=rows)
        if deleted:
            fragment.deletion_file.num_deleted_rows = max(deleted, 0)
    parsed = parse_manifest(message.SerializeToString())
    return Fragments(parsed.data, parsed.columns)


def test_a_fragment_is_found_by_its_id() -> None:
    ascending, mixed = of((2, 1, 0), (5, 1, 0), (9, 1, 0)), of((9, 1, 0), (2, 1, 0), (5, 1, 0))
    assert dict(ascending.positions) == {2: 0, 5: 1, 9: 2}
    assert dict(mixed.positions) == {9: 0, 2: 1, 5: 2}
    for number in (-1, 0, 3, 10, 2**32, 2**70):
        assert number not in ascending.positions
        assert number not in mixed.positions
    assert dict(of().positions) == {}


def test_a_slice_has_the_fragments_that_were_made_before() -> None:
    """A stream that asks for the rows behind those it has had makes no fragment again."""
    fragments = of((7, 5, 0), (0, 4, 4), (2, 7, 2))
    made = [fragments[position] for position in range(3)]
    assert all(fragments[1:][position] is made[1 + position] for position in range(2))
    assert [each.id for each in fragments[::-1]] == [2, 0, 7]
    part = of((7, 5, 0), (0, 4, 4), (2, 7, 2))[1:]
    assert [each.id for each in part] == [0, 2]


def test_live_rows_are_counted_from_the_first_fragment_on() -> None:
    fragments = of((0, 5, 0), (1, 4, 4), (2, 7, 2))
    assert fragments.live_ends is not None
    assert fragments.live_ends.tolist() == [5, 5, 10]
    assert fragments[1:].live_ends is not None
    assert fragments[1:].live_ends.tolist() == [0, 5]
    assert of((0, 5, 0), (1, 4, -1)).live_ends is None
    assert of((0, 0, 0)).live_ends is None


@pytest.mark.parametrize("beyond", [(1, 2**32 + 1, 0), (1, 3, 4), (1, 2**64 - 1, 0)])
def test_rows_that_cannot_be_are_not_counted(beyond: tuple[int, int, int]) -> None:
    fragments = of((0, 5, 0), beyond)
    with pytest.raises(CorruptFile, match=r"beyond 32 bits|of 3 rows are deleted"):
        fragments.num_rows()


Rows = tuple[int, int, int]


@st.composite
def successive_versions(draw: st.DrawFn) -> tuple[list[Rows], list[Rows]]:
    """Draw the fragments of two versions, of which some are alike."""
    rows = st.integers(1, 300)
    old = [(number, draw(rows), 0) for number in range(draw(st.integers(0, 12)))]
    new = [(n, size, draw(st.sampled_from([0, 0, 0, 1]))) for n, size, _ in old]
    for _ in range(draw(st.integers(0, 3))):
        if new:
            del new[draw(st.integers(0, len(new) - 1))]
    new += [(number, draw(rows), 0) for number in range(20, 20 + draw(st.integers(0, 3)))]
    if draw(st.booleans()):
        new = draw(st.permutations(new))
    return (old, new) if draw(st.booleans()) else (new, old)


@given(successive_versions())
def test_two_versions_differ_in_the_fragments_that_are_not_in_both(
    versions: tuple[list[Rows], list[Rows]],
) -> None:
    ours, theirs = (of(*version) for version in versions)
    left, right = ours.differences(theirs)
    assert left == [one for one in ours if one not in list(theirs)]
    assert right == [one for one in theirs if one not in list(ours)]


def test_fragments_that_are_written_in_another_order_of_fields_are_the_same() -> None:
    def read(*messages: bytes) -> Fragments:
        data = b"".join(b"\x12" + varint(len(message)) + message for message in messages)
        parsed = parse_manifest(data)
        return Fragments(parsed.data, parsed.columns)

    ours = read(b"\x08\x01\x20\x05", b"\x08\x02\x20\x06")
    theirs = read(b"\x20\x05\x08\x01", b"\x20\x07\x08\x02")
    assert ours.differences(theirs) == ([Fragment(2, (), None, 6)], [Fragment(2, (), None, 7)])


def test_few_of_many_fragments_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_table, "_KEPT", 2)
    fragments = of(*((number, 1, 0) for number in range(5)))
    assert [one.id for one in fragments] == [0, 1, 2, 3, 4]
    assert fragments[4] is fragments[4]


def test_fragments_that_are_damaged_do_not_hinder_those_that_are_not(tmp_path: Path) -> None:
    message = table_pb2.Manifest()
    message.fragments.add(id=3, physical_rows=2)
    message.fragments.add(id=4, physical_rows=2).deletion_file.num_deleted_rows = 3
    (tmp_path / "m").write_bytes(frame(message))
    fragments = read_manifest(local_store(tmp_path).file("m")).fragments
    assert fragments[0].physical_rows == 2
    with pytest.raises(CorruptFile, match=r"m: fragment 4: 3 of 2 rows are deleted"):
        _ = fragments[1]


def count_objects(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the position of each fragment of which an object is made."""
    made: list[int] = []
    build = Fragments._build

    def counted(self: Fragments, position: int) -> Fragment:
        made.append(position)
        return build(self, position)

    monkeypatch.setattr(Fragments, "_build", counted)
    return made


def test_the_size_of_a_view_of_numbers_takes_objects_of_few_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance.write_dataset(pa.table({"a": range(300)}), tmp_path / "t.lance", max_rows_per_file=2)
    lance.dataset(tmp_path / "t.lance").delete("a % 7 = 3")
    made = count_objects(monkeypatch)
    fs = lancefs.LanceFileSystem(skip_instance_cache=True)
    path = f"{tmp_path}/t.lance/latest.arrow"
    size = fs.info(path)["size"]
    assert len(set(made)) < 5
    assert size == len(fs.cat_file(path))


def test_a_read_of_few_rows_makes_objects_of_few_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"a": range(600)})
    lance.write_dataset(table, tmp_path / "t.lance", max_rows_per_file=2)
    lance.dataset(tmp_path / "t.lance").delete("a % 7 = 3")
    made = count_objects(monkeypatch)
    dataset = lancefs.open(tmp_path / "t.lance")
    expected = lance.dataset(tmp_path / "t.lance").to_table()
    assert dataset.count_rows() == expected.num_rows
    assert dataset.take([400, 7, 9, 400]) == expected.take([400, 7, 9, 400])
    assert dataset.head(3) == expected.slice(0, 3)
    assert dataset.to_table(offset=410, limit=2) == expected.slice(410, 2)
    wanted = dataset.to_table(filter="_rowaddr = 858993459201", with_row_id=True)
    assert wanted["a"].to_pylist() == [401]
    assert len(set(made)) < 12


def test_fragments_and_changes_take_objects_of_the_fragments_that_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(600)}), path, max_rows_per_file=2)
    lance.dataset(path).delete("a = 7")
    lance.write_dataset(pa.table({"a": [-1]}), path, mode="append")
    made = count_objects(monkeypatch)
    fragments = list(lancefs.open(path).get_fragments())
    assert [one.fragment_id for one in fragments] == list(range(301))
    assert not made
    assert fragments[3].metadata.id == 3
    assert fragments[3].to_table() == lance.dataset(path).get_fragment(3).to_table()
    assert len(made) < 5
    made.clear()
    changes = lancefs.open(path).changes(1)
    assert changes["a"].to_pylist() == [7, -1]
    assert len(set(made)) < 5
