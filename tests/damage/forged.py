"""Small tables whose numbers wrap, or contradict each other, where sums and products are taken."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import lance
import numpy as np
import pyarrow as pa
from files_v2 import ColumnOf, PageOf, flat, no_nulls, write_file
from support import rewrite_manifest

from damage.forged_pages import (
    ITEM,
    NUMBER,
    TEXT,
    block,
    chunk,
    dictionary_page,
    flat_of,
    mini_block,
    one_run,
    runs,
    sparse_page,
    table_of,
    values_page,
    write_table,
)
from lancefs.proto import encodings_v2_0_pb2 as pb20
from lancefs.proto import encodings_v2_1_pb2 as pb
from lancefs.proto import table_pb2
from lancefs.proto.encodings_v2_3_pb2 import (
    SparseFixedSizeListLayer,
    SparseListLayer,
    SparseStructuralLayer,
    SparseValiditySet,
)

MAX_DIMENSION = 2**31 - 1
VECTOR = pa.array([[1.0] * 4], pa.list_(pa.float32(), 4))


class Forged(NamedTuple):
    """A table, and what must come of reading it.

    Attributes:
        build: Writes it.
        refusal: A pattern that the error matches; None where the table gives rows.
        rows: The rows that it gives.
    """

    build: Callable[[Path], None]
    refusal: str | None
    rows: Sequence[object] = ()


FORGED: dict[str, Forged] = {}


def refused(pattern: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Add a table that is refused with a message of a pattern."""

    def add(build: Callable[[Path], None]) -> Callable[[Path], None]:
        FORGED[build.__name__] = Forged(build, pattern)
        return build

    return add


