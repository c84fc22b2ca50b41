"""Sequences beside the rows of a fragment: their stable ids, and the versions that they are of.

A row id sequence is a row of segments, each in the form that is smallest: a range, a range without
some values, a list of values. A version sequence is a row of runs. Both count all rows of the data
files, deleted ones included, and stand in the manifest, in a file beside it, or in a hidden column
of a data file.

Format page: row ids and lineage (`docs/src/format/table/row_id_lineage.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lancefs.datafile.buffers import Ints
from lancefs.errors import CorruptFile
from lancefs.proto import rowids_pb2

Ids: TypeAlias = npt.NDArray[np.uint64]

_EMPTY: Ids = np.empty(0, np.uint64)


class Segment:
    """Some ids, in the order of the rows.

    Args:
        start: The first value, where the ids are those of a range; None for any others.
        ids: All of them, where they are no range.
        count: How many.
        holes: Values of the range that are no ids, ascending, each once.
    """

    __slots__ = ("_holes", "_ids", "_sorted", "count", "highest", "lowest", "start")

    def __init__(self, start: int | None, ids: Ids, count: int, holes: Ids = _EMPTY) -> None:
        self.start = start
        self.count = count
        self._ids = ids
        self._holes = holes
        self._sorted: tuple[Ids, Ints | None] | None = None
        # Holes at the ends make no difference: these are bounds.
        self.lowest = int(ids.min()) if start is None else start
        self.highest = int(ids.max()) if start is None else start + count + len(holes) - 1

    def at(self, positions: Ints) -> Ids:
        """Return the ids at some positions."""
        if self.start is None:
            return self._ids[positions]
        start = np.uint64(self.start)
        if len(self._holes):
            holes = (self._holes - start).astype(np.int64)
            before = holes - np.arange(len(holes))  # ids before each hole
            positions = positions + np.searchsorted(before, positions, side="right")
        return positions.astype(np.uint64) + start

    def find(self, wanted: Ids) -> tuple[Ints, Ints]:
        """Find ids.

        Args:
            wanted: Ascending, each once.

        Returns:
            Which of those wanted are here, and their positions.
        """
        if self.start is not None:
            return self._find_in_range(wanted, self.start)
        ids, order = self._in_order()
        at = np.searchsorted(ids, wanted)
        hits = np.flatnonzero((at < len(ids)) & (ids[np.minimum(at, len(ids) - 1)] == wanted))
        found = at[hits]
        return hits, found if order is None else order[found]

    def _find_in_range(self, wanted: Ids, start: int) -> tuple[Ints, Ints]:
        first, last = np.searchsorted(wanted, np.array([self.lowest, self.highest], np.uint64))
        last += int(last < len(wanted) and int(wanted[last]) == self.highest)
        hits, within = np.arange(first, last), wanted[first:last]
        positions = (within - np.uint64(start)).astype(np.int64)
        if len(self._holes):
            before = np.searchsorted(self._holes, within)  # holes before each
            nearest = self._holes[np.minimum(before, len(self._holes) - 1)]
            is_id = nearest != within
            hits, positions = hits[is_id], (positions - before)[is_id]
        return hits, positions

    def _in_order(self) -> tuple[Ids, Ints | None]:
        if self._sorted is None:
            if (self._ids[1:] > self._ids[:-1]).all():
                self._sorted = self._ids, None
            else:
                order = np.argsort(self._ids, kind="stable")
                self._sorted = self._ids[order], order
                if (self._sorted[0][1:] == self._sorted[0][:-1]).any():
                    raise CorruptFile("a row id occurs twice in a fragment")
        return self._sorted


@dataclass(frozen=True)
class RowIdSequence:
    """The stable ids of the rows of a fragment, in their order.

    Attributes:
        segments: None of them is empty.
    """

    segments: tuple[Segment, ...]

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.segments else 0

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum([segment.count for segment in self.segments], dtype=np.int64)

    def at(self, rows: Ints) -> Ids:
        """Return the ids of rows.

        Args:
            rows: Ascending, each within the sequence.
        """
        if len(self.segments) == 1:
            return self.segments[0].at(rows)
        parts, start = [_EMPTY], 0
        first = int(np.searchsorted(self._ends, rows[0], side="right")) if len(rows) else 0
        while start < len(rows):
            segment, last = self.segments[first], int(self._ends[first])
            end = int(np.searchsorted(rows, last))
            parts.append(segment.at(rows[start:end] - (last - segment.count)))
            start, first = end, first + 1
        return np.concatenate(parts)

    def find(self, wanted: Ids) -> tuple[Ints, Ints]:
        """Find ids.

        Args:
            wanted: Ascending, each once.

        Returns:
            Which of those wanted are here, and their rows.

        Raises:
            CorruptFile: An id belongs to two rows.
        """
        hits, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for segment, end in zip(self.segments, self._ends.tolist(), strict=True):
            which, positions = segment.find(wanted)
            hits.append(which)
            rows.append(positions + (end - segment.count))
        return np.concatenate(hits), np.concatenate(rows)


@dataclass(frozen=True)
class VersionSequence:
    """A version for each row of a fragment.

    Attributes:
        ends: The row after the last one of each run, ascending.
        versions: Of each run.
    """

    ends: Ints
    versions: Ids

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def at(self, rows: Ints) -> Ids:
        """Return the versions of rows.

        Args:
            rows: Each within the sequence.
        """
        return self.versions[np.searchsorted(self.ends, rows, side="right")]


def decode_row_ids(data: bytes, rows: int) -> RowIdSequence:
    """Decode a row id sequence.

    Args:
        data: The message.
        rows: How many rows the fragment has.

    Raises:
        CorruptFile: It is no such sequence, or one of another length.
    """
    message = rowids_pb2.RowIdSequence()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptFile(f"the row ids do not decode: {error}") from error
    _check_length("row ids", sum(_count(segment) for segment in message.segments), rows)
    segments = [_segment(segment) for segment in message.segments if _count(segment)]
    return RowIdSequence(tuple(segments))


def decode_versions(data: bytes, rows: int) -> VersionSequence:
    """Decode a version sequence; of the spans of its runs only the lengths have a meaning.

    Args:
        data: The message.
        rows: How many rows the fragment has.

    Raises:
        CorruptFile: It is no such sequence, or one of another length.
    """
    message = rowids_pb2.RowDatasetVersionSequence()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise CorruptFile(f"the versions of rows do not decode: {error}") from error
    lengths = [_count(run.span) for run in message.runs]
    _check_length("versions", sum(lengths), rows)
    runs = [(run.version, length) for run, length in zip(message.runs, lengths, strict=True)]
    versions = np.array([version for version, length in runs if length], np.uint64)
    ends = np.cumsum([length for _, length in runs if length], dtype=np.int64)
    return VersionSequence(ends, versions)


def _check_length(what: str, count: int, rows: int) -> None:
    if count != rows:
        raise CorruptFile(f"{count} {what} are given, the fragment has {rows} rows")


def _count(message: rowids_pb2.U64Segment) -> int:
    """How many values a segment has, without decoding them."""
    match message.WhichOneof("segment"):
        case "range":
            return _span(message.range)
        case "range_with_holes":
            held = message.range_with_holes
            return _span(held) - _encoded_count(held.holes)
        case "range_with_bitmap":
            return int(np.count_nonzero(_bits(message.range_with_bitmap)))
        case "sorted_array":
            return _encoded_count(message.sorted_array)
        case "array":
            return _encoded_count(message.array)
    raise CorruptFile("a segment of an unknown form, or of none")


def _span(
    message: rowids_pb2.U64Segment.Range
    | rowids_pb2.U64Segment.RangeWithHoles
    | rowids_pb2.U64Segment.RangeWithBitmap,
) -> int:
    if message.end < message.start:
        raise CorruptFile(f"a range from {message.start} to {message.end}")
    return message.end - message.start


def _bits(message: rowids_pb2.U64Segment.RangeWithBitmap) -> npt.NDArray[np.uint8]:
    """One byte a value of the range, 1 where it is there; the lowest bit comes first."""
    span, data = _span(message), np.frombuffer(message.bitmap, np.uint8)
    if len(data) != (span + 7) // 8:
        raise CorruptFile(f"a bitmap of {len(data)} bytes for a range of {span} values")
    return np.unpackbits(data, count=span, bitorder="little")


def _segment(message: rowids_pb2.U64Segment) -> Segment:
    """Decode a segment that is not empty, and whose count was checked."""
    kind = message.WhichOneof("segment")
    if kind == "range":
        return Segment(message.range.start, _EMPTY, _span(message.range))
    if kind == "range_with_holes":
        held = message.range_with_holes
        return _without(held.start, _span(held), _encoded(held.holes))
    if kind == "range_with_bitmap":
        set_bits = np.flatnonzero(_bits(message.range_with_bitmap)).astype(np.uint64)
        return _no_range(set_bits + np.uint64(message.range_with_bitmap.start))
    is_sorted = kind == "sorted_array"
    ids = _encoded(message.sorted_array if is_sorted else message.array)
    if is_sorted and (ids[1:] <= ids[:-1]).any():
        raise CorruptFile("row ids that are said to be sorted are not")
    return _no_range(ids)


def _no_range(ids: Ids) -> Segment:
    return Segment(None, ids, len(ids))


def _without(start: int, span: int, holes: Ids) -> Segment:
    """The values of a range that are no holes."""
    if (holes[1:] < holes[:-1]).any():
        holes = np.sort(holes)
    if len(holes) and (int(holes[0]) < start or int(holes[-1]) >= start + span):
        raise CorruptFile(f"holes outside of the range from {start} to {start + span}")
    if (holes[1:] == holes[:-1]).any():
        raise CorruptFile("a hole of a range is named twice")
    return Segment(start, _EMPTY, span - len(holes), holes)


def _encoded_count(message: rowids_pb2.EncodedU64Array) -> int:
    match message.WhichOneof("array"):
        case "u16_array":
            data, width = message.u16_array.offsets, 2
        case "u32_array":
            data, width = message.u32_array.offsets, 4
        case "u64_array":
            data, width = message.u64_array.values, 8
        case _:
            raise CorruptFile("an array of an unknown form, or of none")
    if len(data) % width:
        raise CorruptFile(f"{len(data)} bytes for values of {width} bytes each")
    return len(data) // width


def _encoded(message: rowids_pb2.EncodedU64Array) -> Ids:
    match message.WhichOneof("array"):
        case "u16_array":
            offsets, base = np.frombuffer(message.u16_array.offsets, "<u2"), message.u16_array.base
        case "u32_array":
            offsets, base = np.frombuffer(message.u32_array.offsets, "<u4"), message.u32_array.base
        case _:
            return np.frombuffer(message.u64_array.values, "<u8").astype(np.uint64, copy=False)
    if len(offsets) and base + int(offsets.max()) >= 2**64:
        raise CorruptFile("an id beyond 64 bits")
    return offsets.astype(np.uint64) + np.uint64(base)
