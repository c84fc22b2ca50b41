"""Deletions, row ids and lists of indices that expand to gigabytes, or would take for ever."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyroaring
from support import rewrite_index_section, rewrite_manifest

from damage.forged_pages import (
    MANY,
    NUMBER,
    Builder,
    adding_to,
    constant_page,
    write_table,
    zstd_zeros,
)
from lancefs.proto import rowids_pb2, table_pb2

BOMBS: dict[str, Builder] = {}
bomb = adding_to(BOMBS)


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


# --- lists of indices ---


def with_fragments(manifest: table_pb2.Manifest, count: int) -> None:
    """Add fragments without files, which a few bytes tell of."""
    for number in range(1, count):
        manifest.fragments.add(id=number, physical_rows=10)
    manifest.max_fragment_id = count


def write_indices(path: Path, fragments: int, indices: int, compactions: int = 0) -> None:
    """Write a table whose indices cover all of its fragments.

    Args:
        path: The table.
        fragments: Number of fragments.
        indices: Number of indices.
        compactions: Number of compactions that the indices do not know, each of one fragment.
    """
    lance.write_dataset(pa.table({"a": np.arange(10)}), str(path)).create_scalar_index("a", "BTREE")
    details = table_pb2.FragmentReuseIndexDetails()
    known = details.inline.legacy_versions.add(dataset_version=1000)
    for number in range(compactions):
        group = known.groups.add()
        group.old_fragments.add(id=number % fragments, physical_rows=1)
        group.new_fragments.add(id=(number + 1) % fragments, physical_rows=1)

    all_fragments = pyroaring.BitMap(range(fragments))

    def cover(section: table_pb2.IndexSection) -> None:
        for number in range(indices):
            bitmap = all_fragments.copy()
            bitmap.discard(number % fragments)
            bitmap.run_optimize()
            index = section.indices[0] if not number else section.indices.add()
            index.CopyFrom(section.indices[0])
            index.name, index.fragment_bitmap = f"i{number}", bitmap.serialize()
        if compactions:
            reuse = section.indices.add(name="reuse", index_version=0)
            reuse.uuid.uuid = bytes(16)
            reuse.index_details.Pack(details)

    rewrite_index_section(path, cover)
    rewrite_manifest(path, lambda manifest: with_fragments(manifest, fragments))


@bomb
def indices_that_all_cover_all_fragments(path: Path) -> None:
    write_indices(path, fragments=20_000, indices=800)


@bomb
def indices_that_know_none_of_many_compactions(path: Path) -> None:
    write_indices(path, fragments=1000, indices=200, compactions=500)


@bomb
def a_type_of_a_long_name(path: Path) -> None:
    """A text that is quoted, and that looks as if it had secrets in it."""
    write_table(path, NUMBER, [constant_page(10)], 10)

    def name(manifest: table_pb2.Manifest) -> None:
        manifest.fields[0].logical_type = "a://" * 20_000

    rewrite_manifest(path, name)
