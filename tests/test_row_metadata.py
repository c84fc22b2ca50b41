"""Which row is this: ids, addresses, positions and versions of rows, as columns and in filters."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import CorpusRef, corpus_case, corpus_refs, examples, of_each, rewrite_manifest

import lancefs
from lancefs.datafile.container import Container
from lancefs.errors import ColumnNotFound, CorruptFile
from lancefs.proto import rowids_pb2, table_pb2
from lancefs.table.row_metadata import ROW_METADATA

REFS = [ref for ref in corpus_refs() if ref.expected("rowmeta")]
ALL = list(ROW_METADATA)


@of_each(REFS)
def test_row_metadata_are_those_expected(ref: CorpusRef) -> None:
    path = ref.expected("rowmeta")
    assert path is not None
    expected = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    table = lancefs.open(ref.case.table(), ref=ref.ref).to_table(columns=expected.schema.names)
    assert table.equals(expected)


def write(path: Path, stable: bool) -> str:
    """Write a table of 60 rows in fragments of 20, with deletions, updates and a compaction."""
    table = pa.table({"id": range(60), "x": [float(one) for one in range(60)]})
    dataset = lance.write_dataset(table, path, max_rows_per_file=20, enable_stable_row_ids=stable)
    dataset.delete("id % 7 = 3")
    dataset.update({"x": "x + 100"}, where="id % 5 = 0")
    dataset.optimize.compact_files(target_rows_per_fragment=30)
    lance.write_dataset(pa.table({"id": [60, 61], "x": [0.0, 1.0]}), path, mode="append")
    lance.dataset(path).delete("id = 20")
    return str(path)


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("rows") / "t.lance", request.param)


def test_columns_of_row_metadata_stand_where_they_are_named(table: str) -> None:
    dataset = lancefs.open(table)
    columns = ["_rowaddr", "id", *(name for name in ALL if name != "_rowaddr")]
    oracle = lance.dataset(table).scanner(columns=columns).to_table()
    assert dataset.to_table(columns=columns).equals(oracle)
    assert dataset.to_table(columns=["_rowid"]).num_rows == dataset.count_rows()


def test_ids_and_addresses_are_added_when_asked_for(table: str) -> None:
    dataset = lancefs.open(table)
    added = dataset.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert added.schema.names == ["id", "_rowid", "_rowaddr"]
    assert dataset.to_table(with_row_id=True).schema.names == ["id", "x", "_rowid"]
    assert dataset.to_table(columns=["_rowid"], with_row_id=True).schema.names == ["_rowid"]
    computed = dataset.to_table(columns={"twice": pc.field("_rowid") * 2}, with_row_id=True)
    assert computed.schema.names == ["twice", "_rowid"]
    assert computed["twice"].to_pylist() == [2 * one for one in computed["_rowid"].to_pylist()]
    assert dataset.schema.names == ["id", "x"]


def test_a_dataset_can_have_them_among_its_columns(table: str) -> None:
    dataset = lancefs.open(table).with_row_metadata("_rowid", "_rowoffset")
    assert dataset.schema.names == ["id", "x", "_rowid", "_rowoffset"]
    assert dataset.to_table()["_rowoffset"].to_pylist() == list(range(dataset.count_rows()))
    assert pickle.loads(pickle.dumps(dataset)).to_table().equals(dataset.to_table())
    with pytest.raises(ColumnNotFound, match="_rowid"):
        lancefs.open(table).with_row_metadata("_rowids")


def test_rows_are_taken_by_their_ids(table: str) -> None:
    dataset = lancefs.open(table)
    rows = dataset.to_table(with_row_id=True)
    picked = [40, 0, 17, 40, rows.num_rows - 1]
    taken = dataset.take(row_ids=rows["_rowid"].take(pa.array(picked)))
    assert taken.equals(rows.select(["id", "x"]).take(pa.array(picked)).combine_chunks())
    one = dataset.take(row_ids=[int(rows["_rowid"][3].as_py())], columns={"y": pc.field("x") * 2})
    assert one["y"].to_pylist() == [2 * rows["x"][3].as_py()]
    assert dataset.take(row_ids=[]).equals(rows.select(["id", "x"]).slice(0, 0))


def test_an_id_without_a_row_is_named(table: str) -> None:
    dataset = lancefs.open(table)
    with pytest.raises(IndexError, match=r"no row with the row id 999$"):
        dataset.take(row_ids=[999])
    with pytest.raises(IndexError, match=r"no row with the row id 998 \(nor with 1 others\)"):
        dataset.take(row_ids=[999, 998])
    before = lancefs.open(table, version=1).to_table(with_row_id=True)
    deleted = before.filter(pc.field("id") == 20)["_rowid"].to_pylist()
    with pytest.raises(IndexError, match=f"id {deleted[0]}"):
        dataset.take(row_ids=deleted)
    with pytest.raises(ValueError, match="either"):
        dataset.take()
    with pytest.raises(ValueError, match="either"):
        dataset.take([0], row_ids=[0])


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        ([-1], IndexError, "numbers from 0 to"),
        ([2**64], IndexError, "numbers from 0 to"),
        (pa.array(["a"]), TypeError, "whole numbers, not string"),
        (pa.array([1.5]), TypeError, "whole numbers, not double"),
        (pa.array([1, None]), TypeError, "missing"),
    ],
)
def test_what_is_no_row_id_is_said(
    ids: Any, error: type[Exception], text: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1, 2]}), path)
    with pytest.raises(error, match=text):
        lancefs.open(path).take(row_ids=ids)


@pytest.mark.parametrize("names", ["positions", "row ids"])
@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([0.7], "are whole numbers, not float"),
        (np.array([0.0]), "are whole numbers, not float64"),
        ([True, False], "are whole numbers, not bool"),
        (np.array([[0, 1]]), r"are a list of whole numbers, not of shape \(1, 2\)"),
        ([0, None], "are whole numbers, not NoneType"),
        (["0"], "are whole numbers, not str"),
        (1, "are a list of whole numbers, not int"),
        ({0, 1}, "are a list of whole numbers, not set"),
    ],
)
def test_rows_are_named_by_whole_numbers(
    numbers: Any, text: str, names: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1, 2]}), path)
    dataset = lancefs.open(path)
    with pytest.raises(TypeError, match=f"{names} {text}"):
        dataset.take(row_ids=numbers) if names == "row ids" else dataset.take(numbers)


@pytest.mark.parametrize("filter", [None, "a >= 0"])
@pytest.mark.parametrize("position", [-1, 2, 2**63, 2**64])
def test_positions_beyond_the_rows_are_said(
    position: int, filter: str | None, tmp_path: Path
) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1, 2]}), path)
    with pytest.raises(IndexError, match=f"row {position} of .*, which has 2 rows"):
        lancefs.open(path).take([0, position], filter=filter)


@pytest.mark.parametrize(
    "numbers",
    [range(2), (0, 1), np.array([0, 1], np.uint8), np.array([0, 1], object), pa.array([0, 1])],
)
def test_rows_are_named_by_lists_of_any_kind(numbers: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": [1, 2]}), path)
    dataset = lancefs.open(path)
    assert dataset.take(numbers)["a"].to_pylist() == [1, 2]
    assert dataset.take(row_ids=numbers)["a"].to_pylist() == [1, 2]
    assert dataset.take(numbers[:0]).num_rows == 0


_ADDRESSES = st.builds(lambda f, o: (f << 32) + o, st.integers(0, 8), st.integers(-1, 32))
_VALUES = st.one_of(st.integers(-2, 70), _ADDRESSES)


@st.composite
def conditions(draw: st.DrawFn) -> pc.Expression:
    """A filter over row metadata, and sometimes over a column of the table."""
    name = draw(st.sampled_from(["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version"]))
    field = pc.field(name)
    value = draw(_VALUES)
    one = draw(
        st.sampled_from(
            [
                field == max(value, 0),
                field > value,
                field <= max(value, 0),
                pc.scalar(value) >= field,
                field.isin([max(value, 0), 4, 17]),
                pc.field("id") % 2 == 0 if hasattr(pc.Expression, "__mod__") else field != 3,
                pc.field("x") > 30.0,
            ]
        )
    )
    match draw(st.sampled_from(["one", "and", "or", "not"])):
        case "and":
            return one & draw(conditions())
        case "or":
            return one | draw(conditions())
        case "not":
            return ~one
    return one


@settings(max_examples=examples(150))
@given(condition=conditions(), batch_size=st.sampled_from([5, 64, 1 << 16]))
def test_filters_on_row_metadata_are_exact(
    table: str, condition: pc.Expression, batch_size: int
) -> None:
    dataset = lancefs.open(table)
    columns = ["x", "id", *ALL]
    expected = dataset.to_table(columns=columns).filter(condition)
    got = dataset.to_table(columns=columns, filter=condition, batch_size=batch_size)
    assert got.equals(expected)
    assert dataset.count_rows(condition) == expected.num_rows


def reads(dataset: lancefs.LanceDataset, **kwargs: Any) -> tuple[pa.Table, list[str]]:
    """Read from a dataset; also return the files of data that were opened for it."""
    opened: list[str] = []
    original = Container.__init__

    def noting(self: Container, file: Any, *args: Any) -> None:
        opened.append(file.path)
        original(self, file, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Container, "__init__", noting)
        return dataset.to_table(**kwargs), opened


def test_a_filter_on_ids_opens_only_the_files_of_their_rows(table: str, tmp_path: Path) -> None:
    rows = lancefs.open(table).to_table(columns=["id"], with_row_id=True)
    wanted = rows.filter(pc.field("id") == 61)["_rowid"].to_pylist()
    # Files that were read before may be known, and are not opened again.
    unread = shutil.copytree(table, tmp_path / "unread.lance")
    found, opened = reads(lancefs.open(unread), filter=pc.field("_rowid") == wanted[0])
    assert found["id"].to_pylist() == [61]
    assert len(opened) == 1
    nothing, opened = reads(lancefs.open(unread), filter=pc.field("_rowaddr") == 2**62)
    assert nothing.num_rows == 0
    assert not opened
    only_metadata, opened = reads(lancefs.open(unread), columns=ALL)
    assert only_metadata.num_rows == rows.num_rows
    assert not opened


def small(path: Path, columns: Sequence[str] = ("id",)) -> Path:
    """Write a table with stable ids, of 6 rows in two fragments."""
    table = pa.table({name: pa.array(range(6), pa.uint64()) for name in columns})
    lance.write_dataset(table, path, max_rows_per_file=3, enable_stable_row_ids=True)
    return path


def test_sequences_in_files_of_their_own_are_read(tmp_path: Path) -> None:
    path = small(tmp_path / "t.lance")

    def move_out(message: table_pb2.Manifest) -> None:
        for fragment in message.fragments:
            data, name = fragment.inline_row_ids, f"_rowids/{fragment.id}"
            (path / "_rowids").mkdir(exist_ok=True)
            (path / name).write_bytes(b"before" + data + b"after")
            fragment.external_row_ids.CopyFrom(
                table_pb2.ExternalFile(path=name, offset=6, size=len(data))
            )

    rewrite_manifest(path, move_out)
    assert lancefs.open(path).to_table(columns=["_rowid"])["_rowid"].to_pylist() == [*range(6)]
    assert lancefs.open(path).take(row_ids=[4])["id"].to_pylist() == [4]


def test_sequences_in_hidden_columns_are_read(tmp_path: Path) -> None:
    """As tables with reader feature flag 2048 have them: a u64 column of the field -3."""
    path = small(tmp_path / "t.lance", ["id", "a", "b"])

    def hide(message: table_pb2.Manifest) -> None:
        message.reader_feature_flags |= 2048
        del message.fields[1:]
        for fragment in message.fragments:
            fragment.row_id_column.SetInParent()
            fragment.created_at_version_column.SetInParent()
            fragment.files[0].fields[1:] = [-3, -4]

    rewrite_manifest(path, hide)
    table = lancefs.open(path).to_table(columns=ALL[:1] + ALL[2:3])
    assert table.to_pydict() == {
        "_rowid": [*range(6)],
        "_row_created_at_version": [*range(6)],
    }
    assert lancefs.open(path).take(row_ids=[5, 0])["id"].to_pylist() == [5, 0]


def test_a_hidden_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = small(tmp_path / "t.lance")
    rewrite_manifest(path, lambda message: message.fragments[1].row_id_column.SetInParent())
    with pytest.raises(CorruptFile, match="fragment 1: _rowid"):
        lancefs.open(path).to_table(columns=["_rowid"])


def test_a_sequence_of_another_length_is_refused(tmp_path: Path) -> None:
    path = small(tmp_path / "t.lance")

    def shorten(message: table_pb2.Manifest) -> None:
        sequence = rowids_pb2.RowIdSequence()
        sequence.segments.add().range.end = 2
        message.fragments[1].inline_row_ids = sequence.SerializeToString()

    rewrite_manifest(path, shorten)
    with pytest.raises(CorruptFile, match=r"fragment 1, _rowid: 2 row ids .* has 3 rows"):
        lancefs.open(path).to_table(columns=["_rowid"])
    assert lancefs.open(path).to_table()["id"].to_pylist() == [*range(6)]


def test_an_id_of_two_rows_is_refused_when_it_is_looked_up(tmp_path: Path) -> None:
    path = small(tmp_path / "t.lance")

    def repeat(message: table_pb2.Manifest) -> None:
        message.fragments[1].inline_row_ids = message.fragments[0].inline_row_ids

    rewrite_manifest(path, repeat)
    with pytest.raises(CorruptFile, match=r"t\.lance: _rowid: .* stable id 1, in fragments 0, 1"):
        lancefs.open(path).take(row_ids=[1])


def test_a_fragment_that_has_an_id_twice_is_named(tmp_path: Path) -> None:
    path = small(tmp_path / "t.lance")

    def repeat(message: table_pb2.Manifest) -> None:
        sequence = rowids_pb2.RowIdSequence()
        ids = np.array([4, 5, 4], "<u8").tobytes()
        sequence.segments.add().array.u64_array.values = ids
        message.fragments[1].inline_row_ids = sequence.SerializeToString()

    rewrite_manifest(path, repeat)
    with pytest.raises(CorruptFile, match=r"t\.lance: fragment 1, _rowid: a row id occurs twice"):
        lancefs.open(path).take(row_ids=[5])


def test_a_fragment_without_ids_is_refused_where_ids_are_stable(tmp_path: Path) -> None:
    path = small(tmp_path / "t.lance")
    rewrite_manifest(path, lambda message: message.fragments[1].ClearField("inline_row_ids"))
    with pytest.raises(CorruptFile, match="fragment 1 has no row ids"):
        lancefs.open(path).to_table(columns=["_rowid"])


def test_the_sequences_of_the_corpus_find_every_row() -> None:
    case = corpus_case("feat_stable_big-f2.1-w14.0.2")
    for version in (5, 9):
        dataset = lancefs.open(case.table(), version=version)
        rows = dataset.to_table(columns=["id"], with_row_id=True)
        order = np.random.default_rng(7).permutation(rows.num_rows)[:1000]
        wanted = rows.take(pa.array(order))
        assert dataset.take(row_ids=wanted["_rowid"], columns=["id"])["id"].equals(wanted["id"])
