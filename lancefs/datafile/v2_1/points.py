"""A few rows of many leaf columns, read in one call of a kernel (data files 2.1 and later).

Reading a page in the general way takes some time in Python, however few of its rows are wanted. The
kernel finds the values at the same rows of all pages of many leaves, by their plans
(`point_plans`). Strings are found as places in the file and joined by another call; FSST codes and
the indices into compressed dictionaries are decoded page by page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import strings_of, to_arrow
from lancefs.datafile.blocks import FixedWidth, Ints, Mask, VariableWidth
from lancefs.datafile.buffers import check_size, dtype_of
from lancefs.datafile.kernels import decode_fsst, join_spans, take_points
from lancefs.datafile.kernels.points import PageColumn
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.dictionary import PageDictionaries, look_up
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.point_plans import POSITIONS, LeafPlan, PagePart, PointForm
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_TEXTS = (PointForm.STRINGS, PointForm.CODES)  # which the kernel gives as places
_INDICES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_SMALL = 64 * 1024  # bytes of strings that are not counted
_MOST_BYTES = 1024 * 1024  # of values that share memory
_ALIGN = 64  # bytes, of the values of a leaf and of their validity


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
        plan: The plan of the leaf.
        length: Number of values.
        nulls: Number of nulls among them.
        values: The values.
        validity: A bit for each value that tells whether it is valid; None where all are.
    """

    plan: LeafPlan
    length: int
    nulls: int
    values: Bytes
    validity: Bytes | None

    @property
    def valid(self) -> Mask | None:
        """Which values are valid; None where all are."""
        if self.validity is None:
            return None
        bits: Mask = np.unpackbits(self.validity, count=self.length, bitorder="little").view(
            np.bool_
        )
        return bits

    def array(self, data_type: pa.DataType) -> pa.Array:
        """Return the values as an array."""
        valid = None if self.validity is None else pa.py_buffer(self.validity)
        buffers = [valid, pa.py_buffer(self.values)]
        return pa.Array.from_buffers(data_type, self.length, buffers, self.nulls)


def read_points(plans: Sequence[LeafPlan], rows: Ints, data: Bytes, start: int) -> Points:
    """Read the values of leaves at the same rows.

    Args:
        plans: The plan of each leaf.
        rows: The rows, ascending and each once, within the leaves.
        data: Bytes of the file that hold the pages.
        start: Where the bytes begin in the file.

    Raises:
        CorruptFile: A page is damaged.
        TooLarge: The strings have more bytes than `limited` allows.
    """
    joint = [_read_some(some, rows, data, start) for some in _in_groups(plans, len(rows))]
    arrays = [array for points in joint for array in points.arrays]
    return Points(arrays, sum(one.size for one in joint), sum(one.places for one in joint))


def _in_groups(plans: Sequence[LeafPlan], count: int) -> Iterator[Sequence[LeafPlan]]:
    """Yield leaves that are read in one call, which share memory."""
    first, size = 0, 0
    for number, plan in enumerate(plans):
        own = count * plan.bits // 8
        if number > first and size + own > _MOST_BYTES:
            yield plans[first:number]
            first, size = number, 0
        size += own
    yield plans[first:]


def _read_some(plans: Sequence[LeafPlan], rows: Ints, data: Bytes, start: int) -> Points:
    found, size, places = _take(plans, rows, data, start)
    texts = iter(_texts([one for one in found if one.plan.form in _TEXTS], data))
    arrays = []
    for one in found:
        match one.plan.form:
            case PointForm.VALUES:
                arrays.append(one.array(one.plan.data_type))
            case PointForm.STRINGS:
                arrays.append(to_arrow(next(texts), one.plan.data_type, one.valid))
            case PointForm.CODES:
                arrays.append(_spelled(one, next(texts), rows))
            case PointForm.INDICES:
                arrays.append(_looked_up(one, rows, data, start))
    return Points(arrays, size, places)


