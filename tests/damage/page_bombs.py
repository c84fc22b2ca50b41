"""Pages of few bytes that expand to gigabytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from files_v2 import (
    ColumnOf,
    PageOf,
    all_nulls,
    binary,
    flat,
    lists,
    no_nulls,
    open_container,
    write_file,
)
from support import rewrite_manifest

from damage.forged_pages import (
    HUGE,
    ITEM,
    LIST,
    MANY,
    NULLABLE,
    NUMBER,
    TEXT,
    Builder,
    adding_to,
    block,
    chunk,
    compressed,
    constant_page,
    dictionary_page,
    flat_of,
    mini_block,
    one_run,
    repeat_file,
    runs,
    sparse_page,
    strings,
    table_of,
    values_page,
    write_table,
    zstd_zeros,
)
from lancefs.proto import container_pb2, table_pb2
from lancefs.proto import encodings_v2_0_pb2 as pb20
from lancefs.proto import encodings_v2_1_pb2 as pb
from lancefs.proto.encodings_v2_3_pb2 import (
    SparseListLayer,
    SparseStructuralLayer,
    SparseValiditySet,
)

BOMBS: dict[str, Builder] = {}
bomb = adding_to(BOMBS)


# --- compressed values ---


@bomb
def zstd_strings_of_one_chunk(path: Path) -> None:
    packed = struct.pack("<Q", HUGE) + zstd_zeros(HUGE)
    write_table(path, TEXT, [values_page(1, compressed(strings()), packed)], 1)


@bomb
def zstd_strings_whose_frame_has_no_size(path: Path) -> None:
    page = values_page(1, compressed(strings()), zstd_zeros(HUGE, has_size=False))
    write_table(path, TEXT, [page], 1)


@bomb
def zstd_strings_in_concatenated_frames(path: Path) -> None:
    frames = zstd_zeros(HUGE // 4, has_size=False) * 4
    write_table(path, TEXT, [values_page(1, compressed(strings()), frames)], 1)


@bomb
def zstd_behind_a_skippable_frame(path: Path) -> None:
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"skip"
    packed = struct.pack("<Q", HUGE) + skippable + zstd_zeros(HUGE)
    write_table(path, TEXT, [values_page(1, compressed(strings()), packed)], 1)


@bomb
def zstd_numbers_of_one_chunk(path: Path) -> None:
    packed = struct.pack("<Q", HUGE) + zstd_zeros(HUGE)
    write_table(path, NUMBER, [values_page(1000, compressed(flat_of(64)), packed)], 1000)


@bomb
def zstd_strings_of_2_0(path: Path) -> None:
    encoding = binary(2**40)
    encoding.binary.bytes.CopyFrom(flat(8, 1, scheme="zstd"))
    packed = struct.pack("<Q", HUGE) + zstd_zeros(HUGE)
    page = PageOf(1, encoding, [struct.pack("<Q", HUGE), packed])
    write_table(path, TEXT, [page], 1)


@bomb
def zstd_numbers_of_2_0_whose_frame_has_no_size(path: Path) -> None:
    page = PageOf(100, no_nulls(flat(64, scheme="zstd")), [zstd_zeros(HUGE, has_size=False)])
    write_table(path, NUMBER, [page], 100)


@bomb
def a_compressed_dictionary(path: Path) -> None:
    packed = struct.pack("<Q", HUGE) + zstd_zeros(HUGE)
    layout = pb.MiniBlockLayout(
        value_compression=flat_of(8),
        dictionary=compressed(strings()),
        num_dictionary_items=1,
        layers=[ITEM],
        num_buffers=1,
        num_items=8,
    )
    chunks = [chunk(0, [(4, bytes(8))])]
    page = PageOf(8, mini_block(layout), [table_of(chunks), chunks[0], packed])
    write_table(path, TEXT, [page], 8)


@bomb
def pages_of_the_same_bytes(path: Path) -> None:
    text = b"x" * 500_000
    buffers = [struct.pack("<Q", len(text)), text]
    page = PageOf(1, binary(2**40), buffers)
    write_table(path, TEXT, [page], 5000)
    (file,) = (path / "data").iterdir()
    container = open_container(file)
    start, end = container.footer.columns[0]
    data = file.read_bytes()
    message = container_pb2.ColumnMetadata.FromString(data[start:end])
    for _ in range(4999):
        message.pages.add().CopyFrom(message.pages[0])
    metadata = message.SerializeToString()
    footer = struct.unpack("<QQQIIHH4s", data[-40:])
    table = struct.pack("<QQ", len(data), len(metadata))
    place = len(data) + len(metadata)
    file.write_bytes(
        data + metadata + table + struct.pack("<QQQIIHH4s", len(data), place, *footer[2:])
    )

    def grow(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].files[0].file_size_bytes = file.stat().st_size

    rewrite_manifest(path, grow)


# --- runs, constants, packed values ---


@bomb
def a_run_of_all_rows(path: Path) -> None:
    page = values_page(MANY, runs(64), *one_run(7, 8, MANY))
    write_table(path, NUMBER, [page], MANY)


@bomb
def a_run_of_more_values_than_rows(path: Path) -> None:
    page = values_page(MANY, runs(64), *one_run(7, 8, MANY))
    page.rows = 1000
    write_table(path, NUMBER, [page], 1000)


@bomb
def a_dictionary_of_one_run(path: Path) -> None:
    page = dictionary_page(MANY, runs(64), block(one_run(7, 8, MANY)))
    write_table(path, NUMBER, [page], 8)


@bomb
def values_of_no_bits(path: Path) -> None:
    packed = pb.OutOfLineBitpacking(uncompressed_bits_per_value=64, values=flat_of(0))
    encoding = pb.CompressiveEncoding(out_of_line_bitpacking=packed)
    write_table(path, NUMBER, [values_page(2**31, encoding, b"")], 2**31)


@bomb
def lists_whose_levels_are_runs(path: Path) -> None:
    """One row, a list of as many numbers as the levels of its chunks can tell of."""
    most, chunks, index = 2**16 - 8, [], []
    for number in range(3000):
        first = [b"\1\0\0\0", struct.pack("<QQ", 1, most - 1)] if not number else None
        rep = block(first or one_run(0, 2, most))
        parts = [(2, rep), *[(4, part) for part in one_run(7, 8, most)]]
        chunks.append(chunk(most, parts))
        index += [0, 1] if number < 2999 else [1, 0]
    counts = [(len(one) // 8 - 1) << 4 | 15 for one in chunks]
    layout = pb.MiniBlockLayout(
        rep_compression=runs(16),
        value_compression=runs(64),
        layers=[ITEM, LIST],
        num_buffers=2,
        repetition_index_depth=1,
        num_items=2999 * 2**15 + most,
    )
    buffers = [
        np.array(counts, "<u4").tobytes(),
        b"".join(chunks),
        np.array(index, "<u8").tobytes(),
    ]
    write_table(path, pa.array([[1]]), [PageOf(1, mini_block(layout), buffers)], 1)


@bomb
def a_constant_page_longer_than_the_fragment(path: Path) -> None:
    write_table(path, NUMBER, [constant_page(2**40)], 100)


@bomb
def a_constant_page_of_all_rows(path: Path) -> None:
    write_table(path, NUMBER, [constant_page(MANY)], MANY)


@bomb
def constant_pages_of_a_trillion_rows(path: Path) -> None:
    write_table(path, NUMBER, [constant_page(MANY)], MANY)

    def repeat(manifest: table_pb2.Manifest) -> None:
        for number in range(1, 256):
            manifest.fragments.add().CopyFrom(manifest.fragments[0])
            manifest.fragments[-1].id = number
        manifest.max_fragment_id = 255

    rewrite_manifest(path, repeat)


@bomb
def a_constant_page_whose_levels_are_a_run(path: Path) -> None:
    layout = pb.ConstantLayout(
        layers=[NULLABLE],
        def_compression=runs(16),
        num_def_values=MANY,
    )
    levels = block(one_run(1, 2, MANY))
    page = PageOf(MANY, pb.PageLayout(constant_layout=layout), [b"", levels])
    write_table(path, NUMBER, [page], MANY)


@bomb
def a_constant_page_of_one_long_list(path: Path) -> None:
    count = 2**33
    layout = pb.ConstantLayout(
        layers=[ITEM, LIST], inline_value=bytes(8), rep_compression=runs(16), num_rep_values=count
    )
    levels = block([b"\1\0\0\0", struct.pack("<QQ", 1, count - 1)]) + bytes(200_000)
    page = PageOf(1, pb.PageLayout(constant_layout=layout), [levels, b""])
    write_table(path, pa.array([[1]]), [page], 1)


@bomb
def nulls_of_wide_lists(path: Path) -> None:
    column = pa.array([[1.0] * 4], pa.list_(pa.float32(), 4))
    write_table(path, column, [constant_page(100, None)], 100)

    def widen(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = f"fixed_size_list:float:{2**31 - 1}"

    rewrite_manifest(path, widen)


@bomb
def wide_lists_in_no_file(path: Path) -> None:
    write_table(path, NUMBER, [constant_page(100)], 100)

    def add(manifest: table_pb2.Manifest) -> None:
        manifest.fields.add().CopyFrom(manifest.fields[0])
        field = manifest.fields[-1]
        field.id, field.name = 1, "b"
        field.logical_type, field.nullable = f"fixed_size_list:float:{2**31 - 1}", True

    rewrite_manifest(path, add)


@bomb
def a_long_string_for_every_row(path: Path) -> None:
    """A dictionary of one item: 64 KB that every row repeats."""
    rows, text = 2**20, b"x" * 64 * 1024
    layout = pb.MiniBlockLayout(
        value_compression=runs(8),
        dictionary=strings(),
        num_dictionary_items=1,
        layers=[ITEM],
        num_buffers=2,
        num_items=rows,
    )
    chunks = [chunk(0, [(4, part) for part in one_run(0, 1, rows)])]
    offsets = struct.pack("<QQQQ", 64, 32, 0, len(text))
    page = PageOf(rows, mini_block(layout), [table_of(chunks), chunks[0], offsets + text])
    write_table(path, TEXT, [page], rows)


def write_list_of_2_0(path: Path, column: pa.Array, items: pb20.ArrayEncoding) -> None:
    """Write a table of one list, as long as a list may be."""
    count = 2**31 - 1
    lance.write_dataset(pa.table({"a": column}), str(path), data_storage_version="2.0")
    (file,) = (path / "data").iterdir()
    offsets = PageOf(1, lists(count), [struct.pack("<Q", count)])
    write_file(file, [ColumnOf([offsets]), ColumnOf([PageOf(count, items, [b""])])], 1)

    def note_size(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].files[0].file_size_bytes = file.stat().st_size

    rewrite_manifest(path, note_size)


@bomb
def a_list_of_nulls_that_have_no_type(path: Path) -> None:
    write_list_of_2_0(path, pa.array([[None]]), all_nulls())


@bomb
def a_list_of_items_of_no_bytes(path: Path) -> None:
    write_list_of_2_0(path, pa.array([[b""]], pa.list_(pa.binary(0))), no_nulls(flat(0)))


# --- pages of many values in few bytes ---


def nullable_page(rows: int, levels: Sequence[int]) -> PageOf:
    """A page of numbers of 32 bits with definition levels."""
    layout = pb.MiniBlockLayout(
        def_compression=flat_of(16),
        value_compression=flat_of(32),
        layers=[ITEM, NULLABLE],
        num_buffers=1,
        num_items=rows,
    )
    parts = [(2, np.array(levels, "<u2").tobytes()), (4, bytes(4 * rows))]
    chunks = [chunk(rows, parts)]
    return PageOf(rows, mini_block(layout), [table_of(chunks), chunks[0]])


def page_without_levels(rows: int) -> PageOf:
    """A page of numbers in structs that are not null, of which only eight are there."""
    layout = pb.MiniBlockLayout(
        value_compression=flat_of(32), layers=[ITEM, ITEM], num_buffers=1, num_items=rows
    )
    chunks = [chunk(0, [(4, bytes(32))])]
    return PageOf(rows, mini_block(layout), [table_of(chunks), chunks[0]])


def write_structs(
    path: Path, members: Mapping[str, Sequence[PageOf]], rows: int, told: int | None = None
) -> None:
    """Write a table with a column of structs of numbers.

    Args:
        path: The table.
        members: The pages of each member.
        rows: Number of rows of the data file.
        told: Number of rows that the manifest tells; None for those of the file.
    """
    column = pa.array([dict.fromkeys(members, 1)], pa.struct(dict.fromkeys(members, pa.int32())))
    lance.write_dataset(pa.table({"a": column}), str(path), data_storage_version="2.1")
    (file,) = (path / "data").iterdir()
    write_file(file, [ColumnOf(pages) for pages in members.values()], rows)

    def forge(manifest: table_pb2.Manifest) -> None:
        (fragment,) = manifest.fragments
        fragment.physical_rows = rows if told is None else told
        fragment.files[0].file_size_bytes = file.stat().st_size

    rewrite_manifest(path, forge)


@bomb
def members_without_levels_of_all_rows(path: Path) -> None:
    pages = [nullable_page(4, [0, 1, 0, 1]), page_without_levels(MANY - 4)]
    write_structs(path, {"v": pages, "w": pages}, MANY)


@bomb
def a_member_without_levels_longer_than_the_file(path: Path) -> None:
    pages = [nullable_page(4, [0, 1, 0, 1]), page_without_levels(2**47)]
    write_structs(path, {"v": pages}, 8, told=0)


@bomb
def a_long_member_beside_one_of_wrong_levels(path: Path) -> None:
    long = [nullable_page(4, [0, 1, 0, 1]), page_without_levels(2**29 - 4)]
    wrong = [nullable_page(8, [0, 1, 0, 1, 0, 7, 0, 0]), page_without_levels(2**29 - 8)]
    write_structs(path, {"v": long, "w": wrong}, 2**29)


@bomb
def small_files_of_many_rows(path: Path) -> None:
    write_table(path, NUMBER, [values_page(2**24, flat_of(64), bytes(64))], 2**24)
    repeat_file(path, 20)


@bomb
def small_files_of_billions_of_rows(path: Path) -> None:
    write_table(path, NUMBER, [values_page(2**31, flat_of(64), bytes(64))], 2**31)
    repeat_file(path, 20)


# --- sparse pages of 2.3 ---


def one_null() -> SparseValiditySet:
    return SparseValiditySet(
        meaning=SparseValiditySet.SPARSE_VALIDITY_NULL_POSITIONS,
        positions=flat_of(64),
        num_positions=1,
    )


@bomb
def a_sparse_page_longer_than_the_fragment(path: Path) -> None:
    page = sparse_page(2**33, [SparseStructuralLayer(validity=one_null())], bytes(8))
    write_table(path, NUMBER, [page], 100)


@bomb
def a_sparse_page_of_all_rows_but_one(path: Path) -> None:
    page = sparse_page(MANY, [SparseStructuralLayer(validity=one_null())], bytes(8))
    write_table(path, NUMBER, [page], MANY)


@bomb
def sparse_lists_by_ranges(path: Path) -> None:
    everything = pb.CompressiveEncoding(range=pb.Range(start=0, step=1))
    one = pb.CompressiveEncoding(constant=pb.Constant(value=b"\1"))
    lists = SparseListLayer(
        num_child_slots=MANY,
        non_empty_positions=everything,
        num_non_empty_positions=MANY,
        counts=one,
        validity=one_null(),
    )
    items = SparseStructuralLayer(validity=one_null())
    page = sparse_page(MANY, [SparseStructuralLayer(list=lists), items], bytes(8), bytes(8))
    write_table(path, pa.array([[1]]), [page], MANY)
