"""Zone maps in memory: minimum and maximum values by zone, as earlier filtered scans found them.

Data files have no statistics. A scan that decodes a column for its filter keeps the range of values
in each zone, so that the next filter on the column skips zones, and whole fragments, in which no
row passes. Columns of stored numbers have ranges: integers, dates, times, durations; and texts and
floats, of which the keys count (`kernels.bounds`, `intervals.float_keys`). Null slots do not count;
deleted rows do, so that a range holds for every version with the file.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import (
    indices_of,
    is_text,
    numbers_of,
    stored_values,
    strings_of,
    text_keys,
    valid_slots,
    value_type,
)
from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.buffers import Ints
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import text_bounds
from lancefs.datafile.kernels.bounds import KEY, MAX_KEY, MIN_KEY
from lancefs.forks import Lock
from lancefs.storage import File
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentSource
from lancefs.table.row_metadata import is_row_metadata

if TYPE_CHECKING:
    from lancefs.scan.intervals import ValueInterval

# Rows of a zone, counted from the beginning of a data file.
ZONE_ROWS = 16 * 1024
# Bytes of ranges that a process keeps, and what a column of a file takes beside them.
_BUDGET, _COLUMN_BYTES = 16 * 1024 * 1024, 700
_WIDEST = 64
# Largest dictionary whose items are ordered, and most items that are kept for a column of a file.
_MAX_ITEMS, _MAX_KEPT_ITEMS = 4096, 1024
# Most rows of plain texts that are dictionary-encoded here to know their items.
_MAX_ENCODED_ROWS = 32 * 1024

_Key: TypeAlias = tuple[Hashable, int]
# The file of a column, and the identity of its bytes before a read; None for none.
_FileIdentity: TypeAlias = tuple[File | None, Hashable | None]
Numbers: TypeAlias = np.ndarray[Any, Any]
# The rows that were seen of each zone, and their least and greatest values; see `ZoneRanges`.
_Bounds: TypeAlias = tuple[Ints, Numbers, Numbers]


class ZoneRanges(NamedTuple):
    """The ranges of a column of a data file.

    Attributes:
        identity: Identity of the bytes of the file.
        data_type: Type of the column.
        seen: The rows that were seen of each zone: the offset of the first one, and the offset
            after the last one; shape (zones, 2).
        low: The least value of each zone in the rows seen; above the greatest one where all are
            null.
        high: The greatest value of each zone in the rows seen.
        items: The keys of all texts in the rows seen, ascending, each once, where dictionaries hold
            few; None where that is not known.
    """

    identity: Hashable
    data_type: pa.DataType
    seen: Ints
    low: Numbers
    high: Numbers
    items: Numbers | None = None

    @property
    def cost(self) -> int:
        items = 0 if self.items is None else self.items.nbytes
        return _COLUMN_BYTES + self.seen.nbytes + self.low.nbytes + self.high.nbytes + items

    def holds(self, start: int, end: int) -> bool:
        """Tell whether all rows of a range were seen.

        Args:
            start: The first row.
            end: The row after the last one.
        """
        first, last = start // ZONE_ROWS, -(-end // ZONE_ROWS)
        if last > len(self.seen):
            return False
        wanted, seen = _zone_parts(start, end), self.seen[first:last]
        return bool(((seen[:, 0] <= wanted[:, 0]) & (seen[:, 1] >= wanted[:, 1])).all())

    def find_outside(self, interval: ValueInterval) -> Ints:
        """Return the ranges of rows that have no value within an interval; shape (ranges, 2)."""
        is_seen = self.seen[:, 0] < self.seen[:, 1]
        if self.items is not None and are_outside(self.items, self.items, interval).all():
            return self.seen[is_seen]
        return self.seen[is_seen & are_outside(self.low, self.high, interval)]


class _Known:
    """The ranges that a process keeps.

    Attributes:
        changes: How many times a range was kept.
    """

    def __init__(self) -> None:
        self.zones: BudgetCache[_Key, ZoneRanges] = BudgetCache(_BUDGET)
        self.changes = 0


_known = _Known()
_lock = Lock()


def are_outside(low: Numbers, high: Numbers, interval: ValueInterval) -> Mask:
    """Tell which ranges of values have no value within an interval.

    Args:
        low: The least value of each range; above the greatest one where it has none.
        high: The greatest value of each range.
        interval: The interval.
    """
    if interval.is_empty:
        return np.ones(len(low), np.bool_)
    out: Mask = (low > interval.high) | (high < interval.low)
    parts = interval.parts
    if parts is not None and len(parts[0]) > 1:  # a single one has the ends of the interval
        first, last = parts
        at = np.searchsorted(last, low)
        out = out | (at == len(last)) | (first.take(at, mode="clip") > high)
    return out


def has_range(data_type: pa.DataType) -> bool:
    """Tell whether columns of a type have ranges: texts, and stored numbers of up to 64 bits."""
    from lancefs.scan.intervals import is_float, stored_bounds

    if is_text(value_type(data_type)) or is_float(data_type):
        return True
    return stored_bounds(data_type) is not None and data_type.bit_width <= _WIDEST


def zones_of(file: File, field: Field) -> ZoneRanges | None:
    """Return the recorded ranges of a column of a file; None where there are none.

    Args:
        file: The data file.
        field: The column.

    The bytes of the file may have changed since: `ZoneRanges.identity` tells which were seen.
    """
    zones = _known.zones.peek((file.place, field.id))
    return zones if zones is not None and zones.data_type == field.to_arrow().type else None


def count_changes() -> int:
    """Return how many times ranges were kept; if the number has changed, more may be known."""
    return _known.changes


def find_passing(
    fragment: FragmentReader, fields: Sequence[Field], intervals: Mapping[str, ValueInterval]
) -> list[RowRange] | None:
    """Return the ranges of rows of a fragment that may lie within all of some intervals.

    Args:
        fragment: The fragment.
        fields: The columns of the intervals.
        intervals: By the names of the columns.

    Returns:
        Ranges, ascending; None for all rows, since nothing is known of them.
    """
    excluded = []
    for field in fields:
        file = file_of(fragment, field)
        zones = None if file is None else zones_of(file, field)
        if file is not None and zones is not None and zones.identity == file.identity():
            excluded.append(zones.find_outside(intervals[field.name]))
    if not any(len(each) for each in excluded):
        return None
    spans = excluded[0] if len(excluded) == 1 else _in_order(np.concatenate(excluded))
    return _rest(spans, fragment.physical_rows)


class RangeRecorder:
    """Records the value ranges of the columns that one read decodes.

    It is made before the read, so that the bytes are known to be the same before and after it.

    Args:
        fragment: The fragment, or the run of fragments.
        fields: The columns, of types with ranges.
        start: The first row that is read.
        end: The row after the last one.
    """

    def __init__(
        self, fragment: FragmentSource, fields: Sequence[Field], start: int, end: int
    ) -> None:
        parts = fragment.parts([(start, end)]) if fields else []
        self._ranges = [ranges[0] for _, ranges in parts]
        self._wanted: list[tuple[Field, Sequence[_FileIdentity]]] = []
        for field in fields:
            files = _find_unseen(parts, field)
            if files is not None:
                self._wanted.append((field, files))

    def record(self, columns: Mapping[int, pa.Array]) -> None:
        """Record the value ranges of columns that were read, by field id."""
        for field, files in self._wanted:
            array = columns[field.id]
            if not _is_ranged(array):
                continue
            done, zones = 0, _zones_of_each(array, self._ranges)
            for (file, identity), each, (start, end) in zip(
                files, zones, self._ranges, strict=True
            ):
                length = end - start
                if file is not None and identity is not None and file.identity() == identity:
                    _record(file.place, identity, field, array.slice(done, length), each)
                done += length


def known_below(folder: str) -> list[tuple[str, int, ZoneRanges]]:
    """Return what is known of the local files below a folder.

    Args:
        folder: Its path, with a slash at the end.

    Returns:
        The path of each file, the id of a field, and its ranges.
    """
    return [
        (place, field_id, zones)
        for (place, field_id), zones in _known.zones.items()
        if isinstance(place, str) and place.startswith(folder)
    ]


def restore(place: str, field_id: int, zones: ZoneRanges) -> None:
    """Make ranges known that another process has seen, unless this one has seen some.

    Args:
        place: The path of a local file.
        field_id: The field.
        zones: The ranges, with the identity that the file had.
    """
    with _lock:
        if _known.zones.peek((place, field_id)) is None:
            _known.zones.put((place, field_id), zones, zones.cost)
            _known.changes += 1


def forget() -> None:
    """Forget all ranges."""
    _known.zones.clear()


def _find_unseen(
    parts: Sequence[tuple[FragmentReader, Sequence[RowRange]]], field: Field
) -> list[_FileIdentity] | None:
    """Return the files of fragments that hold a column, with the identities of their bytes.

    None where all rows were seen before.
    """
    found: list[_FileIdentity] = []
    is_seen = True
    for reader, ((start, end),) in parts:
        file = file_of(reader, field)
        identity = None if file is None else file.identity()
        found.append((file, identity))
        if file is not None:
            zones = _known.zones.peek((file.place, field.id))
            if zones is None or zones.identity != identity or not zones.holds(start, end):
                is_seen = False
    return None if is_seen else found


def file_of(reader: FragmentReader, field: Field) -> File | None:
    """Return the data file whose values a column of a fragment has; None for none.

    Args:
        reader: The reader of the fragment.
        field: The column; row metadata and nested columns have no such file.
    """
    return None if is_row_metadata(field) or field.children else reader.file_of(field)


def _is_ranged(array: pa.Array) -> bool:
    """Tell whether the range of values, in the form in which they were read, costs little."""
    if not pa.types.is_dictionary(array.type):
        return has_range(array.type)
    items = array.dictionary
    return is_text(items.type) and not items.null_count and len(items) <= _MAX_ITEMS


def _record(
    place: Hashable, identity: Hashable, field: Field, array: pa.Array, bounds: _Bounds
) -> None:
    """Record the value ranges of consecutive rows of a column of a file."""
    data_type = field.to_arrow().type
    key = place, field.id
    known = _known.zones.peek(key)
    items = _items_of(array, known is not None and known.items is not None)
    zones = ZoneRanges(identity, data_type, *bounds, items)
    with _lock:
        known = _known.zones.peek(key)
        if known is not None and (known.identity, known.data_type) == (identity, data_type):
            zones = _merge(known, zones)
        _known.zones.put(key, zones, zones.cost)
        _known.changes += 1


def _items_of(array: pa.Array, is_encoded_elsewhere: bool) -> Numbers | None:
    """Return the keys of the items of a dictionary, ascending; None where there are many, or none.

    Args:
        array: Some rows, which may have less than all items.
        is_encoded_elsewhere: Whether other rows of the column have a dictionary. Short ends of
            files are read without theirs.
    """
    if is_text(array.type) and is_encoded_elsewhere and len(array) <= _MAX_ENCODED_ROWS:
        array = array.dictionary_encode()
    if not pa.types.is_dictionary(array.type) or len(array.dictionary) > _MAX_KEPT_ITEMS:
        return None
    keys: Numbers = np.unique(text_keys(array.dictionary))
    return keys


def _zone_parts(start: int, end: int) -> Ints:
    """Return which rows of each zone lie from `start` to before `end`; shape (zones, 2)."""
    if start // ZONE_ROWS == (end - 1) // ZONE_ROWS:  # as in small files, of which there are many
        return np.array([(start, end)])
    edges = np.arange(start // ZONE_ROWS, -(-end // ZONE_ROWS) + 1) * ZONE_ROWS
    return np.stack([np.maximum(edges[:-1], start), np.minimum(edges[1:], end)], axis=1)


def _zones_of_each(array: pa.Array, ranges: Sequence[RowRange]) -> list[_Bounds]:
    """Return the zones of each file of a column that was read from several.

    Args:
        array: The column.
        ranges: The rows of each file, none of which is empty.
    """
    zones = [_zone_parts(start, end) for start, end in ranges]
    offsets = list(accumulate((end - start for start, end in ranges), initial=0))
    if pa.types.is_dictionary(array.type):  # a file may have few of the items that all share
        slices = [array.slice(first, end - first) for first, end in pairwise(offsets)]
        found = [
            _bounds_of(part, rows[:, 0] - start)
            for part, rows, (start, _) in zip(slices, zones, ranges, strict=True)
        ]
    else:
        moved = [
            rows[:, 0] + (first - start)
            for rows, first, (start, _) in zip(zones, offsets, ranges, strict=False)
        ]
        low, high = _bounds_of(array, np.concatenate(moved))
        counts = list(accumulate(map(len, zones), initial=0))
        found = [(low[first:end], high[first:end]) for first, end in pairwise(counts)]
    return [_from_first_zone(rows, *bounds) for rows, bounds in zip(zones, found, strict=True)]


def _from_first_zone(rows: Ints, low: Numbers, high: Numbers) -> _Bounds:
    """Put the zones before those that were read in front of these: of them no row was seen."""
    first = int(rows[0, 0]) // ZONE_ROWS
    if first == 0:
        return rows, low, high
    least, most = _limits(low.dtype)
    unseen = np.zeros((first, 2), np.int64)
    lows, highs = np.full(first, most, low.dtype), np.full(first, least, high.dtype)
    return (
        np.concatenate([unseen, rows]),
        np.concatenate([lows, low]),
        np.concatenate([highs, high]),
    )


def _bounds_of(array: pa.Array, starts: Ints) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest value in each zone of an array.

    Args:
        array: The values.
        starts: Position of the first value of each zone; no zone is empty.
    """
    if is_text(array.type):
        return text_bounds(*strings_of(array), valid_slots(array), np.append(starts, len(array)))
    if pa.types.is_dictionary(array.type):
        return _bounds_of_items(array, starts)
    if pa.types.is_floating(array.type):
        return _bounds_of_floats(array, starts)
    sign = "u" if pa.types.is_unsigned_integer(array.type) else "i"
    return _reduce_zones(array, stored_values(array, f"<{sign}{array.type.bit_width // 8}"), starts)


