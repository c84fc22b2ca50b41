"""Manifests: their framing, their values, and what damage gets."""

from __future__ import annotations

import pickle
import struct
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st
from store_doubles import SlowFileSystem
from support import corpus_case, frame, local_store, rewrite_manifest

import lancefs
from lancefs.errors import CorruptFile, LanceError, MissingFile, UnsupportedFeature
from lancefs.proto import table_pb2
from lancefs.storage import File, Store
from lancefs.table.flags import ReaderFlags
from lancefs.table.fragments import (
    DataFile,
    DeletionFile,
    DeletionKind,
    External,
    Fragment,
    HiddenColumn,
    Inline,
)
from lancefs.table.manifest import (
    BasePath,
    Manifest,
    Writer,
    read_auxiliary_data,
    read_manifest,
    read_section,
    read_timestamp,
)


def written(directory: Path, data: bytes) -> File:
    (directory / "m.manifest").write_bytes(data)
    return local_store(directory).file("m.manifest")


def read(directory: Path, message: table_pb2.Manifest, before: bytes = b"") -> Manifest:
    return read_manifest(written(directory, frame(message, before)))


def full() -> table_pb2.Manifest:
    """A manifest with a value everywhere."""
    message = table_pb2.Manifest(
        version=7,
        tag="old",
        reader_feature_flags=1 | 2 | 16,
        writer_feature_flags=1 | 2 | 8 | 16,
        max_fragment_id=4,
        max_allocated_field_id=12,
        next_row_id=99,
        transaction_file="6-x.txn",
        branch="exp",
        schema_metadata={"k": b"\xff"},
        config={"lance.a": "b"},
        table_metadata={"note": "n"},
        writer_version=table_pb2.Manifest.WriterVersion(
            library="lance", version="1.2.3", prerelease="beta.1", build_metadata="x"
        ),
        data_format=table_pb2.Manifest.DataStorageFormat(file_format="lance", version="2.1"),
    )
    message.timestamp.seconds, message.timestamp.nanos = 1767225600, 123456789
    message.fields.add(id=0, parent_id=-1, name="a", logical_type="int32", nullable=True)
    message.base_paths.add(id=0, path="/elsewhere", is_dataset_root=True)
    message.base_paths.add(id=3, name="b", path="s3://bucket/files")
    fragment = message.fragments.add(id=4, physical_rows=10, inline_row_ids=b"ids")
    fragment.files.add(
        path="a.lance",
        fields=[0, -2],
        column_indices=[1, 0],
        file_major_version=2,
        file_minor_version=1,
        file_size_bytes=1000,
        base_id=0,
    )
    fragment.deletion_file.file_type = table_pb2.DeletionFile.BITMAP
    fragment.deletion_file.read_version = 6
    fragment.deletion_file.id = 2**64 - 1
    fragment.deletion_file.num_deleted_rows = 3
    fragment.external_created_at_versions.path = "x"
    fragment.external_created_at_versions.offset = 1
    fragment.external_created_at_versions.size = 2
    fragment.last_updated_at_version_column.SetInParent()
    return message


