"""A few rows of many leaf columns, read in one call of a kernel (data files 2.1 and later).

The page-by-page path takes some time in Python for each page, however few of its rows are wanted.
The kernel finds the values at the same rows of all pages of many leaves, also in several files, by
their plans (`point_plans`). Strings are found as places in the files and joined by another call;
FSST codes, the indices into compressed dictionaries, and values that are encoded one by one are
decoded page by page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import (
    as_text,
    bitmap,
    is_text,
    strings_array,
    strings_of,
    to_arrow,
)
from lancefs.datafile.blocks import Array, FixedWidth, Ints, Mask, VariableWidth, offsets_of
from lancefs.datafile.buffers import check_size, dtype_of, join_bytes
from lancefs.datafile.kernels import decode_fsst, join_leaves, join_texts, take_points
from lancefs.datafile.kernels.fsst import SymbolTable
from lancefs.datafile.kernels.points import POSITIONS, LeafColumn, PageColumn, Pieces
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.dictionary import PageDictionaries, look_up
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.packed_pages import PackedPages, restore
from lancefs.datafile.v2_1.page_plans import MAX_BITS, PointForm
from lancefs.datafile.v2_1.point_plans import (
    LeafMemory,
    LeafPlan,
    PageDictionary,
    PlanTable,
)
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding
from lancefs.storage import Bytes

_INDICES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_SMALL = 64 * 1024  # bytes of strings that are not counted
_MAX_BYTES = 1 * 1024 * 1024  # of values that share memory
_MAX_MEMORIES = 8  # layouts of the memory of leaves that are kept
_ALIGN = 64  # bytes, of the values of a leaf and of their validity


class PointSource(NamedTuple):
    """The leaves of a file, and which rows are read of them.

    Attributes:
        table: The plans of the leaves.
        rows: The rows, within the leaves: int64, shape (rows,), ascending and each once.
        data: Bytes of the file that hold the pages: uint8, shape (bytes,).
        start: Where the bytes begin in the file.
    """

    table: PlanTable
    rows: Ints
    data: Bytes
    start: int


class KernelResult(NamedTuple):
    """The values of leaves at some rows, as one or more calls of kernels found them.

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
        rows: The row of each value.
        length: Number of values.
        nulls: Number of nulls among them.
        values: The values.
        validity: A bit for each value that tells whether it is valid; None where all are.
        places: Where the values begin in the memory of all leaves, and the validity, -1 where all
            are valid; None where the validity is not there.
    """

    plan: LeafPlan
    first_rows: Ints
    rows: Ints
    length: int
    nulls: int
    values: pa.Buffer
    validity: pa.Buffer | None
    places: tuple[int, int] | None

    @property
    def bits(self) -> Bytes | None:
        """A bit for each value that tells whether it is valid; None where all are."""
        return None if self.validity is None else np.frombuffer(self.validity, np.uint8)

    @property
    def valid(self) -> Mask | None:
        """Which values are valid; None where all are."""
        if (bits := self.bits) is None:
            return None
        valid: Mask = np.unpackbits(bits, count=self.length, bitorder="little").view(np.bool_)
        return valid

    @property
    def spans(self) -> Ints:
        """The start and the end of each string."""
        return np.frombuffer(self.values, np.int64).reshape(-1, 2)

    def array(self, data_type: pa.DataType) -> pa.Array:
        """Return the values as an array."""
        buffers, make = [self.validity, self.values], pa.Array.from_buffers
        if not pa.types.is_fixed_size_list(data_type):
            return make(data_type, self.length, buffers, self.nulls)
        count = self.length * data_type.list_size
        items = make(data_type.value_type, count, [None, self.values], 0)
        return make(data_type, self.length, [self.validity], self.nulls, children=[items])


class Reading(NamedTuple):
    """The rows of some files as those of one, whose pages have positions in the bytes of all.

    Attributes:
        sources: The files, with the same leaves in the same order.
        pieces: The bytes of each file.
        pages: The pages of the leaves, leaf by leaf; see `PageColumn`: int64, shape (pages,
            columns).
        counts: Number of pages of each leaf: int64, shape (leaves,).
        has_levels: For each leaf, whether a page of it has definition levels to be read: bool,
            shape (leaves,).
        rows: Rows to read: int64, shape (rows,).
        wanted: The first and the number of the rows of each leaf among these: int64, shape (leaves,
            2).
        valid: For each of the last leaves, which of its values are valid, or None where all are;
            the levels of the pages tell it of the leaves before them.
        packed: Which pages are compressed, and how; None where none is.
    """

    sources: Sequence[PointSource]
    pieces: Pieces
    pages: Ints
    counts: Ints
    has_levels: Mask
    rows: Ints
    wanted: Ints
    valid: Sequence[Mask | None] = ()
    packed: PackedPages | None = None

    @classmethod
    def of(cls, sources: Sequence[PointSource]) -> Reading:
        """Return the same rows of all leaves of some files."""
        pieces = Pieces([source.data for source in sources])
        if len(sources) == 1:
            table, wanted = sources[0].table, sources[0].rows
            return cls(
                sources,
                pieces,
                table.pages_from(sources[0].start),
                table.counts,
                table.has_levels,
                wanted,
                same_rows(len(table.plans), len(wanted)),
                packed=table.packed,
            )
        tables = [source.table for source in sources]
        shifts = []
        row = position = 0
        for source in sources:
            shift = np.zeros(len(PageColumn), np.int64)
            shift[PageColumn.FIRST_ROW] = row
            shift[POSITIONS] = position - source.start
            shifts.append(shift)
            row += source.table.rows
            position += len(source.data)
        pages = [table.pages + shift for table, shift in zip(tables, shifts, strict=True)]
        rows = [
            source.rows + shift[PageColumn.FIRST_ROW]
            for source, shift in zip(sources, shifts, strict=True)
        ]
        joined = np.concatenate(rows)
        return cls(
            sources,
            pieces,
            in_leaves([table.counts for table in tables], pages),
            np.sum([table.counts for table in tables], axis=0),
            np.any([table.has_levels for table in tables], axis=0),
            joined,
            same_rows(len(tables[0].plans), len(joined)),
            packed=_packed_in(tables),
        )

    @property
    def plans(self) -> Sequence[LeafPlan]:
        """The plans of the leaves, in the first file."""
        return self.sources[0].table.plans

    def dictionaries(self, leaf: int) -> Iterator[tuple[PageDictionary, PointSource]]:
        """Yield the dictionaries, or the symbols, of the pages of a leaf, with the file of each."""
        for source in self.sources:
            for dictionary in source.table.plans[leaf].dictionaries:
                yield dictionary, source


def same_rows(leaves: int, rows: int) -> Ints:
    """Return the first and the number of the rows of leaves that are read at the same rows."""
    wanted = np.empty((leaves, 2), np.int64)
    wanted[:, 0], wanted[:, 1] = 0, rows
    return wanted


def in_leaves(counts: Sequence[Ints], parts: Sequence[Ints]) -> Ints:
    """Join what there is of each page of files; return it leaf by leaf, and file by file in a leaf.

    Args:
        counts: The number of pages of each leaf, for each file: int64, shape (leaves,).
        parts: A row for each page, for each file: int64, shape (pages, columns).
    """
    if len(parts) == 1:
        return parts[0]
    leaves = np.arange(len(counts[0]))
    numbers = [np.repeat(leaves, own) for own in counts]
    order = np.argsort(np.concatenate(numbers), kind="stable")
    joined: Ints = np.concatenate(parts)[order]
    return joined


def read_values(reading: Reading) -> KernelResult:
    """Read the values of leaves, each at rows of its own.

    Raises:
        CorruptFile: A page is damaged.
        TooLarge: The strings or vectors have more bytes than `limited` allows.
    """
    if reading.packed is not None:
        reading = _restored(reading, reading.packed)
    groups = in_groups(reading.sources[0].table.bits, reading.wanted[:, 1])
    joint = [_read_some(reading, leaves) for leaves in groups]
    arrays = [array for points in joint for array in points.arrays]
    return KernelResult(arrays, sum(one.size for one in joint), sum(one.places for one in joint))


def _packed_in(tables: Sequence[PlanTable]) -> PackedPages | None:
    """Return which pages of the leaves of files are compressed, leaf by leaf."""
    if all(table.packed is None for table in tables):
        return None
    packed = [table.packed or PackedPages((), np.full(len(table.pages), -1)) for table in tables]
    joined = PackedPages.join(packed)
    numbers = np.split(
        joined.numbers[:, np.newaxis], np.cumsum([len(each.numbers) for each in packed])[:-1]
    )
    return joined._replace(numbers=in_leaves([table.counts for table in tables], numbers)[:, 0])


def _restored(reading: Reading, packed: PackedPages) -> Reading:
    """Return what is read with the wanted chunks of compressed pages decompressed."""
    leaves = np.empty((len(reading.counts), 4), np.int64)
    leaves[:, 0], leaves[:, 1] = reading.counts.cumsum() - reading.counts, reading.counts
    leaves[:, 2:] = reading.wanted
    made, pages = restore(packed, reading.pieces, reading.pages, leaves, reading.rows)
    return reading._replace(pieces=Pieces([*reading.pieces, made]), pages=pages, packed=None)


def in_groups(bits: Ints, counts: Ints) -> Iterator[range]:
    """Yield the positions of leaves that are read in one call, which share memory.

    Args:
        bits: Bits of each value that is given of each leaf: int64, shape (leaves,).
        counts: Number of wanted rows of each leaf: int64, shape (leaves,).
    """
    first, size = 0, 0
    for number, own in enumerate((counts * bits // 8).tolist()):
        if number > first and size + own > _MAX_BYTES:
            yield range(first, number)
            first, size = number, 0
        size += own
    yield range(first, len(bits))


def leaf_memory(
    pages: Ints, bits: Ints, has_levels: Mask, wanted: Ints, leaves: range
) -> LeafMemory:
    """Lay out the memory of some leaves: the values of each, and their validity behind them.

    Args:
        pages: Number of pages of each of all leaves: int64, shape (all leaves,).
        bits: Bits of a value of each: int64, shape (all leaves,).
        has_levels: For each, whether a page of it has definition levels to be read: bool, shape
            (all leaves,).
        wanted: The first and the number of the wanted rows of each: int64, shape (all leaves, 2).
        leaves: The positions of the leaves that share memory.
    """
    some = slice(leaves.start, leaves.stop)
    counts, is_nullable = wanted[some, 1], has_levels[some]
    lengths = (counts * bits[some] + 7) // 8
    room = -(-counts // (8 * _ALIGN)) * _ALIGN * is_nullable  # of validity
    sizes = -(-lengths // _ALIGN) * _ALIGN
    ends = (sizes + room).cumsum()
    starts = ends - sizes - room
    columns = np.empty((len(leaves), len(LeafColumn)), np.int64)
    columns[:, LeafColumn.FIRST_PAGE] = (pages.cumsum() - pages)[some]
    columns[:, LeafColumn.PAGES] = pages[some]
    columns[:, LeafColumn.OUT] = starts
    columns[:, LeafColumn.VALIDITY] = np.where(is_nullable, starts + sizes, -1)
    columns[:, LeafColumn.FIRST_WANTED :] = wanted[some]
    of_vectors = int(lengths[bits[some] > MAX_BITS].sum())
    return LeafMemory(columns, lengths, int(ends[-1]), of_vectors)


def _memory(reading: Reading, leaves: range) -> LeafMemory:
    """Return the memory of some leaves, which is kept where all are read at the same rows."""
    table, key = reading.sources[0].table, (leaves.start, leaves.stop, len(reading.rows))
    is_kept = len(reading.sources) == 1 and not reading.valid
    memory = table.memories.get(key) if is_kept else None
    if memory is None:
        tables = reading.counts, table.bits, reading.has_levels, reading.wanted
        memory = leaf_memory(*tables, leaves)
        if is_kept:
            if len(table.memories) >= _MAX_MEMORIES:
                table.memories.clear()
            table.memories[key] = memory
    return memory


def _read_some(reading: Reading, leaves: range) -> KernelResult:
    out, found, size, places = _take(reading, leaves)
    texts = iter(_join_strings(out, found, reading))
    arrays = []
    for leaf, one in zip(leaves, found, strict=True):
        match one.plan.form:
            case PointForm.VALUES:
                arrays.append(one.array(one.plan.data_type))
            case PointForm.STRINGS if one.places is not None:
                arrays.append(next(texts))
            case PointForm.STRINGS:
                arrays.append(_strings(one, reading))
            case PointForm.CODES:
                arrays.append(_decode_strings(one, reading, leaf))
            case PointForm.INDICES:
                arrays.append(_look_up_items(one, reading, leaf))
            case PointForm.ENCODED:
                arrays.append(_decode_values(one, reading, leaf))
    return KernelResult(arrays, size, places)


def _take(reading: Reading, leaves: range) -> tuple[Bytes, list[_LeafValues], int, int]:
    """Call the kernel.

    Returns:
        The memory of the leaves; what is found of each; and how many bytes the kernel looked at, in
        how many places.
    """
    memory = _memory(reading, leaves)
    if memory.of_vectors:
        check_size(memory.of_vectors, memory.of_vectors)
    pages = reading.pages
    out, numbers = take_points(reading.pieces, pages, memory.leaves, reading.rows, memory.size)
    *nulls, seen, places = numbers.tolist()
    buffer, first_rows = pa.py_buffer(out), pages[:, PageColumn.FIRST_ROW]
    # Leaves whose validity is in the levels of their pages; the others have a mask of their own.
    by_levels = len(reading.counts) - len(reading.valid)
    found = []
    for leaf, length, null, own in zip(
        leaves, memory.lengths.tolist(), nulls, memory.leaves.tolist(), strict=True
    ):
        first, count, start, valid_at, first_wanted, number = own
        rows = reading.rows[first_wanted : first_wanted + number]
        values = buffer.slice(start, length)
        valid = buffer.slice(valid_at, -(-number // 8)) if null else None
        at: tuple[int, int] | None = (start, valid_at if null else -1)
        if leaf >= by_levels and (mask := reading.valid[leaf - by_levels]) is not None:
            null, valid, at = number - int(np.count_nonzero(mask)), bitmap(mask), None
        of_leaf = reading.plans[leaf], first_rows[first : first + count], rows, number
        found.append(_LeafValues(*of_leaf, null, values, valid, at))
    return out, found, seen, places


def _join_strings(out: Bytes, found: Sequence[_LeafValues], reading: Reading) -> Iterator[pa.Array]:
    """Yield the strings of leaves, of which the kernel found the places, all by one call."""
    leaves, first = [], 0
    strings = [
        one for one in found if one.plan.form is PointForm.STRINGS and one.places is not None
    ]
    for one in strings:
        assert one.places is not None  # as filtered above
        leaves.append((*one.places, one.length, first, is_text(one.plan.data_type)))
        first += one.length + 1
    if not leaves:
        return
    texts = join_leaves(reading.pieces, out, np.array(leaves, np.int64))
    for one, (offsets, text, is_sound) in zip(strings, texts, strict=True):
        block, data_type = VariableWidth(offsets, text), one.plan.data_type
        yield strings_array(block, data_type, one.validity, one.nulls, is_sound)


def _strings(found: _LeafValues, reading: Reading) -> pa.Array:
    """Return strings, of which the kernel found the places."""
    offsets, text = join_texts(reading.pieces, found.spans, found.bits)
    block = VariableWidth(offsets, text)
    return strings_array(block, found.plan.data_type, found.validity, found.nulls)


def _cut(
    found: _LeafValues, reading: Reading, leaf: int
) -> Iterator[tuple[PageDictionary, PointSource, slice]]:
    """Yield the pages of a leaf that hold rows, with the file and the rows of each."""
    stops = [len(found.rows)]
    if len(found.first_rows) > 1:
        stops = [*np.searchsorted(found.rows, found.first_rows[1:]).tolist(), *stops]
    first = 0
    for (dictionary, source), stop in zip(reading.dictionaries(leaf), stops, strict=True):
        if first < stop:
            yield dictionary, source, slice(first, stop)
            first = stop


def _decode_strings(found: _LeafValues, reading: Reading, leaf: int) -> pa.Array:
    """Return strings that are compressed with FSST, of which the kernel found the places."""
    spans, bits, pieces, data_type = found.spans, found.bits, reading.pieces, found.plan.data_type
    cut = list(_cut(found, reading, leaf))
    if len(cut) == 1:
        offsets, text = _spelled(pieces, spans, bits, cut[0][0].symbols)
    else:
        if (valid := found.valid) is not None:  # a null has no bytes, whatever is under it
            spans = np.where(valid[:, np.newaxis], spans, 0)
        parts = [_spelled(pieces, spans[own], None, page.symbols) for page, _, own in cut]
        lengths = np.concatenate([np.empty(0, np.int64), *(np.diff(own) for own, _ in parts)])
        offsets, text = offsets_of(lengths), join_bytes([text for _, text in parts])
    return strings_array(VariableWidth(offsets, text), data_type, found.validity, found.nulls)


def _spelled(
    pieces: Sequence[Bytes], spans: Ints, valid: Bytes | None, symbols: SymbolTable | None
) -> tuple[Array, Bytes]:
    """Return the offsets and the text of strings, of which the kernel found the codes."""
    offsets, codes = join_texts(pieces, spans, valid)
    if symbols is None:
        return offsets, codes
    offsets, text = decode_fsst(symbols, offsets, codes)
    check_size(len(text), len(codes))
    return offsets, text


def _decode_values(found: _LeafValues, reading: Reading, leaf: int) -> pa.Array:
    """Return values that are encoded one by one, of which the kernel found the places."""
    data_type, valid = found.plan.data_type, found.valid
    offsets, data = join_texts(reading.pieces, found.spans, found.bits)
    bounds, cut = offsets.astype(np.int64), list[tuple[CompressiveEncoding, slice]]()
    for page, _, own in _cut(found, reading, leaf):
        if cut and cut[-1][0] is page.encoding:  # as of the page before
            own = slice(cut.pop()[1].start, own.stop)
        cut.append((page.encoding, own))
    arrays = []
    for encoding, own in cut:
        values = Chunked(data, bounds[:-1][own], bounds[1:][own])
        block = registry.decode_variable(encoding, values)
        arrays.append(to_arrow(block, data_type, None if valid is None else valid[own]))
    return join_arrays(arrays, data_type)


def _look_up_items(found: _LeafValues, reading: Reading, leaf: int) -> pa.Array:
    """Return the items that indices point at."""
    data_type, bits = found.plan.data_type, found.plan.bits
    if found.plan.is_read_once and _are_alike(found.plan.dictionaries):
        return _look_up_together(found, reading)
    indices = found.array(_INDICES[bits])
    if pa.types.is_dictionary(data_type):
        return _attach_dictionaries(found, indices, reading, leaf)
    arrays = []
    for items, longest, wanted in _dictionaries(found, reading, leaf):
        own = indices[wanted]
        if longest * len(own) > _SMALL:
            stored = np.frombuffer(found.values, dtype_of(bits // 8))
            lengths = np.diff(strings_of(items)[0])
            check_size(int(lengths[stored[wanted].clip(max=len(items) - 1)].sum(dtype=np.int64)))
        try:
            arrays.append(as_text(items.take(own), data_type))
        except pa.ArrowIndexError as error:
            raise CorruptFile(
                f"an index is beyond the {len(items)} items of a dictionary"
            ) from error
    return join_arrays(arrays, data_type)


def _attach_dictionaries(
    found: _LeafValues, indices: pa.Array, reading: Reading, leaf: int
) -> pa.Array:
    """Return indices with the dictionaries that they point into."""
    data_type, arrays = found.plan.data_type, []
    for stored, _, wanted in _dictionaries(found, reading, leaf):
        items = as_text(stored, data_type.value_type)
        try:
            own = indices[wanted].cast(data_type.index_type)
            arrays.append(pa.DictionaryArray.from_arrays(own, items, ordered=data_type.ordered))
        except (pa.ArrowIndexError, pa.ArrowInvalid) as error:
            raise CorruptFile(
                f"an index is beyond the {len(items)} items of a dictionary"
            ) from error
    return join_arrays(arrays, data_type)


def _dictionaries(
    found: _LeafValues, reading: Reading, leaf: int
) -> list[tuple[pa.Array, int, slice]]:
    """Return dictionaries with the bytes of their longest item, and the rows that point at them."""
    data_type, cut = found.plan.data_type, list[tuple[pa.Array, int, slice]]()
    if pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    for dictionary, source, wanted in _cut(found, reading, leaf):
        items = dictionary.values(data_type, source.data, source.start)
        if cut and cut[-1][0] is items:  # as the page before
            cut[-1] = items, dictionary.longest, slice(cut[-1][2].start, wanted.stop)
        else:
            cut.append((items, dictionary.longest, wanted))
    return cut


def _are_alike(dictionaries: Sequence[PageDictionary]) -> bool:
    """Whether the dictionaries of pages are stored in the same way."""
    first = dictionaries[0]
    return all(
        each.description is first.description or each.items_encoding == first.items_encoding
        for each in dictionaries
    )


def _look_up_together(found: _LeafValues, reading: Reading) -> pa.Array:
    """Return the items that indices point at, with the dictionaries of all pages decoded as one."""
    plan, valid, (source,) = found.plan, found.valid, reading.sources
    stops = np.searchsorted(reading.rows, plan.pages[1:, PageColumn.FIRST_ROW])
    counts = np.diff(stops, prepend=0, append=len(reading.rows))
    sizes = plan.pages[:, PageColumn.ITEM_COUNT]
    bounds = plan.pages[:, PageColumn.ITEMS : PageColumn.ITEMS_END + 1] - source.start
    packed = Chunked(source.data, *bounds.T.copy())
    encoding = plan.dictionaries[0].items_encoding
    items = PageDictionaries(registry.decode_blocks(encoding, packed, sizes), sizes, counts)
    indices = np.frombuffer(found.values, dtype_of(plan.bits // 8))
    if valid is not None:
        indices = np.where(valid, indices, 0).astype(indices.dtype)
    return to_arrow(look_up(FixedWidth(plan.bits, indices), items), plan.data_type, valid)
