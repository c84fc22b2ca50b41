"""What a user gets for a table that is not there, not whole, or too new: one clear error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from files_v2 import ColumnOf, PageOf, bytes_of, flat, no_nulls, write_file
from support import frame
from support import rewrite_manifest as change_newest

import lancefs
from lancefs.errors import (
    CorruptFile,
    LanceError,
    MissingFile,
    NotALanceTable,
    RefNotFound,
    UnsupportedFeature,
)
from lancefs.proto import table_pb2
from lancefs.table.verification import Verifier


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = tmp_path / "t.lance"
    rows = pa.table({"id": np.arange(1000), "s": [f"value {i % 50}" for i in range(1000)]})
    lance.write_dataset(rows, str(table))
    lance.dataset(str(table)).delete("id < 10")
    return table


def only(directory: Path, pattern: str) -> Path:
    (found,) = directory.glob(pattern)
    return found


def rewrite_manifest(table: Path, version: int, **changes: object) -> None:
    """Change fields of a version's manifest, leaving its other sections out."""
    manifest = table / "_versions" / f"{2**64 - 1 - version:020}.manifest"
    data = manifest.read_bytes()
    position = int.from_bytes(data[-16:-8], "little")
    message = table_pb2.Manifest.FromString(data[position + 4 : -16])
    for name in ("index_section", "transaction_section", "transaction_section_deprecated"):
        message.ClearField(name)  # type: ignore[arg-type]
    for name, value in changes.items():
        setattr(message, name, value)
    manifest.write_bytes(frame(message))


def test_a_path_without_a_table_is_an_error(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(NotALanceTable, match="no such directory, or it is empty") as caught:
            lancefs.open(path)
        assert isinstance(caught.value, FileNotFoundError)
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(NotALanceTable, match=r"not a Lance table: there is no manifest"):
        lancefs.open(tmp_path)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("part-0.parquet", "a folder of Parquet files, not a Lance table"),
        ("_delta_log/0.json", "a Delta table, not a Lance table"),
        ("metadata/v1.metadata.json", "an Iceberg table, not a Lance table"),
    ],
)
def test_a_folder_in_another_format_is_called_by_it(file: str, said: str, tmp_path: Path) -> None:
    written = tmp_path / "t" / file
    written.parent.mkdir(parents=True)
    written.write_bytes(b"x")
    with pytest.raises(NotALanceTable, match=said):
        lancefs.open(tmp_path / "t")


@pytest.mark.parametrize("inside", ["_versions", "data", "data/x.lance", "versions/1.arrow"])
def test_a_path_in_a_table_names_the_table(inside: str, path: Path) -> None:
    with pytest.raises(NotALanceTable, match=rf"lies in the Lance table {path}, whose path"):
        lancefs.open(path / inside)


@pytest.mark.parametrize("url", ["lance://{}", "lance://versions/1.arrow::{}"])
def test_a_url_of_the_tree_is_no_table(url: str, path: Path) -> None:
    with pytest.raises(NotALanceTable, match="the path or URL of the table is expected"):
        lancefs.open(url.format(path))


def test_a_folder_of_tables_suggests_one(path: Path) -> None:
    with pytest.raises(NotALanceTable, match=r"did you mean one of t\.lance"):
        lancefs.open(path.parent)


def test_a_missing_table_suggests_those_beside_it(path: Path) -> None:
    (path.parent / "orders.lance").mkdir()
    with pytest.raises(NotALanceTable, match=r"it is empty; did you mean orders\.lance\?$"):
        lancefs.open(path.parent / "order.lance")
    with pytest.raises(NotALanceTable, match=r"it is empty$"):
        lancefs.open(path.parent / "teas.lance")


def test_a_missing_version_tag_or_branch_lists_those_that_are(path: Path) -> None:
    with pytest.raises(RefNotFound, match="no version 9; the table has 1, 2"):
        lancefs.open(path, version=9)
    with pytest.raises(RefNotFound, match="prod"):
        lancefs.open(path, tag="prod")
    with pytest.raises(RefNotFound, match="exp"):
        lancefs.open(path, branch="exp")