def test_every_value_is_read(tmp_path: Path) -> None:
    manifest = read(tmp_path, full())
    assert manifest.path == "m.manifest"
    assert (manifest.version, manifest.branch, manifest.tag) == (7, "exp", "old")
    assert manifest.timestamp == datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert [field.name for field in manifest.fields] == ["a"]
    assert manifest.schema_metadata == {b"k": b"\xff"}
    assert manifest.reader_flags == (
        ReaderFlags.DELETION_FILES | ReaderFlags.STABLE_ROW_IDS | ReaderFlags.BASE_PATHS
    )
    assert manifest.writer_flags == 27
    assert manifest.writer == Writer("lance", "1.2.3-beta.1+x")
    assert (manifest.config, manifest.table_metadata) == ({"lance.a": "b"}, {"note": "n"})
    assert manifest.base_paths == (
        BasePath(0, None, True, "/elsewhere"),
        BasePath(3, "b", False, "s3://bucket/files"),
    )
    assert (manifest.max_fragment_id, manifest.max_field_id, manifest.next_row_id) == (4, 12, 99)
    assert (manifest.data_version, manifest.transaction_file) == ("2.1", "6-x.txn")
    assert (manifest.physical_rows, manifest.num_rows) == (10, 7)
    file = DataFile("a.lance", (0, -2), (1, 0), 2, 1, 1000, 0)
    (fragment,) = manifest.fragments
    assert fragment == Fragment(
        id=4,
        files=(file,),
        deletion_file=DeletionFile(DeletionKind.BITMAP, 6, 2**64 - 1, 3, None),
        physical_rows=10,
        row_ids=Inline(b"ids"),
        created_at_versions=External("x", 1, 2),
        last_updated_at_versions=HiddenColumn(-5),
    )
    assert fragment.deletion_file is not None
    assert fragment.deletion_file.path(4) == "4-6-18446744073709551615.bin"
    assert (file.version, file.is_legacy, file.columns) == ("2.1", False, {0: 1})
    assert fragment.holders() == {0: file}


def test_facts_that_are_not_recorded_are_none(tmp_path: Path) -> None:
    message = table_pb2.Manifest(version=1)
    message.fragments.add(id=0).files.add(path="a.lance", fields=[0, 1])
    manifest = read(tmp_path, message)
    assert manifest.timestamp == datetime(1970, 1, 1, tzinfo=UTC)
    nothing = (
        manifest.branch,
        manifest.tag,
        manifest.writer,
        manifest.max_fragment_id,
        manifest.max_field_id,
        manifest.data_version,
        manifest.transaction_file,
        manifest.index_section,
        manifest.transaction_section,
        manifest.physical_rows,
        manifest.num_rows,
        manifest.fragments[0].physical_rows,
        manifest.fragments[0].num_rows,
        manifest.fragments[0].files[0].size,
        manifest.fragments[0].files[0].base_id,
    )
    assert set(nothing) == {None}
    assert manifest.fragments[0].files[0].version == "0.1"
    assert manifest.fragments[0].files[0].columns == {}


def test_deletions_that_the_writer_did_not_count_leave_the_count_open(tmp_path: Path) -> None:
    message = table_pb2.Manifest()
    message.fragments.add(id=0, physical_rows=5)
    message.fragments.add(id=1, physical_rows=5).deletion_file.id = 8
    manifest = read(tmp_path, message)
    assert (manifest.physical_rows, manifest.num_rows) == (10, None)
    assert [fragment.num_rows for fragment in manifest.fragments] == [5, None]


def test_a_table_without_fragments_has_no_rows(tmp_path: Path) -> None:
    manifest = read(tmp_path, table_pb2.Manifest(version=1))
    assert (manifest.physical_rows, manifest.num_rows, len(manifest.fragments)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("major", "minor", "version"),
    [(0, 0, "0.1"), (0, 2, "0.1"), (0, 3, "2.0"), (2, 0, "2.0"), (2, 3, "2.3"), (9, 9, "9.9")],
)
def test_the_versions_of_data_files(major: int, minor: int, version: str) -> None:
    assert DataFile("x", (), (), major, minor, None, None).version == version


def test_of_two_files_that_claim_a_field_the_first_holds_it() -> None:
    first = DataFile("1", (0, 1, -2), (), 0, 2, None, None)
    second = DataFile("2", (1, 2), (), 0, 2, None, None)
    assert Fragment(0, (first, second)).holders() == {0: first, 1: first, 2: second}


def test_sections_reach_to_what_comes_next(tmp_path: Path) -> None:
    sections = struct.pack("<I", 3) + b"abc" + struct.pack("<I", 2) + b"de"
    for transaction in ("transaction_section", "transaction_section_deprecated"):
        message = table_pb2.Manifest(index_section=0, **{transaction: 7})
        manifest = read(tmp_path, message, sections)
        file = local_store(tmp_path).file("m.manifest")
        assert (manifest.index_section, manifest.transaction_section) == ((0, 7), (7, 13))
        assert read_section(file, (0, 7)) == b"abc"
        assert read_section(file, (7, 13)) == b"de"


