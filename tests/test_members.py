"""Members of structs as columns: `st.x` reads no other member, in columns and in filters."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from comparison import assert_same_table
from support import CorpusCase, corpus_case, corpus_cases, needs_corpus

import lancefs
from lancefs.errors import ColumnNotFound
from lancefs.index import lookup
from lancefs.scan import fragment_ranges
from lancefs.scan.conditions import Condition
from lancefs.table.members import nested

ROWS = 3000
FORMATS = ["0.1", "2.0", "2.1", "2.2", "2.3"]


def _table(with_null_structs: bool) -> pa.Table:
    """A struct with members of several types, one of them a struct, and some values missing."""
    rng = np.random.default_rng(7)
    missing = rng.random((4, ROWS)) < 0.2
    if not with_null_structs:
        missing[2:] = False
    x = pa.array(rng.permutation(ROWS), mask=missing[0])
    text = pa.array([f"a text, number {i * 7919}" for i in range(ROWS)])
    z = pa.array(rng.random(ROWS), mask=missing[1])
    words = pa.array([[f"w{i % 5}"] * (i % 3) for i in range(ROWS)])
    inner = pa.StructArray.from_arrays([z, words], ["z", "words"], mask=pa.array(missing[2]))
    st = pa.StructArray.from_arrays(
        [x, text, inner], ["x", "text", "inner"], mask=pa.array(missing[3])
    )
    return pa.table({"id": range(ROWS), "st": st})


@pytest.fixture(scope="module", params=FORMATS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table, in fragments of 1,000 rows, without some deleted ones."""
    path = tmp_path_factory.mktemp("members") / "t.lance"
    table = _table(with_null_structs=request.param not in ("0.1", "2.0"))
    lance.write_dataset(table, path, max_rows_per_file=1000, data_storage_version=request.param)
    lance.dataset(path).delete("id % 10 = 9")
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> str:
    """A copy of it, of whose files nothing is known yet."""
    return str(shutil.copytree(written, tmp_path / "t.lance", copy_function=shutil.copy))


@pytest.fixture
def newest(tmp_path: Path) -> str:
    """The same in one fragment, in the format that pylance writes by default."""
    path = str(tmp_path / "n.lance")
    lance.write_dataset(_table(with_null_structs=True), path)
    return path


def _read(dataset: lancefs.LanceDataset, **options: Any) -> tuple[int, int]:
    """Read, and return the pages and bytes that it took."""
    scanner = dataset.scanner(**options)
    scanner.to_table()
    return scanner.stats.pages, scanner.stats.bytes


NAMES = [
    ["st.x"],
    ["st.text", "id", "st.x"],
    ["st.inner.z"],
    ["st.inner"],
    ["st", "st.inner.words"],
]


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_a_member_is_a_column_with_the_name_that_pylance_gives(path: str, names: list[str]) -> None:
    expected = lance.dataset(path).to_table(columns=names)
    found = lancefs.open(path).to_table(columns=names)
    found.validate(full=True)
    assert_same_table(found, expected)


def test_a_member_has_the_values_that_are_in_the_struct(path: str) -> None:
    dataset = lancefs.open(path)
    whole = dataset.to_table()
    arrow = pads.dataset(whole)
    for path_ in (("st", "x"), ("st", "text"), ("st", "inner", "z"), ("st", "inner", "words")):
        name = ".".join(path_)
        expected = arrow.to_table(columns={name: pc.field(*path_)})
        assert dataset.to_table(columns=[name]) == expected
        assert dataset.to_table(columns={name: pc.field(*path_)}) == expected
        assert dataset.to_table(columns={name: name}) == expected
        assert (
            dataset.to_table(columns={"both": pc.field(*path_), "st": "st"})["both"]
            == (expected[name])
        )
        assert dataset.take([5, 2000, 5], columns=[name]) == expected.take([5, 2000, 5])
        assert dataset.head(7, columns=[name]) == expected.slice(0, 7)
        batches = list(dataset.to_batches(columns=[name], batch_size=100))
        assert pa.Table.from_batches(batches) == expected


def test_a_member_of_a_missing_struct_is_missing(newest: str) -> None:
    dataset = lancefs.open(newest)
    rows = dataset.to_table(columns=["st", "st.x", "st.inner.z"])
    missing = [row["st"] is None for row in rows.to_pylist()]
    assert any(missing)
    for name in ("st.x", "st.inner.z"):
        assert all(value is None for value in np.array(rows[name].to_pylist())[missing])


