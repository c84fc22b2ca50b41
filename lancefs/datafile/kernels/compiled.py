"""The compiled twins of the NumPy kernels: same names, same signatures, same bytes.

These functions only make room for results and hand pointers on. The library checks all bounds
itself and runs without the interpreter lock. Where it finds damage, the NumPy twin says what is
wrong, so that messages are the same. Those that give strings are in `compiled_strings`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask, dtype_of, empty, total
from lancefs.datafile.kernels.bitpacking import BLOCK, MOST
from lancefs.datafile.kernels.calls import (
    SLACK,
    C,
    aligned,
    at,
    in_numpy,
    ints,
    plain,
    refuse,
    small,
)
from lancefs.datafile.kernels.items import ItemForm
from lancefs.datafile.kernels.lists import Lists, Meanings
from lancefs.datafile.kernels.lz4 import LARGEST_RATIO
from lancefs.storage import Bytes


def find_buffers(
    data: Bytes, starts: Ints, sizes: Ints, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """Read the headers of chunks; see `chunks.find_buffers`."""
    arguments = data, starts, sizes, widths
    data, starts, sizes = plain(data), ints(starts), ints(sizes)
    wide, count, buffers = small(tuple(widths)), len(starts), len(widths)
    found = np.empty(((2 * buffers + 1), count), np.int64)
    levels, begins, ends = found[0], found[1 : buffers + 1], found[buffers + 1 :]
    begin, row = at(found), 8 * count
    failed = C.lancefs_find_buffers(
        at(data),
        len(data),
        at(starts),
        at(sizes),
        count,
        at(wide),
        buffers,
        begin,
        begin + row,
        begin + (1 + buffers) * row,
    )
    if failed:
        refuse("find_buffers", *arguments)
    return levels, begins, ends


def open_chunks(
    tables: Bytes, data: Bytes, pages: Ints, width: int, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Read the tables of all chunks of pages, and their headers; see `chunks.open_chunks`."""
    arguments = tables, data, pages, width, widths
    tables, data, pages = plain(tables), plain(data), ints(pages)
    wide, chunks, buffers = small(tuple(widths)), len(tables) // width, len(widths)
    found = np.empty((2 * buffers + 2, chunks), np.int64)
    begin, row = at(found), 8 * chunks
    failed = C.lancefs_open_chunks(
        at(tables),
        len(tables),
        width,
        at(data),
        len(data),
        at(pages),
        len(pages),
        at(wide),
        buffers,
        begin,
        begin + row,
        begin + 2 * row,
        begin + (2 + buffers) * row,
    )
    if failed:
        refuse("open_chunks", *arguments)
    return found[0], found[1], found[2 : buffers + 2], found[buffers + 2 :]