def _take(
    plans: Sequence[LeafPlan], rows: Ints, data: Bytes, start: int
) -> tuple[list[_LeafValues], int, int]:
    """Call the kernel; return what it found, and how many bytes it looked at in how many places."""
    count = len(rows)
    pages = np.concatenate([plan.pages for plan in plans])
    pages[:, POSITIONS] -= start
    leaves, size, first = [], 0, 0
    room = _aligned((count + 7) // 8)  # of the validity
    for plan in plans:
        end = size + _aligned((count * plan.bits + 7) // 8)
        leaves.append((first, len(plan.pages), size, end if plan.has_levels else -1))
        first += len(plan.pages)
        size = end + room if plan.has_levels else end
    out, numbers = take_points(data, pages, np.array(leaves, np.int64), rows, size)
    *nulls, seen, places = numbers.tolist()
    found = [
        _LeafValues(
            plan,
            count,
            null,
            out[at : at + (count * plan.bits + 7) // 8],
            out[end : end + room] if null else None,
        )
        for plan, null, (_, _, at, end) in zip(plans, nulls, leaves, strict=True)
    ]
    return found, seen, places


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _texts(found: Sequence[_LeafValues], data: Bytes) -> Iterator[VariableWidth]:
    """Yield the strings of leaves, of which the kernel found the places."""
    if not found:
        return
    spans = np.stack([one.values.view(np.int64).reshape(-1, 2) for one in found])
    for number, one in enumerate(found):
        if (valid := one.valid) is not None:  # a null has no bytes, whatever is under it
            spans[number, ~valid, 1] = spans[number, ~valid, 0]
    lengths = spans[:, :, 1] - spans[:, :, 0]
    check_size(int(lengths.sum()))
    text = join_spans(data, spans.reshape(-1, 2))
    offsets = np.zeros((len(found), found[0].length + 1), np.int64)
    np.cumsum(lengths, axis=1, out=offsets[:, 1:])
    start = 0
    for own in offsets:
        end = start + int(own[-1])
        yield VariableWidth(own, text[start:end])
        start = end


def _cut(plan: LeafPlan, rows: Ints) -> Iterator[tuple[PagePart, slice]]:
    """Yield the pages of a leaf that hold rows, with the rows of each."""
    if len(plan.parts) == 1:
        yield plan.parts[0], slice(0, len(rows))
        return
    stops = np.searchsorted(rows, plan.pages[1:, 0]).tolist()
    for part, first, stop in zip(plan.parts, [0, *stops], [*stops, len(rows)], strict=True):
        if first < stop:
            yield part, slice(first, stop)


def _spelled(found: _LeafValues, codes: VariableWidth, rows: Ints) -> pa.Array:
    """Return strings that are compressed with FSST."""
    data_type, valid = found.plan.data_type, found.valid
    arrays = []
    for part, wanted in _cut(found.plan, rows):
        offsets = codes.offsets[wanted.start : wanted.stop + 1]
        block = VariableWidth(*decode_fsst(part.symbols, offsets, codes.data))
        arrays.append(to_arrow(block, data_type, None if valid is None else valid[wanted]))
    return join_arrays(arrays, data_type)


def _looked_up(found: _LeafValues, rows: Ints, data: Bytes, start: int) -> pa.Array:
    """Return the items that indices point at."""
    data_type, bits = found.plan.data_type, found.plan.bits
    if found.plan.is_read_once and _are_alike(found.plan.parts):
        return _looked_up_together(found, rows, data, start)
    indices, stored = found.array(_INDICES[bits]), found.values.view(dtype_of(bits // 8))
    arrays = []
    for part, wanted in _cut(found.plan, rows):
        items = part.values(data_type, data, start)
        own = indices if len(found.plan.parts) == 1 else indices[wanted]
        if part.longest * len(own) > _SMALL:
            lengths = np.diff(strings_of(items)[0])
            check_size(int(lengths[stored[wanted].clip(max=len(items) - 1)].sum(dtype=np.int64)))
        try:
            arrays.append(items.take(own))
        except pa.ArrowIndexError as error:
            raise CorruptFile(
                f"an index is beyond the {len(items)} items of a dictionary"
            ) from error
    return join_arrays(arrays, data_type)


def _are_alike(parts: Sequence[PagePart]) -> bool:
    """Whether the dictionaries of pages are stored in the same way."""
    first = parts[0].description
    return all(
        part.description is first or part.description.layout.dictionary == first.layout.dictionary
        for part in parts
    )


def _looked_up_together(found: _LeafValues, rows: Ints, data: Bytes, start: int) -> pa.Array:
    """Return the items that indices point at, with the dictionaries of all pages decoded as one."""
    plan, valid = found.plan, found.valid
    stops = np.searchsorted(rows, plan.pages[1:, PageColumn.FIRST_ROW])
    counts = np.diff(stops, prepend=0, append=len(rows))
    sizes = plan.pages[:, PageColumn.ITEM_COUNT]
    bounds = plan.pages[:, PageColumn.ITEMS : PageColumn.ITEMS_END + 1] - start
    packed = Chunked(data, *bounds.T.copy())
    encoding = plan.parts[0].description.layout.dictionary
    items = PageDictionaries(registry.decode_blocks(encoding, packed, sizes), sizes, counts)
    indices = found.values.view(dtype_of(plan.bits // 8))
    if valid is not None:
        indices = np.where(valid, indices, 0).astype(indices.dtype)
    return to_arrow(look_up(FixedWidth(plan.bits, indices), items), plan.data_type, valid)