def test_contradicting_arguments(path: Path) -> None:
    with pytest.raises(ValueError, match="version and tag each name a version"):
        lancefs.open(path, version=1, tag="a")


def test_an_unknown_reader_flag_is_refused_by_its_bit(path: Path) -> None:
    rewrite_manifest(path, 2, reader_feature_flags=1 << 40)
    with pytest.raises(UnsupportedFeature, match=str(1 << 40)):
        lancefs.open(path)
    assert lancefs.open(path, version=1).count_rows() == 1000


@pytest.mark.parametrize("keep", [0, 3, 15, 16, 40, -1])
def test_a_manifest_that_was_cut_short(path: Path, keep: int) -> None:
    manifest = sorted((path / "_versions").glob("*.manifest"))[0]
    manifest.write_bytes(manifest.read_bytes()[:keep])
    with pytest.raises(CorruptFile, match=manifest.name):
        lancefs.open(path)


def test_a_data_file_that_is_gone(path: Path) -> None:
    file = only(path / "data", "*.lance")
    file.unlink()
    dataset = lancefs.open(path)
    assert dataset.count_rows() == 990
    with pytest.raises(MissingFile, match=f"{file.name}: the file is gone"):
        dataset.to_table()


def test_a_data_file_that_was_cut_short_anywhere(path: Path) -> None:
    file = only(path / "data", "*.lance")
    whole = file.read_bytes()
    for keep in range(0, len(whole), 53):
        file.write_bytes(whole[:keep])
        with pytest.raises(CorruptFile, match=file.name):
            lancefs.open(path).to_table()


def test_a_data_file_of_another_kind(path: Path) -> None:
    file = only(path / "data", "*.lance")
    file.write_bytes(b"PAR1" + b"\0" * (file.stat().st_size - 8) + b"PAR1")
    with pytest.raises(CorruptFile, match=r"ends in b'PAR1', a Lance data file ends in b'LANC'"):
        lancefs.open(path).to_table()


def test_a_data_file_from_the_future(path: Path) -> None:
    file = only(path / "data", "*.lance")
    file.write_bytes(file.read_bytes()[:-8] + b"\x02\x00\x09\x00LANC")
    with pytest.raises(UnsupportedFeature, match=r"data file format 2\.9; .* reads up to 2\.3"):
        lancefs.open(path).to_table()