def unpack(data: Bytes, starts: Ints, widths: Ints, counts: Ints, bits: int) -> Array:
    """Unpack blocks of up to 1024 values each and join them; see `bitpacking.unpack`."""
    arguments = data, starts, widths, counts, bits
    room = total(counts)
    if bits not in (8, 16, 32, 64) or not 0 <= room <= BLOCK * len(counts):
        refuse("unpack", *arguments)
    data, starts, widths, counts = plain(data), ints(starts), ints(widths), ints(counts)
    out = empty(room, dtype_of(bits // 8))
    failed = C.lancefs_unpack(
        at(data),
        len(data),
        at(starts),
        at(widths),
        at(counts),
        len(counts),
        bits,
        at(out),
        room,
    )
    if failed:
        refuse("unpack", *arguments)
    return out


def unpack_at(
    data: Bytes, starts: Ints, widths: Ints, counts: Ints, wanted: Ints, bits: int
) -> Array:
    """Unpack single values of blocks; see `bitpacking.unpack_at`."""
    arguments = data, starts, widths, counts, wanted, bits
    if bits not in (8, 16, 32, 64):
        refuse("unpack_at", *arguments)
    data, starts, widths, counts = plain(data), ints(starts), ints(widths), ints(counts)
    wanted = ints(wanted)
    out = empty(len(wanted), dtype_of(bits // 8))
    failed = C.lancefs_unpack_at(
        at(data),
        len(data),
        at(starts),
        at(widths),
        at(counts),
        len(counts),
        at(wanted),
        len(wanted),
        bits,
        at(out),
    )
    if failed:
        refuse("unpack_at", *arguments)
    return out


def read_widths(data: Bytes, starts: Ints, ends: Ints, bits: int) -> Ints:
    """Read the bit widths of chunks; see `bitpacking.read_widths`."""
    if bits not in (8, 16, 32, 64):
        refuse("read_widths", data, starts, ends, bits)
    data, starts, ends = plain(data), ints(starts), ints(ends)
    widths = np.empty(len(starts), np.int64)
    failed = C.lancefs_read_widths(
        at(data), len(data), at(starts), at(ends), len(starts), bits, at(widths)
    )
    if failed:
        refuse("read_widths", data, starts, ends, bits)
    return widths


def unpack_buffers(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, bits: int
) -> Array:
    """Unpack buffers that are packed in one width; see `bitpacking.unpack_buffers`."""
    arguments = data, starts, ends, counts, width, bits
    room, size = total(counts), total(ends - starts)
    is_sound = 0 <= room <= MOST and room * width <= 8 * size
    if bits not in (8, 16, 32, 64) or not is_sound:
        refuse("unpack_buffers", *arguments)
    data, starts, ends, counts = plain(data), ints(starts), ints(ends), ints(counts)
    out = empty(room, dtype_of(bits // 8))
    failed = C.lancefs_unpack_buffers(
        at(data),
        len(data),
        at(starts),
        at(ends),
        at(counts),
        len(counts),
        width,
        bits,
        at(out),
        room,
    )
    if failed:
        refuse("unpack_buffers", *arguments)
    return out


def tally_levels(levels: Array, limit: int) -> tuple[int, int]:
    """Count levels; see `lists.tally_levels`."""
    levels, highest = aligned(levels), np.zeros(1, np.int64)
    found = C.lancefs_tally_levels(at(levels), len(levels), limit, at(highest))
    return int(highest[0]), int(found)


def find_rows(rep: Array, top: int, rows: Ints) -> Ints:
    """Find the items that rows begin with; see `lists.find_rows`."""
    rep, rows = aligned(rep), ints(rows)
    found = np.empty(len(rows), np.int64)
    if C.lancefs_find_rows(at(rep), len(rep), top, at(rows), len(rows), at(found)):
        refuse("find_rows", rep, top, rows)
    return found


def find_items(data: Bytes, starts: Ints, ends: Ints, form: ItemForm) -> Ints:
    """Find where the items of full-zip rows begin; see `items.find_items`."""
    arguments = data, starts, ends, form
    data, starts, ends = plain(data), ints(starts), ints(ends)
    rows = at(data), len(data), at(starts), at(ends), len(starts), at(small(form))
    count = C.lancefs_find_items(*rows, 0, 0)
    if count < 0:
        refuse("find_items", *arguments)
    found = empty(count, np.int64)
    if C.lancefs_find_items(*rows, at(found), count) != count:  # the file changed meanwhile
        found = in_numpy("find_items", *arguments)
    return found


def split_lists(rep: Array, definition: Array | None, meanings: Meanings) -> Lists:
    """Find the lists of one layer; see `lists.split_lists`."""
    if definition is not None and len(definition) != len(rep):
        refuse("split_lists", rep, definition, meanings)
    rep = aligned(rep)
    definition = None if definition is None else aligned(definition)
    room, has_levels = int(np.count_nonzero(rep)), definition is not None
    said, nulls = np.array(meanings, np.int64), np.zeros(1, np.int64)
    offsets, valid = empty(room + 1, np.int64), empty(room + 1, np.bool_)
    outer = empty((1 + has_levels) * (room + 1), np.uint16).reshape(-1, room + 1)
    count = C.lancefs_split_lists(
        at(rep),
        0 if definition is None else at(definition),
        len(rep),
        at(said),
        room,
        at(offsets),
        at(valid),
        at(outer[0]),
        at(outer[-1]),
        at(nulls),
    )
    validity = valid[:count] if nulls[0] else None
    levels = outer[1, :room] if has_levels else None
    return Lists(offsets[: count + 1], validity, outer[0, :room], levels)


def gather(data: Bytes, starts: Ints, ends: Ints) -> Bytes:
    """Join segments that ascend; see `segments.gather`."""
    count = len(starts)
    if count == 0:
        return data[:0]
    data, starts, ends = plain(data), ints(starts), ints(ends)
    size = C.lancefs_measure_segments(len(data), at(starts), at(ends), count)
    if size < 0:
        refuse("gather", data, starts, ends)
    if size == int(ends[-1]) - int(starts[0]):  # no gaps
        return data[starts[0] : ends[-1]]
    out = empty(size, np.uint8)
    C.lancefs_join_segments(at(data), at(starts), at(ends), count, at(out))
    return out


def take(items: Array, indices: Array) -> Array:
    """Look up values of one width; see `lookup.take`."""
    items, indices = plain(items), plain(indices)
    out = empty(len(indices), items.dtype)
    failed = C.lancefs_take_fixed(
        at(items),
        len(items),
        items.itemsize,
        at(indices),
        indices.itemsize,
        len(indices),
        at(out),
    )
    if failed:
        refuse("take", items, indices)
    return out


def expand(values: Array, lengths: Array, run_counts: Ints, counts: Ints) -> Array:
    """Repeat each value as often as its run is long; see `runs.expand`."""
    arguments = values, lengths, run_counts, counts
    room = int(counts.sum())
    if len(values) != len(lengths) or int(run_counts.sum()) != len(lengths):
        refuse("expand", *arguments)
    if not 0 <= room <= int(lengths.sum(dtype=np.float64)):
        refuse("expand", *arguments)
    values, lengths = plain(values), plain(lengths)
    run_counts, counts = ints(run_counts), ints(counts)
    out = empty(room, values.dtype)
    failed = C.lancefs_expand_runs(
        at(values),
        values.itemsize,
        at(lengths),
        lengths.itemsize,
        len(lengths),
        at(run_counts),
        at(counts),
        len(counts),
        at(out),
        room,
    )
    if failed:
        refuse("expand", *arguments)
    return out


def join_streams(data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int) -> Bytes:
    """Put the bytes of values together; see `streams.join_streams`."""
    arguments = data, starts, ends, counts, width
    room = int(counts.sum())
    if not 0 <= room * width <= len(data):
        refuse("join_streams", *arguments)
    data, starts, ends, counts = plain(data), ints(starts), ints(ends), ints(counts)
    out = empty(room * width, np.uint8)
    failed = C.lancefs_join_streams(
        at(data),
        len(data),
        at(starts),
        at(ends),
        at(counts),
        len(counts),
        width,
        at(out),
        room,
    )
    if failed:
        refuse("join_streams", *arguments)
    return out


def decompress_lz4(data: Bytes, starts: Ints, ends: Ints, sizes: Ints) -> Bytes:
    """Decompress blocks, one after the other; see `lz4.decompress_lz4`."""
    arguments = data, starts, ends, sizes
    data, starts, ends, sizes = plain(data), ints(starts), ints(ends), ints(sizes)
    if not np.all((sizes >= 0) & (sizes <= LARGEST_RATIO * len(data))):
        refuse("decompress_lz4", *arguments)
    out = empty(int(sizes.sum()), np.uint8)
    failed = C.lancefs_lz4(
        at(data), len(data), at(starts), at(ends), at(sizes), len(sizes), at(out), len(out)
    )
    if failed:  # mostly damage; of what the format rules out, the library takes some
        out = in_numpy("decompress_lz4", *arguments)
    return out


def keep(values: Array, kept: Mask) -> Array:
    """Return the values that are kept; see `selection.keep`."""
    values, kept = plain(values), plain(kept)
    out = empty(int(np.count_nonzero(kept)), values.dtype, SLACK)
    failed = C.lancefs_keep_fixed(
        at(values), values.itemsize, at(kept), len(kept), at(out), len(out)
    )
    assert not failed
    return out


def within(numbers: Array, low: int, high: int) -> Mask:
    """Tell which numbers of 128 bits are between two others; see `intervals.within`."""
    from lancefs.datafile.kernels import intervals

    numbers = plain(numbers)
    bounds = np.concatenate((intervals.stored(low), intervals.stored(high))).view(np.int64)
    out = empty(len(numbers), np.bool_)
    C.lancefs_within(at(numbers), len(numbers), at(bounds), at(out))
    return out