FILTERS = {
    "st.x > 2900": pc.field("st", "x") > 2900,
    "st.x is null": pc.field("st", "x").is_null(),
    "st.inner.z < 0.1 and st.x < 500": (pc.field("st", "inner", "z") < 0.1)
    & (pc.field("st", "x") < 500),
    "st is null or st.x > 2900": pc.field("st").is_null() | (pc.field("st", "x") > 2900),
    "starts_with(st.text, 'a text, number 7')": pc.starts_with(
        pc.field("st", "text"), "a text, number 7"
    ),
    "st['x'] in (1, 5, 7) and id > 3": pc.field("st", "x").isin([1, 5, 7]) & (pc.field("id") > 3),
}


@pytest.mark.parametrize("text", FILTERS)
def test_filters_on_members_keep_the_rows_that_pyarrow_keeps(path: str, text: str) -> None:
    dataset = lancefs.open(path)
    expected = dataset.to_table().filter(FILTERS[text])
    for filter in (text, FILTERS[text]):
        assert dataset.to_table(filter=filter) == expected
        assert dataset.count_rows(filter) == len(expected)
        kept = dataset.to_table(columns=["st.text", "st.x"], filter=filter)
        assert kept["st.x"].to_pylist() == pc.struct_field(expected["st"], "x").to_pylist()
        assert dataset.filter(filter).to_table(columns=["id"])["id"] == expected["id"]


def test_a_member_reads_its_own_pages_only(path: str) -> None:
    dataset = lancefs.open(path)
    pages, size = _read(dataset, columns=["st"])
    per_member = _read(dataset, columns=["id"])[0]  # as many as every leaf has
    own_pages, own_size = _read(dataset, columns=["st.x"])
    assert own_pages <= per_member < pages
    assert own_size < size / 3
    assert _read(dataset, columns={"y": pc.field("st", "x") + 1}) == (own_pages, own_size)
    assert _read(dataset, columns={"y": "st.x"}) == (own_pages, own_size)
    for filter in ("st.x < 0", pc.field("st", "x") < 0):
        fragment_ranges.forget()  # what the first filter saw would spare the second one all reads
        assert _read(dataset, columns=["st.text"], filter=filter)[0] == own_pages
        assert dataset.scanner(filter=filter).count_rows() == 0


def test_a_member_that_is_filtered_by_and_read_is_read_once(newest: str) -> None:
    dataset = lancefs.open(newest)
    assert _read(dataset, columns=["st.x"], filter="st.x >= 0")[0] == 1


