"""Drawn pages, and rows of them, for the kernel that reads a few rows of many pages."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st

from lancefs.datafile.buffers import dtype_of
from lancefs.datafile.kernels import fsst, packed
from lancefs.datafile.kernels.plain import ItemParts
from lancefs.datafile.kernels.points import RUN_LENGTHS, PageColumn, Stored
from lancefs.errors import CorruptFile

_CHUNKED = [Stored.FLAT, Stored.PACKED, Stored.SPLIT, *RUN_LENGTHS, Stored.LOOKED_UP]
_VALUES = [*_CHUNKED, Stored.STRINGS, Stored.ZIPPED]
_NUMBERS = [*_CHUNKED, Stored.DECIMAL64]  # of plain columns
_WHOLE = [Stored.WHOLE, Stored.ENDS, Stored.INDEXED]  # pages without chunks
_TEXTS = (Stored.STRINGS, Stored.LOOKED_UP, Stored.ZIPPED, Stored.ENDS, Stored.INDEXED)
LEVELS = [*range(Stored.NONE, Stored.PACKED_APART + 1), Stored.RUNS, Stored.SKIPPED]
_WITHOUT = (Stored.NONE, Stored.SKIPPED)  # levels that are read
_POSITIONS = [*range(PageColumn.TABLE, PageColumn.CHUNKS_END + 1), PageColumn.ITEMS]


def few_rows_of_pages() -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw the arguments of `take_points`: pages of some leaves, and rows; some are damaged."""
    return st.composite(_draw_points)()


def range_of(draw: st.DrawFn, rows: int) -> tuple[int, int]:
    """Draw the first row, and the row after the last one, of pages of so many rows."""
    start = draw(st.integers(0, rows - 1))
    stop = draw(st.integers(start + 1, rows))
    if not draw(st.integers(0, 9)):  # beyond the rows of the pages
        start, stop = start - draw(st.integers(0, 3)), stop + draw(st.integers(0, 3))
    return start, stop