@pytest.mark.parametrize(
    ("sections", "section", "reason"),
    [
        (b"", 0, "after the manifest's message"),
        (b"abc", 2**63, "after the manifest's message"),
        (b"abc", 0, "too few"),
        (struct.pack("<I", 9) + b"abc", 0, "the message announces 9 bytes, 3 are there"),
    ],
)
def test_a_section_that_does_not_fit_is_damage(
    tmp_path: Path, sections: bytes, section: int, reason: str
) -> None:
    def read_it() -> None:
        manifest = read(tmp_path, table_pb2.Manifest(index_section=section), sections)
        assert manifest.index_section is not None
        read_section(local_store(tmp_path).file("m.manifest"), manifest.index_section)

    with pytest.raises(CorruptFile, match=reason):
        read_it()


def test_a_manifest_cut_short_at_any_length_is_damage(tmp_path: Path) -> None:
    data = frame(full(), b"section")
    assert read_manifest(written(tmp_path, data)).version == 7
    for length in range(len(data)):
        with pytest.raises(CorruptFile, match=r"m\.manifest: "):
            read_manifest(written(tmp_path, data[:length]))


def test_wrong_magic_is_damage(tmp_path: Path) -> None:
    for magic in (b"LANX", b"\0\0\0\0", b"PAR1"):
        with pytest.raises(CorruptFile, match="b'LANC' was expected"):
            read_manifest(written(tmp_path, frame(full())[:-4] + magic))


@pytest.mark.parametrize("position", [1, 1000, 2**31, 2**63, 2**64 - 1])
def test_a_position_that_does_not_fit_is_damage(tmp_path: Path, position: int) -> None:
    data = frame(full())
    footer = struct.pack("<Q", position) + data[-8:]
    with pytest.raises(CorruptFile):
        read_manifest(written(tmp_path, data[:-16] + footer))


@pytest.mark.parametrize("seconds", [2**62, -(2**62), 10**12])
def test_a_version_that_was_committed_at_no_time_is_damage(tmp_path: Path, seconds: int) -> None:
    message = full()
    message.timestamp.seconds = seconds
    with pytest.raises(CorruptFile, match=rf"m\.manifest: committed {seconds} s after 1970"):
        read_manifest(written(tmp_path, frame(message)))


def test_a_missing_manifest_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFile):
        read_manifest(local_store(tmp_path).file("m.manifest"))


@given(st.data())
def test_damaged_bytes_never_give_anything_but_our_errors(data: st.DataObject) -> None:
    intact = bytearray(frame(full(), b"section"))
    for _ in range(data.draw(st.integers(1, 4))):
        intact[data.draw(st.integers(0, len(intact) - 1))] = data.draw(st.integers(0, 255))
    fs = MemoryFileSystem()
    fs.pipe("/damaged/m", bytes(intact))
    with suppress(LanceError):
        manifest = read_manifest(Store(fs, "/damaged").file("m"))
        list(manifest.fragments)
        [field.to_arrow() for field in manifest.fields]
        _ = manifest.num_rows


@pytest.mark.parametrize("bit", [12, 15, 16, 17, 31, 62, 63])
def test_a_flag_that_is_not_read_is_refused_by_name(tmp_path: Path, bit: int) -> None:
    message = table_pb2.Manifest(reader_feature_flags=1 << bit | 1)
    with pytest.raises(UnsupportedFeature, match=rf"m\.manifest.* flag {1 << bit} \(.*Lance 14"):
        read(tmp_path, message)
    file = local_store(tmp_path).file("m.manifest")
    assert read_timestamp(file).year == 1970