def test_members_of_lists_and_maps_are_refused(tmp_path: Path) -> None:
    table = pa.table(
        {
            "list": [[{"a": 1}], None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "st": [{"inside": [{"a": 1}]}, None],
        }
    )
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    dataset = lancefs.open(tmp_path / "t.lance")
    for name in ("list.a", "map.key", "st.inside.a"):
        parts = name.split(".")
        for read in (
            lambda name=name: dataset.to_table(columns=[name]),
            lambda name=name: dataset.to_table(columns={"x": name}),
            lambda parts=parts: dataset.to_table(columns={"x": pc.field(*parts)}),
            lambda parts=parts: dataset.count_rows(pc.field(*parts) > 1),
            lambda name=name: dataset.count_rows(f"{name} > 1"),
        ):
            with pytest.raises(ColumnNotFound, match=rf"'{name}'.*only members of structs"):
                read()


def test_an_unknown_member_is_told_apart_from_those_there_are(newest: str) -> None:
    dataset = lancefs.open(newest)
    for columns in (["st.txt"], {"a": "st.txt"}, {"a": pc.field("st", "txt")}):
        with pytest.raises(ColumnNotFound, match=r"n\.lance@1.*'st\.txt'.*'st\.text'"):
            dataset.scanner(columns)
    with pytest.raises(ColumnNotFound, match=r"no column 'other\.x'"):
        dataset.scanner(["other.x"])


def test_packed_structs_and_blobs_have_members_too(tmp_path: Path) -> None:
    packed = pa.field(
        "packed",
        pa.struct([("a", pa.int32()), ("b", pa.float32())]),
        metadata={"lance-encoding:packed": "true"},
    )
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    outer = pa.field("outer", pa.struct([pa.field("n", pa.int64()), packed]))
    rows = [{"a": i, "b": i / 2} for i in range(50)]
    table = pa.table(
        [
            pa.array(rows, packed.type),
            pa.array([bytes(i) for i in range(50)], pa.large_binary()),
            pa.array([{"n": i, "packed": row} for i, row in enumerate(rows)], outer.type),
        ],
        schema=pa.schema([packed, blob, outer]),
    )
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.1")
    dataset = lancefs.open(tmp_path / "t.lance")
    halves = [i / 2 for i in range(50)]
    for name in ("packed.b", "outer.packed.b"):
        path = name.split(".")
        assert dataset.to_table(columns=[name])[name].to_pylist() == halves
        assert dataset.to_table(columns={"x": pc.field(*path)})["x"].to_pylist() == halves
        assert dataset.count_rows(pc.field(*path) >= 20) == 10
        assert dataset.count_rows(f"{name} >= 20") == 10
    sizes = dataset.to_table(columns={"size": pc.field("blob", "size")})["size"].to_pylist()
    assert sizes == list(range(50))


@pytest.mark.parametrize("version", ["2.2", "2.3"])
def test_structs_inside_of_packed_structs_are_read_whole_and_by_member(
    tmp_path: Path, version: str
) -> None:
    deep = pa.struct([("u", pa.int8()), ("v", pa.string())])
    kind = pa.struct([("n", pa.int32()), ("a", pa.struct([("x", pa.int64()), ("deep", deep)]))])
    rows = [
        {"n": i, "a": {"x": 2 * i, "deep": {"u": i % 7, "v": f"text {i}"}}} for i in range(2000)
    ]
    field = pa.field("p", kind, metadata={"lance-encoding:packed": "true"})
    table = pa.table([pa.array(rows, kind)], schema=pa.schema([field]))
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version=version)
    dataset = lancefs.open(tmp_path / "t.lance")
    assert dataset.to_table() == table
    assert dataset.take([1999, 3])["p"].to_pylist() == [rows[1999], rows[3]]
    for name in ("p.a.x", "p.a.deep.u", "p.a.deep.v"):
        _, *path = name.split(".")
        expected = pc.struct_field(table["p"], path).to_pylist()
        assert dataset.to_table(columns=[name])[name].to_pylist() == expected
    assert dataset.count_rows("p.a.deep.v = 'text 7'") == 1
    assert dataset.count_rows("p.a.deep.u is null") == 0
    lance.dataset(tmp_path / "t.lance").drop_columns(["p.a.deep.u"])
    for row in rows:
        del row["a"]["deep"]["u"]
    assert lancefs.open(tmp_path / "t.lance").to_table()["p"].to_pylist() == rows


def test_a_column_with_a_dot_in_its_name_is_no_member(tmp_path: Path) -> None:
    """pylance does not write such a name, other writers may."""
    path = tmp_path / "t.lance"
    table = pa.table({"s": [{"x": i} for i in range(9)], "s_x": [-i for i in range(9)]})
    lance.write_dataset(table, path)
    for manifest in (path / "_versions").iterdir():
        manifest.write_bytes(manifest.read_bytes().replace(b"s_x", b"s.x"))
    dataset = lancefs.open(path)
    assert dataset.schema.names == ["s", "s.x"]
    below, member = [-i for i in range(9)], list(range(9))
    assert dataset.to_table(columns=["s.x"])["s.x"].to_pylist() == below
    both = dataset.to_table(columns={"m": pc.field("s", "x"), "c": pc.field("s.x")})
    assert (both["m"].to_pylist(), both["c"].to_pylist()) == (member, below)
    assert dataset.count_rows(pc.field("s", "x") > 5) == 3
    assert dataset.count_rows(pc.field("s.x") > 5) == 0
    assert dataset.count_rows((pc.field("s.x") > -3) & (pc.field("s", "x") > 0)) == 2
    assert dataset.count_rows("s.x > -3") == 3