def _bounds_of_items(array: pa.DictionaryArray, starts: Ints) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest key in each zone of texts that have a dictionary."""
    keys, ranks = np.unique(text_keys(array.dictionary), return_inverse=True)
    ordered = np.concatenate([[MIN_KEY], keys, [MAX_KEY]]).astype(KEY)
    ranks = np.append(ranks + 1, 0)  # of a null, too, in an array without items

    def bounds(part: pa.DictionaryArray, starts: Ints) -> tuple[Numbers, Numbers]:
        low, high = _reduce_zones(part, ranks.take(indices_of(part)), starts)
        return ordered.take(low, mode="clip"), ordered.take(high, mode="clip")

    if len(keys) and len(starts) > 1:
        (least,), (most,) = bounds(array.slice(0, int(starts[1])), starts[:1])
        if (least, most) == (keys[0], keys[-1]):
            # Probably all zones hold values from all over, so that it is of no use to find them.
            return np.full(len(starts), least, KEY), np.full(len(starts), most, KEY)
    return bounds(array, starts)


def _bounds_of_floats(array: pa.Array, starts: Ints) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest key in each zone of floats; all keys where one is NaN."""
    from lancefs.scan.intervals import float_keys

    bounds = _reduce_zones(array, numbers_of(array), starts)
    low, high = (float_keys(each) for each in bounds)
    low[np.isnan(bounds[0])] = np.iinfo(np.int64).min
    return low, high


