"""Deletion files: both kinds, and what damage gets."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyroaring
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import local_store

from lancefs.errors import CorruptFile, MissingFile
from lancefs.table.base_paths import TableFiles
from lancefs.table.deletions import MAX_ROWS, read_deletions
from lancefs.table.fragments import DeletionFile, DeletionKind, Fragment

BOTH = pytest.mark.parametrize("kind", DeletionKind)


def arrow(
    offsets: object,
    type: pa.DataType | None = None,
    compression: str | None = "zstd",
    batches: int = 1,
    columns: int = 1,
) -> bytes:
    array = pa.array(offsets, type or pa.uint32())
    batch = pa.record_batch([array] * columns, names=[f"row_id{n}" for n in range(columns)])
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return sink.getvalue()


def bitmap(offsets: object) -> bytes:
    return pyroaring.BitMap(offsets).serialize()


def encode(kind: DeletionKind, offsets: object) -> bytes:
    return arrow(offsets) if kind is DeletionKind.ARROW else bitmap(offsets)


class Table:
    """A table of one fragment with 1000 rows, whose deletion file holds what a test wants."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "_deletions"
        self.directory.mkdir()
        self.files = TableFiles(local_store(directory))

    def read(
        self,
        kind: DeletionKind,
        data: bytes,
        count: int | None = None,
        rows: int | None = 1000,
        known: int | None = None,
    ) -> list[int]:
        deletion = DeletionFile(kind, 4, 77, count, None)
        (self.directory / f"5-4-77.{kind}").write_bytes(data)
        offsets = read_deletions(self.files, Fragment(5, (), deletion, rows), known)
        assert offsets.dtype == np.int64
        return offsets.tolist()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


@BOTH
@pytest.mark.parametrize("offsets", [[0], [3, 5, 999], range(1000), range(0, 1000, 2), []])
def test_offsets_are_read(table: Table, kind: DeletionKind, offsets: list[int]) -> None:
    assert table.read(kind, encode(kind, offsets)) == list(offsets)
    assert table.read(kind, encode(kind, offsets), len(offsets) or None) == list(offsets)


def test_arrow_offsets_come_sorted_in_any_integer_type_and_compression(table: Table) -> None:
    for type in (pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.uint16()):
        for compression in (None, "zstd", "lz4"):
            data = arrow([9, 1, 500, 9], type, compression)
            assert table.read(DeletionKind.ARROW, data, 3) == [1, 9, 500]


def test_a_fragment_without_a_deletion_file_has_nothing_deleted(table: Table) -> None:
    assert read_deletions(table.files, Fragment(5, (), None, 1000)).tolist() == []


@BOTH
def test_a_deletion_file_that_is_gone_is_named(table: Table, kind: DeletionKind) -> None:
    deletion = DeletionFile(kind, 4, 78, None, None)
    with pytest.raises(MissingFile, match=rf"5-4-78\.{kind}"):
        read_deletions(table.files, Fragment(5, (), deletion, 1000))


@BOTH
def test_offsets_past_the_end_are_damage(table: Table, kind: DeletionKind) -> None:
    for offsets in ([1000], [3, 70_000], [2**32 - 1]):
        with pytest.raises(CorruptFile, match=rf"5-4-77\.{kind}: .*1000"):
            table.read(kind, encode(kind, offsets))


@BOTH
def test_another_number_of_rows_than_the_manifest_says_is_damage(
    table: Table, kind: DeletionKind
) -> None:
    with pytest.raises(CorruptFile, match="3 rows are deleted, the manifest says 4"):
        table.read(kind, encode(kind, [1, 2, 3]), 4)


@BOTH
def test_fragments_of_unknown_size_are_bounded_by_what_the_caller_knows(
    table: Table, kind: DeletionKind
) -> None:
    assert table.read(kind, encode(kind, [5]), rows=None) == [5]
    assert table.read(kind, encode(kind, [5]), rows=None, known=6) == [5]
    with pytest.raises(CorruptFile):
        table.read(kind, encode(kind, [5]), rows=None, known=5)
    with pytest.raises(CorruptFile):
        table.read(kind, encode(kind, [MAX_ROWS]), rows=None)


@BOTH
def test_a_file_cut_short_at_any_length_is_damage(table: Table, kind: DeletionKind) -> None:
    data = encode(kind, range(0, 1000, 9))
    for length in range(len(data)):
        with pytest.raises(CorruptFile, match=rf"5-4-77\.{kind}"):
            table.read(kind, data[:length])


@BOTH
def test_one_kind_is_not_the_other(table: Table, kind: DeletionKind) -> None:
    (other,) = set(DeletionKind) - {kind}
    with pytest.raises(CorruptFile):
        table.read(kind, encode(other, [1, 2]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (arrow([1, None]), "without nulls"),
        (arrow([-1], pa.int64()), "row -1"),
        (arrow([2**64 - 1], pa.uint64()), "row -1"),
        (arrow([1.0], pa.float64()), "one column of offsets"),
        (arrow(["1"], pa.string()), "one column of offsets"),
        (arrow([1], columns=2), "one column of offsets"),
        (arrow([1], batches=2), "one batch"),
        (arrow([1], batches=0), "one batch"),
        (arrow(range(50_000), compression=None), "too many"),
    ],
)
def test_an_arrow_file_of_something_else_is_damage(table: Table, data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        table.read(DeletionKind.ARROW, data)


@pytest.mark.parametrize("shift", [1, 3, 5, 8, 16])
def test_a_size_that_is_read_from_the_wrong_place_fills_no_memory(table: Table, shift: int) -> None:
    values = np.random.default_rng(1).choice(1000, 200, replace=False).astype(np.uint32)
    data = arrow(values)
    # Of the two buffers, the first, the validity, has no bytes.
    told = [data.find(struct.pack("<4q", 0, 0, 0, size)) for size in range(8, len(data))]
    (place,) = (start + 16 for start in told if start >= 0)
    damaged = data[:place] + struct.pack("<q", shift) + data[place + 8 :]
    with pytest.raises(CorruptFile, match=r"are announced|are there|does not decode"):
        table.read(DeletionKind.ARROW, damaged)


def test_a_small_arrow_file_that_would_fill_memory_is_refused(table: Table) -> None:
    data = arrow(np.zeros(20_000_000, dtype=np.uint32))
    assert len(data) < 20_000
    with pytest.raises(CorruptFile, match="80000000 bytes are announced"):
        table.read(DeletionKind.ARROW, data)


@BOTH
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_give_offsets_of_the_fragment_or_our_error(
    table: Table, kind: DeletionKind, data: st.DataObject
) -> None:
    intact = bytearray(encode(kind, range(0, 1000, 3)))
    for _ in range(data.draw(st.integers(1, 4))):
        intact[data.draw(st.integers(0, len(intact) - 1))] = data.draw(st.integers(0, 255))
    try:
        offsets = table.read(kind, bytes(intact), 334)
    except CorruptFile:
        return
    assert offsets == sorted(set(offsets))
    assert len(offsets) == 334
    assert 0 <= offsets[0] <= offsets[-1] < 1000
