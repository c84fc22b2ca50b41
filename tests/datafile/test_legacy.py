"""Data files 0.1, most of them written here byte by byte."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from outlining import assert_tells
from support import local_store

from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.datafile.legacy.reader import LegacyReader
from lancefs.datafile.outlines import outline_of
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import (
    CorruptFile,
    LanceError,
    MemoryLimitExceeded,
    MissingFile,
    UnsupportedFeature,
)
from lancefs.proto import schema_pb2 as pb
from lancefs.proto import table_pb2
from lancefs.storage import File, Store, counting, run

NONE, PLAIN, VAR_BINARY, DICTIONARY, RLE = range(5)


class Writer:
    """Writes a data file 0.1 as Lance did."""

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = list(rows)  # of each batch
        self.data = bytearray(b"..." if self.rows else b"")  # so that no page is aligned
        self.fields: list[pb.Field] = []
        self.table: dict[tuple[int, int], tuple[int, int]] = {}

    def field(
        self, id: int, logical_type: str, encoding: int, parent: int = -1, **more: Any
    ) -> None:
        more = {"nullable": True, "name": f"f{id}"} | more
        self.fields.append(
            pb.Field(id=id, parent_id=parent, logical_type=logical_type, encoding=encoding, **more)
        )

    def page(self, id: int, batch: int, payload: bytes | np.ndarray, length: int) -> None:
        self.table[id, batch] = (self.put(payload), length)

    def put(self, payload: bytes | np.ndarray) -> int:
        position = len(self.data)
        self.data += payload if isinstance(payload, bytes) else payload.tobytes()
        return position

    def put_strings(self, values: Sequence[bytes]) -> int:
        start = self.put(b"".join(values))
        return self.put(start + np.cumsum([0, *map(len, values)], dtype="<i8"))

    def strings(self, id: int, batch: int, values: Sequence[bytes]) -> None:
        self.table[id, batch] = (self.put_strings(values), len(values))

    def finish(
        self,
        first_id: int | None = None,
        version: tuple[int, int] = (0, 2),
        batch_offsets: Sequence[int] | None = None,
        schema: table_pb2.Manifest | None = None,
    ) -> bytes:
        ids = [field.id for field in self.fields]
        first = min(ids) if first_id is None else first_id
        cells = [
            self.table.get((id, batch), (0, 0))
            for id in range(first, max(ids) + 1)
            for batch in range(len(self.rows))
        ]
        metadata = pb.Metadata(
            page_table_position=self.put(np.array(cells, "<i8")),
            batch_offsets=(
                np.cumsum([0, *self.rows]).tolist() if batch_offsets is None else batch_offsets
            ),
        )
        schema = table_pb2.Manifest() if schema is None else schema
        schema.fields.extend(self.fields)
        metadata.manifest_position = self.message(schema)
        position = self.message(metadata)
        self.put(struct.pack("<QHH4s", position, *version, b"LANC"))
        return bytes(self.data)

    def message(self, message: pb.Metadata | table_pb2.Manifest) -> int:
        payload = message.SerializeToString()
        return self.put(struct.pack("<I", len(payload)) + payload)


def open_bytes(path: Path, data: bytes) -> LegacyReader:
    (path / "data.lance").write_bytes(data)
    return LegacyReader(local_store(path).file("data.lance"))


def read(
    reader: LegacyReader, field: Field, ranges: Sequence[tuple[int, int]] | None = None
) -> Any:
    whole = [(0, reader.num_rows)]
    ranges = whole if ranges is None else ranges
    (array,) = run([(reader.file, reader.read(field, ranges))])
    array.validate(full=True)
    assert array.type == field.storage_type
    outline = outline_of(field)
    if outline is not None:
        (told,) = run([(reader.file, reader.read(outline, ranges))])
        assert_tells(told, array)
    return array.to_pylist()


def column(writer: Writer, nth: int = 0) -> Field:
    return fields_from_proto(writer.fields)[nth]


def integers() -> Writer:
    """Two columns in batches of 4, 0 and 3 rows: int32 0…6 and strings."""
    writer = Writer([4, 0, 3])
    writer.field(0, "int32", PLAIN)
    writer.field(1, "string", VAR_BINARY)
    words = [b"a", b"", b"ccc", b"d", b"e", b"ff", b""]
    for batch, (start, end) in enumerate([(0, 4), (4, 4), (4, 7)]):
        writer.page(0, batch, np.arange(start, end, dtype="<i4"), end - start)
        writer.strings(1, batch, words[start:end])
    return writer


def test_rows_are_read_across_batches(tmp_path: Path) -> None:
    writer = integers()
    reader = open_bytes(tmp_path, writer.finish())
    assert reader.num_rows == 7
    assert read(reader, column(writer)) == list(range(7))
    assert read(reader, column(writer), [(1, 3), (3, 5), (6, 7)]) == [1, 2, 3, 4, 6]
    assert read(reader, column(writer), []) == []
    assert read(reader, column(writer), [(4, 4)]) == []


def test_an_empty_string_is_null_where_the_field_is_nullable(tmp_path: Path) -> None:
    writer = integers()
    reader = open_bytes(tmp_path, writer.finish())
    nullable = column(writer, 1)
    assert read(reader, nullable) == ["a", None, "ccc", "d", "e", "ff", None]
    assert read(reader, nullable, [(0, 1), (2, 3), (5, 7)]) == ["a", "ccc", "ff", None]
    required = Field(id=1, name="s", logical_type="large_binary", nullable=False)
    assert read(reader, required, [(1, 5)]) == [b"", b"ccc", b"d", b"e"]


@pytest.mark.parametrize("rows", [1, 8, 21])
def test_booleans_begin_within_a_byte(tmp_path: Path, rows: int) -> None:
    values = np.arange(rows) % 3 == 0
    writer = Writer([rows, rows])
    writer.field(0, "bool", PLAIN)
    for batch in range(2):
        writer.page(0, batch, np.packbits(values, bitorder="little"), rows)
    reader = open_bytes(tmp_path, writer.finish())
    expected = [*values.tolist(), *values.tolist()]
    assert read(reader, column(writer)) == expected
    assert read(reader, column(writer), [(rows // 2, rows + 1)]) == expected[rows // 2 : rows + 1]
    odd = [(i, i + 1) for i in range(1, 2 * rows, 2)]
    assert read(reader, column(writer), odd) == expected[1::2]


def test_fixed_size_lists_are_their_items(tmp_path: Path) -> None:
    writer = Writer([3, 2])
    writer.field(0, "fixed_size_list:fixed_size_list:int16:2:3", PLAIN)
    writer.field(1, "fixed_size_list:bool:5", PLAIN)
    bits = np.arange(25) % 2 == 0
    for batch, (start, end) in enumerate([(0, 3), (3, 5)]):
        writer.page(0, batch, np.arange(6 * start, 6 * end, dtype="<i2"), end - start)
        packed = np.packbits(bits[5 * start : 5 * end], bitorder="little")
        writer.page(1, batch, packed, end - start)
    reader = open_bytes(tmp_path, writer.finish())
    lists = np.arange(30).reshape(5, 3, 2).tolist()
    assert read(reader, column(writer), [(1, 2), (2, 5)]) == lists[1:]
    assert read(reader, column(writer, 1), [(1, 4)]) == bits.reshape(5, 5)[1:4].tolist()


def test_lists_of_structs_are_read_by_their_offsets(tmp_path: Path) -> None:
    writer = Writer([3, 2])
    writer.field(0, "large_list.struct", PLAIN)
    writer.field(1, "struct", NONE, parent=0, name="item")
    writer.field(2, "int8", PLAIN, parent=1, name="a")
    writer.field(3, "null", NONE, parent=1, name="n")
    for batch, offsets in enumerate([[0, 2, 2, 5], [0, 0, 1]]):
        writer.page(0, batch, np.array(offsets, "<i8"), len(offsets))
        writer.page(2, batch, np.arange(offsets[-1], dtype="<i1") + 10 * batch, offsets[-1])
        writer.page(3, batch, b"", offsets[-1])
    reader = open_bytes(tmp_path, writer.finish())
    rows = [[{"a": a, "n": None} for a in row] for row in ([0, 1], [], [2, 3, 4], [], [10])]
    assert read(reader, column(writer)) == rows
    assert read(reader, column(writer), [(0, 1), (2, 3), (4, 5)]) == [rows[0], rows[2], rows[4]]
    pruned = column(writer).prune({2})
    assert pruned is not None
    assert read(reader, pruned, [(2, 3)]) == [[{"a": 2}, {"a": 3}, {"a": 4}]]


def dictionary(keys: Sequence[int], values: Sequence[bytes], nullable: bool = True) -> Writer:
    writer = Writer([len(keys)])
    location = pb.Dictionary(offset=writer.put_strings(values), length=len(values))
    more = {"dictionary": location, "nullable": nullable}
    writer.field(0, "dict:string:int8:false", DICTIONARY, **more)
    writer.page(0, 0, np.array(keys, "<i1"), len(keys))
    return writer


@pytest.mark.parametrize(
    ("keys", "values", "nullable", "expected"),
    [
        ([1, 0, 1], [b"x", b"y"], True, ["y", "x", "y"]),
        ([-1, 0, -1, 1], [b"x", b"y"], True, [None, "x", None, "y"]),  # as pandas leaves nulls
        ([1, 0], [b"", b"y"], True, ["y", None]),
        ([1, 0], [b"", b"y"], False, ["y", ""]),
        ([0, 0], [], True, [None, None]),
        ([], [], True, []),
    ],
)
def test_dictionaries_are_those_of_the_file(
    tmp_path: Path,
    keys: Sequence[int],
    values: Sequence[bytes],
    nullable: bool,
    expected: list[str | None],
) -> None:
    writer = dictionary(keys, values, nullable)
    reader = open_bytes(tmp_path, writer.finish())
    assert read(reader, column(writer)) == expected
    assert read(reader, column(writer), [(0, min(1, len(keys)))]) == expected[:1]


def test_an_index_beyond_its_dictionary_is_corrupt(tmp_path: Path) -> None:
    writer = dictionary([0, 2], [b"x", b"y"])
    reader = open_bytes(tmp_path, writer.finish())
    with pytest.raises(CorruptFile, match="index 2 of a dictionary of 2 values"):
        read(reader, column(writer))


@pytest.mark.parametrize("first_id", [5, 0])
def test_page_tables_start_at_the_smallest_id_or_in_old_files_at_0(
    tmp_path: Path, first_id: int
) -> None:
    writer = Writer([2])
    writer.field(5, "struct", NONE)
    writer.field(6, "int64", PLAIN, parent=5, name="a")
    writer.field(7, "int64", PLAIN)
    writer.page(6, 0, np.array([1, 2], "<i8"), 2)
    writer.page(7, 0, np.array([3, 4], "<i8"), 2)
    reader = open_bytes(tmp_path, writer.finish(first_id, (0, 1)))
    assert read(reader, column(writer)) == [{"a": 1}, {"a": 2}]
    assert read(reader, column(writer, 1)) == [3, 4]


def test_a_file_without_rows_is_read(tmp_path: Path) -> None:
    writer = Writer([])
    writer.field(3, "list", PLAIN)
    writer.field(4, "string", VAR_BINARY, parent=3)
    assert read(open_bytes(tmp_path, writer.finish()), column(writer)) == []


def test_a_manifest_of_a_table_is_no_data_file(tmp_path: Path) -> None:
    writer = Writer([])
    writer.field(0, "int32", PLAIN)
    manifest = table_pb2.Manifest(fragments=[table_pb2.DataFragment(id=0)])
    with pytest.raises(CorruptFile, match="a manifest of a table"):
        open_bytes(tmp_path, writer.finish(schema=manifest))


def test_zeros_are_no_schema(tmp_path: Path) -> None:
    writer = Writer([])
    data = bytes(8) + struct.pack("<I", 0) + struct.pack("<QHH4s", 8, 0, 2, b"LANC")
    with pytest.raises(CorruptFile, match="has no fields"):
        open_bytes(tmp_path, data)
    writer.field(0, "int32", PLAIN)
    assert open_bytes(tmp_path, writer.finish()).num_rows == 0


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    rows = 50_000
    writer = Writer([rows, rows])
    writer.field(0, "int64", PLAIN)
    writer.field(1, "string", VAR_BINARY)
    for batch in range(2):
        writer.page(0, batch, np.arange(rows, dtype="<i8"), rows)
        writer.strings(1, batch, [b"word"] * rows)
    reader = open_bytes(tmp_path, writer.finish())
    fields = [column(writer, nth) for nth in (0, 1)]
    outlines = [outline_of(field) for field in fields]
    for field, limit in zip([*fields, *outlines], [80, 88 + 40, 0, 88], strict=True):
        assert field is not None
        with counting() as counters:
            (array,) = run([(reader.file, reader.read(field, [(rows - 5, rows + 5)]))])
        assert len(array) == 10
        assert counters.bytes <= limit + 8


def test_many_remote_rows_that_lie_close_together_are_read_with_those_between() -> None:
    counts = [3000, 0, 2000]
    writer = Writer(counts)
    writer.field(0, "int64", PLAIN)
    writer.field(1, "string", VAR_BINARY)
    for batch, (start, count) in enumerate(zip([0, 3000, 3000], counts, strict=True)):
        writer.page(0, batch, np.arange(start, start + count, dtype="<i8"), count)
        writer.strings(1, batch, [b"%d" % row for row in range(start, start + count)])
    fs = MemoryFileSystem()
    fs.pipe("/legacy/close.lance", writer.finish())
    reader = LegacyReader(Store(fs, "/legacy").file("close.lance"))
    wanted = np.array([*range(7, 900, 3), *range(2950, 3050, 2), 4999])
    fields = [column(writer, nth) for nth in (0, 1)]
    asked: list[int] = []

    def counted() -> Any:
        steps, data = reader.read_all(fields, as_ranges(wanted)), None
        while True:
            try:
                ranges = steps.send(data)
            except StopIteration as done:
                return done.value
            asked.append(len(ranges))
            data = yield ranges

    ((numbers, texts),) = run([(reader.file, counted())])
    assert numbers.to_pylist() == wanted.tolist()
    assert texts.to_pylist() == [str(row) for row in wanted]
    assert sum(asked) < 20


def test_files_on_a_remote_store_read_the_same() -> None:
    rows = 30_000  # so that pages lie before the tail that is read at once
    writer = Writer([rows])
    writer.field(0, "string", VAR_BINARY, nullable=False)
    writer.strings(0, 0, [b"%d" % i for i in range(rows)])
    fs = MemoryFileSystem()
    fs.pipe("/legacy/data.lance", writer.finish())
    reader = LegacyReader(Store(fs, "/legacy").file("data.lance"))
    assert read(reader, column(writer)) == [str(i) for i in range(rows)]
    assert read(reader, column(writer), [(7, 8), (29_999, 30_000)]) == ["7", "29999"]


def test_what_lance_writes_reads_back(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    rows = range(25)
    table = pa.table(
        {
            "i": pa.array(rows, pa.uint16()),
            "d": pa.array([i * 100 for i in rows], pa.decimal128(9, 2)),
            "t": pa.array(rows, pa.timestamp("ns", "UTC")),
            "b": pa.array([i % 3 == 0 for i in rows]),
            "s": pa.array([f"value {i}" for i in rows], pa.large_string()),
            "x": pa.array([bytes([i] * 5) for i in rows], pa.binary(5)),
            "l": pa.array([[f"{i}.{k}" for k in range(i % 4)] for i in rows]),
            "n": pa.array([{"a": {"b": [[i], [i, i]]}} for i in rows]),
            "c": pa.array([f"c{i % 3}" for i in rows]).dictionary_encode(),
            "v": pa.array([[i, i / 2] for i in rows], pa.list_(pa.float32(), 2)),
        }
    )
    lance.write_dataset(table, tmp_path, data_storage_version="legacy", max_rows_per_group=7)
    (path,) = (tmp_path / "data").iterdir()
    reader = LegacyReader(local_store(path.parent).file(path.name))
    end = path.read_bytes()[-16:]
    assert end[-4:] == b"LANC"
    assert reader.footer.num_batches == 4
    for name, field in zip(table.column_names, schema_of(path), strict=True):
        assert field.name == name
        expected = table[name].to_pylist()
        assert read(reader, field) == expected
        picked = [(0, 1), (6, 15), (24, 25)]
        assert read(reader, field, picked) == [v for a, b in picked for v in expected[a:b]]


def schema_of(path: Path) -> tuple[Field, ...]:
    data = path.read_bytes()
    metadata = pb.Metadata.FromString(message_at(data, struct.unpack("<Q", data[-16:-8])[0]))
    manifest = table_pb2.Manifest.FromString(message_at(data, metadata.manifest_position))
    return fields_from_proto(manifest.fields)


def message_at(data: bytes, position: int) -> bytes:
    (length,) = struct.unpack_from("<I", data, position)
    return data[position + 4 : position + 4 + length]


def test_run_length_encoding_is_refused_by_name(tmp_path: Path) -> None:
    writer = Writer([1])
    writer.field(0, "int32", RLE)
    writer.page(0, 0, b"abcd", 1)
    with pytest.raises(UnsupportedFeature, match=r"field 0 \(f0\).*RLE"):
        read(open_bytes(tmp_path, writer.finish()), column(writer))


def test_other_formats_and_other_files_are_refused(tmp_path: Path) -> None:
    data = integers().finish()
    with pytest.raises(UnsupportedFeature, match=r"2\.1"):
        open_bytes(tmp_path, integers().finish(version=(2, 1)))
    with pytest.raises(CorruptFile, match="LANC"):
        open_bytes(tmp_path, data[:-1])
    with pytest.raises(CorruptFile, match="5 bytes"):
        open_bytes(tmp_path, data[:5])
    with pytest.raises(MissingFile):
        LegacyReader(local_store(tmp_path).file("gone.lance"))


def test_rows_and_fields_that_are_not_there_are_named(tmp_path: Path) -> None:
    writer = integers()
    reader = open_bytes(tmp_path, writer.finish())
    with pytest.raises(CorruptFile, match="row 7 is wanted, the file has 7 rows"):
        read(reader, column(writer), [(5, 8)])
    with pytest.raises(CorruptFile, match="field 9 is wanted"):
        read(reader, Field(id=9, name="new", logical_type="int32"))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ((1 << 40, 4), "outside of the file"),
        ((-1, 4), "outside of the file"),
        ((3, -4), "-4 values"),
        ((3, 1 << 62), "values"),
        ((3, 2), "batch 0 has 4 rows by the batch offsets, 2 by the page of field 0"),
        ((3, 5), "batch 0 has 4 rows by the batch offsets, 5 by the page of field 0"),
    ],
)
def test_pages_that_make_no_sense_are_corrupt(
    tmp_path: Path, cell: tuple[int, int], message: str
) -> None:
    writer = integers()
    writer.table[0, 0] = cell
    reader = open_bytes(tmp_path, writer.finish())
    for field in (column(writer), outline_of(column(writer))):
        assert field is not None
        with pytest.raises(CorruptFile, match=message):
            read(reader, field)


def test_a_struct_of_which_more_members_are_stored_is_refused(tmp_path: Path) -> None:
    """So Lance 0.20 wrote slices of arrays; pylance reads the wrong members."""
    writer = Writer([3])
    writer.field(0, "int8", PLAIN)
    writer.page(0, 0, bytes([7, 8, 9]), 3)
    writer.field(1, "struct", NONE)
    writer.field(2, "int8", PLAIN, parent=1)
    writer.page(2, 0, bytes([1, 2, 3, 4, 5]), 5)
    reader = open_bytes(tmp_path, writer.finish())
    assert reader.num_rows == 3
    number, struct = fields_from_proto(writer.fields)
    assert read(reader, number) == [7, 8, 9]
    with pytest.raises(UnsupportedFeature, match="the struct f1 of 3 rows with 5 of f2; Lance"):
        read(reader, struct)


def batches_of_20(kind: str, columns: int) -> Writer:
    """Return three batches of 20 rows: columns of lists, or of numbers."""
    writer = Writer([20, 20, 20])
    for id in range(0, 2 * columns, 2):
        writer.field(id, kind, PLAIN)
        for batch in range(3):
            writer.page(id, batch, np.arange(21, dtype="<i4"), 20 + (kind == "list"))
        if kind == "list":
            writer.field(id + 1, "int32", PLAIN, parent=id)
            for batch in range(3):
                writer.page(id + 1, batch, np.arange(20, dtype="<i4"), 20)
    return writer


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", ["int32", "list"])
@pytest.mark.parametrize(
    "offsets",
    [
        [],
        [0],
        [0, 20],
        [0, 20, 40],
        [0, 20, 20, 60],
        [0, 20, 40, 61],
        [0, 30, 40, 60],
        [0, 60],
        [0, 20, 40, 60, 60],
        [0, 20, 40, 50],
        [0, 0, 0, 0],
    ],
)
def test_rows_are_never_lost_to_damaged_batch_offsets(
    tmp_path: Path, offsets: list[int], kind: str, columns: int
) -> None:
    writer = batches_of_20(kind, columns)
    assert len(read(open_bytes(tmp_path, writer.finish()), column(writer))) == 60
    writer = batches_of_20(kind, columns)
    with pytest.raises(CorruptFile, match=r"by the batch offsets|it would end at|no batches"):
        _ = open_bytes(tmp_path, writer.finish(batch_offsets=offsets)).num_rows


def test_a_damaged_page_table_is_refused_each_time(tmp_path: Path) -> None:
    """What was found before it was refused answered the next read."""
    writer = batches_of_20("int32", 2)
    reader = open_bytes(tmp_path, writer.finish(batch_offsets=[0, 20, 60]))
    for _ in range(2):
        with pytest.raises(CorruptFile, match="it would end at"):
            read(reader, column(writer))


def test_rows_of_a_file_without_fields_are_refused(tmp_path: Path) -> None:
    writer = integers()
    del writer.fields[1:]
    writer.fields[0].logical_type = "struct"
    with pytest.raises(CorruptFile, match="7 rows, but no field has a page"):
        _ = open_bytes(tmp_path, writer.finish()).num_rows


@pytest.mark.parametrize("offsets", [[0, 2, 1], [-1, 0, 1], [0, 1, 9]])
def test_list_offsets_that_make_no_sense_are_corrupt(tmp_path: Path, offsets: list[int]) -> None:
    writer = Writer([2])
    writer.field(0, "list", PLAIN)
    writer.field(1, "int8", PLAIN, parent=0)
    writer.page(0, 0, np.array(offsets, "<i4"), 3)
    writer.page(1, 0, b"ab", 2)
    with pytest.raises(CorruptFile):
        read(open_bytes(tmp_path, writer.finish()), column(writer))


def test_a_long_list_of_nulls_that_have_no_type_is_refused(tmp_path: Path) -> None:
    """Arrow numbers the items of lists that are picked, and these take no bytes of the file."""
    writer = Writer([2])
    writer.field(0, "large_list", PLAIN)
    writer.field(1, "null", NONE, parent=0)
    writer.page(0, 0, np.array([0, 1, 2**40], "<i8"), 3)
    writer.page(1, 0, b"", 2**40)
    reader = open_bytes(tmp_path, writer.finish())
    assert read(reader, column(writer), [(0, 1)]) == [[None]]
    with pytest.raises(MemoryLimitExceeded):
        read(reader, column(writer))


def test_damage_gives_rows_or_a_lance_error(tmp_path: Path) -> None:
    writer = integers()
    writer.field(2, "list", PLAIN)
    writer.field(3, "bool", PLAIN, parent=2)
    writer.field(4, "dict:binary:uint8:false", DICTIONARY)
    location = pb.Dictionary(offset=writer.put_strings([b"x", b"y"]), length=2)
    writer.fields[-1].dictionary.CopyFrom(location)
    for batch, rows in enumerate(writer.rows):
        writer.page(2, batch, np.arange(rows + 1, dtype="<i4"), rows + 1)
        writer.page(3, batch, b"\x05", rows)
        writer.page(4, batch, np.ones(rows, "<u1"), rows)
    whole = writer.finish()
    chance = random.Random(7)
    for case in range(1500):
        damaged = bytearray(whole)
        if case % 10 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        else:
            place = chance.randrange(len(damaged))
            damaged[place] = chance.choice([0, 127, 255, damaged[place] ^ 1 << chance.randrange(8)])
        file = File(local_store(tmp_path), "data.lance", len(damaged))
        (tmp_path / "data.lance").write_bytes(damaged)
        try:
            reader = LegacyReader(file)
        except LanceError:
            continue
        for field in fields_from_proto(writer.fields):
            try:
                array = run([(file, reader.read(field, [(0, reader.num_rows)]))])[0]
            except LanceError:
                continue
            assert len(array) == reader.num_rows
            array.validate()


def test_scattered_rows_are_read_alike_from_memory_and_from_a_remote_store(tmp_path: Path) -> None:
    counts = [3000, 0, 2000, 5]
    writer = Writer(counts)
    writer.field(0, "bool", PLAIN)
    writer.field(1, "string", VAR_BINARY)
    writer.field(2, "list", NONE)
    writer.field(3, "string", VAR_BINARY, parent=2)
    writer.field(4, "fixed_size_list:float:3", PLAIN)
    texts: list[str | None] = []
    lists: list[list[str]] = []
    bits: list[bool] = []
    for batch, count in enumerate(counts):
        rows = range(len(bits), len(bits) + count)
        own = [row % 3 == 0 for row in rows]
        bits += own
        writer.page(0, batch, np.packbits(np.array(own, np.bool_), bitorder="little"), count)
        texts += [None if row % 7 == 0 else f"text {row}" for row in rows]
        writer.strings(1, batch, [b"" if row % 7 == 0 else b"text %d" % row for row in rows])
        items = [[f"item {row}.{nth}" for nth in range(row % 4)] for row in rows]
        lists += items
        offsets = np.cumsum([0, *map(len, items)])
        writer.page(2, batch, offsets.astype("<i4"), count + 1)
        writer.strings(3, batch, [item.encode() for own in items for item in own])
        writer.page(4, batch, np.repeat(np.array(rows, "<f4"), 3), count)
    data = writer.finish()
    fs = MemoryFileSystem()
    fs.pipe("/legacy/scattered.lance", data)
    local = open_bytes(tmp_path, data)
    remote = LegacyReader(Store(fs, "/legacy").file("scattered.lance"))
    fields = [column(writer, nth) for nth in (0, 1, 2, 3)]
    chosen = np.flatnonzero(np.random.default_rng(7).random(len(bits)) < 0.3)
    for wanted in ([0], [2999, 3000], [1, *range(2990, 3010), 5004], chosen.tolist(), []):
        expected = [
            [bits[row] for row in wanted],
            [texts[row] for row in wanted],
            [lists[row] for row in wanted],
            [[row] * 3 for row in wanted],
        ]
        for reader in (local, remote):
            ranges = as_ranges(np.array(wanted, np.int64))
            (arrays,) = run([(reader.file, reader.read_all(fields, ranges))])
            assert [array.to_pylist() for array in arrays] == expected
            for array in arrays:
                array.validate(full=True)
