"""Pages whose parts contradict each other: no way to read them gives rows that others do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from files_v2 import ColumnOf, PageOf, write_file
from support import rewrite_manifest

import lancefs
from damage.forged_pages import (
    ITEM,
    NULLABLE,
    NUMBER,
    TEXT,
    chunk,
    flat_of,
    mini_block,
    table_of,
    values_page,
    write_table,
)
from lancefs.errors import CorruptFile
from lancefs.proto import encodings_v2_1_pb2 as pb
from lancefs.proto import table_pb2
from lancefs.scan.decoded_columns import validity_fields

Read = Callable[[lancefs.LanceDataset], object]
READS: dict[str, Read] = {
    "all": lambda dataset: dataset.to_table(),
    "batches": lambda dataset: list(dataset.to_batches(batch_size=3)),
    "one": lambda dataset: dataset.take([5]),
    "two": lambda dataset: dataset.take([0, dataset.count_rows() - 1]),
    "nulls": lambda dataset: dataset.count_rows(filter="a IS NULL"),
}
READERS = pytest.mark.parametrize("read", READS.values(), ids=READS)


def refuse(path: Path, read: Read, message: str) -> None:
    """Check that a table is not read, for a reason that a check has found."""
    with pytest.raises(CorruptFile, match=message) as raised:
        read(lancefs.open(str(path)))
    assert not raised.value.is_caught_by_net
    assert ".lance: a" in str(raised.value)


# --- values of another width than their rows ---


def zipped(bits: int, values: pb.CompressiveEncoding, rows: int = 8) -> PageOf:
    """A full-zip page, each row of which takes some bits."""
    layout = pb.FullZipLayout(
        bits_per_value=bits,
        num_items=rows,
        num_visible_items=rows,
        value_compression=values,
        layers=[ITEM],
    )
    data = np.arange(rows * bits // 8, dtype="u1").tobytes()
    return PageOf(rows, pb.PageLayout(full_zip_layout=layout), [data])


def pairs_of(values: pb.CompressiveEncoding, validity: bool = False) -> pb.CompressiveEncoding:
    lists = pb.FixedSizeList(items_per_value=2, values=values, has_validity=validity)
    return pb.CompressiveEncoding(fixed_size_list=lists)


NULL_LIST = pb.REPDEF_NULLABLE_LIST
PAIR = pa.array([[1, 2]], pa.list_(pa.int32(), 2))


@pytest.mark.parametrize(
    ("column", "bits", "values"),
    [
        (pa.array([1], pa.int32()), 64, flat_of(32)),
        (pa.array([1], pa.int64()), 32, flat_of(64)),
        (pa.array([True]), 8, flat_of(1)),
        (PAIR, 128, pairs_of(flat_of(32))),
        (PAIR, 128, pairs_of(flat_of(32), validity=True)),
    ],
)
@pytest.mark.parametrize("name", ["all", "batches", "one", "two"])
def test_values_are_as_wide_as_the_rows_that_hold_them(
    tmp_path: Path, column: pa.Array, bits: int, values: pb.CompressiveEncoding, name: str
) -> None:
    write_table(tmp_path / "t.lance", column, [zipped(bits, values)], 8)
    refuse(tmp_path / "t.lance", READS[name], "bytes are not|too short for the validity|of 64 bits")


def zipped_texts(rows: Sequence[bytes]) -> PageOf:
    """A full-zip page of strings, with a control word of two bits before each."""
    layout = pb.FullZipLayout(
        bits_per_offset=32,
        bits_def=2,
        num_items=len(rows),
        num_visible_items=len(rows),
        value_compression=pb.CompressiveEncoding(variable=pb.Variable(offsets=flat_of(32))),
        layers=[NULLABLE],
    )
    starts = np.cumsum([0, *map(len, rows)]).astype("<u8").tobytes()
    return PageOf(len(rows), pb.PageLayout(full_zip_layout=layout), [b"".join(rows), starts])


@pytest.mark.parametrize("name", ["all", "batches", "nulls", "reaching"])
def test_a_value_does_not_reach_into_the_row_behind_it(tmp_path: Path, name: str) -> None:
    """The value is a byte too long, and the row behind it a null, which is a control word alone."""
    page = zipped_texts([b"\0\2\0\0\0ab", b"\0\3\0\0\0cd", b"\1"] * 3)
    write_table(tmp_path / "t.lance", TEXT, [page], 9)
    reads = {**READS, "reaching": lambda dataset: dataset.take([1, 2])}
    refuse(tmp_path / "t.lance", reads[name], "longer (or shorter )?than its row")


@pytest.mark.parametrize("row", [b"\0\1\0\0\0cd", b"\1\0", b"\0\0\0\0\0c"])
@pytest.mark.parametrize("name", ["all", "batches", "one", "two"])
def test_a_row_has_no_bytes_behind_its_value(tmp_path: Path, row: bytes, name: str) -> None:
    """As where the index says that the next row begins too late: its bytes would be of a text."""
    page = zipped_texts([b"\0\2\0\0\0ab", b"\1", row] * 3)
    write_table(tmp_path / "t.lance", TEXT, [page], 9)
    refuse(tmp_path / "t.lance", READS[name], "longer or shorter than its row")


@READERS
def test_a_level_that_no_layer_has_is_refused(tmp_path: Path, read: Read) -> None:
    page = zipped_texts([b"\0\2\0\0\0ab", b"\1", b"\2"] * 3)
    write_table(tmp_path / "t.lance", TEXT, [page], 9)
    refuse(tmp_path / "t.lance", read, "level above|a level that")


@pytest.mark.parametrize("name", ["all", "batches", "one", "two"])
def test_streams_of_bytes_are_as_long_as_the_rows(tmp_path: Path, name: str) -> None:
    """Of eight values, the second stream begins at byte 8; of seven, it would begin at byte 7."""
    split = pb.CompressiveEncoding(byte_stream_split=pb.ByteStreamSplit(values=flat_of(32)))
    page = values_page(7, split, np.arange(8, dtype="<f4").tobytes())
    write_table(tmp_path / "t.lance", pa.array([1.0], pa.float32()), [page], 7)
    refuse(tmp_path / "t.lance", READS[name], "split chunk is .*longer than its values")


def packed_number_page(width: int, stored: int) -> PageOf:
    """Eight numbers in a block that is said to have some width, and has the bytes of another."""
    packing = pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=32)
    )
    block = width.to_bytes(4, "little") + bytes(range(128)) * stored
    return values_page(8, packing, block)


def packed_levels_page(width: int, stored: int) -> PageOf:
    """Numbers whose levels are said to be packed in some width, and take the bytes of another."""
    flat = flat_of(width)
    packing = pb.OutOfLineBitpacking(uncompressed_bits_per_value=16, values=flat)
    layout = pb.MiniBlockLayout(
        def_compression=pb.CompressiveEncoding(out_of_line_bitpacking=packing),
        value_compression=flat_of(32),
        layers=[NULLABLE],
        num_buffers=1,
        num_items=1024,
    )
    chunks = [chunk(1024, [(2, b"\xff" * 128 * stored), (4, bytes(4096))])]
    return PageOf(1024, mini_block(layout), [table_of(chunks), chunks[0]])


@pytest.mark.parametrize(("width", "stored"), [(0, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("name", READS)
def test_packed_bits_take_as_many_bytes_as_their_width_says(
    tmp_path: Path, name: str, width: int, stored: int
) -> None:
    """A width that was changed would give other numbers, or values in place of nulls."""
    for make in (packed_number_page, packed_levels_page):
        if name == "nulls" and make is packed_number_page:
            continue  # without levels there are no nulls, whatever the numbers are
        page = make(width, stored)
        path = tmp_path / make.__name__
        write_table(path, pa.array([1], pa.int32()), [page], page.rows)
        refuse(path, READS[name], "than its bit width says|values packed in . bits")


# --- layers ---


@READERS
@pytest.mark.parametrize("kind", ["chunks", "zipped", "constant"])
def test_pages_without_layers_are_refused(tmp_path: Path, kind: str, read: Read) -> None:
    page = {
        "chunks": lambda: values_page(8, flat_of(64), bytes(64)),
        "zipped": lambda: zipped(64, flat_of(64)),
        "constant": lambda: PageOf(8, pb.PageLayout(constant_layout=pb.ConstantLayout())),
    }[kind]()
    layout = getattr(page.encoding, page.encoding.WhichOneof("layout"))
    del layout.layers[:]
    write_table(tmp_path / "t.lance", NUMBER, [page], 8)
    refuse(tmp_path / "t.lance", read, "no layers")


# --- levels ---


@pytest.mark.parametrize("name", ["all", "nulls"])
def test_levels_of_a_chunk_are_not_those_of_values_in_another(tmp_path: Path, name: str) -> None:
    """A level that the first chunk lacks is in the third: in between they would be shifted."""
    counts, levels = [8, 8, 8], [[0] * 7, [0, 1] * 4, [0] * 9]
    layout = pb.MiniBlockLayout(
        def_compression=flat_of(16),
        value_compression=flat_of(32),
        layers=[NULLABLE],
        num_buffers=1,
        num_items=sum(counts),
    )
    chunks = [
        chunk(len(own), [(2, np.array(own, "<u2").tobytes()), (4, bytes(4 * count))])
        for own, count in zip(levels, counts, strict=True)
    ]
    table = np.array([(len(one) // 8 - 1) << 4 | 3 for one in chunks], "<u4").tobytes()
    page = PageOf(24, mini_block(layout), [table, b"".join(chunks)])
    write_table(tmp_path / "t.lance", pa.array([1], pa.int32()), [page], 24)
    refuse(tmp_path / "t.lance", READS[name], "more or fewer levels than values")


@pytest.mark.parametrize("log", [3, 11])  # a few rows are read by kernels of their own
@pytest.mark.parametrize("name", ["all", "batches", "nulls"])
def test_values_of_a_chunk_of_lists_are_not_those_of_another(
    tmp_path: Path, log: int, name: str
) -> None:
    """The first chunk of lists has a value too few, the third one too many."""
    count, lists = 1 << log, (1 << log) + 2
    layout = pb.MiniBlockLayout(
        rep_compression=flat_of(16),
        def_compression=flat_of(16),
        value_compression=flat_of(32),
        layers=[ITEM, NULL_LIST],
        num_buffers=1,
        num_items=3 * count,
        repetition_index_depth=1,
    )
    chunks = []
    for visible in (count + 1, count, count - 1):
        rep, definition = np.ones(lists, "<u2"), np.arange(lists) >= visible
        numbers = np.arange(count, dtype="<u4") + count * len(chunks)
        levels = [(2, rep.tobytes()), (2, definition.astype("<u2").tobytes())]
        chunks.append(chunk(lists, [*levels, (4, numbers.tobytes())]))
    table = np.array([(len(one) // 8 - 1) << 4 | log for one in chunks], "<u4").tobytes()
    index = np.array([lists, 0] * 3, "<u8").tobytes()
    page = PageOf(3 * lists, mini_block(layout), [table, b"".join(chunks), index])
    kind = pa.list_(pa.int32())
    write_table(tmp_path / "t.lance", pa.array([[1]], kind), [page], 3 * lists)
    refuse(tmp_path / "t.lance", READS[name], "whose levels tell of|has other rows or values than")


def lists_page(lengths: Sequence[int], layers: Sequence[pb.RepDefLayer]) -> PageOf:
    """A page of the numbers from 0 on, in lists of some lengths; a length of 0 is a null."""
    rep = [int(at == 0) for length in lengths for at in range(max(1, length))]
    definition = [length == 0 for length in lengths for _ in range(max(1, length))]
    items = sum(lengths)
    layout = pb.MiniBlockLayout(
        rep_compression=flat_of(16),
        def_compression=flat_of(16),
        value_compression=flat_of(32),
        layers=layers,
        num_buffers=1,
        num_items=items,
        repetition_index_depth=1,
    )
    both = [(2, np.array(levels, "<u2").tobytes()) for levels in (rep, definition)]
    numbers = np.arange(items, dtype="<u4").tobytes()
    chunks = [chunk(len(rep), [*both, (4, numbers)])]
    index = np.array([len(lengths), 0], "<u8").tobytes()
    table = np.array([(len(chunks[0]) // 8 - 1) << 4], "<u4").tobytes()
    return PageOf(len(lengths), mini_block(layout), [table, chunks[0], index])


def members_page(
    nulls: Sequence[int], layers: Sequence[pb.RepDefLayer] = (ITEM, NULLABLE)
) -> PageOf:
    """A page of members of structs, of which some are null."""
    layout = pb.MiniBlockLayout(
        def_compression=flat_of(16),
        value_compression=flat_of(32),
        layers=layers,
        num_buffers=1,
        num_items=len(nulls),
    )
    parts = [(2, np.array(nulls, "<u2").tobytes()), (4, bytes(4 * len(nulls)))]
    chunks = [chunk(len(nulls), parts)]
    table = np.array([(len(chunks[0]) // 8 - 1) << 4], "<u4").tobytes()
    return PageOf(len(nulls), mini_block(layout), [table, chunks[0]])


def rows_of(schema: pa.Schema) -> pa.Table:
    return pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)


def write_members(path: Path, schema: pa.Schema, pages: Sequence[PageOf]) -> None:
    """Write a table with a column, of which each leaf has a page."""
    write_columns(path, schema, [ColumnOf([page]) for page in pages], pages[0].rows)


def write_columns(path: Path, schema: pa.Schema, columns: Sequence[ColumnOf], rows: int) -> None:
    """Write a table with a column, of which each leaf has a column of the file."""
    lance.write_dataset(rows_of(schema), str(path), data_storage_version="2.1")
    (file,) = (path / "data").iterdir()
    write_file(file, columns, rows)

    def forge(manifest: table_pb2.Manifest) -> None:
        (fragment,) = manifest.fragments
        fragment.physical_rows = rows
        fragment.files[0].file_size_bytes = file.stat().st_size

    rewrite_manifest(path, forge)


STRUCT = pa.struct({"x": pa.int32(), "y": pa.int32()})


@pytest.mark.parametrize("name", ["all", "batches", "one", "two"])
def test_members_lie_in_the_same_lists(tmp_path: Path, name: str) -> None:
    kinds = [ITEM, ITEM, NULL_LIST]
    pages = [
        lists_page(levels, kinds) for levels in ([2, 1, 0, 3, 1, 2, 1, 2], [1, 2, 0, 3, 1, 1, 2, 2])
    ]
    write_members(tmp_path / "t.lance", pa.schema({"a": pa.list_(STRUCT)}), pages)
    refuse(tmp_path / "t.lance", READS[name], "differ in which lists they lie in")


@READERS
def test_lists_that_no_page_has_are_refused_by_file_and_column(tmp_path: Path, read: Read) -> None:
    page = lists_page([2, 1, 0, 3, 1, 2, 1, 2], [ITEM, NULL_LIST])
    page.rows = 4
    write_columns(
        tmp_path / "t.lance", pa.schema({"a": pa.list_(pa.int32())}), [ColumnOf([page])], 8
    )
    refuse(tmp_path / "t.lance", read, "row . is wanted|8 rows in a page of 4")


def test_members_may_differ_in_what_is_null_below_nulls(tmp_path: Path) -> None:
    """As pylance writes members that cannot be null, in structs in lists of one size."""
    rows, rng = 700, np.random.default_rng(1)
    kinds = pa.int32(), pa.string()
    members = [pa.array([5] * rows).cast(kind) for kind in kinds]  # pages of one value
    fields = [pa.field(name, kind, nullable=False) for name, kind in zip("xy", kinds, strict=True)]
    missing, without = (pa.array(rng.random(rows) < 0.95) for _ in range(2))
    structs = pa.StructArray.from_arrays(members, fields=fields, mask=missing)
    table = pa.table({"a": pa.FixedSizeListArray.from_arrays(structs, 1, mask=without)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version="2.3")
    assert lancefs.open(str(tmp_path / "t.lance")).to_table().to_pylist() == table.to_pylist()


def test_pages_of_members_may_end_in_different_rows(tmp_path: Path) -> None:
    """The first rows have no nulls of the outer struct: a page of theirs has no level for these."""
    rows = 8000  # of fewer, kernels read the levels of all pages
    levels = [0, 1] * (rows // 4) + [2, 1] * (rows // 4)
    both, inner = (ITEM, NULLABLE, NULLABLE), (ITEM, NULLABLE, ITEM)
    parts = (levels[: rows // 2], inner), (levels[rows // 2 :], both)
    columns = [
        ColumnOf([members_page(levels, both)]),
        ColumnOf([members_page(part, kinds) for part, kinds in parts]),
    ]
    write_columns(tmp_path / "t.lance", pa.schema({"a": pa.struct({"s": STRUCT})}), columns, rows)
    dataset = lancefs.open(str(tmp_path / "t.lance"))
    values = [{"s": {"x": 0, "y": 0}}, {"s": None}, None]
    assert dataset.to_table()["a"].to_pylist() == [values[level] for level in levels]
    assert dataset.count_rows(filter="a IS NULL") == rows // 4
    field = dataset.manifest.fields[0]
    (reader,) = dataset.opened.readers
    (array,) = reader.read(validity_fields(reader, [field], {field.id}), [(0, rows)])
    assert array.is_null().to_pylist() == [level == 2 for level in levels]


def test_members_that_lie_in_the_same_lists_are_read(tmp_path: Path) -> None:
    lengths = [2, 1, 0, 3, 1, 2, 1, 2]
    pages = [lists_page(lengths, [ITEM, ITEM, NULL_LIST]) for _ in range(2)]
    write_members(tmp_path / "t.lance", pa.schema({"a": pa.list_(STRUCT)}), pages)
    read = lancefs.open(str(tmp_path / "t.lance")).to_table()["a"].to_pylist()
    numbers = iter(range(sum(lengths)))
    wanted = [[next(numbers) for _ in range(length)] or None for length in lengths]
    assert read == [
        None if row is None else [{"x": number, "y": number} for number in row] for row in wanted
    ]


@pytest.mark.parametrize("position", [1 << 32, 0xFFFF << 48])
def test_a_blob_without_bytes_has_a_level_of_16_bits(tmp_path: Path, position: int) -> None:
    pair = pb.PackedStruct(bits_per_value=[64, 64], values=flat_of(128))
    values = pb.CompressiveEncoding(packed_struct=pair)
    inner = values_page(1, values, np.array([position, 0], "<u8").tobytes())
    assert isinstance(inner.encoding, pb.PageLayout)
    blob = pb.BlobLayout(inner_layout=inner.encoding, layers=[NULLABLE])
    page = PageOf(1, pb.PageLayout(blob_layout=blob), inner.buffers)
    schema = pa.schema([pa.field("a", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    write_members(tmp_path / "t.lance", schema, [page])
    refuse(tmp_path / "t.lance", lambda dataset: dataset.to_table(blobs="bytes"), "level of")