def _reduce_zones(array: pa.Array, values: Numbers, starts: Ints) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest number in each zone, nulls left out."""
    least, most = _limits(values.dtype)
    valid = valid_slots(array)
    if len(starts) == 1:  # of a small file, mostly: a table may have many
        some = values if valid is None else values[valid]
        low, high = some.min(initial=most), some.max(initial=least)
        return np.array([low], values.dtype), np.array([high], values.dtype)
    lows = values if valid is None else np.where(valid, values, most)
    highs = values if valid is None else np.where(valid, values, least)
    return np.minimum.reduceat(lows, starts), np.maximum.reduceat(highs, starts)


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest number, or key of a text."""
    if dtype.kind == "S":
        return MIN_KEY, MAX_KEY
    if dtype.kind == "f":
        return -np.inf, np.inf
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def _merge(known: ZoneRanges, new: ZoneRanges) -> ZoneRanges:
    """Join ranges of the same column, zone by zone.

    Overlapping or adjacent spans are merged; otherwise the longer span wins.
    """
    length = max(len(known.seen), len(new.seen))
    parts = []
    least, most = _limits(new.low.dtype)
    for zones in (known, new):
        padded = np.zeros((length, 2), np.int64)
        padded[: len(zones.seen)] = zones.seen
        more = length - len(zones.seen)
        parts.append(
            (
                padded,
                np.concatenate([zones.low, np.full(more, most, zones.low.dtype)]),
                np.concatenate([zones.high, np.full(more, least, zones.high.dtype)]),
            )
        )
    (rows, low, high), (new_rows, new_low, new_high) = parts
    lengths, new_lengths = rows[:, 1] - rows[:, 0], new_rows[:, 1] - new_rows[:, 0]
    touch = (new_rows[:, 0] <= rows[:, 1]) & (rows[:, 0] <= new_rows[:, 1])
    touch &= (lengths > 0) & (new_lengths > 0)
    replaced = ~touch & (new_lengths > lengths)
    joined = rows.copy()
    joined[touch, 0] = np.minimum(rows[touch, 0], new_rows[touch, 0])
    joined[touch, 1] = np.maximum(rows[touch, 1], new_rows[touch, 1])
    joined[replaced] = new_rows[replaced]
    low = np.where(replaced | touch & (new_low < low), new_low, low)
    high = np.where(replaced | touch & (new_high > high), new_high, high)
    items = _merge_items(known.items, new.items)
    return ZoneRanges(new.identity, new.data_type, joined, low, high, items)


