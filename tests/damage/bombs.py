"""Small tables that expand to gigabytes, for each way that bytes can tell of many more bytes."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyroaring
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
from support import rewrite_index_section, rewrite_manifest

from lancefs.proto import container_pb2, rowids_pb2, table_pb2
from lancefs.proto import encodings_v2_0_pb2 as pb20
from lancefs.proto import encodings_v2_1_pb2 as pb
from lancefs.proto.encodings_v2_3_pb2 import (
    PlanarLayout,
    SparseListLayer,
    SparseStructuralLayer,
    SparseValiditySet,
)

MANY = 2**32 - 1  # the most rows that a fragment may have
HUGE = 6 << 30  # bytes
ITEM = pb.REPDEF_ALL_VALID_ITEM
NULLABLE = pb.REPDEF_NULLABLE_ITEM
LIST = pb.REPDEF_ALL_VALID_LIST

Builder = Callable[[Path], None]
# What is in a file instead: the pages of each column, and the number of rows.
Forged = tuple[Sequence[Sequence[PageOf]], int]
BOMBS: dict[str, Builder] = {}


def bomb(build: Builder) -> Builder:
    """Add a bomb to those that the tests read."""
    BOMBS[build.__name__] = build
    return build


def zstd_zeros(size: int, has_size: bool = True) -> bytes:
    """A zstd frame of zeros, 4 bytes for each 128 KiB of them (RFC 8878)."""
    header = b"\x28\xb5\x2f\xfd" + (
        b"\xc0\x58" + struct.pack("<Q", size) if has_size else b"\0\x58"
    )
    block = 128 * 1024

    def run(length: int, is_last: bool) -> bytes:
        return (length << 3 | 1 << 1 | is_last).to_bytes(3, "little") + b"\0"

    whole, rest = divmod(size, block)
    return header + run(block, False) * whole + run(rest, True)


def chunk(levels: int, parts: Sequence[tuple[int, bytes]]) -> bytes:
    """A chunk of a mini-block page: its levels, and the width of the size of each buffer."""
    data = struct.pack("<H", levels)
    data += b"".join(len(part).to_bytes(width, "little") for width, part in parts)
    data += bytes(-len(data) % 8)
    for _, part in parts:
        data += part + bytes(-len(part) % 8)
    return data


def table_of(chunks: Sequence[bytes], log: int = 0) -> bytes:
    """The table of chunks, with large entries."""
    words = [(len(one) // 8 - 1) << 4 | (log if one is not chunks[-1] else 0) for one in chunks]
    return np.array(words, "<u4").tobytes()


def flat_of(bits: int) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))


def strings() -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=flat_of(64)))


def compressed(values: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    general = pb.General(values=values)
    general.compression.scheme = pb.COMPRESSION_ALGORITHM_ZSTD
    return pb.CompressiveEncoding(general=general)


def runs(bits: int, length_bits: int = 64) -> pb.CompressiveEncoding:
    rle = pb.Rle(values=flat_of(bits), run_lengths=flat_of(length_bits))
    return pb.CompressiveEncoding(rle=rle)


def one_run(value: int, width: int, length: int) -> list[bytes]:
    """The buffers of a single run: its value, and its length."""
    return [value.to_bytes(width, "little"), length.to_bytes(8, "little")]


def block(buffers: Sequence[bytes]) -> bytes:
    """The buffers of runs as one buffer that stands alone."""
    return len(buffers[0]).to_bytes(8, "little") + b"".join(buffers)


def write_table(
    path: Path,
    column: pa.Array,
    pages: Sequence[PageOf],
    rows: int,
    change: Callable[[table_pb2.DataFragment], object] = lambda fragment: None,
) -> None:
    """Write a table with one column, whose only data file has the given pages.

    Args:
        path: The table.
        column: Tells the type of the column.
        pages: The pages.
        rows: Number of rows that the manifest tells.
        change: Changes what the manifest says of the fragment.
    """
    is_old = any(isinstance(page.encoding, pb20.ArrayEncoding) for page in pages)
    version = "2.0" if is_old else "2.1"
    lance.write_dataset(pa.table({"a": column}), str(path), data_storage_version=version)
    (file,) = (path / "data").iterdir()
    container = write_file(file, [ColumnOf(pages)], rows)

    def forge(manifest: table_pb2.Manifest) -> None:
        (fragment,) = manifest.fragments
        fragment.physical_rows = rows
        data_file = fragment.files[0]
        data_file.file_size_bytes = file.stat().st_size
        data_file.file_major_version, data_file.file_minor_version = container.footer.version
        if is_old:
            data_file.file_major_version, data_file.file_minor_version = 0, 3
        del data_file.column_indices[:]
        data_file.column_indices.extend([0, *[-1] * (len(data_file.fields) - 1)])
        change(fragment)

    rewrite_manifest(path, forge)


def mini_block(layout: pb.MiniBlockLayout) -> pb.PageLayout:
    layout.has_large_chunk = True
    return pb.PageLayout(mini_block_layout=layout)


def dictionary_page(
    items: int,
    dictionary: pb.CompressiveEncoding,
    data: bytes,
    indices: Sequence[int] = (0,) * 8,
) -> PageOf:
    """A page of indices, and the dictionary that they point into."""
    layout = pb.MiniBlockLayout(
        value_compression=flat_of(8),
        dictionary=dictionary,
        num_dictionary_items=items,
        layers=[ITEM],
        num_buffers=1,
        num_items=len(indices),
    )
    chunks = [chunk(0, [(4, bytes(indices))])]
    return PageOf(len(indices), mini_block(layout), [table_of(chunks), chunks[0], data])


def values_page(rows: int, values: pb.CompressiveEncoding, *buffers: bytes) -> PageOf:
    """A mini-block page of one chunk."""
    layout = pb.MiniBlockLayout(
        value_compression=values, layers=[ITEM], num_buffers=len(buffers), num_items=rows
    )
    chunks = [chunk(0, [(4, buffer) for buffer in buffers])]
    return PageOf(rows, mini_block(layout), [table_of(chunks), chunks[0]])


def constant_page(rows: int, value: bytes | None = bytes(8)) -> PageOf:
    layout = pb.ConstantLayout(layers=[ITEM if value is not None else NULLABLE])
    if value is not None:
        layout.inline_value = value
    return PageOf(rows, pb.PageLayout(constant_layout=layout))


NUMBER, TEXT = pa.array([1]), pa.array(["a"])


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


def repeat_file(path: Path, count: int) -> None:
    """Add fragments to a table, each with a copy of its only data file."""
    (file,) = (path / "data").iterdir()
    data = file.read_bytes()

    def repeat(manifest: table_pb2.Manifest) -> None:
        for number in range(1, count):
            fragment = manifest.fragments.add()
            fragment.CopyFrom(manifest.fragments[0])
            fragment.id, fragment.files[0].path = number, f"{number}.lance"
            (path / "data" / f"{number}.lance").write_bytes(data)
        manifest.max_fragment_id = count - 1

    rewrite_manifest(path, repeat)


@bomb
def small_files_of_many_rows(path: Path) -> None:
    write_table(path, NUMBER, [values_page(2**24, flat_of(64), bytes(64))], 2**24)
    repeat_file(path, 20)


@bomb
def small_files_of_billions_of_rows(path: Path) -> None:
    write_table(path, NUMBER, [values_page(2**31, flat_of(64), bytes(64))], 2**31)
    repeat_file(path, 20)


# --- sparse pages of 2.3 ---


def sparse_page(rows: int, layers: Sequence[SparseStructuralLayer], *buffers: bytes) -> PageOf:
    layout = PlanarLayout()
    layout.structure.sparse.layers.extend(layers)
    layout.values.constant.scalar = bytes(8)
    return PageOf(rows, layout, buffers)


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


# --- what a table has beside its values ---


def arrow_deletions(announced: int, old_style: bool) -> bytes:
    """An Arrow file of deleted rows, whose only buffer says that it expands to so many bytes."""
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"skip"
    packed = struct.pack("<q", announced) + skippable + zstd_zeros(announced)
    packed += bytes(-len(packed) % 8)
    offsets = np.frombuffer(packed, np.int64)
    batch = pa.record_batch([pa.array(offsets)], names=["row_id"])
    sink = io.BytesIO()
    metadata_version = pa.ipc.MetadataVersion.V4 if old_style else pa.ipc.MetadataVersion.V5
    options = pa.ipc.IpcWriteOptions(metadata_version=metadata_version)
    properties = {"ARROW:experimental_compression": "zstd"} if old_style else None
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, properties)
    return sink.getvalue()


def with_deletions(path: Path, kind: int, extension: str, data: bytes, count: int) -> None:
    def delete(fragment: table_pb2.DataFragment) -> None:
        fragment.deletion_file.file_type = kind
        fragment.deletion_file.id = 7
        fragment.deletion_file.num_deleted_rows = count

    write_table(path, NUMBER, [constant_page(MANY)], MANY, delete)
    (path / "_deletions").mkdir()
    (path / "_deletions" / f"0-0-7.{extension}").write_bytes(data)


@bomb
def deletions_compressed_as_arrow_0_17_did(path: Path) -> None:
    count = 2**30 - 8
    data = arrow_deletions(8 * count, old_style=True)
    with_deletions(path, table_pb2.DeletionFile.ARROW_ARRAY, "arrow", data, count)


@bomb
def deletions_of_almost_all_rows(path: Path) -> None:
    bitmap = pyroaring.BitMap()
    bitmap.add_range(1, MANY)
    bitmap.run_optimize()
    kind = table_pb2.DeletionFile.BITMAP
    with_deletions(path, kind, "bin", bitmap.serialize(), MANY - 1)


@bomb
def deletions_that_announce_gigabytes(path: Path) -> None:
    count = 2**30
    batch = pa.record_batch([pa.array(np.zeros(count // 64, np.int64))], names=["row_id"])
    sink = io.BytesIO()
    with pa.ipc.new_file(
        sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_batch(batch)
    data = sink.getvalue().replace(
        struct.pack("<q", count // 64 * 8) + b"\x28\xb5", struct.pack("<q", count * 8) + b"\x28\xb5"
    )
    with_deletions(path, table_pb2.DeletionFile.ARROW_ARRAY, "arrow", data, count)


@bomb
def indices_that_cover_millions_of_fragments(path: Path) -> None:
    table = pa.table({"a": np.arange(10)})
    lance.write_dataset(table, str(path)).create_scalar_index("a", "BTREE")
    bitmap = pyroaring.BitMap()
    bitmap.add_range(0, 2**24)
    bitmap.run_optimize()

    def cover(section: table_pb2.IndexSection) -> None:
        section.indices[0].fragment_bitmap = bitmap.serialize()
        for _ in range(5):
            section.indices.add().CopyFrom(section.indices[0])

    rewrite_index_section(path, cover)

    def allow(manifest: table_pb2.Manifest) -> None:
        manifest.max_fragment_id = MANY

    rewrite_manifest(path, allow)


# --- files of indices ---


def write_index(path: Path, kind: str, column: pa.Array, forged: Mapping[str, Forged]) -> None:
    """Write a table of one column with an index, some files of which are other ones.

    Args:
        path: The table.
        kind: Of the index.
        column: The values.
        forged: For each file, by a pattern of its name, what it has instead.
    """
    dataset = lance.write_dataset(pa.table({"a": column}), str(path))
    dataset.create_scalar_index("a", kind)
    (directory,) = (path / "_indices").iterdir()
    for pattern, (columns, rows) in forged.items():
        (file,) = directory.glob(pattern)
        schema = open_container(file).descriptor().schema
        write_file(file, [ColumnOf(pages) for pages in columns], rows, schema=schema)

    def tell_sizes(section: table_pb2.IndexSection) -> None:
        for one in section.indices[0].files:
            one.size_bytes = (directory / one.path).stat().st_size

    rewrite_index_section(path, tell_sizes)


def bytes_page(value: bytes) -> PageOf:
    """A page of one value."""
    return values_page(1, strings(), struct.pack("<QQ", 16, 16 + len(value)) + value)


def constant_columns(*values: bytes) -> list[list[PageOf]]:
    """Columns that repeat a value in all rows that a file may have."""
    return [[constant_page(MANY, value)] for value in values]


def all_rows() -> bytes:
    """A bitmap of all rows of a fragment."""
    bitmap = pyroaring.BitMap()
    bitmap.add_range(0, MANY)
    bitmap.run_optimize()
    return bitmap.serialize()


@bomb
def a_bitmap_index_of_all_rows(path: Path) -> None:
    rows = struct.pack("<III", 1, 0, len(all_rows())) + all_rows()
    columns = [[constant_page(1)], [bytes_page(rows)]]
    write_index(path, "BITMAP", pa.array([0]), {"bitmap_page_lookup.lance": (columns, 1)})


@bomb
def an_ngram_index_of_all_rows(path: Path) -> None:
    rows = struct.pack("<QI", 1, 0) + all_rows()
    token = (11 * 37 + 11) * 37 + 11  # "aaa": letters come behind nothing and ten digits
    columns = [[constant_page(1, token.to_bytes(4, "little"))], [bytes_page(rows)]]
    write_index(path, "NGRAM", pa.array(["aaa"]), {"ngram_postings.lance": (columns, 1)})


@bomb
def a_bitmap_index_of_many_values(path: Path) -> None:
    columns = constant_columns(bytes(8), b"")
    write_index(path, "BITMAP", pa.array([0]), {"bitmap_page_lookup.lance": (columns, MANY)})


@bomb
def a_btree_of_many_pages(path: Path) -> None:
    pages = constant_columns(bytes(8), bytes(8), bytes(4), bytes(4))
    values = constant_columns(bytes(8), bytes(8))
    forged = {"page_lookup.lance": (pages, MANY), "page_data.lance": (values, MANY)}
    write_index(path, "BTREE", pa.array([0]), forged)


@bomb
def a_btree_of_one_page(path: Path) -> None:
    values = constant_columns(bytes(8), bytes(8))
    write_index(path, "BTREE", pa.array([0]), {"page_data.lance": (values, MANY)})


@bomb
def zones_without_end(path: Path) -> None:
    numbers = [bytes(8), bytes(8), bytes(4), bytes(4), bytes(8), bytes(8), bytes(8)]
    columns = constant_columns(*numbers)
    write_index(path, "ZONEMAP", pa.array([0]), {"zonemap.lance": (columns, MANY)})


@bomb
def a_text_index_of_many_documents(path: Path) -> None:
    columns = constant_columns(bytes(8), bytes(4))
    write_index(path, "INVERTED", pa.array(["word"]), {"*_docs.lance": (columns, MANY)})


@bomb
def row_ids_of_all_rows(path: Path) -> None:
    segment = rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=0, end=MANY))
    sequence = rowids_pb2.RowIdSequence(segments=[segment]).SerializeToString()

    def name(fragment: table_pb2.DataFragment) -> None:
        fragment.inline_row_ids = sequence

    write_table(path, NUMBER, [constant_page(MANY)], MANY, name)

    def make_stable(manifest: table_pb2.Manifest) -> None:
        manifest.reader_feature_flags |= 2
        manifest.writer_feature_flags |= 2
        manifest.next_row_id = MANY

    rewrite_manifest(path, make_stable)
