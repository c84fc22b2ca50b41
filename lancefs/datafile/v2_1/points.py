"""A few rows of many leaf columns, read in one call of a kernel (data files 2.1 and later).

Reading a page in the general way takes some time in Python, however few of its rows are wanted. The
kernel finds the values at the same rows of all pages of many leaves, also in several files, by
their plans (`point_plans`). Strings are found as places in the files and joined by another call;
FSST codes and the indices into compressed dictionaries are decoded page by page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import strings_of, to_arrow
from lancefs.datafile.blocks import FixedWidth, Ints, Mask, VariableWidth, offsets_of
from lancefs.datafile.buffers import check_size, dtype_of, join_bytes
from lancefs.datafile.kernels import decode_fsst, join_spans, take_points
from lancefs.datafile.kernels.points import POSITIONS, PageColumn
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.dictionary import PageDictionaries, look_up
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.point_plans import LeafPlan, PagePart, PlanTable, PointForm
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_TEXTS = (PointForm.STRINGS, PointForm.CODES)  # which the kernel gives as places
_INDICES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_SMALL = 64 * 1024  # bytes of strings that are not counted
_MOST_BYTES = 1 * 1024 * 1024  # of values that share memory
_ALIGN = 64  # bytes, of the values of a leaf and of their validity


class PointSource(NamedTuple):
    """The leaves of a file, and which rows are read of them.

    Attributes:
        table: The plans of the leaves.
        rows: The rows, ascending and each once, within the leaves.
        data: Bytes of the file that hold the pages.
        start: Where the bytes begin in the file.
    """

    table: PlanTable
    rows: Ints
    data: Bytes
    start: int


class Points(NamedTuple):
    """The values of leaves at some rows.

    Attributes:
        arrays: The values of each leaf.
        size: Number of bytes that were looked at.
        places: Number of places where they are.
    """

    arrays: list[pa.Array]
    size: int
    places: int


class _LeafValues(NamedTuple):
    """What the kernel found for a leaf.

    Attributes:
        plan: The plan of the leaf, in the first file.
        first_rows: First row of each page.
        length: Number of values.
        nulls: Number of nulls among them.
        values: The values.
        validity: A bit for each value that tells whether it is valid; None where all are.
    """

    plan: LeafPlan
    first_rows: Ints
    length: int
    nulls: int
    values: pa.Buffer
    validity: pa.Buffer | None

    @property
    def valid(self) -> Mask | None:
        """Which values are valid; None where all are."""
        if self.validity is None:
            return None
        bits = np.frombuffer(self.validity, np.uint8)
        valid: Mask = np.unpackbits(bits, count=self.length, bitorder="little").view(np.bool_)
        return valid

    def array(self, data_type: pa.DataType) -> pa.Array:
        """Return the values as an array."""
        buffers = [self.validity, self.values]
        return pa.Array.from_buffers(data_type, self.length, buffers, self.nulls)


class _Reading:
    """The rows of some files as those of one, whose pages have positions in the bytes of all.

    Args:
        sources: The files, with the same leaves in the same order.
    """

    def __init__(self, sources: Sequence[PointSource]) -> None:
        self.sources = sources
        self.pieces = [source.data for source in sources]
        self.plans = sources[0].table.plans
        self._shifts = []
        row = position = 0
        parts = []
        for source in sources:
            shift = np.zeros(len(PageColumn), np.int64)
            shift[PageColumn.FIRST_ROW] = row
            shift[POSITIONS] = position - source.start
            parts.append(source.rows + row)
            self._shifts.append(shift)
            row += source.table.rows
            position += len(source.data)
        self.rows = parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pages(self, leaves: range) -> tuple[Ints, Ints]:
        """Return the pages of leaves, leaf by leaf; and the number of pages of each leaf."""
        tables = [source.table for source in self.sources]
        own = [
            table.part(leaves) + shift for table, shift in zip(tables, self._shifts, strict=True)
        ]
        counts = [table.counts[leaves.start : leaves.stop] for table in tables]
        if len(own) == 1:
            return own[0], counts[0]
        numbers = np.tile(np.arange(len(leaves)), len(own))
        order = np.argsort(np.repeat(numbers, np.concatenate(counts)), kind="stable")
        return np.concatenate(own)[order], np.sum(counts, axis=0)

    def has_levels(self, leaves: range) -> Mask:
        """Return for each leaf whether a page of it has definition levels."""
        known = [source.table.has_levels[leaves.start : leaves.stop] for source in self.sources]
        return known[0] if len(known) == 1 else np.any(known, axis=0)

    def parts(self, leaf: int) -> Iterator[tuple[PagePart, PointSource]]:
        """Yield what else is known of the pages of a leaf, with the file of each."""
        for source in self.sources:
            for part in source.table.plans[leaf].parts:
                yield part, source


def read_points(sources: Sequence[PointSource]) -> Points:
    """Read the values of leaves at the same rows.

    Args:
        sources: The files, with the same leaves in the same order; the plans of a leaf have the
            same type and form in all of them.

    Returns:
        The rows of the files, one after the other.

    Raises:
        CorruptFile: A page is damaged.
        TooLarge: The strings have more bytes than `limited` allows.
    """
    reading = _Reading(sources)
    groups = _in_groups(reading.plans, len(reading.rows))
    joint = [_read_some(reading, leaves) for leaves in groups]
    arrays = [array for points in joint for array in points.arrays]
    return Points(arrays, sum(one.size for one in joint), sum(one.places for one in joint))


def _in_groups(plans: Sequence[LeafPlan], count: int) -> Iterator[range]:
    """Yield the positions of leaves that are read in one call, which share memory."""
    first, size = 0, 0
    for number, plan in enumerate(plans):
        own = count * plan.bits // 8
        if number > first and size + own > _MOST_BYTES:
            yield range(first, number)
            first, size = number, 0
        size += own
    yield range(first, len(plans))


def _read_some(reading: _Reading, leaves: range) -> Points:
    found, size, places = _take(reading, leaves)
    texts = iter(_texts([one for one in found if one.plan.form in _TEXTS], reading.pieces))
    arrays = []
    for leaf, one in zip(leaves, found, strict=True):
        match one.plan.form:
            case PointForm.VALUES:
                arrays.append(one.array(one.plan.data_type))
            case PointForm.STRINGS:
                arrays.append(to_arrow(next(texts), one.plan.data_type, one.valid))
            case PointForm.CODES:
                arrays.append(_spelled(one, next(texts), reading, leaf))
            case PointForm.INDICES:
                arrays.append(_looked_up(one, reading, leaf))
    return Points(arrays, size, places)


def _take(reading: _Reading, leaves: range) -> tuple[list[_LeafValues], int, int]:
    """Call the kernel; return what it found, and how many bytes it looked at in how many places."""
    count, plans = len(reading.rows), reading.plans[leaves.start : leaves.stop]
    pages, counts = reading.pages(leaves)
    has_levels = reading.has_levels(leaves)
    bits = reading.sources[0].table.bits[leaves.start : leaves.stop]
    lengths, room = (count * bits + 7) // 8, _aligned((count + 7) // 8)  # of validity
    sizes = -(-lengths // _ALIGN) * _ALIGN
    ends = np.cumsum(sizes + room * has_levels)
    starts = ends - sizes - room * has_levels
    firsts = np.cumsum(counts) - counts
    table = np.stack((firsts, counts, starts, np.where(has_levels, starts + sizes, -1)), axis=1)
    out, numbers = take_points(reading.pieces, pages, table, reading.rows, int(ends[-1]))
    *nulls, seen, places = numbers.tolist()
    buffer, first_rows = pa.py_buffer(out), pages[:, PageColumn.FIRST_ROW]
    found = [
        _LeafValues(
            plan,
            first_rows[first : first + own],
            count,
            null,
            buffer.slice(start, length),
            buffer.slice(validity, room) if null else None,
        )
        for plan, null, length, (first, own, start, validity) in zip(
            plans, nulls, lengths.tolist(), table.tolist(), strict=True
        )
    ]
    return found, seen, places


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _texts(found: Sequence[_LeafValues], pieces: Sequence[Bytes]) -> Iterator[VariableWidth]:
    """Yield the strings of leaves, of which the kernel found the places."""
    if not found:
        return
    spans = np.stack([np.frombuffer(one.values, np.int64).reshape(-1, 2) for one in found])
    for number, one in enumerate(found):
        if (valid := one.valid) is not None:  # a null has no bytes, whatever is under it
            spans[number, ~valid, 1] = spans[number, ~valid, 0]
    lengths = spans[:, :, 1] - spans[:, :, 0]
    check_size(int(lengths.sum()))
    text = join_spans(pieces, spans.reshape(-1, 2))
    offsets = np.zeros((len(found), found[0].length + 1), np.int64)
    np.cumsum(lengths, axis=1, out=offsets[:, 1:])
    start = 0
    for own in offsets:
        end = start + int(own[-1])
        yield VariableWidth(own, text[start:end])
        start = end


def _cut(
    found: _LeafValues, reading: _Reading, leaf: int
) -> Iterator[tuple[PagePart, PointSource, slice]]:
    """Yield the pages of a leaf that hold rows, with the file and the rows of each."""
    stops = np.searchsorted(reading.rows, found.first_rows[1:]).tolist()
    first = 0
    for (part, source), stop in zip(reading.parts(leaf), [*stops, len(reading.rows)], strict=True):
        if first < stop:
            yield part, source, slice(first, stop)
            first = stop


def _spelled(found: _LeafValues, codes: VariableWidth, reading: _Reading, leaf: int) -> pa.Array:
    """Return strings that are compressed with FSST."""
    parts = []
    for part, _, wanted in _cut(found, reading, leaf):
        offsets = codes.offsets[wanted.start : wanted.stop + 1]
        parts.append(decode_fsst(part.symbols, offsets, codes.data))
    if len(parts) == 1:
        return to_arrow(VariableWidth(*parts[0]), found.plan.data_type, found.valid)
    lengths = np.concatenate([np.diff(offsets) for offsets, _ in parts])
    text = join_bytes([text[: int(offsets[-1])] for offsets, text in parts])
    return to_arrow(VariableWidth(offsets_of(lengths), text), found.plan.data_type, found.valid)


def _looked_up(found: _LeafValues, reading: _Reading, leaf: int) -> pa.Array:
    """Return the items that indices point at."""
    data_type, bits = found.plan.data_type, found.plan.bits
    if found.plan.is_read_once and _are_alike(found.plan.parts):
        return _looked_up_together(found, reading)
    indices = found.array(_INDICES[bits])
    if pa.types.is_dictionary(data_type):
        return _coded(found, indices, reading, leaf)
    stored = np.frombuffer(found.values, dtype_of(bits // 8))
    arrays = []
    for items, longest, wanted in _dictionaries(found, reading, leaf):
        own = indices[wanted]
        if longest * len(own) > _SMALL:
            lengths = np.diff(strings_of(items)[0])
            check_size(int(lengths[stored[wanted].clip(max=len(items) - 1)].sum(dtype=np.int64)))
        try:
            arrays.append(items.take(own))
        except pa.ArrowIndexError as error:
            raise CorruptFile(
                f"an index is beyond the {len(items)} items of a dictionary"
            ) from error
    return join_arrays(arrays, data_type)


def _coded(found: _LeafValues, indices: pa.Array, reading: _Reading, leaf: int) -> pa.Array:
    """Return indices with the dictionaries that they point into."""
    data_type, arrays = found.plan.data_type, []
    for items, _, wanted in _dictionaries(found, reading, leaf):
        try:
            own = indices[wanted].cast(data_type.index_type)
            arrays.append(pa.DictionaryArray.from_arrays(own, items, ordered=data_type.ordered))
        except (pa.ArrowIndexError, pa.ArrowInvalid) as error:
            raise CorruptFile(
                f"an index is beyond the {len(items)} items of a dictionary"
            ) from error
    return join_arrays(arrays, data_type)


def _dictionaries(
    found: _LeafValues, reading: _Reading, leaf: int
) -> list[tuple[pa.Array, int, slice]]:
    """Return dictionaries with the bytes of their longest item, and the rows that point at them."""
    data_type, cut = found.plan.data_type, list[tuple[pa.Array, int, slice]]()
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    for part, source, wanted in _cut(found, reading, leaf):
        items = part.values(data_type, source.data, source.start)
        if cut and cut[-1][0] is items:  # as the page before
            cut[-1] = items, part.longest, slice(cut[-1][2].start, wanted.stop)
        else:
            cut.append((items, part.longest, wanted))
    return cut


def _are_alike(parts: Sequence[PagePart]) -> bool:
    """Whether the dictionaries of pages are stored in the same way."""
    first = parts[0].description
    return all(
        part.description is first or part.items_encoding == parts[0].items_encoding
        for part in parts
    )


def _looked_up_together(found: _LeafValues, reading: _Reading) -> pa.Array:
    """Return the items that indices point at, with the dictionaries of all pages decoded as one."""
    plan, valid, (source,) = found.plan, found.valid, reading.sources
    stops = np.searchsorted(reading.rows, plan.pages[1:, PageColumn.FIRST_ROW])
    counts = np.diff(stops, prepend=0, append=len(reading.rows))
    sizes = plan.pages[:, PageColumn.ITEM_COUNT]
    bounds = plan.pages[:, PageColumn.ITEMS : PageColumn.ITEMS_END + 1] - source.start
    packed = Chunked(source.data, *bounds.T.copy())
    encoding = plan.parts[0].items_encoding
    items = PageDictionaries(registry.decode_blocks(encoding, packed, sizes), sizes, counts)
    indices = np.frombuffer(found.values, dtype_of(plan.bits // 8))
    if valid is not None:
        indices = np.where(valid, indices, 0).astype(indices.dtype)
    return to_arrow(look_up(FixedWidth(plan.bits, indices), items), plan.data_type, valid)