def _merge_items(known: Numbers | None, new: Numbers | None) -> Numbers | None:
    """Return the keys of two parts of a column; None where those of one are not known."""
    if known is None or new is None:
        return None
    if np.array_equal(known, new):  # as most parts have all values
        return known
    items: Numbers = np.union1d(known, new)
    return items if len(items) <= _MAX_KEPT_ITEMS else None


def _in_order(spans: Ints) -> Ints:
    """Return ranges of rows by where they begin, each with where all up to it end.

    Args:
        spans: Ranges of rows, in any order; shape (ranges, 2).
    """
    ordered: Ints = spans[np.argsort(spans[:, 0], kind="stable")]
    np.maximum.accumulate(ordered[:, 1], out=ordered[:, 1])
    return ordered


def _rest(excluded: Ints, rows: int) -> list[RowRange]:
    """Return the ranges of rows of a fragment that are in no excluded range.

    Args:
        excluded: Ranges of rows, at least one, ascending by both ends; shape (ranges, 2).
        rows: Number of rows of the fragment, deleted ones included.
    """
    left = np.empty((len(excluded) + 1, 2), np.int64)
    left[0, 0], left[1:, 0] = 0, excluded[:, 1]
    left[:-1, 1], left[-1, 1] = np.minimum(excluded[:, 0], rows), rows
    return [(start, end) for start, end in left[left[:, 0] < left[:, 1]].tolist()]