def test_all_flags_that_are_not_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match=r"flag 4096 \(fragments.*, .* flag 1048576"):
        read(tmp_path, table_pb2.Manifest(reader_feature_flags=1 << 12 | 1 << 20))


def test_flags_that_concern_only_writers_or_parts_of_a_table_are_read(tmp_path: Path) -> None:
    for bit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14):
        flags = read(tmp_path, table_pb2.Manifest(reader_feature_flags=1 << bit)).reader_flags
        assert flags == 1 << bit
    read(tmp_path, table_pb2.Manifest(writer_feature_flags=2**64 - 1))


def test_data_files_of_another_format_are_refused(tmp_path: Path) -> None:
    message = table_pb2.Manifest()
    message.data_format.file_format = "parquet"
    with pytest.raises(UnsupportedFeature, match="parquet"):
        read(tmp_path, message)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"physical_rows": 2}, "3 of 2 rows are deleted"),
        ({"physical_rows": 2**40}, "1099511627776, is beyond 32 bits"),
        ({"id": 2**32}, "beyond 32 bits"),
    ],
    ids=str,
)
def test_counts_that_make_no_sense_are_damage(
    tmp_path: Path, change: dict[str, int], reason: str
) -> None:
    message = full()
    message.fragments[0].MergeFrom(table_pb2.DataFragment(**change))
    manifest = read(tmp_path, message)
    with pytest.raises(
        CorruptFile, match=rf"m\.manifest: fragment {manifest_id(message)}.*{reason}"
    ):
        _ = manifest.fragments[0]


def test_a_count_is_never_negative(tmp_path: Path) -> None:
    message = full()
    message.fragments[0].physical_rows = 2
    manifest = read(tmp_path, message)
    with pytest.raises(CorruptFile, match="fragment 4: 3 of 2 rows are deleted"):
        _ = manifest.num_rows


def manifest_id(message: table_pb2.Manifest) -> int:
    return message.fragments[0].id


def test_columns_that_do_not_match_fields_are_damage(tmp_path: Path) -> None:
    message = full()
    message.fragments[0].files[0].column_indices.append(9)
    with pytest.raises(CorruptFile, match="2 fields in 3 columns"):
        list(read(tmp_path, message).fragments)


def test_two_fragments_with_one_id_are_damage(tmp_path: Path) -> None:
    message = full()
    message.fragments.add(id=4)
    with pytest.raises(CorruptFile, match="same id"):
        read(tmp_path, message)


def test_unknown_kinds_of_deletion_files_are_refused(tmp_path: Path) -> None:
    message = full()
    message.fragments[0].deletion_file.file_type = 7  # type: ignore[assignment]
    with pytest.raises(UnsupportedFeature, match="fragment 4: deletion files of the kind 7"):
        list(read(tmp_path, message).fragments)


def test_overlays_leave_the_counts(tmp_path: Path) -> None:
    message = full()
    overlay = message.fragments[0].overlays.add(committed_version=5, shared_offset_bitmap=b"r")
    overlay.data_file.path = "o.lance"
    overlay = message.fragments[0].overlays.add(committed_version=6)
    overlay.field_coverage.offset_bitmaps.append(b"q")
    manifest = read(tmp_path, message)
    assert manifest.num_rows == 7
    first, second = manifest.fragments[0].overlays
    assert (first.file.path, first.shared_coverage, first.field_coverage) == ("o.lance", b"r", ())
    assert (second.shared_coverage, second.field_coverage) == (None, (b"q",))


def test_fragments_are_a_sequence_that_survives_pickling(tmp_path: Path) -> None:
    message = table_pb2.Manifest()
    for number in range(5):
        message.fragments.add(id=number, physical_rows=2)
    manifest = read(tmp_path, message)
    assert [fragment.id for fragment in manifest.fragments[1:4]] == [1, 2, 3]
    assert manifest.fragments[-1].id == 4
    assert manifest.fragments[2] is manifest.fragments[2]
    with pytest.raises(IndexError):
        _ = manifest.fragments[5]
    again = pickle.loads(pickle.dumps(manifest))
    assert list(again.fragments) == list(manifest.fragments)
    assert (again.num_rows, again.fields, again.path) == (10, (), "m.manifest")