def gives(rows: Sequence[object]) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Add a table that looks odd, and gives rows."""

    def add(build: Callable[[Path], None]) -> Callable[[Path], None]:
        FORGED[build.__name__] = Forged(build, None, rows)
        return build

    return add


# --- dictionaries ---


def packed_of(bits: int) -> pb.CompressiveEncoding:
    packing = pb.InlineBitpacking(uncompressed_bits_per_value=bits)
    return pb.CompressiveEncoding(inline_bitpacking=packing)


def short_strings() -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=flat_of(32)))


@refused(f"{2**62}")
def strings_of_dictionaries_whose_sizes_wrap(path: Path) -> None:
    """As many small dictionaries as are joined, the sizes of which add up to 2⁶⁴."""
    data = struct.pack("<III", 32, 12, 0) + bytes(64)
    pages = [dictionary_page(2**62, short_strings(), data)] * 4
    write_table(path, TEXT, pages, 32)


@refused(f"{2**62}")
def runs_of_dictionaries_whose_sizes_wrap(path: Path) -> None:
    data = block(one_run(7, 8, 2**62))
    write_table(path, NUMBER, [dictionary_page(2**62, runs(64), data)] * 4, 32)


@refused(f"flat values of {2**34} bits")
def items_of_gigabytes_that_do_not_exist(path: Path) -> None:
    write_table(path, NUMBER, [dictionary_page(0, flat_of(2**34), b"")], 8)


@gives([b""] * 8)
def items_of_no_bytes(path: Path) -> None:
    page = dictionary_page(1, flat_of(0), b"")
    write_table(path, pa.array([b""], pa.binary(0)), [page], 8)


@refused("index 0 into a dictionary of 0 items")
def no_items_of_no_bytes(path: Path) -> None:
    page = dictionary_page(0, flat_of(0), b"")
    write_table(path, pa.array([b""], pa.binary(0)), [page], 8)


def booleans_page(items: int, indices: Sequence[int]) -> PageOf:
    """A page of booleans in a dictionary, which takes the same byte for up to 8 items."""
    codes = bytearray(1024)
    for place, index in enumerate(indices):  # as FastLanes orders bytes that are not packed
        codes[place] = index
    layout = pb.MiniBlockLayout(
        value_compression=packed_of(8),
        dictionary=flat_of(1),
        num_dictionary_items=items,
        layers=[ITEM],
        num_buffers=1,
        num_items=len(indices),
    )
    chunks = [chunk(0, [(4, b"\x08" + bytes(codes))])]
    return PageOf(len(indices), mini_block(layout), [table_of(chunks), chunks[0], b"\x05"])


@gives([True, False, True] + [True] * 597 + [True, False, True, False, False] + [True] * 595)
def dictionaries_of_other_lengths_and_the_same_bytes(path: Path) -> None:
    pages = [booleans_page(3, [0, 1, 2] + [0] * 597), booleans_page(5, [0, 1, 2, 4, 3] + [0] * 595)]
    write_table(path, NUMBER, pages, 1200)

    def change(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = "dict:bool:int32:false"

    rewrite_manifest(path, change)


# --- runs ---


@refused("runs whose lengths have 128 bits")
def runs_with_lengths_of_16_bytes(path: Path) -> None:
    page = values_page(8, runs(64, 128), bytes(8), (8).to_bytes(16, "little"))
    write_table(path, NUMBER, [page], 8)


# --- fixed-size lists ---


def nested(dimensions: Sequence[int], items: pb.CompressiveEncoding) -> pb.CompressiveEncoding:
    """Fixed-size lists of fixed-size lists, the innermost first."""
    for dimension in dimensions:
        lists = pb.FixedSizeList(items_per_value=dimension, values=items)
        items = pb.CompressiveEncoding(fixed_size_list=lists)
    return items


def write_vectors(path: Path, dimensions: Sequence[int], page: PageOf) -> None:
    """Write a table with a column of nested fixed-size lists of floats."""
    write_table(path, VECTOR, [page], page.rows)

    def widen(manifest: table_pb2.Manifest) -> None:
        kind = "float"
        for dimension in dimensions:
            kind = f"fixed_size_list:{kind}:{dimension}"
        manifest.fields[0].logical_type = kind

    rewrite_manifest(path, widen)


WRAPPING = [2**21, 2**21, 2**22]  # the product is 2⁶⁴


@refused(f"{2**64} values where a file has fewer")
def fixed_size_lists_whose_items_wrap(path: Path) -> None:
    write_vectors(path, WRAPPING, values_page(1, nested(WRAPPING, flat_of(32)), b""))


@refused("values where a file has fewer")
def rows_of_fixed_size_lists_whose_items_wrap(path: Path) -> None:
    dimensions = [2**21] * 3
    write_vectors(path, dimensions, values_page(2, nested(dimensions, flat_of(32)), b""))


def full_zip_vectors(dimensions: Sequence[int]) -> PageOf:
    layout = pb.FullZipLayout(
        bits_per_value=32,
        num_items=4,
        num_visible_items=4,
        value_compression=nested(dimensions, flat_of(32)),
        layers=[ITEM],
    )
    return PageOf(4, pb.PageLayout(full_zip_layout=layout), [bytes(16)])


@refused("values where a file has fewer")
def full_zip_lists_with_more_items_than_an_int64(path: Path) -> None:
    dimensions = [MAX_DIMENSION] * 3
    write_vectors(path, dimensions, full_zip_vectors(dimensions))


@refused("values where a file has fewer")
def full_zip_lists_whose_items_wrap(path: Path) -> None:
    write_vectors(path, WRAPPING, full_zip_vectors(WRAPPING))


@refused(r"rows of \d+ parts each|flat values of 32 bits")
def fixed_size_lists_of_2_0_whose_items_wrap(path: Path) -> None:
    encoding = no_nulls(flat(32))
    for dimension in WRAPPING:
        lists = pb20.FixedSizeList(dimension=dimension, items=encoding)
        encoding = pb20.ArrayEncoding(fixed_size_list=lists)
    write_vectors(path, WRAPPING, PageOf(8, encoding, [b""]))


@refused(r"rows of \d+ parts each")
def fixed_size_lists_of_structs_whose_items_wrap(path: Path) -> None:
    kind: pa.DataType = pa.int32()
    for name in "wvu":
        kind = pa.list_(pa.struct({name: kind}), 2)
    value: object = 1
    for name in "wvu":
        value = [{name: value}] * 2
    column = pa.array([value] * 4, kind)
    lance.write_dataset(pa.table({"a": column}), str(path), data_storage_version="2.2")

    def widen(manifest: table_pb2.Manifest) -> None:
        for field in manifest.fields:
            if field.logical_type.startswith("fixed_size_list"):
                field.logical_type = field.logical_type.replace(":2", f":{MAX_DIMENSION}")

    rewrite_manifest(path, widen)


# --- packed structs ---


def write_packed_structs(path: Path, encoding: pb.PackedStruct, lists: int) -> None:
    """Write a table whose rows are empty lists of packed structs."""
    layout = pb.MiniBlockLayout(
        rep_compression=flat_of(16),
        def_compression=flat_of(16),
        value_compression=pb.CompressiveEncoding(packed_struct=encoding),
        layers=[ITEM, pb.REPDEF_EMPTYABLE_LIST],
        num_buffers=1,
        repetition_index_depth=1,
    )
    levels = np.ones(lists, "<u2").tobytes()
    chunks = [chunk(lists, [(2, levels), (2, levels), (4, b"")])]
    buffers = [table_of(chunks), chunks[0], struct.pack("<QQ", lists, 0)]
    members = pa.struct({"x": pa.int32(), "y": pa.float64()})
    kind = pa.list_(pa.field("item", members, metadata={"packed": "true"}))
    table = pa.table({"a": pa.array([[{"x": 1, "y": 2.0}]], kind)})
    lance.write_dataset(table, str(path), data_storage_version="2.1")
    (file,) = (path / "data").iterdir()
    write_file(file, [ColumnOf([PageOf(lists, mini_block(layout), buffers)])], lists)

    def forge(manifest: table_pb2.Manifest) -> None:
        (fragment,) = manifest.fragments
        fragment.physical_rows = lists
        fragment.files[0].file_size_bytes = file.stat().st_size

    rewrite_manifest(path, forge)


@gives([[]] * 4)
def no_packed_structs_in_lists(path: Path) -> None:
    write_packed_structs(path, pb.PackedStruct(bits_per_value=[32, 64], values=flat_of(96)), 4)


@refused("packed structs without members")
def packed_structs_without_members(path: Path) -> None:
    write_packed_structs(path, pb.PackedStruct(values=flat_of(0)), 4)


def write_packed_structs_of_2_0(path: Path, dimensions: Sequence[int], wide: int) -> None:
    """Write a table of packed structs: some members that are wide, and one of 8 bytes."""
    member = no_nulls(flat(32))
    for dimension in dimensions:
        lists = pb20.FixedSizeList(dimension=dimension, items=member)
        member = no_nulls(pb20.ArrayEncoding(fixed_size_list=lists))
    packed = pb20.PackedStruct(
        inner=[*[member] * wide, no_nulls(flat(64))], buffer=pb20.Buffer(buffer_index=0)
    )
    page = PageOf(2, pb20.ArrayEncoding(packed_struct=packed), [bytes(16)])
    kind = pa.struct({"x": pa.int32(), "y": pa.int64()})
    schema = pa.schema([pa.field("a", kind, metadata={"packed": "true"})])
    table = pa.table([pa.array([{"x": 1, "y": 2}] * 2, kind)], schema=schema)
    lance.write_dataset(table, str(path), data_storage_version="2.0")
    (file,) = (path / "data").iterdir()
    write_file(file, [ColumnOf([page])], 2)

    def grow(manifest: table_pb2.Manifest) -> None:
        manifest.fragments[0].files[0].file_size_bytes = file.stat().st_size

    rewrite_manifest(path, grow)


@refused("the members of a packed struct are none, or too wide")
def packed_structs_of_2_0_whose_widths_wrap(path: Path) -> None:
    """The widths of four members add up to 2⁶⁴."""
    write_packed_structs_of_2_0(path, [2**30, 2**30], 4)


@refused("the members of a packed struct are none, or too wide")
def packed_structs_of_2_0_wider_than_an_int64(path: Path) -> None:
    write_packed_structs_of_2_0(path, [2**30] * 3, 1)


# --- sparse pages of 2.3 ---


def no_nulls_here() -> SparseValiditySet:
    return SparseValiditySet(
        meaning=SparseValiditySet.SPARSE_VALIDITY_NULL_POSITIONS, positions=flat_of(64)
    )


def lists_page(rows: int, items: int, counts: pb.CompressiveEncoding, *data: bytes) -> PageOf:
    """A sparse page of lists, none of which is empty."""
    lists = SparseListLayer(
        num_child_slots=items,
        non_empty_positions=pb.CompressiveEncoding(range=pb.Range(start=0, step=1)),
        num_non_empty_positions=rows,
        counts=counts,
        validity=no_nulls_here(),
    )
    layers = [SparseStructuralLayer(list=lists), SparseStructuralLayer(validity=no_nulls_here())]
    return sparse_page(rows, layers, *data, b"", b"")


def wrapping_counts() -> list[int]:
    """Counts of items, the first eight of which add up to 2⁶⁴, and all to the largest."""
    counts = [2**61 + 5] * 7
    counts.append(2**64 - sum(counts))
    return [*counts, max(counts)]


@refused("a layer of .* slots")
def sparse_lists_whose_offsets_wrap(path: Path) -> None:
    counts = wrapping_counts()
    page = lists_page(len(counts), max(counts), flat_of(64), np.array(counts, "<u8").tobytes())
    write_table(path, pa.array([[1]]), [page], len(counts))


@refused("a layer of .* slots")
def sparse_large_lists_whose_offsets_wrap(path: Path) -> None:
    page = lists_page(9, 2**61, flat_of(64), np.full(9, 2**61, "<u8").tobytes())
    write_table(path, pa.array([[1]], pa.large_list(pa.int64())), [page], 9)


@refused(f"lists of .* items in all, of {2**47}")
def many_sparse_lists_whose_offsets_wrap(path: Path) -> None:
    """Each count, and what is left of their sum, is as small as it may be."""
    rows, items = 2**17 + 1, 2**47
    counts = pb.CompressiveEncoding(constant=pb.Constant(value=items.to_bytes(8, "little")))
    kind = pa.large_list(pa.int64())
    write_table(path, pa.array([[1]], kind), [lists_page(rows, items, counts)], rows)


@refused("the innermost layer is a list")
def sparse_lists_without_a_layer_of_values(path: Path) -> None:
    """There are more items than slots, which are those of the lists."""
    page = lists_page(8, 24, pb.CompressiveEncoding(constant=pb.Constant(value=b"\3")))
    structure = page.encoding.structure.sparse
    del structure.layers[1]
    data = np.arange(8, dtype="<i8").tobytes()
    page.encoding.values.chunked.compression.CopyFrom(flat_of(64))
    page.encoding.values.chunked.num_buffers = 1
    chunks = [chunk(0, [(4, data)])]
    buffers = [table_of(chunks), chunks[0], b"", b""]
    write_table(path, pa.array([[1]]), [replace(page, buffers=buffers)] * 2, 16)


@refused("a fixed-size list of 0 items")
def sparse_lists_of_no_items(path: Path) -> None:
    """Slots for all rows, and a validity of none of them."""
    lists = SparseFixedSizeListLayer(dimension=0, validity=no_nulls_here())
    valid = SparseValiditySet(
        meaning=SparseValiditySet.SPARSE_VALIDITY_VALID_POSITIONS, positions=flat_of(64)
    )
    layers = [
        SparseStructuralLayer(fixed_size_list=lists),
        SparseStructuralLayer(validity=valid),
    ]
    write_table(path, NUMBER, [sparse_page(4096, layers, b"", b"")], 4096)


@refused("row 7 of a page whose outermost layer has 4 slots|in lists that no field describes")
def sparse_lists_with_fewer_slots_than_rows(path: Path) -> None:
    """Rows are counted in items of fixed-size lists, and lists around these are not."""
    page = lists_page(8, 4, pb.CompressiveEncoding(constant=pb.Constant(value=b"\1")))
    structure = page.encoding.structure.sparse
    structure.layers[0].list.num_non_empty_positions = 4
    inner = SparseFixedSizeListLayer(dimension=2, validity=no_nulls_here())
    structure.layers.insert(1, SparseStructuralLayer(fixed_size_list=inner))
    write_table(path, pa.array([[1]]), [replace(page, buffers=[b"", b"", b""])], 8)
