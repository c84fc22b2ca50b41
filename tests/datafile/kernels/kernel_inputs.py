"""Drawn inputs for every kernel, and the results of kernels in a form that can be compared.

Most inputs are sound; some are damaged in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from drawing import Arguments, damage, generators, ints, odd_place, some_of
from hypothesis import strategies as st
from json_inputs import json_values
from level_inputs import levels_of_leaves, levels_of_rows
from phrase_inputs import ascending_numbers, words_of_documents
from point_inputs import (
    chunks_to_restore,
    few_rows_of_pages,
    rows_of_packed_pages,
    rows_of_plain_pages,
    texts_of_leaves,
    texts_of_spans,
)
from string_inputs import (
    fsst_strings,
    masked_strings,
    string_chunks,
    string_lookups,
    strings_of_chunks,
    texts,
    texts_and_keys,
    texts_and_parts,
    texts_of_zones,
    texts_that_recur,
)
from text_inputs import rows_of_text_pages
from vector_inputs import (
    bits_and_queries,
    codebook_and_vectors,
    codes_and_codes,
    codes_and_queries,
    kept_and_added,
    some_halves,
    vectors_and_queries,
)

from lancefs.datafile import kernels
from lancefs.datafile.buffers import dtype_of
from lancefs.datafile.kernels import (
    bitpacking,
    bounds,
    chunks,
    codes,
    decimals,
    ends,
    frames,
    fsst,
    intervals,
    items,
    jsonb,
    layers,
    library,
    lists,
    lookup,
    lz4,
    membership,
    packed,
    parts,
    phrases,
    plain,
    points,
    runs,
    scores,
    segments,
    selection,
    slots,
    streams,
    strings,
    tallies,
    utf8,
    vectors,
)
from lancefs.datafile.kernels.levels import take_levels
from lancefs.datafile.kernels.texts import read_texts
from lancefs.errors import CorruptFile

COMPILED = library.LIBRARY is not None
needs_library = pytest.mark.skipif(not COMPILED, reason="the compiled kernels are not in use")


def outcome(kernel: Callable[..., Any], arguments: Arguments) -> object:
    """Return what a kernel gives, in a form that can be compared, or that it refuses."""
    try:
        result = kernel(*arguments)
    except CorruptFile as error:
        return f"refused: {error}"
    return _shown(result)


def _shown(result: Any) -> object:
    if isinstance(result, (tuple, list)):
        return [_shown(part) for part in result]
    return (result.dtype.str, result.tobytes()) if isinstance(result, np.ndarray) else result


def compiled_kernel(name: str) -> Callable[..., Any]:
    """Return a compiled kernel; there are none where the library is not in use."""
    kernel: Callable[..., Any] = getattr(kernels, name)
    return kernel


# Inputs


@st.composite
def packed_blocks(draw: st.DrawFn) -> Arguments:
    bits = draw(st.sampled_from([8, 16, 32, 64]))
    widths = ints(draw(st.lists(st.integers(0, bits), max_size=4)))
    whole = st.just(1024)
    counts = ints([draw(whole | st.integers(0, 1024)) for _ in widths])
    gap = draw(st.integers(0, 9))
    starts = np.cumsum(widths * 128 + gap) - widths * 128
    size = int(starts[-1] + widths[-1] * 128) if len(widths) else 0
    data = draw(generators()).integers(0, 256, size, np.uint8)
    damage(draw, starts, widths, counts)
    return odd_place(draw, data), starts, widths, counts, bits


@st.composite
def packed_values(draw: st.DrawFn) -> Arguments:
    data, starts, widths, counts, bits = draw(packed_blocks())
    return data, starts, widths, counts, some_of(draw, counts), bits


@st.composite
def inline_widths(draw: st.DrawFn) -> Arguments:
    bits = draw(st.sampled_from([8, 16, 32, 64]))
    widths = draw(st.lists(st.integers(0, bits), max_size=4))
    blocks = [width.to_bytes(bits // 8, "little") + bytes(128 * width) for width in widths]
    sizes, gap = ints([len(block) for block in blocks]), draw(st.integers(0, 9))
    starts = np.cumsum(sizes + gap) - sizes
    data = np.frombuffer(b"".join(bytes(gap) + block for block in blocks), np.uint8).copy()
    ends = starts + sizes
    damage(draw, starts, ends, data)
    return odd_place(draw, data), starts, ends, bits


@st.composite
def packed_buffers(draw: st.DrawFn) -> Arguments:
    bits = draw(st.sampled_from([8, 16, 32, 64]))
    width = draw(st.integers(0, bits))
    lengths, counts = [], draw(st.lists(st.integers(0, 2100), max_size=4))
    for count in counts:
        whole, tail = divmod(count, 1024)
        raw = draw(st.booleans())
        lengths.append(
            whole * width * 128 + (tail * bits // 8 if raw else (tail > 0) * width * 128)
        )
    gap = draw(st.integers(0, 9))
    ends = np.cumsum(ints(lengths) + gap)
    starts, values = ends - ints(lengths), ints(counts)
    data = draw(generators()).integers(0, 256, int(ends[-1]) if counts else 0, np.uint8)
    damage(draw, starts, ends, values)
    return odd_place(draw, data), starts, ends, values, width, bits


@st.composite
def levels_of_parts(draw: st.DrawFn) -> Arguments:
    size = draw(st.sampled_from([0, 1, 7, 511, 512, 513, 2000]))
    levels = draw(generators()).integers(0, draw(st.sampled_from([1, 3, 1 << 16])), size)
    limit = draw(st.integers(0, 4) | st.sampled_from([(1 << 16) - 1, 1 << 16]))
    sizes = draw(st.lists(st.sampled_from([0, 1, 7, 511, 600]), max_size=5))
    if draw(st.integers(0, 9)) == 0:
        sizes.append(draw(st.sampled_from([-1, 1 << 40, (1 << 63) - 1])))
    placed = odd_place(draw, levels.astype(np.uint16)).view(np.uint16)
    return placed, np.array(sizes, np.int64), limit


@st.composite
def rows_of_items(draw: st.DrawFn) -> Arguments:
    source = draw(generators())
    size, top = draw(st.sampled_from([0, 1, 7, 511, 512, 513, 3000])), draw(st.integers(1, 3))
    often = draw(st.sampled_from([0, 0.001, 0.3, 1]))
    rep = np.where(source.random(size) < often, top, source.integers(0, top, size))
    rows = int(np.count_nonzero(rep == top)) + draw(st.sampled_from([0] * 9 + [1]))
    wanted = draw(st.lists(st.integers(0, rows), max_size=6))
    return odd_place(draw, rep.astype(np.uint16)).view(np.uint16), top, ints(sorted(wanted))


# Bytes of the size of each buffer, in the header of a chunk.
_SIZE_WIDTHS = st.lists(st.sampled_from([2, 4]), max_size=4)


@st.composite
def chunk_headers(draw: st.DrawFn) -> Arguments:
    return draw(chunks_of(draw(_SIZE_WIDTHS)))


@st.composite
def chunks_of(draw: st.DrawFn, widths: list[int]) -> Arguments:
    header = -(-(2 + sum(widths)) // 8) * 8
    pieces, sizes = [], []
    for levels in draw(st.lists(st.integers(0, 1 << 16).map(lambda n: n % (1 << 16)), max_size=5)):
        lengths = [draw(st.integers(0, 40)) for _ in widths]
        fields = [levels.to_bytes(2, "little")]
        fields += [n.to_bytes(w, "little") for n, w in zip(lengths, widths, strict=True)]
        size = header + sum(-(-length // 8) * 8 for length in lengths)
        pieces.append(b"".join(fields).ljust(size, b"\xfe"))
        sizes.append(size)
    data = np.frombuffer(b"".join(pieces), np.uint8).copy()
    starts = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    bounds = ints(sizes)
    damage(draw, data, starts, bounds)
    return odd_place(draw, data), starts, bounds, widths


@st.composite
def whole_pages(draw: st.DrawFn) -> Arguments:
    width, widths = draw(st.sampled_from([2, 4])), draw(_SIZE_WIDTHS)
    tables, chunks_, pages = [], [], []
    for _ in range(draw(st.integers(1, 3))):
        data, _, sizes, _ = draw(chunks_of(widths))
        exponents = [draw(st.integers(0, 15)) for _ in sizes]
        sizes = np.clip(sizes, 8, 8 << 12)  # what an entry can say
        words = [int(size // 8 - 1) << 4 | one for size, one in zip(sizes, exponents, strict=True)]
        table = np.array(words, f"<u{width}").view(np.uint8)
        before = sum(1 << one for one in exponents[:-1])
        items = max(0, before + draw(st.integers(-2, 1 << 15)))
        damage(draw, table)
        table = table[: len(table) - draw(st.sampled_from([0, 0, 0, 1]))]
        tables.append(table)
        chunks_.append(data)
        pages.append((len(table), len(data), items))
    places = odd_place(draw, np.concatenate(tables)), odd_place(draw, np.concatenate(chunks_))
    return *places, np.array(pages, np.int64), width, widths


@st.composite
def some_segments(draw: st.DrawFn) -> Arguments:
    size = draw(st.integers(0, 60))
    borders = sorted(draw(st.lists(st.integers(0, size), max_size=12)))
    borders = borders[: len(borders) // 2 * 2]
    starts, ends = ints(borders[::2]), ints(borders[1::2])
    damage(draw, starts, ends)
    return draw(generators()).integers(0, 256, size, np.uint8), starts, ends


@st.composite
def fixed_lookups(draw: st.DrawFn) -> Arguments:
    dtype = draw(st.sampled_from(["<u1", "<u2", "<u4", "<u8", "V16", "V5", "V3"]))
    count = draw(st.integers(1, 200))
    source = draw(generators())
    width = np.dtype(dtype).itemsize
    items = source.integers(0, 256, count * width, np.uint8).view(dtype)
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]))
    indices = source.integers(0, count, draw(st.integers(0, 50))).astype(kind)
    damage(draw, indices)
    return items, indices


@st.composite
def some_runs(draw: st.DrawFn) -> Arguments:
    source = draw(generators())
    run_counts = ints(draw(st.lists(st.integers(0, 6), max_size=5)))
    total = int(run_counts.sum())
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]))
    lengths = source.integers(0, 12, total).astype(kind)
    per_chunk = np.split(lengths.astype(np.int64), np.cumsum(run_counts)[:-1])
    reach = [int(chunk.sum()) for chunk in per_chunk][: len(run_counts)]
    counts = ints([max(0, r - draw(st.sampled_from([0, 0, 1, 5]))) for r in reach])
    dtype = draw(st.sampled_from(["<u1", "<u2", "<u4", "<u8", "V16"]))
    values = source.integers(0, 256, total * np.dtype(dtype).itemsize, np.uint8).view(dtype)
    damage(draw, lengths, run_counts)
    if draw(st.integers(0, 5)) == 0 and len(counts):
        counts[draw(st.integers(0, len(counts) - 1))] = draw(st.integers(-2, 90))
    return values, lengths, run_counts, counts


@st.composite
def split_streams(draw: st.DrawFn) -> Arguments:
    width = draw(st.sampled_from([1, 2, 3, 4, 8, 16]))
    counts = ints(draw(st.lists(st.integers(0, 40), max_size=4)))
    padding = draw(st.sampled_from([0, 0, 0, 1, 5]))
    ends = np.cumsum(counts * width + padding)
    starts = ends - counts * width - padding
    size = int(ends[-1]) if len(ends) else 0
    data = draw(generators()).integers(0, 256, size, np.uint8)
    damage(draw, starts, ends, counts)
    return odd_place(draw, data), starts, ends, counts, width


@st.composite
def masked_values(draw: st.DrawFn) -> Arguments:
    width = draw(st.sampled_from([1, 2, 4, 8, 16, 3, 40]))
    count, source = draw(st.integers(0, 200)), draw(generators())
    values = odd_place(draw, source.integers(0, 256, count * width, np.uint8))
    kept = source.random(count) < draw(st.sampled_from([0, 0.5, 0.9, 1]))
    return values.view(dtype_of(width)), kept


@st.composite
def masked_lists(draw: st.DrawFn) -> Arguments:
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 40]), max_size=30))
    before, after = draw(st.integers(0, 3)), draw(st.sampled_from([0, 1, 40]))
    offsets = np.cumsum([before, *lengths]).astype(np.int32)
    kept = draw(generators()).random(len(lengths)) < draw(st.sampled_from([0, 0.5, 0.9, 1]))
    damage(draw, offsets)
    return offsets, before + sum(lengths) + after, kept


@st.composite
def numbers_and_bounds(draw: st.DrawFn) -> Arguments:
    near = st.integers(-3, 3) | st.sampled_from([1 << 64, -(1 << 64), (1 << 64) - 1])
    number = near | st.integers(-(1 << 127), (1 << 127) - 1)
    numbers = [one.to_bytes(16, "little", signed=True) for one in draw(st.lists(number))]
    stored = odd_place(draw, np.frombuffer(b"".join(numbers), np.uint8))
    return stored.view("V16"), draw(number), draw(number)


@st.composite
def segments_of_decimals(draw: st.DrawFn) -> Arguments:
    small, least = st.integers(-(1 << 63), (1 << 63) - 1), -(1 << 127)
    number = small | st.integers(least, -least - 1) if draw(st.booleans()) else small
    numbers = [one.to_bytes(16, "little", signed=True) for one in draw(st.lists(number))]
    data = odd_place(draw, np.frombuffer(b"".join(numbers), np.uint8))
    places = st.integers(0, len(numbers)).map((16).__mul__) | st.integers(-1, len(data) + 16)
    bounds = draw(st.lists(places, max_size=8))
    bounds = np.array(sorted(bounds) if draw(st.integers(0, 7)) else bounds, np.int64)
    return data, bounds[: len(bounds) // 2 * 2 : 2], bounds[1::2]


@st.composite
def lz4_blocks(draw: st.DrawFn) -> Arguments:
    words = st.sampled_from([b"a", b"ab", b"abc", b"0123456", b"some longer text "])
    repeated = st.builds(bytes.__mul__, words, st.integers(0, 400))
    texts = draw(st.lists(st.lists(repeated | st.binary(), max_size=6).map(b"".join), max_size=5))
    codec = pa.Codec("lz4_raw")
    blocks = [codec.compress(text, asbytes=True) for text in texts]
    between = draw(st.sampled_from([0, 0, 4]))
    starts = np.cumsum([0, *(len(block) + between for block in blocks)])[: len(blocks)]
    ends = starts + [len(block) for block in blocks]
    sizes = ints([len(text) for text in texts])
    data = np.frombuffer(b"".join(block + bytes(between) for block in blocks), np.uint8).copy()
    if len(data) and draw(st.integers(0, 3)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    damage(draw, starts, ends, sizes)
    return odd_place(draw, data), ints(starts), ints(ends), sizes


@st.composite
def zstd_frames(draw: st.DrawFn) -> Arguments:
    """Draw the arguments of `frame_sizes`."""
    texts = [b"ab" * count for count in draw(st.lists(st.sampled_from([0, 4, 127, 200, 40000])))]
    codec = pa.Codec("zstd", compression_level=draw(st.sampled_from([1, 3])))
    frames = [codec.compress(text, asbytes=True) for text in texts]
    wrong = draw(st.sampled_from([0, 0, 0, 1, 256]))
    parts = [
        (len(text) + wrong * draw(st.integers(0, 1))).to_bytes(8, "little") + frame
        for text, frame in zip(texts, frames, strict=True)
    ]
    starts = np.cumsum([0, *map(len, parts)])[: len(parts)]
    ends = starts + [len(part) for part in parts]
    data = np.frombuffer(b"".join(parts), np.uint8).copy()
    if len(data):
        for _ in range(draw(st.integers(0, 2))):  # of a header, most likely
            at = int(starts[draw(st.integers(0, len(starts) - 1))]) + draw(st.integers(8, 20))
            data[min(at, len(data) - 1)] = draw(st.integers(0, 255))
    starts, ends = ints(starts), ints(ends)
    if draw(st.integers(0, 2)) == 0:
        damage(draw, starts, ends)
    return odd_place(draw, data), starts, ends


@st.composite
def zipped_rows(draw: st.DrawFn) -> Arguments:
    word, width = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4, 8]))
    bits, shown = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    form = items.ItemForm(word, bits, shown, width, draw(st.booleans()))

    def item(control: int, value: bytes) -> bytes:
        head = (control % (1 << 8 * word)).to_bytes(word, "little")
        if control & ((1 << bits) - 1) > shown:
            return head
        length = len(value).to_bytes(width, "little")
        return head + (value.ljust(width)[:width] if form.is_fixed else length + value)

    one = st.builds(item, st.integers(0, 1 << 16), st.binary(max_size=9))
    few = draw(st.lists(st.lists(one, max_size=5).map(b"".join), max_size=6))
    rows = few * draw(st.sampled_from([1, 1, 40]))
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    starts = ends - ints([len(row) for row in rows])
    data = np.frombuffer(b"".join(rows), np.uint8).copy()
    damage(draw, data, starts, ends)
    return odd_place(draw, data), starts, ends, form


@st.composite
def tables_and_codes(draw: st.DrawFn) -> Arguments:
    random, parts, count = draw(generators()), draw(st.integers(0, 11)), draw(st.integers(0, 3))
    rows = draw(st.integers(0, 40) | st.sampled_from([2047, 2048, 2049, 5000]))
    tables = random.normal(0, 1e3, (count, parts, 256)).astype(np.float32)
    chosen = random.integers(0, 256, (parts, rows), np.uint8)
    return tables, odd_place(draw, chosen.ravel()).reshape(parts, rows)


@st.composite
def postings_and_norms(draw: st.DrawFn) -> Arguments:
    """Draw documents with tokens; in some cases one that is not there."""
    source = draw(generators())
    size = draw(st.integers(0, 300))
    norms = source.uniform(0.1, 30, size).astype(np.float32)
    postings = []
    for _ in range(draw(st.integers(0, 4))):
        documents = np.flatnonzero(source.random(size) < draw(st.floats(0, 1))).astype(np.uint32)
        frequencies = source.geometric(0.5, len(documents)).astype(np.uint32)
        if len(documents) and draw(st.integers(0, 9)) == 0:
            documents[-1] = draw(st.integers(size, (1 << 32) - 1))
        postings.append((documents, frequencies))
    factors = source.uniform(0, 12, len(postings)).astype(np.float32)
    return postings, list(factors), norms, np.float32(2.2)


@st.composite
def ends_of_rows(draw: st.DrawFn) -> Arguments:
    """Draw the arguments of `decode_ends`: some rows are null, some ends descend."""
    lengths = draw(st.lists(st.integers(0, 9) | st.just(1 << 31), min_size=1, max_size=40))
    stored = np.cumsum(np.array(lengths, np.int64)) + draw(st.sampled_from([0, 3, 1 << 40]))
    added = int(stored[-1]) + draw(st.sampled_from([1, 1, 5, -2, 1 << 50]))
    nulls = draw(st.lists(st.integers(0, len(stored) - 1), max_size=4))
    stored[nulls] += added
    if not draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(stored) - 1))
        stored[at] = draw(st.sampled_from([0, -1, 1 << 62, -(1 << 63), (1 << 63) - 1]))
    return stored, draw(st.booleans()), max(added, draw(st.sampled_from([0, 0, (1 << 63) - 1])))


@st.composite
def numbers_with_positions(draw: st.DrawFn) -> Arguments:
    """Draw the arguments of `add_positions`: some numbers have none."""
    random, rows = draw(generators()), draw(st.integers(0, 40))
    kind = np.dtype(draw(st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4"])))
    bounds = np.iinfo(kind)
    base = draw(st.integers(int(bounds.min), int(bounds.max)) | st.sampled_from([0, -(1 << 63)]))
    known = draw(st.integers(0, 12))
    steps = random.integers(0, 12, rows).tolist()
    numbers = np.array([_within(base + step, bounds) for step in steps], kind)
    positions = random.integers(-1 if draw(st.booleans()) else 0, 99, known).astype(np.int32)
    sums = random.integers(0, 1000, rows).astype(np.int32)
    return odd_place(draw, numbers).view(kind), base, positions, sums


@st.composite
def numbers_and_keys(draw: st.DrawFn) -> Arguments:
    """Draw the arguments of `among_numbers`: some numbers are keys, some are near one."""
    random = draw(generators())
    kind = np.dtype(draw(st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])))
    bounds = np.iinfo(kind)
    least, most = int(bounds.min), min(int(bounds.max), (1 << 63) - 1)
    base = draw(st.integers(least, most))
    steps = random.integers(-9, 9, draw(st.integers(1, 30))).tolist()
    keys = np.unique(ints([min(max(base + step, least), most) for step in steps]))
    values = random.integers(least, most, draw(st.integers(0, 60)), np.int64, endpoint=True)
    numbers = np.where(random.random(len(values)) < 0.5, random.choice(keys, len(values)), values)
    return odd_place(draw, numbers.astype(kind)).view(kind), membership.NumberKeys(keys)


def _within(number: int, bounds: np.iinfo[Any]) -> int:
    return min(max(int(number), int(bounds.min)), int(bounds.max))


@st.composite
def sums_of_rows(draw: st.DrawFn) -> Arguments:
    """Draw the arguments of `count_sums`."""
    size = draw(st.integers(1, 300))
    return draw(generators()).integers(0, size, draw(st.integers(0, 90))).astype(np.int32), size


@st.composite
def ranges_in_any_order(draw: st.DrawFn) -> Arguments:
    """Draw the arguments of `copy_ranges`: ranges that overlap, some of them damaged."""
    size = draw(st.integers(0, 60))
    borders = draw(st.lists(st.tuples(st.integers(0, size), st.integers(0, size)), max_size=9))
    starts, ends = ints([min(one) for one in borders]), ints([max(one) for one in borders])
    damage(draw, starts, ends)
    return odd_place(draw, draw(generators()).integers(0, 256, size, np.uint8)), starts, ends


@st.composite
def offsets_of_slots(draw: st.DrawFn) -> Arguments:
    """Draw the arguments of `find_spans`: ranges of slots of one page, in any order."""
    width = draw(st.sampled_from([4, 8]))
    lengths = draw(st.lists(st.sampled_from([0, 1, 7, 1 << 29]), max_size=12))
    offsets = np.cumsum([draw(st.integers(0, 9)), *lengths], dtype=np.int64)
    if draw(st.integers(0, 3)) == 0:
        damage(draw, offsets)
    stored = offsets.astype(f"<i{width}").view(np.uint8)
    firsts = draw(st.lists(st.integers(0, len(lengths)), max_size=6))
    counts = ints([draw(st.integers(0, len(lengths) - first)) for first in firsts])
    places = ints(firsts) * width
    damage(draw, places, counts)
    limit = draw(st.sampled_from([slots.MOST, slots.MOST, int(offsets.max())]))
    return odd_place(draw, stored), places, counts, width, max(limit, 0)


# The name of each kernel -> its NumPy version, and what to try both versions on.
PAIRS = {
    "find_buffers": (chunks.find_buffers, chunk_headers()),
    "open_chunks": (chunks.open_chunks, whole_pages()),
    "unpack": (bitpacking.unpack, packed_blocks()),
    "unpack_at": (bitpacking.unpack_at, packed_values()),
    "read_widths": (bitpacking.read_widths, inline_widths()),
    "unpack_buffers": (bitpacking.unpack_buffers, packed_buffers()),
    "tally_parts": (lists.tally_parts, levels_of_parts()),
    "find_rows": (lists.find_rows, rows_of_items()),
    "find_items": (items.find_items, zipped_rows()),
    "unravel": (layers.unravel, levels_of_leaves()),
    "gather": (segments.gather, some_segments()),
    "copy_ranges": (slots.copy_ranges, ranges_in_any_order()),
    "find_spans": (slots.find_spans, offsets_of_slots()),
    "decode_ends": (ends.decode_ends, ends_of_rows()),
    "decode_fsst": (fsst.decode_fsst, fsst_strings()),
    "fsst_lengths": (fsst.fsst_lengths, fsst_strings()),
    "decompress_lz4": (lz4.decompress_lz4, lz4_blocks()),
    "frame_sizes": (frames.frame_sizes, zstd_frames()),
    "join_chunks": (strings.join_chunks, string_chunks()),
    "join_letters": (strings.join_letters, string_chunks()),
    "find_strings": (strings.find_strings, strings_of_chunks()),
    "take": (lookup.take, fixed_lookups()),
    "take_strings": (lookup.take_strings, string_lookups()),
    "expand": (runs.expand, some_runs()),
    "join_streams": (streams.join_streams, split_streams()),
    "holds": (parts.holds, texts_and_parts()),
    "among": (membership.among, texts_and_keys()),
    "among_numbers": (membership.among_numbers, numbers_and_keys()),
    "number_texts": (membership.number_texts, texts_that_recur()),
    "text_bounds": (bounds.text_bounds, texts_of_zones()),
    "is_utf8": (utf8.is_utf8, texts()),
    "keep": (selection.keep, masked_values()),
    "keep_strings": (selection.keep_strings, masked_strings()),
    "keep_lists": (selection.keep_lists, masked_lists()),
    "take_points": (points.take_points, few_rows_of_pages()),
    "find_packed": (packed.find_packed, rows_of_packed_pages()),
    "restore_pages": (packed.restore_pages, chunks_to_restore()),
    "read_plain": (plain.read_plain, rows_of_plain_pages()),
    "read_texts": (read_texts, rows_of_text_pages()),
    "take_levels": (take_levels, levels_of_rows()),
    "add_positions": (tallies.add_positions, numbers_with_positions()),
    "count_sums": (tallies.count_sums, sums_of_rows()),
    "join_texts": (points.join_texts, texts_of_spans()),
    "join_leaves": (points.join_leaves, texts_of_leaves()),
    "compare_parts": (codes.compare_parts, codebook_and_vectors()),
    "sum_codes": (codes.sum_codes, tables_and_codes()),
    "sum_scores": (scores.sum_scores, postings_and_norms()),
    "find_common": (phrases.find_common, ascending_numbers()),
    "follow_words": (phrases.follow_words, words_of_documents()),
    "within": (intervals.within, numbers_and_bounds()),
    "write_json": (jsonb.write_json, json_values()),
    "compare_floats": (vectors.compare_floats, vectors_and_queries()),
    "keep_nearest": (vectors.keep_nearest, kept_and_added()),
    "multiply_codes": (vectors.multiply_codes, codes_and_queries()),
    "compare_codes": (vectors.compare_codes, codes_and_codes()),
    "differing_bits": (vectors.differing_bits, bits_and_queries()),
    "widen_halves": (vectors.widen_halves, some_halves()),
    "to_decimal64": (decimals.to_decimal64, segments_of_decimals()),
}
