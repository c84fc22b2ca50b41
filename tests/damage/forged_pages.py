"""Pages that tests make byte by byte, and tables that have them: for bombs and forgeries."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
from files_v2 import ColumnOf, PageOf, write_file
from support import rewrite_manifest

from lancefs.proto import encodings_v2_0_pb2 as pb20
from lancefs.proto import encodings_v2_1_pb2 as pb
from lancefs.proto import table_pb2
from lancefs.proto.encodings_v2_3_pb2 import PlanarLayout, SparseStructuralLayer

MANY = 2**32 - 1  # the most rows that a fragment may have
HUGE = 6 << 30  # bytes
ITEM = pb.REPDEF_ALL_VALID_ITEM
NULLABLE = pb.REPDEF_NULLABLE_ITEM
LIST = pb.REPDEF_ALL_VALID_LIST

Builder = Callable[[Path], None]
NUMBER, TEXT = pa.array([1]), pa.array(["a"])


def adding_to(bombs: dict[str, Builder]) -> Callable[[Builder], Builder]:
    """Return a decorator that adds bombs to those that the tests read."""

    def add(build: Builder) -> Builder:
        bombs[build.__name__] = build
        return build

    return add


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


def sparse_page(rows: int, layers: Sequence[SparseStructuralLayer], *buffers: bytes) -> PageOf:
    layout = PlanarLayout()
    layout.structure.sparse.layers.extend(layers)
    layout.values.constant.scalar = bytes(8)
    return PageOf(rows, layout, buffers)
