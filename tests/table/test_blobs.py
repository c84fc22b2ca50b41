"""Blobs as bytes: of every kind, wherever they lie, and only those that are wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparison import assert_same_table
from lance.blob import Blob, blob_array, blob_field
from store_doubles import CountingFileSystem
from support import CorpusRef, copy_table, corpus_case, corpus_refs, local_store, needs_corpus

import lancefs
from lancefs.datafile.fields import BLOB_V2_DESCRIPTOR, Field
from lancefs.errors import CorruptFile, MemoryLimitExceeded, MissingFile, UnsupportedFeature
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.base_paths import BaseRules, TableFiles
from lancefs.table.blobs import Described, read_blobs
from lancefs.table.fragments import DataFile
from lancefs.table.manifest import BasePath
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, resolve

REFS = [ref for ref in corpus_refs("blob_") if ref.expected("blobs")]
V1 = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
V2 = blob_field("b")
VERSIONS = ("2.0", "2.1", "2.2", "2.3")


@needs_corpus
@pytest.mark.parametrize("ref", REFS, ids=str)
def test_blobs_are_the_bytes_expected(ref: CorpusRef) -> None:
    path = ref.expected("blobs")
    assert path is not None
    expected = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    dataset = lancefs.open(ref.case.table(), ref=ref.ref)
    table = dataset.to_table(blobs="bytes")
    table.validate(full=True)
    assert_same_table(table, expected)
    assert dataset.scanner(blobs="bytes").projected_schema == table.schema
    some = [expected.num_rows - 1, 0, 3, 3]
    assert_same_table(dataset.take(some, blobs="bytes"), expected.take(some))
    assert_same_table(dataset.head(2, blobs="bytes"), expected.slice(0, 2))
    batches = list(dataset.to_batches(blobs="bytes", batch_size=3))
    assert_same_table(pa.Table.from_batches(batches), expected)


def nested(version: str, in_list: bool) -> pa.Table:
    """Blobs, some null and some empty, in a struct or in lists."""
    values = [b"abc", None, b"", b"d" * 500]
    if version < "2.2":
        field, array = V1, pa.array(values, pa.large_binary())
    else:
        field, array = V2, blob_array(values)
    if in_list:
        rows = pa.ListArray.from_arrays(pa.array([0, 2, 2, 4], pa.int32()), array)
        rows = pa.ListArray.from_arrays(rows.offsets, array, type=pa.list_(field))
    else:
        members = [array, pa.array([1, 2, 3, 4])]
        rows = pa.StructArray.from_arrays(members, fields=[field, pa.field("x", pa.int64())])
    return pa.table({"c": rows})


@pytest.mark.parametrize(
    ("version", "in_list"),
    # Lists of blobs in 2.1 are refused, see docs/format-support.md.
    [(version, False) for version in VERSIONS] + [(v, True) for v in VERSIONS if v != "2.1"],
)
def test_blobs_lie_in_structs_and_lists_too(version: str, in_list: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(nested(version, in_list), path, data_storage_version=version)
    expected = lance.dataset(path).to_table(blob_handling="all_binary")
    dataset = lancefs.open(path)
    assert_same_table(dataset.to_table(blobs="bytes"), expected)
    assert_same_table(dataset.take([2, 0], blobs="bytes"), expected.take([2, 0]))


def test_columns_that_no_file_holds_are_null(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2]}), path, data_storage_version="2.1")
    lance.dataset(path).add_columns(pa.schema([V1]))
    table = lancefs.open(path).to_table(blobs="bytes")
    assert table["b"].to_pylist() == [None, None]
    assert table.schema.field("b").type == pa.large_binary()


def test_only_the_blobs_of_wanted_rows_are_read(tmp_path: Path) -> None:
    size, count = 300_000, 40
    blobs = blob_array([bytes([i]) * size for i in range(count)])
    schema = pa.schema([pa.field("id", pa.int64()), blob_field("b", dedicated_size_threshold=1000)])
    table = pa.table([pa.array(range(count)), blobs], schema=schema)
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    lance.dataset(tmp_path / "t").delete("id = 1")
    fs = CountingFileSystem()
    fs.put_tree(tmp_path / "t", "/blobs")
    resolved = resolve(Store(fs, "/blobs"), Ref())
    dataset = LanceDataset(OpenVersion(resolved))

    for read, wanted in (
        (lambda: dataset.to_table(blobs="bytes", filter=pc.field("id") > 36), [37, 38, 39]),
        (lambda: dataset.take([7], blobs="bytes"), [8]),  # row 1 is deleted
        (lambda: dataset.head(2, blobs="bytes"), [0, 2]),
    ):
        before = fs.bytes_read()
        rows = read()
        assert rows["id"].to_pylist() == wanted
        assert [value[:1] for value in rows["b"].to_pylist()] == [bytes([i]) for i in wanted]
        assert size * len(wanted) <= fs.bytes_read() - before < size * len(wanted) + 100_000
    before = fs.bytes_read()
    assert dataset.to_table().num_rows == count - 1
    assert fs.bytes_read() - before < 100_000


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """A table with blobs outside of it: a whole file, and a part of one."""
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "a.bin").write_bytes(bytes(range(200)))
    address = (tmp_path / "videos" / "a.bin").as_uri()
    blobs = blob_array([b"own", Blob.from_uri(address), Blob.from_uri(address, 5, 7), None])
    table = pa.table([blobs], schema=pa.schema([V2]))
    lance.write_dataset(
        table,
        tmp_path / "t",
        data_storage_version="2.2",
        allow_external_blob_outside_bases=True,
    )
    return tmp_path


EXTERNAL = [b"own", bytes(range(200)), bytes(range(5, 12)), None]


def test_external_blobs_are_read_only_where_that_is_allowed(external: Path) -> None:
    for rules in (
        None,
        BaseRules("any"),
        BaseRules("any", external_blobs=[str(external / "vid")]),
        BaseRules("any", external_blobs=[str(external / "videos" / "a")]),
        BaseRules("any", external_blobs=["s3://videos"]),
    ):
        with pytest.raises(UnsupportedFeature, match="BaseRules\\(external_blobs="):
            lancefs.open(external / "t", base_rules=rules).to_table(blobs="bytes")
    # Descriptors are read under all rules.
    assert lancefs.open(external / "t").to_table()["b"].to_pylist()[1]["kind"] == 3

    videos = external / "videos"
    for allowed in (str(videos), f"{videos}/", videos.as_uri(), str(videos / "a.bin")):
        rules = BaseRules(external_blobs=["memory://x", allowed])
        table = lancefs.open(external / "t", base_rules=rules).to_table(blobs="bytes")
        assert table["b"].to_pylist() == EXTERNAL


def test_external_blobs_are_moved_as_base_paths_are(external: Path) -> None:
    (external / "videos").rename(external / "moved")
    old, new = (external / "videos").as_uri(), str(external / "moved")
    rules = BaseRules(moved={old: new}, external_blobs=[new])
    table = lancefs.open(external / "t", base_rules=rules).to_table(blobs="bytes")
    assert table["b"].to_pylist() == EXTERNAL


def test_external_blobs_below_a_base_path_are_read(tmp_path: Path) -> None:
    (tmp_path / "videos" / "old").mkdir(parents=True)
    (tmp_path / "videos" / "old" / "a.bin").write_bytes(b"0123456789")
    base = (tmp_path / "videos").as_uri()
    table = pa.table([blob_array([Blob.from_uri(f"{base}/old/a.bin")])], schema=pa.schema([V2]))
    bases = [lance.DatasetBasePath(base, name="videos")]
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.2", initial_bases=bases)
    rules = BaseRules(external_blobs=[str(tmp_path / "videos")])
    got = lancefs.open(tmp_path / "t", base_rules=rules).to_table(blobs="bytes")
    assert got["b"].to_pylist() == [b"0123456789"]
    with pytest.raises(UnsupportedFeature, match="external_blobs"):
        lancefs.open(tmp_path / "t").to_table(blobs="bytes")


def test_rows_that_share_an_external_blob_take_no_more_memory_than_allowed(
    tmp_path: Path,
) -> None:
    (tmp_path / "videos").mkdir()
    with (tmp_path / "videos" / "a.bin").open("wb") as file:
        file.truncate(20_000_000)
    address = (tmp_path / "videos" / "a.bin").as_uri()
    table = pa.table([blob_array([Blob.from_uri(address)] * 64)], schema=pa.schema([V2]))
    path = tmp_path / "t"
    options = {"data_storage_version": "2.2", "allow_external_blob_outside_bases": True}
    lance.write_dataset(table, path, **options)
    rules = BaseRules(external_blobs=[str(tmp_path / "videos")])
    version = lancefs.open(path, base_rules=rules).opened
    (reader,) = version.readers
    assert len(reader.read(version.fields, [(0, 2)], "bytes")[0]) == 2
    with pytest.raises(MemoryLimitExceeded, match="20,000,000 bytes would expand to 1,280,000,000"):
        reader.read(version.fields, [(0, 64)], "bytes")


def test_blobs_count_as_memory_of_a_read(tmp_path: Path) -> None:
    table = pa.table([blob_array([bytes(300_000)] * 4)], schema=pa.schema([V2]))
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.2")
    rows = lancefs.open(tmp_path / "t", max_memory=500_000).to_batches(blobs="bytes")
    assert [batch["b"][0].as_py() for batch in rows] == [bytes(300_000)] * 4
    with pytest.raises(MemoryLimitExceeded, match="pass a larger one"):
        list(lancefs.open(tmp_path / "t", max_memory=200_000).to_batches(blobs="bytes"))


def test_external_addresses_do_not_climb() -> None:
    rules = BaseRules("any", external_blobs=["/data/videos", "memory://m/x"])
    files = TableFiles(local_store("/data/t"), [BasePath(1, None, False, "/data/videos")], rules)
    assert files.external("/data/videos/a").url == "/data/videos/a"
    assert files.external("memory://m/x/y").store is files.external("memory://m/x/z").store
    assert files.external("a/b", 1).url == "/data/videos/a/b"
    with pytest.raises(CorruptFile, match="stays below its base"):
        files.external("../x", 1)
    with pytest.raises(CorruptFile, match="base path 2"):
        files.external("x", 2)
    with pytest.raises(CorruptFile, match="NUL"):
        files.external("/data/videos/a\0b")
    for address in (
        "/data/videos/../t/x",
        "/data/videosx",
        "file:///etc/passwd",
        "memory://m/x/../y",
        "memory://m",
        "",
    ):
        with pytest.raises(UnsupportedFeature, match="external_blobs"):
            files.external(address)


BLOB = Field(0, "b", "struct", metadata={b"ARROW:extension:name": b"lance.blob.v2"})
DATA_FILE = DataFile("f.lance", (0,), (0,), 2, 2, None, None)


def described(root: Path, **values: Any) -> list[pa.Array]:
    """Read two blobs by a descriptor with these values, from files of a few bytes."""
    (root / "data").mkdir(exist_ok=True)
    (root / "data" / "f.lance").write_bytes(b"0123456789")
    (root / "data" / "f").mkdir(exist_ok=True)
    (root / "data" / "f" / f"1{'0' * 31}.blob").write_bytes(b"abc")
    whole = {"kind": 0, "position": 0, "size": 0, "blob_id": 0, "blob_uri": ""} | values
    files = TableFiles(local_store(root))
    array = pa.array([whole, whole], BLOB_V2_DESCRIPTOR)
    return read_blobs(files, [Described(DATA_FILE, files.data_file(DATA_FILE), BLOB, array)])


def test_descriptors_name_ranges_of_files(tmp_path: Path) -> None:
    assert described(tmp_path)[0].to_pylist() == [b"", b""]
    assert described(tmp_path, position=2, size=3)[0].to_pylist() == [b"234"] * 2
    assert described(tmp_path, kind=1, blob_id=1, size=2)[0].to_pylist() == [b"ab"] * 2
    assert described(tmp_path, kind=2, blob_id=1, size=3)[0].to_pylist() == [b"abc"] * 2


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"position": 8, "size": 3}, CorruptFile, "ends at 10"),
        ({"position": 2**63, "size": 1}, CorruptFile, "ends at 10"),
        ({"size": 2**63}, CorruptFile, "blobs of [0-9]+ bytes in .*f.lance, which has 10"),
        ({"kind": 1, "blob_id": 1, "size": 4}, CorruptFile, "ends at 3"),
        ({"kind": 2, "blob_id": 1, "size": 2**40}, CorruptFile, "blobs of [0-9]+ bytes"),
        (
            {"kind": 2, "blob_id": 2, "size": 3},
            MissingFile,
            "01000000000000000000000000000000.blob",
        ),
        ({"kind": 3, "blob_uri": "/etc/passwd"}, UnsupportedFeature, "no part of the table"),
        ({"kind": 3, "blob_uri": "x", "blob_id": 5}, CorruptFile, "base path 5"),
        ({"kind": 4, "blob_uri": "x"}, UnsupportedFeature, "managed blobs of kind 4"),
        ({"kind": 77}, UnsupportedFeature, "blobs of kind 77"),
    ],
)
def test_descriptors_that_make_no_sense_are_refused(
    tmp_path: Path, values: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        described(tmp_path, **values)


@needs_corpus
def test_a_sidecar_that_is_gone_or_cut_is_named(tmp_path: Path) -> None:
    path = copy_table(corpus_case("blob_v2dedicated-f2.2-w14.0.2"), tmp_path)
    sidecar = max(path.rglob("*.blob"), key=lambda file: file.stat().st_size)
    sidecar.write_bytes(sidecar.read_bytes()[:-1])
    with pytest.raises(CorruptFile, match=sidecar.name):
        lancefs.open(path).to_table(blobs="bytes")
    sidecar.unlink()
    with pytest.raises(MissingFile, match=sidecar.name):
        lancefs.open(path).to_table(blobs="bytes")
    assert lancefs.open(path).to_table().num_rows


def test_an_unknown_form_of_blobs_is_refused(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"x": [1]}), tmp_path / "t")
    with pytest.raises(ValueError, match="descriptors"):
        lancefs.open(tmp_path / "t").to_table(blobs="binary")