def test_a_manifest_takes_one_request_and_a_large_one_two() -> None:
    asked: list[int] = []

    class Counting(MemoryFileSystem):
        store = {}  # noqa: RUF012 - the class's own, apart from other tests
        pseudo_dirs = [""]  # noqa: RUF012

        def cat_file(self, path, start=None, end=None, **kwargs):
            asked.append(end - start)
            return super().cat_file(path, start, end, **kwargs)

        def info(self, path, **kwargs):
            raise AssertionError("the size is known")

    fs = Counting(skip_instance_cache=True)
    for fragments, requests in ((10, 1), (20_000, 1), (40_000, 1), (240_000, 2)):
        message = table_pb2.Manifest()
        for number in range(fragments):
            message.fragments.add(id=number).files.add(path="x" * 30)
        data = frame(message, b"section" * 100)
        fs.pipe("/m", data)
        asked.clear()
        assert len(read_manifest(Store(fs, "").file("m", len(data))).fragments) == fragments
        assert len(asked) == requests
        assert sum(asked) <= len(data)


def test_a_manifest_with_a_digest_is_asked_for_once(tmp_path: Path) -> None:
    """Also a large one: looks at its sections compare its time with that of the open version."""
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(2)}), path)

    def grow(manifest: table_pb2.Manifest) -> None:
        for number in range(1, 20_000):
            manifest.fragments.add(id=number, physical_rows=1).files.add(path="x" * 60)

    rewrite_manifest(path, grow)
    fs = SlowFileSystem(0.0)
    dataset = lancefs.open(str(path), filesystem=fs)
    assert len(dataset.fragments) == 20_000
    assert dataset.auxiliary_data() == dataset.auxiliary_data() == {}
    assert len(lancefs.open(str(path), filesystem=fs).fragments) == 20_000
    assert sum(one.startswith("GET") and "_versions/" in one for one in fs.requests) == 1
    assert fs.bytes > 1024 * 1024


def test_many_fragments_open_fast(tmp_path: Path) -> None:
    message = table_pb2.Manifest()
    for number in range(100_000):
        fragment = message.fragments.add(id=number, physical_rows=3)
        fragment.files.add(path=f"{number:050}.lance", fields=[0, 1], file_size_bytes=7)
    file = written(tmp_path, frame(message))
    started = datetime.now()
    assert read_manifest(file).num_rows == 300_000
    assert (datetime.now() - started).total_seconds() < 5


def test_the_sections_of_a_real_manifest_decode() -> None:
    store = corpus_case("feat_scalar_indices-f2.1-w14.0.2").store()
    name = sorted(store.names("_versions"))[0]
    file = store.file(f"_versions/{name}")
    manifest = read_manifest(file)
    assert manifest.index_section is not None
    section = table_pb2.IndexSection.FromString(read_section(file, manifest.index_section))
    assert len(section.indices) > 0


def test_auxiliary_data_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    data = table_pb2.VersionAuxData(metadata={"key": b"\x00value"}).SerializeToString()
    before = b"head" + struct.pack("<I", len(data)) + data
    file = written(tmp_path, frame(table_pb2.Manifest(version_aux_data=4), before))
    assert read_auxiliary_data(file, read_manifest(file)) == {"key": b"\x00value"}
    assert read_auxiliary_data(file, read(tmp_path, table_pb2.Manifest())) == {}


def test_auxiliary_data_that_do_not_decode_are_damage(tmp_path: Path) -> None:
    file = written(tmp_path, frame(table_pb2.Manifest(version_aux_data=4), b"head\1\0\0\0\xff"))
    with pytest.raises(CorruptFile, match="auxiliary data: the message does not decode"):
        read_auxiliary_data(file, read_manifest(file))