def test_a_data_file_of_a_preview_of_the_format_2_1(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    rows = pa.table({"n": range(1000), "s": ["a", "b"] * 500})
    lance.write_dataset(rows, str(path), data_storage_version="2.0")
    file = only(path / "data", "*.lance")
    file.write_bytes(file.read_bytes()[:-8] + b"\x02\x00\x01\x00LANC")  # as Lance 0.17 did
    for read in (lancefs.open(path).to_table, lambda: lancefs.open(path).take([3])):
        with pytest.raises(UnsupportedFeature, match=r"n.*: a preview of .* 2\.1"):
            read()


def test_deleted_rows_beyond_the_end(path: Path) -> None:
    file = only(path / "_deletions", "*.arrow")
    offsets = pa.record_batch({"row_id": pa.array(np.arange(995, 1005), pa.uint32())})
    with pa.ipc.new_file(str(file), offsets.schema) as writer:
        writer.write_batch(offsets)
    with pytest.raises(CorruptFile, match=f"{file.name}.*row 1004 is deleted.* 1000 rows"):
        lancefs.open(path).to_table()


def test_a_deletion_file_that_is_gone_is_named(path: Path) -> None:
    file = only(path / "_deletions", "*.arrow")
    file.unlink()
    with pytest.raises(MissingFile, match=file.name):
        lancefs.open(path).to_table()


@pytest.mark.parametrize("kind", ["tags", "branches", "_deletions", "_transactions"])
def test_a_small_file_that_is_gigabytes_long_is_refused_before_it_is_read(
    kind: str, path: Path
) -> None:
    """A sparse file takes no space of the disk, and would take the memory."""
    folder = path / (kind if kind.startswith("_") else f"_refs/{kind}")
    folder.mkdir(parents=True, exist_ok=True)
    if kind.startswith("_"):
        files = list(folder.iterdir())
    else:
        files = [folder / "x.json"]
        files[0].write_text('{"version": 1, "parentVersion": 1, "createAt": 1}')
    for file in files:
        os.truncate(file, 6 << 30)

    def forget_section(manifest: table_pb2.Manifest) -> None:
        manifest.ClearField("transaction_section")
        manifest.ClearField("transaction_section_deprecated")

    change_newest(path, forget_section)
    dataset = lancefs.open(path)
    reads: list[Callable[[], object]] = {
        "tags": [dataset.tags, lambda: lancefs.open(path, tag="x")],
        "branches": [dataset.branches],
        "_deletions": [dataset.to_table],
        "_transactions": [dataset.transaction],
    }[kind]
    for read in reads:
        with pytest.raises(CorruptFile, match=f"{kind}.*: 6,442,450,944 bytes are too many"):
            read()


_MANY_LISTS = "fixed_size_list:" * 200 + "float" + ":1" * 200


@pytest.mark.parametrize(
    ("kind", "said"), [("later", "the type 'later' is not known"), (_MANY_LISTS, "nest more than")]
)
@pytest.mark.parametrize("door", ["table", "batches", "head", "take", "filter", "view", "stream"])
def test_a_type_that_cannot_be_read_is_said_of_its_table(
    kind: str, said: str, door: str, path: Path
) -> None:
    def give_type(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = kind

    change_newest(path, give_type)
    dataset, tree = lancefs.open(path), lancefs.LanceFileSystem(fo=str(path))
    read: dict[str, Callable[[], object]] = {
        "table": dataset.to_table,
        "batches": lambda: list(dataset.to_batches()),
        "head": lambda: dataset.head(2),
        "take": lambda: dataset.take([1]),
        "filter": lambda: dataset.count_rows(filter="id = 1"),
        "view": lambda: tree.open("latest.arrow").read(),
        "stream": lambda: tree.open("latest.arrows").read(),
    }
    with pytest.raises((CorruptFile, UnsupportedFeature), match=said) as caught:
        read[door]()
    assert str(caught.value).startswith(str(path))


def test_every_error_is_one_of_the_family() -> None:
    assert issubclass(NotALanceTable, LanceError | FileNotFoundError)
    assert issubclass(RefNotFound, FileNotFoundError)
    assert issubclass(MissingFile, FileNotFoundError)
    assert issubclass(CorruptFile, ValueError)
    assert issubclass(UnsupportedFeature, NotImplementedError)


def test_a_data_file_that_tells_of_more_rows_than_there_are_addresses_is_damaged(
    tmp_path: Path,
) -> None:
    table = tmp_path / "t.lance"
    rows = pa.table({"a": np.arange(10)})
    lance.write_dataset(rows, str(table), data_storage_version="2.0")
    page = PageOf(10, no_nulls(flat(64)), [bytes_of(range(10))])
    write_file(only(table / "data", "*.lance"), [ColumnOf([page])], rows=2**64 - 1)
    # Early writers left the number of rows to the data files.
    change_newest(table, _forget_rows)
    dataset = lancefs.open(table)
    for read in (dataset.count_rows, dataset.to_table, lambda: dataset.head(1)):
        with pytest.raises(CorruptFile, match=rf"\.lance: .*{2**64 - 1}, is beyond 32 bits"):
            read()


@pytest.mark.parametrize("rows", [2**32 + 1, 2**63, 2**64 - 1])
def test_a_manifest_that_tells_of_more_rows_than_there_are_addresses_is_damaged(
    path: Path, rows: int
) -> None:
    def forge(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].physical_rows = rows

    change_newest(path, forge)
    with pytest.raises(CorruptFile, match=rf"\.manifest: fragment 0: .*{rows}, is beyond 32 bits"):
        lancefs.open(path).count_rows()


@pytest.mark.parametrize("forged", [1, 999, 1001, 5000])
@pytest.mark.parametrize("data_format", ["0.1", "2.0", "2.1"])
def test_another_number_of_rows_than_the_files_have_is_found_by_whoever_reads_them(
    tmp_path: Path, data_format: str, forged: int
) -> None:
    table = tmp_path / "t.lance"
    rows = pa.table({"a": range(1000), "b": [str(number) for number in range(1000)]})
    lance.write_dataset(rows, str(table), data_storage_version=data_format)

    def forge(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].physical_rows = forged

    change_newest(table, forge)
    dataset = lancefs.open(table)
    with pytest.raises(CorruptFile, match=r"\.lance: .*rows"):
        dataset.to_table()
    with pytest.raises(CorruptFile, match=r"\.lance: .*rows"):
        dataset.to_table(columns=["b"])
    # Where no column of a file is read, the manifest is believed; `verify` compares the two.
    assert dataset.count_rows() == dataset.to_table(columns=["_rowid"]).num_rows == forged
    checked = Verifier(dataset.opened).verify(dataset.fragments[0])
    assert any(f"the manifest says {forged}" in one.message for one in checked.problems)


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("logical_type", ["int64", "bool", "string", "timestamp:us:UTC", "swapped"])
@pytest.mark.parametrize("data_format", ["2.0", "2.1", "2.2"])
def test_a_packed_struct_with_a_member_of_another_type_names_its_column(
    tmp_path: Path, data_format: str, logical_type: str, files: int
) -> None:
    table = tmp_path / "t.lance"
    kind = pa.struct([("x", pa.int64()), ("y", pa.float32())])
    packed = pa.field("s", kind, metadata={"lance-encoding:packed": "true", "packed": "true"})
    schema = pa.schema([packed, ("b", pa.int64())])
    rows = pa.table([pa.array([{"x": 1, "y": 2.0}] * 30, kind), pa.array(range(30))], schema=schema)
    lance.write_dataset(
        rows, str(table), data_storage_version=data_format, max_rows_per_file=30 // files
    )

    def forge(manifest: table_pb2.Manifest) -> None:
        x, y = (field for field in manifest.fields if field.name in ("x", "y"))
        if logical_type == "swapped":
            x.id, y.id = y.id, x.id
        else:
            y.logical_type = logical_type

    change_newest(table, forge)
    dataset = lancefs.open(table)
    message = "column 's': its member '[xy]' is of the type .* in the data file"
    for read in (dataset.to_table, lambda: dataset.take([3]), lambda: dataset.head(5)):
        with pytest.raises(CorruptFile, match=message) as error:
            read()
        assert not error.value.is_caught_by_net
    assert dataset.to_table(columns=["b"]).column("b").to_pylist() == list(range(30))


def _forget_rows(manifest: table_pb2.Manifest) -> None:
    for fragment in manifest.fragments:
        fragment.physical_rows = 0
        fragment.files[0].file_size_bytes = 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_memory": "1G"}, "max_memory is '1G'; a whole number was expected"),
        ({"max_memory": -1}, "max_memory is -1; a positive number was expected"),
        ({"base_rules": "any"}, "base_rules is a str; lancefs.BaseRules"),
        ({"base_rules": {"folow": "any"}}, "folow"),
        ({"storage_options": "token"}, "storage_options is a str; a mapping was expected"),
    ],
)
def test_an_argument_of_another_type_is_named(
    options: dict[str, Any], expected: str, path: Path
) -> None:
    with pytest.raises((TypeError, ValueError), match=expected):
        lancefs.open(path, **options)


def test_rules_may_be_given_by_their_fields(path: Path) -> None:
    rules = lancefs.BaseRules(follow="table", moved={"/old": "/new"})
    fields = {"follow": "table"}
    opened = lancefs.open(path, base_rules=fields, base_paths={"/old": "/new"})
    assert opened.opened.rules == rules


def test_what_is_no_column_is_named(path: Path) -> None:
    with pytest.raises(TypeError, match=r"columns has 3 for 'n'; .*pyarrow.compute.scalar\(3\)"):
        lancefs.open(path).to_table(columns={"n": 3})  # type: ignore[dict-item]
