"""Row id sequences and version sequences: the stable ids and the versions of a fragment's rows.

A row id sequence is a list of segments, each in its smallest form: a range, a range with holes, or
a list of values. A version sequence is run-length encoded. Both cover all rows of the data files,
deleted rows included. The manifest, a file beside it, or a hidden column of a data file holds them.

Format page: row ids and lineage (`docs/src/format/table/row_id_lineage.md`); messages:
`protos/rowids.proto`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lancefs.datafile.buffers import Ints, UInts
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import CorruptFile
from lancefs.forks import cached_property
from lancefs.proto import rowids_pb2
from lancefs.table.messages import parse_message

_EMPTY: UInts = np.empty(0, np.uint64)


class Segment:
    """Ids of consecutive rows, in row order: a range with or without holes, or a list.

    Args:
        start: First value of the range; None for a list.
        ids: The ids of a list; empty for a range.
        count: Number of ids.
        holes: Values of the range that are not ids, ascending, each once.
    """

    __slots__ = ("_holes", "_ids", "_sorted", "count", "highest", "lowest", "start")

    def __init__(self, start: int | None, ids: UInts, count: int, holes: UInts = _EMPTY) -> None:
        self.start = start
        self.count = count
        self._ids = ids
        self._holes = holes
        self._sorted: tuple[UInts, Ints | None] | None = None
        # Bounds of the ids, not exact where holes are at the ends of the range.
        self.lowest = int(ids.min()) if start is None else start
        self.highest = int(ids.max()) if start is None else start + count + len(holes) - 1

    def at(self, positions: Ints) -> UInts:
        """Return the ids at positions in the segment."""
        if self.start is None:
            return self._ids[positions]
        start = np.uint64(self.start)
        if len(self._holes):
            holes = (self._holes - start).astype(np.int64)
            ids_before = holes - np.arange(len(holes))
            positions = positions + np.searchsorted(ids_before, positions, side="right")
        return positions.astype(np.uint64) + start

    def find(self, ids: UInts) -> tuple[Ints, Ints]:
        """Look ids up in the segment.

        Args:
            ids: Ascending, each once.

        Returns:
            Positions in `ids` of the ids that the segment has, and for each its position in the
            segment.
        """
        if self.start is not None:
            return self._find_in_range(ids, self.start)
        own, order = self._sorted_ids()
        at = np.searchsorted(own, ids)
        hits = np.flatnonzero((at < len(own)) & (own[np.minimum(at, len(own) - 1)] == ids))
        positions = at[hits]
        return hits, positions if order is None else order[positions]

    def rows_between(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the ranges of positions whose ids are in an interval.

        Args:
            low: The lowest id of the interval.
            high: The highest id of the interval.
        """
        if self.start is None:
            within = np.flatnonzero((self._ids >= np.uint64(low)) & (self._ids <= np.uint64(high)))
            return list(as_ranges(within))
        first, stop = (self._position(bound) for bound in (low, high + 1))
        return [(first, stop)] if first < stop else []

    def _position(self, bound: int) -> int:
        """Return the number of ids of a range that are below a bound."""
        assert self.start is not None
        before = min(max(bound - self.start, 0), self.count + len(self._holes))
        holes = np.searchsorted(self._holes, np.uint64(self.start + before)) if before else 0
        return before - int(holes)

    def _find_in_range(self, ids: UInts, start: int) -> tuple[Ints, Ints]:
        first, last = np.searchsorted(ids, np.array([self.lowest, self.highest], np.uint64))
        last += int(last < len(ids) and int(ids[last]) == self.highest)
        hits, within = np.arange(first, last), ids[first:last]
        positions = (within - np.uint64(start)).astype(np.int64)
        if len(self._holes):
            holes_before = np.searchsorted(self._holes, within)
            nearest = self._holes[np.minimum(holes_before, len(self._holes) - 1)]
            is_id = nearest != within
            hits, positions = hits[is_id], (positions - holes_before)[is_id]
        return hits, positions

    def _sorted_ids(self) -> tuple[UInts, Ints | None]:
        """Return the ids of a list ascending, and the order that sorts them; None if sorted."""
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
    """Stable ids of the rows of a fragment, in row order.

    Attributes:
        segments: The segments, none of them empty.
    """

    segments: tuple[Segment, ...]

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.segments else 0

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum([segment.count for segment in self.segments], dtype=np.int64)

    def at(self, rows: Ints) -> UInts:
        """Return the ids of rows.

        Args:
            rows: Offsets of rows in the fragment, ascending, each within the sequence.
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


@dataclass(frozen=True)
class VersionSequence:
    """Versions of the rows of a fragment, run-length encoded.

    Attributes:
        ends: Offset of the row after each run, ascending.
        versions: Version of each run.
    """

    ends: Ints
    versions: UInts

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def at(self, rows: Ints) -> UInts:
        """Return the versions of rows.

        Args:
            rows: Offsets of rows in the fragment, each within the sequence.
        """
        return self.versions[np.searchsorted(self.ends, rows, side="right")]


def decode_row_ids(data: bytes, rows: int) -> RowIdSequence:
    """Decode a row id sequence.

    Args:
        data: The serialized `RowIdSequence`.
        rows: Physical rows of the fragment.

    Raises:
        CorruptFile: The bytes are not a row id sequence of this length.
    """
    message = parse_message(rowids_pb2.RowIdSequence(), data, "row id sequence")
    _check_length("row ids", sum(_segment_length(segment) for segment in message.segments), rows)
    segments = [
        _decode_segment(segment) for segment in message.segments if _segment_length(segment)
    ]
    return RowIdSequence(tuple(segments))


def decode_versions(data: bytes, rows: int) -> VersionSequence:
    """Decode a version sequence.

    A run gives its rows as a segment, of which only the length has a meaning.

    Args:
        data: The serialized `RowDatasetVersionSequence`.
        rows: Physical rows of the fragment.

    Raises:
        CorruptFile: The bytes are not a version sequence of this length.
    """
    message = parse_message(rowids_pb2.RowDatasetVersionSequence(), data, "version sequence")
    lengths = [_segment_length(run.span) for run in message.runs]
    _check_length("versions", sum(lengths), rows)
    runs = [(run.version, length) for run, length in zip(message.runs, lengths, strict=True)]
    versions = np.array([version for version, length in runs if length], np.uint64)
    ends = np.cumsum([length for _, length in runs if length], dtype=np.int64)
    return VersionSequence(ends, versions)


def _check_length(noun: str, count: int, rows: int) -> None:
    if count != rows:
        raise CorruptFile(f"{count} {noun} are given, the fragment has {rows} rows")


def _segment_length(message: rowids_pb2.U64Segment) -> int:
    """Return the number of values of a segment without decoding them."""
    match message.WhichOneof("segment"):
        case "range":
            return _range_length(message.range)
        case "range_with_holes":
            holed = message.range_with_holes
            span, holes = _range_length(holed), _array_length(holed.holes)
            if holes > span:
                raise CorruptFile(f"a segment has {holes} holes in a range of {span} numbers")
            return span - holes
        case "range_with_bitmap":
            return int(np.count_nonzero(_unpack_bitmap(message.range_with_bitmap)))
        case "sorted_array":
            return _array_length(message.sorted_array)
        case "array":
            return _array_length(message.array)
    raise CorruptFile("a segment of row ids or versions has an unknown form, or none")


def _range_length(
    message: rowids_pb2.U64Segment.Range
    | rowids_pb2.U64Segment.RangeWithHoles
    | rowids_pb2.U64Segment.RangeWithBitmap,
) -> int:
    if message.end < message.start:
        raise CorruptFile(f"a segment has a range from {message.start} to {message.end}")
    return message.end - message.start


def _unpack_bitmap(message: rowids_pb2.U64Segment.RangeWithBitmap) -> npt.NDArray[np.uint8]:
    """Return a byte for each value of the range: 1 where the bitmap has it, lowest bit first."""
    span, data = _range_length(message), np.frombuffer(message.bitmap, np.uint8)
    if len(data) != (span + 7) // 8:
        raise CorruptFile(f"a segment has a bitmap of {len(data)} bytes for {span} values")
    return np.unpackbits(data, count=span, bitorder="little")


def _decode_segment(message: rowids_pb2.U64Segment) -> Segment:
    """Decode a segment that is not empty and whose length is checked."""
    kind = message.WhichOneof("segment")
    if kind == "range":
        return Segment(message.range.start, _EMPTY, _range_length(message.range))
    if kind == "range_with_holes":
        holed = message.range_with_holes
        return _range_with_holes(holed.start, _range_length(holed), _decode_array(holed.holes))
    if kind == "range_with_bitmap":
        set_bits = np.flatnonzero(_unpack_bitmap(message.range_with_bitmap)).astype(np.uint64)
        return _list_segment(set_bits + np.uint64(message.range_with_bitmap.start))
    is_sorted = kind == "sorted_array"
    ids = _decode_array(message.sorted_array if is_sorted else message.array)
    if is_sorted and (ids[1:] <= ids[:-1]).any():
        raise CorruptFile("row ids that are said to be sorted are not")
    return _list_segment(ids)


def _list_segment(ids: UInts) -> Segment:
    return Segment(None, ids, len(ids))


def _range_with_holes(start: int, span: int, holes: UInts) -> Segment:
    if (holes[1:] < holes[:-1]).any():
        holes = np.sort(holes)
    if len(holes) and (int(holes[0]) < start or int(holes[-1]) >= start + span):
        raise CorruptFile(f"a segment has holes outside of its range, {start} to {start + span}")
    if (holes[1:] == holes[:-1]).any():
        raise CorruptFile("a hole of a segment's range is named twice")
    return Segment(start, _EMPTY, span - len(holes), holes)


def _array_parts(message: rowids_pb2.EncodedU64Array) -> tuple[bytes, int, int]:
    """Return the bytes of an array, those of each value, and what is added to the values."""
    match message.WhichOneof("array"):
        case "u16_array":
            return message.u16_array.offsets, 2, message.u16_array.base
        case "u32_array":
            return message.u32_array.offsets, 4, message.u32_array.base
        case "u64_array":
            return message.u64_array.values, 8, 0
    raise CorruptFile("an array of a segment has an unknown form, or none")


def _array_length(message: rowids_pb2.EncodedU64Array) -> int:
    data, width, _ = _array_parts(message)
    if len(data) % width:
        raise CorruptFile(f"a segment has {len(data)} bytes for values of {width} bytes each")
    return len(data) // width


def _decode_array(message: rowids_pb2.EncodedU64Array) -> UInts:
    data, width, base = _array_parts(message)
    values = np.frombuffer(data, f"<u{width}").astype(np.uint64, copy=False)
    if len(values) and base + int(values.max()) >= 2**64:
        raise CorruptFile("a row id is beyond 64 bits")
    return values + np.uint64(base) if base else values