@st.composite
def rows_of_plain_pages(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `read_plain`: pages of some leaves, and a range of rows."""
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    file, rows = WrittenBytes(draw(st.integers(0, 7))), draw(st.integers(1, 3000))
    start, stop = range_of(draw, rows)
    pages: list[tuple[int, ...]] = []
    leaves, sizes = [], [0]
    dictionaries: list[np.ndarray[Any, Any] | None] = []
    for _ in range(draw(st.integers(1, 3))):
        values = draw(st.sampled_from(_NUMBERS))
        levels, bits = (
            Stored(draw(st.sampled_from(LEVELS[:-1]))),
            draw(st.sampled_from(_bits_of(values))),
        )
        first = len(pages)
        pages += pages_of_leaf(draw, source, file, rows, (values, bits), levels)
        if values is Stored.LOOKED_UP or (values in RUN_LENGTHS and draw(st.booleans())):
            bits = draw(st.sampled_from([8, 16, 24, 32, 64, 128]))
            pages[first:] = [_as_packed(page) for page in pages[first:]]
            dictionaries += [_items_of(source, page, bits // 8) for page in pages[first:]]
        dictionaries += [None] * (len(pages) - len(dictionaries))
        if sizes[-1] and draw(st.booleans()):
            sizes.append(0)
        at = sizes[-1]
        validity = at + ((stop - start) * bits + 63) // 64 * 8
        sizes[-1] = end = validity + (stop - start + 63) // 64 * 8
        shown = validity if levels is not Stored.NONE else -1
        leaves.append((first, len(pages) - first, len(sizes) - 1, at, shown, end, bits))
    data, table = np.frombuffer(bytes(file.data), np.uint8).copy(), np.array(pages, np.int64)
    damage(draw, data, table)
    items = ItemParts(len(pages))
    for number, one in enumerate(dictionaries):
        items.put(number, one)
    wanted = start, stop
    return data, data, (-1, 0), table, items, np.array(leaves, np.int64), wanted, sizes


def _as_packed(page: tuple[int, ...]) -> tuple[int, ...]:
    """Return a page of indices as it is read where its items are given."""
    if page[PageColumn.VALUES] in RUN_LENGTHS:
        return page
    return (*page[: PageColumn.VALUES], Stored.PACKED, *page[PageColumn.VALUES + 1 :])


def _items_of(
    source: np.random.Generator, page: tuple[int, ...], width: int
) -> np.ndarray[Any, Any]:
    """Return the items of a page, or fewer of them."""
    count = page[PageColumn.ITEM_COUNT] - int(source.random() < 0.1)
    return np.frombuffer(source.bytes(count * width), dtype_of(width)).copy()


def pages_of_leaf(
    draw: st.DrawFn,
    source: np.random.Generator,
    file: WrittenBytes,
    rows: int,
    stored: tuple[Stored, int],
    levels: Stored,
) -> list[tuple[int, ...]]:
    """Write the pages of a leaf, some of which have no levels; return their plans."""
    cuts = np.unique(source.integers(1, rows + 1, draw(st.integers(0, 2)))).tolist()
    return [
        _page(
            source,
            file,
            (start, end - start),
            stored,
            levels if source.random() < 0.7 else Stored.NONE,
        )
        for start, end in pairwise(sorted({0, *cuts, rows}))
    ]


@st.composite
def texts_of_spans(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `join_texts`."""
    few, many = st.binary(max_size=60), st.binary(min_size=200, max_size=900)
    data = np.frombuffer(draw(few | many), np.uint8)
    beyond = draw(st.sampled_from([0, 0, 0, 1, 1 << 62]))
    place = st.integers(-1 if beyond else 0, len(data) + beyond)
    spans = draw(st.lists(st.tuples(place, place), max_size=9))
    ordered = [(min(span), max(span)) for span in spans]
    shown = ordered if draw(st.integers(0, 5)) else spans
    places = np.array(shown, np.int64).reshape(-1, 2)
    valid = draw(st.none() | st.lists(st.booleans(), min_size=len(shown), max_size=len(shown)))
    bits = None if valid is None else np.packbits(np.array(valid, np.bool_), bitorder="little")
    return _in_pieces(draw, data), places, bits


@st.composite
def texts_of_leaves(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `join_leaves`."""
    few = st.binary(max_size=60) | st.text("aé☃", max_size=40).map(str.encode)
    data = np.frombuffer(draw(few | st.binary(min_size=2000, max_size=3000)), np.uint8)
    place = st.integers(-1 if draw(st.integers(0, 9)) == 0 else 0, len(data))
    values, leaves, at = b"", [], 0
    for _ in range(draw(st.integers(1, 4))):
        spans = [sorted(span) for span in draw(st.lists(st.tuples(place, place), max_size=9))]
        bits = draw(st.none() | st.binary(min_size=2, max_size=2))
        start, values = len(values), values + padded(np.array(spans, "<i8").tobytes())
        valid, values = len(values), values + padded(bits or b"")
        leaves.append((start, -1 if bits is None else valid, len(spans), at, draw(st.booleans())))
        at += len(spans) + draw(st.integers(1, 3))
    stored = np.frombuffer(values, np.int64).copy().view(np.uint8)
    return _in_pieces(draw, data), stored, np.array(leaves, np.int64)


@st.composite
def _symbol_tables(draw: st.DrawFn) -> fsst.SymbolTable:
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    used = draw(st.sampled_from([3, 255, 255, 255]))
    symbols, lengths = np.zeros((256, 8), np.uint8), np.zeros(256, np.uint8)
    lengths[:used] = source.integers(1, 9, used)
    symbols[:used] = source.integers(0, 256, (used, 8))
    symbols[np.arange(8) >= lengths[:, None]] = 0
    return fsst.SymbolTable(symbols, lengths, raw=draw(st.integers(0, 9)) == 0)


def _in_pieces(draw: st.DrawFn, data: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Cut bytes somewhere, most often at no place; pages may be cut too, and are refused then."""
    place = st.integers(0, len(data))
    cuts = sorted(draw(st.just([]) | st.lists(place, max_size=3)))
    return [data[start:end].copy() for start, end in pairwise([0, *cuts, len(data)])]


class WrittenBytes:
    """Bytes that are written one after the other, at odd places."""

    def __init__(self, shift: int) -> None:
        self.data = bytearray(shift)
        self.borders: list[int] = []  # where pages begin

    def add(self, part: bytes) -> tuple[int, int]:
        start = len(self.data)
        self.data += part
        return start, len(self.data)


def _draw_points(draw: st.DrawFn) -> tuple[Any, ...]:
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    file, rows = WrittenBytes(draw(st.integers(0, 7))), draw(st.integers(1, 3000))
    wanted = some_rows(draw, source, rows)
    pages: list[tuple[int, ...]] = []
    leaves, size = [], 0
    for _ in range(draw(st.integers(1, 3))):
        values = draw(st.sampled_from([*_VALUES, *_WHOLE]))
        levels = Stored(draw(st.sampled_from(_levels_of(values))))
        bits = draw(st.sampled_from(_bits_of(values)))
        first = len(pages)
        pages += pages_of_leaf(draw, source, file, rows, (values, bits), levels)
        width = 128 if values in _TEXTS else bits
        end = size + (len(wanted) * width + 63) // 64 * 8
        from_row = draw(st.sampled_from([0, 0, len(wanted) // 2]))
        own = from_row, len(wanted) - from_row
        has_levels = levels not in _WITHOUT
        leaves.append((first, len(pages) - first, size, end if has_levels else -1, *own))
        size = end + (len(wanted) + 63) // 64 * 8
    data, table = np.frombuffer(bytes(file.data), np.uint8).copy(), np.array(pages, np.int64)
    damage(draw, data, table)
    if len(wanted) and not draw(st.integers(0, 9)):
        wanted[-1] += draw(st.integers(-3, 3))
    return cut_somewhere(draw, file, data), table, np.array(leaves, np.int64), wanted, size


@st.composite
def rows_of_packed_pages(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `find_packed`; to the kernel, compressed values are any bytes."""
    source = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    file, rows = WrittenBytes(draw(st.integers(0, 7))), draw(st.integers(1, 3000))
    wanted = some_rows(draw, source, rows)
    pages: list[tuple[int, ...]] = []
    leaves = []
    for _ in range(draw(st.integers(1, 3))):
        stored = draw(st.sampled_from([*_CHUNKED[:-1], Stored.STRINGS]))
        levels = Stored(draw(st.sampled_from(LEVELS)))
        first, bits = len(pages), draw(st.sampled_from(_bits_of(stored)))
        pages += pages_of_leaf(draw, source, file, rows, (stored, bits), levels)
        from_row = draw(st.sampled_from([0, 0, len(wanted) // 2]))
        leaves.append((first, len(pages) - first, from_row, len(wanted) - from_row))
    data, table = np.frombuffer(bytes(file.data), np.uint8).copy(), np.array(pages, np.int64)
    damage(draw, data, table)
    if len(wanted) and not draw(st.integers(0, 9)):
        wanted[-1] += draw(st.integers(-3, 3))
    is_packed = source.random(len(pages)) < 0.8
    return cut_somewhere(draw, file, data), table, np.array(leaves, np.int64), wanted, is_packed


@st.composite
def chunks_to_restore(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `restore_pages`; a file may have changed since chunks were found."""
    pieces, pages, *others = draw(rows_of_packed_pages())
    try:
        chunks = packed.find_packed(pieces, pages, *others)
    except CorruptFile:
        reject()
    sizes = draw(st.lists(st.integers(0, 50), min_size=len(chunks), max_size=len(chunks)))
    ends = np.cumsum(np.array(sizes, np.int64))
    raw = np.frombuffer(bytes(range(256)) * (1 + sum(sizes) // 256), np.uint8)
    if len(chunks) and not draw(st.integers(0, 3)):
        piece = pieces[draw(st.integers(0, len(pieces) - 1))]
        piece[: draw(st.integers(0, len(piece)))] = draw(st.integers(0, 255))
    start = sum(map(len, pieces))
    return pieces, pages, chunks, raw, np.stack((ends - sizes, ends), axis=1), start


def cut_somewhere(
    draw: st.DrawFn, file: WrittenBytes, data: np.ndarray[Any, Any]
) -> list[np.ndarray[Any, Any]]:
    """Cut bytes into pieces: before pages, or anywhere."""
    return _at_pages(draw, file, data) if draw(st.booleans()) else _in_pieces(draw, data)


def some_rows(draw: st.DrawFn, source: np.random.Generator, rows: int) -> np.ndarray[Any, Any]:
    """Draw rows far apart, and in some cases rows that follow each other, among them or alone."""
    apart = source.integers(0, rows, draw(st.integers(0, 12)))
    first = int(source.integers(0, rows))
    last = min(first + draw(st.sampled_from([0, 0, 2, 20, 2000])), rows)
    return np.unique(np.concatenate((apart, np.arange(first, last))))


def _at_pages(
    draw: st.DrawFn, file: WrittenBytes, data: np.ndarray[Any, Any]
) -> list[np.ndarray[Any, Any]]:
    """Cut bytes before pages."""
    cuts = [at for at in file.borders if draw(st.booleans())]
    return [data[start:end].copy() for start, end in pairwise([0, *cuts, len(data)])]


def _levels_of(values: Stored) -> list[int]:
    if values is Stored.WHOLE:
        return [Stored.NONE, Stored.FLAT]
    return [Stored.FLAT] if values in _WHOLE else LEVELS


def _bits_of(values: Stored) -> list[int]:
    if values in (Stored.FLAT, Stored.WHOLE):
        return [1, 8, 16, 24, 32, 64, 128]
    if values is Stored.SPLIT:
        return [8, 16, 24, 32, 64, 128]
    if values is Stored.DECIMAL64:
        return [64]
    return [32, 64] if values in (Stored.STRINGS, Stored.ENDS) else [8, 16, 32, 64]


def damage(draw: st.DrawFn, data: np.ndarray[Any, Any], pages: np.ndarray[Any, Any]) -> None:
    """In some cases change a few bytes, or where a buffer is."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        for _ in range(draw(st.integers(1, 4))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    elif kind == 1:
        page, column = draw(st.integers(0, len(pages) - 1)), draw(st.sampled_from(_POSITIONS))
        pages[page, column] += draw(st.integers(-9, 9) | st.sampled_from([-(1 << 40), 1 << 40]))
    elif kind == 2:
        page = draw(st.integers(0, len(pages) - 1))
        pages[page, PageColumn.ITEM_COUNT] = draw(st.integers(-1, 9))


def _page(
    source: np.random.Generator,
    file: WrittenBytes,
    rows: tuple[int, int],
    stored: tuple[Stored, int],
    levels: Stored,
) -> tuple[int, ...]:
    """Write a page; return its plan."""
    if stored[0] is Stored.ZIPPED:
        return _zipped_page(source, file, rows, stored[1], levels)
    if stored[0] in _WHOLE:
        return _whole_page(source, file, rows, stored, levels)
    entry, (values, bits), width = int(source.choice([2, 4])), stored, int(source.integers(0, 4))
    most = 10 if Stored.PACKED in (values, levels) or values is Stored.LOOKED_UP else 11
    items = int(source.integers(1, 6))
    left, table, chunks = rows[1], b"", b""
    while left:
        power = int(source.integers(0, most + 1))
        is_last = left <= 1 << power
        count = left if is_last else 1 << power
        chunk = _chunk(source, count, entry, (values, bits, items), (levels, width))
        table += ((len(chunk) // 8 - 1) << 4 | (0 if is_last else power)).to_bytes(entry, "little")
        chunks += chunk
        left -= count
    file.borders.append(len(file.data))
    places = *file.add(table), *file.add(chunks)
    strings = file.add(_dictionary(source, items))
    return (*rows, *places, entry, values, bits, levels, width, *strings, items)


def _zipped_page(
    source: np.random.Generator,
    file: WrittenBytes,
    rows: tuple[int, int],
    bits: int,
    levels: Stored,
) -> tuple[int, ...]:
    """Write a full-zip page; return its plan."""
    width, has_levels = int(source.integers(1, 17)), levels not in _WITHOUT
    word = 0 if not has_levels else 1 if width <= 8 else 2
    items, ends = b"", [0]
    for _ in range(rows[1]):
        is_null = has_levels and source.random() < 0.3
        text = source.bytes(int(source.integers(0, 9)))
        items += int(is_null).to_bytes(word, "little")
        items += b"" if is_null else len(text).to_bytes(bits // 8, "little") + text
        ends.append(len(items))
    if source.random() < 0.1:  # an index that begins anew, of which each row is sound but one
        ends = (ends[: len(ends) // 2] * 3)[: len(ends)]
    entry = 4 if len(items) < 60000 else 8
    file.borders.append(len(file.data))
    index = file.add(np.array(ends).astype(f"<u{entry}").tobytes())
    places = file.add(items)
    stored = entry, Stored.ZIPPED, bits, Stored.FLAT if has_levels else Stored.NONE, width
    return (*rows, *index, *places, *stored, *places, 0)


def _whole_page(
    source: np.random.Generator,
    file: WrittenBytes,
    rows: tuple[int, int],
    stored: tuple[Stored, int],
    levels: Stored,
) -> tuple[int, ...]:
    """Write a page without chunks; return its plan."""
    values, bits, count = *stored, rows[1]
    file.borders.append(len(file.data))
    adjustment, width, items = int(source.integers(20, 60)), 0, 0
    if values is Stored.WHOLE:
        table = file.add(source.bytes((count + 7) // 8)) if levels is not Stored.NONE else None
        chunks = text = file.add(source.bytes((count * bits + 7) // 8))
        table = table or chunks
    elif values is Stored.ENDS:
        table = file.add(_ends(source, count, bits, adjustment))
        chunks = text = file.add(source.bytes(60))
    else:
        width, items = int(source.choice([32, 64])), int(source.integers(0, 9))
        indices = source.integers(0, items + 1, count)
        table = file.add(indices.astype(f"<u{bits // 8}").tobytes())
        chunks = file.add(_ends(source, items, width, adjustment))
        text = file.add(source.bytes(60))
    places = *table, *chunks, adjustment, values, bits, levels, width
    return (*rows, *places, *text, items)


def _ends(source: np.random.Generator, count: int, bits: int, adjustment: int) -> bytes:
    """Return where strings end in a text of up to 60 bytes; those of some are null."""
    ends = np.sort(source.integers(0, min(adjustment, 61), count))
    nulls = source.random(count) < 0.2
    return (ends + adjustment * nulls).astype(f"<u{bits // 8}").tobytes()


def _chunk(
    source: np.random.Generator,
    count: int,
    entry: int,
    stored: tuple[Stored, int, int],
    levels: tuple[Stored, int],
) -> bytes:
    values, buffers = _stored_values(source, count, *stored), []
    lengths = b""
    if stored[0] in RUN_LENGTHS:
        values, lengths = _runs(source, count, *stored)
    head = count.to_bytes(2, "little")
    if levels[0] is Stored.SKIPPED:
        buffers = [source.bytes(int(source.integers(0, 20))) for _ in range(min(levels[1], 2))]
        head += b"".join(len(buffer).to_bytes(2, "little") for buffer in buffers)
    elif levels[0] is not Stored.NONE:
        buffers.append(_stored_levels(source, count, *levels))
        head += len(buffers[0]).to_bytes(2, "little")
    if entry == 2 and len(values) > 28_000:  # with levels, what an entry cannot say: cut short
        values = values[: 1 << 14]
    head += len(values).to_bytes(entry, "little")
    if stored[0] in RUN_LENGTHS:
        head += len(lengths).to_bytes(entry, "little")
    return b"".join(map(padded, [head, *buffers, values, lengths]))


def _runs(
    source: np.random.Generator, count: int, stored: Stored, bits: int, items: int
) -> tuple[bytes, bytes]:
    """Return the values of runs, which may be indices of items, and their lengths."""
    lengths = source.integers(0, source.choice([2, 20, 256]), count + 1)
    least = int(np.searchsorted(np.cumsum(lengths), count)) + 1
    some = max(least + int(source.choice([0, 0, 0, 3, -1])), 0)  # too many, or too few
    lengths = lengths[:some].astype(f"<u{RUN_LENGTHS[stored]}")
    values = source.integers(0, items + int(source.random() < 0.05), len(lengths))
    return values.astype(f"<u{bits // 8}").tobytes(), lengths.tobytes()


def padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 8)


def _stored_values(
    source: np.random.Generator, count: int, values: Stored, bits: int, items: int
) -> bytes:
    match values:
        case Stored.RUNS | Stored.LONG_RUNS:
            return b""
        case Stored.FLAT | Stored.SPLIT:
            return source.bytes((count * bits + 7) // 8)
        case Stored.DECIMAL64:
            low = source.integers(-(1 << 63), 1 << 63, count)
            high = low >> 63
            if count and source.random() < 0.02:  # a number that takes more bits
                high[source.integers(0, count)] += 1
            return np.stack((low, high), axis=1).astype("<i8").tobytes()
        case Stored.PACKED:
            width = int(source.integers(0, bits + 1))
            return width.to_bytes(bits // 8, "little") + source.bytes(width * 128)
        case Stored.LOOKED_UP:
            width = int(source.integers(0, 3)) if items > 3 else 0
            return width.to_bytes(bits // 8, "little") + source.bytes(width * 128)
        case _:
            ends = np.sort(source.integers(0, 40, count + 1)) + (count + 1) * (bits // 8)
            return ends.astype(f"<u{bits // 8}").tobytes() + source.bytes(40)


def _stored_levels(source: np.random.Generator, count: int, levels: Stored, width: int) -> bytes:
    wanted = (source.random(count) < 0.3).astype("<u2")
    match levels:
        case Stored.FLAT:
            return wanted.tobytes()
        case Stored.PACKED:
            return width.to_bytes(2, "little") + _packed_levels(source, 1, width)
        case Stored.PACKED_APART:
            tail = count % 1024
            blocks = _packed_levels(source, count // 1024, width)
            is_raw = tail and source.random() < 0.5
            last = (
                wanted[count - tail :].tobytes()
                if is_raw
                else _packed_levels(source, int(tail > 0), width)
            )
            return blocks + last
        case _:
            lengths = np.full(-(-count // 200), 200, "u1")
            runs = (np.arange(len(lengths)) % 2).astype("<u2").tobytes()
            return len(runs).to_bytes(8, "little") + runs + lengths.tobytes()


def _packed_levels(source: np.random.Generator, blocks: int, width: int) -> bytes:
    """Return blocks of levels: all bits of one are levels, and zeros are levels of every width."""
    return source.bytes(blocks * 128) if width == 1 else bytes(blocks * width * 128)


def _dictionary(source: np.random.Generator, items: int) -> bytes:
    width = int(source.choice([4, 8]))
    ends = np.sort(source.integers(0, 30, items + 1)).astype(f"<u{width}")
    header = (8 * width).to_bytes(width, "little") + (width * (items + 3)).to_bytes(width, "little")
    return header + ends.tobytes() + source.bytes(30)