def test_an_index_of_a_member_is_used(newest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_SMALL_ROWS", 2**20)
    monkeypatch.setattr(lookup, "_SMALL_RANGES", 2**20)
    lance.dataset(newest).create_scalar_index("st.x", "BTREE")
    dataset = lancefs.open(newest)
    for filter in ("st.x = 77", "st.x is null", "st.x < 20 and st.text > 'a'", "not st.x > 5"):
        scanner = dataset.scanner(["id", "st"], filter)
        scanned = dataset.to_table(["id", "st"], filter, use_index=False)
        assert scanner.to_table() == scanned
        assert "st.x_idx (BTree)" in scanner.explain()
        assert dataset.count_rows(filter) == len(scanned)


def test_a_dataset_shows_members_behind_its_columns(path: str) -> None:
    dataset = lancefs.open(path)
    more = dataset.with_members("st.x").with_row_metadata("_rowid").with_members("st.inner.z")
    assert more.schema.names == ["id", "st", "_rowid", "st.x", "st.inner.z"]
    names = ["st.inner.z", "_rowid", "id", "st.x"]
    expected = dataset.to_table(columns=names)
    assert more.to_table(columns=names).equals(expected)
    assert more.to_table().select(names).equals(expected)
    assert pickle.loads(pickle.dumps(more)).to_table(columns=names).equals(expected)
    assert more.without_indices().filter("id < 50").schema == more.schema
    assert more.checkout(1).schema.names == more.schema.names
    assert dataset.with_members("st.x").with_members("st.x").schema.names == ["id", "st", "st.x"]
    with pytest.raises(ColumnNotFound, match=r"st\.y"):
        dataset.with_members("st.y")
    with pytest.raises(ValueError, match="'id' is a column of"):
        dataset.with_members("id")


def test_members_are_put_back_into_the_structs_that_expressions_name() -> None:
    batch = pa.record_batch({"a": [1], "s.x": [2], "s.t.y": [3], "s.t.z": [None]})
    paths = {"s.x": ("s", "x"), "s.t.y": ("s", "t", "y"), "s.t.z": ("s", "t", "z")}
    structs = nested(batch, paths)
    assert structs.to_pylist() == [{"a": 1, "s": {"x": 2, "t": {"y": 3, "z": None}}}]
    assert nested(batch, {}) is batch
    assert Condition(pc.field("s", "x") > 1).tree is not None


@needs_corpus
@pytest.mark.parametrize("case", corpus_cases("blob_v"), ids=lambda case: case.name)
def test_members_of_descriptors_are_taken_out_of_whole_ones(case: CorpusCase) -> None:
    dataset = lancefs.open(case.table())
    for field in dataset.schema:
        if not pa.types.is_struct(field.type):
            continue
        whole = dataset.to_table(columns=[field.name])[field.name].combine_chunks()
        names = [f"{field.name}.{member.name}" for member in field.type]
        alone = dataset.to_table(columns=["id", *names])
        assert alone.column_names == ["id", *names]
        for name, member in zip(names, field.type, strict=True):
            expected = pc.struct_field(whole, [member.name])
            assert alone[name].combine_chunks() == expected
            assert dataset.take([1], columns=[name])[name].combine_chunks() == expected[1:2]
        size = pc.struct_field(whole, ["size"])
        assert dataset.count_rows(f"{field.name}.size > 50") == pc.sum(pc.greater(size, 50)).as_py()


def test_what_lies_below_a_blob_is_no_column() -> None:
    dataset = lancefs.open(corpus_case("blob_v2dedicated-f2.3-w14.0.2").table())
    with pytest.raises(ColumnNotFound, match=r"blob\.sise.*did you mean 'blob\.size'"):
        dataset.to_table(columns=["blob.sise"])
    with pytest.raises(ColumnNotFound, match=r"no column 'blob\.data'"):
        dataset.to_table(columns=["blob.data"])
    with pytest.raises(ValueError, match=r"'blob\.size' is of a blob's descriptor"):
        dataset.to_table(columns=["blob.size"], blobs="bytes")
    with pytest.raises(ValueError, match=r"'blob\.size' is of a blob's descriptor"):
        dataset.to_table(columns={"n": "blob.size"}, blobs="bytes")


def test_a_list_of_an_extension_type_is_named_in_an_expression(tmp_path: Path) -> None:
    ids = pa.array([b"x" * 16, b"y" * 16], pa.binary(16))
    items = pa.ExtensionArray.from_storage(pa.uuid(), ids)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), items)
    struct = pa.StructArray.from_arrays([lists], ["ids"])
    lance.write_dataset(pa.table({"s": struct, "ids": lists}), str(tmp_path / "t.lance"))
    dataset = lancefs.open(str(tmp_path / "t.lance"))
    found = dataset.to_table(columns={"member": pc.field("s", "ids"), "whole": pc.field("ids")})
    assert found["member"].combine_chunks().equals(lists)
    assert found["whole"].combine_chunks().equals(lists)
