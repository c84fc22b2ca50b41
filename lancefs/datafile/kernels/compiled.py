"""The compiled twins of the NumPy kernels: same names, same signatures, same bytes.

These functions only make room for results and hand pointers on. The library checks all bounds
itself and runs without the interpreter lock. Where it finds damage, the NumPy twin says what is
wrong, so that messages are the same. Strings of more than 2 GiB in all are left to NumPy, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints, Mask, dtype_of, empty, total
from lancefs.datafile.kernels import (
    bitpacking,
    chunks,
    fsst,
    lists,
    lookup,
    runs,
    segments,
    streams,
    strings,
    utf8,
)
from lancefs.datafile.kernels.library import LIBRARY
from lancefs.datafile.kernels.lists import Lists, Meanings
from lancefs.datafile.kernels.strings import LARGEST
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

_SLACK = 32  # as SLACK in kernels.h
_C: Any = LIBRARY


def find_buffers(
    data: Bytes, starts: Ints, sizes: Ints, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """Read the headers of chunks; see `chunks.find_buffers`."""
    arguments = data, starts, sizes, widths
    data, starts, sizes = _plain(data), _ints(starts), _ints(sizes)
    wide, count, buffers = _small(tuple(widths)), len(starts), len(widths)
    found = np.empty(((2 * buffers + 1), count), np.int64)
    levels, begins, ends = found[0], found[1 : buffers + 1], found[buffers + 1 :]
    at, row = _at(found), 8 * count
    failed = _C.lancefs_find_buffers(
        _at(data),
        len(data),
        _at(starts),
        _at(sizes),
        count,
        _at(wide),
        buffers,
        at,
        at + row,
        at + (1 + buffers) * row,
    )
    if failed:
        _refuse(chunks.find_buffers, *arguments)
    return levels, begins, ends


def open_chunks(
    table: Bytes, data: Bytes, items: int, width: int, widths: Sequence[int]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Read the table of all chunks of a page, and their headers; see `chunks.open_chunks`."""
    entries, left = divmod(len(table), width)
    if left or not entries:
        _refuse(chunks.open_chunks, table, data, items, width, widths)
    table, data, wide, buffers = _plain(table), _plain(data), _small(tuple(widths)), len(widths)
    found = np.empty((2 * buffers + 2, entries), np.int64)
    at, row = _at(found), 8 * entries
    failed = _C.lancefs_open_chunks(
        _at(table),
        entries,
        width,
        _at(data),
        len(data),
        items,
        _at(wide),
        buffers,
        at,
        at + row,
        at + 2 * row,
        at + (2 + buffers) * row,
    )
    if failed:
        _refuse(chunks.open_chunks, table, data, items, width, widths)
    return found[0], found[1], found[2 : buffers + 2], found[buffers + 2 :]


def unpack(data: Bytes, starts: Ints, widths: Ints, counts: Ints, bits: int) -> Array:
    """Unpack blocks of up to 1024 values each and join them; see `bitpacking.unpack`."""
    arguments = data, starts, widths, counts, bits
    room = total(counts)
    if bits not in (8, 16, 32, 64) or not 0 <= room <= bitpacking.BLOCK * len(counts):
        _refuse(bitpacking.unpack, *arguments)
    data, starts, widths, counts = _plain(data), _ints(starts), _ints(widths), _ints(counts)
    out = empty(room, dtype_of(bits // 8))
    failed = _C.lancefs_unpack(
        _at(data),
        len(data),
        _at(starts),
        _at(widths),
        _at(counts),
        len(counts),
        bits,
        _at(out),
        room,
    )
    if failed:
        _refuse(bitpacking.unpack, *arguments)
    return out


def unpack_at(
    data: Bytes, starts: Ints, widths: Ints, counts: Ints, wanted: Ints, bits: int
) -> Array:
    """Unpack single values of blocks; see `bitpacking.unpack_at`."""
    arguments = data, starts, widths, counts, wanted, bits
    if bits not in (8, 16, 32, 64):
        _refuse(bitpacking.unpack_at, *arguments)
    data, starts, widths, counts = _plain(data), _ints(starts), _ints(widths), _ints(counts)
    wanted = _ints(wanted)
    out = empty(len(wanted), dtype_of(bits // 8))
    failed = _C.lancefs_unpack_at(
        _at(data),
        len(data),
        _at(starts),
        _at(widths),
        _at(counts),
        len(counts),
        _at(wanted),
        len(wanted),
        bits,
        _at(out),
    )
    if failed:
        _refuse(bitpacking.unpack_at, *arguments)
    return out


def read_widths(data: Bytes, starts: Ints, ends: Ints, bits: int) -> Ints:
    """Read the bit widths of chunks; see `bitpacking.read_widths`."""
    if bits not in (8, 16, 32, 64):
        _refuse(bitpacking.read_widths, data, starts, ends, bits)
    data, starts, ends = _plain(data), _ints(starts), _ints(ends)
    widths = np.empty(len(starts), np.int64)
    failed = _C.lancefs_read_widths(
        _at(data), len(data), _at(starts), _at(ends), len(starts), bits, _at(widths)
    )
    if failed:
        _refuse(bitpacking.read_widths, data, starts, ends, bits)
    return widths


def unpack_buffers(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, bits: int
) -> Array:
    """Unpack buffers that are packed in one width; see `bitpacking.unpack_buffers`."""
    arguments = data, starts, ends, counts, width, bits
    room, size = total(counts), total(ends - starts)
    is_sound = 0 <= room <= bitpacking.MOST and room * width <= 8 * size
    if bits not in (8, 16, 32, 64) or not is_sound:
        _refuse(bitpacking.unpack_buffers, *arguments)
    data, starts, ends, counts = _plain(data), _ints(starts), _ints(ends), _ints(counts)
    out = empty(room, dtype_of(bits // 8))
    failed = _C.lancefs_unpack_buffers(
        _at(data),
        len(data),
        _at(starts),
        _at(ends),
        _at(counts),
        len(counts),
        width,
        bits,
        _at(out),
        room,
    )
    if failed:
        _refuse(bitpacking.unpack_buffers, *arguments)
    return out


def split_lists(rep: Array, definition: Array | None, meanings: Meanings) -> Lists:
    """Find the lists of one layer; see `lists.split_lists`."""
    if definition is not None and len(definition) != len(rep):
        _refuse(lists.split_lists, rep, definition, meanings)
    rep = _aligned(rep)
    definition = None if definition is None else _aligned(definition)
    room, has_levels = int(np.count_nonzero(rep)), definition is not None
    said, nulls = np.array(meanings, np.int64), np.zeros(1, np.int64)
    offsets, valid = empty(room + 1, np.int64), empty(room + 1, np.bool_)
    outer = empty((1 + has_levels) * (room + 1), np.uint16).reshape(-1, room + 1)
    count = _C.lancefs_split_lists(
        _at(rep),
        0 if definition is None else _at(definition),
        len(rep),
        _at(said),
        room,
        _at(offsets),
        _at(valid),
        _at(outer[0]),
        _at(outer[-1]),
        _at(nulls),
    )
    validity = valid[:count] if nulls[0] else None
    levels = outer[1, :room] if has_levels else None
    return Lists(offsets[: count + 1], validity, outer[0, :room], levels)


def gather(data: Bytes, starts: Ints, ends: Ints) -> Bytes:
    """Join segments that ascend; see `segments.gather`."""
    count = len(starts)
    if count == 0:
        return data[:0]
    data, starts, ends = _plain(data), _ints(starts), _ints(ends)
    size = _C.lancefs_measure_segments(len(data), _at(starts), _at(ends), count)
    if size < 0:
        _refuse(segments.gather, data, starts, ends)
    if size == int(ends[-1]) - int(starts[0]):  # no gaps
        return data[starts[0] : ends[-1]]
    out = empty(size, np.uint8)
    _C.lancefs_join_segments(_at(data), _at(starts), _at(ends), count, _at(out))
    return out


def decode_fsst(table: fsst.SymbolTable, offsets: Array, data: Bytes) -> tuple[Array, Bytes]:
    """Decompress FSST strings; see `fsst.decode`."""
    ends, codes = fsst.stream(offsets, data)
    if table.raw or not len(codes) or len(codes) > LARGEST:
        return fsst.decode(table, offsets, data)
    codes, ends = _plain(codes), _plain(ends, np.int32)
    size = _C.lancefs_fsst_measure(_at(codes), len(codes), _at(table.lengths))
    if size > LARGEST:
        return fsst.decode(table, offsets, data)
    if size < 0:
        _refuse(fsst.decode, table, offsets, data)
    text = empty(size, np.uint8, _SLACK)
    found = empty(len(ends), np.int32)
    failed = _C.lancefs_fsst_decode(
        _at(codes),
        len(codes),
        _at(ends),
        len(ends) - 1,
        _at(table.symbols),
        _at(table.lengths),
        _at(text),
        size,
        _at(found),
    )
    if failed:
        _refuse(fsst.decode, table, offsets, data)
    return found, text


def fsst_lengths(table: fsst.SymbolTable, offsets: Array, data: Bytes) -> Ints:
    """Tell how long FSST strings are; see `fsst.lengths`."""
    ends, codes = fsst.stream(offsets, data)
    if table.raw or not len(codes) or len(codes) > LARGEST:
        return fsst.lengths(table, offsets, data)
    codes, ends = _plain(codes), _plain(ends, np.int32)
    found = empty(len(ends) - 1, np.int64)
    failed = _C.lancefs_fsst_lengths(
        _at(codes), len(codes), _at(ends), len(ends) - 1, _at(table.lengths), _at(found)
    )
    if failed:
        _refuse(fsst.lengths, table, offsets, data)
    return found


def join_chunks(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> tuple[Array, Bytes]:
    """Join the strings of chunks; see `strings.join_chunks`."""
    arguments = data, starts, ends, counts, width
    values = total(counts)
    room = total(ends - starts) - (values + len(counts)) * width
    if values < 0 or room < 0 or room + values * width > len(data):
        _refuse(strings.join_chunks, *arguments)
    if room > LARGEST:
        return strings.join_chunks(*arguments)
    data, starts, ends, counts = _plain(data), _ints(starts), _ints(ends), _ints(counts)
    offsets, text = empty(values + 1, np.int32), empty(room, np.uint8)
    size = _C.lancefs_join_chunks(
        _at(data),
        len(data),
        _at(starts),
        _at(ends),
        _at(counts),
        len(counts),
        width,
        _at(offsets),
        values,
        _at(text),
        room,
    )
    if size < 0:
        _refuse(strings.join_chunks, *arguments)
    return offsets, text[:size]


def find_strings(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, wanted: Ints
) -> tuple[Ints, Ints]:
    """Find single strings of chunks; see `strings.find_strings`."""
    arguments = data, starts, ends, counts, width, wanted
    data, starts, ends, counts = _plain(data), _ints(starts), _ints(ends), _ints(counts)
    wanted = _ints(wanted)
    begins, stops = np.empty((2, len(wanted)), np.int64)
    failed = _C.lancefs_find_strings(
        _at(data),
        len(data),
        _at(starts),
        _at(ends),
        _at(counts),
        len(counts),
        width,
        _at(wanted),
        len(wanted),
        _at(begins),
        _at(stops),
    )
    if failed:
        _refuse(strings.find_strings, *arguments)
    return begins, stops


def take(items: Array, indices: Array) -> Array:
    """Look up values of one width; see `lookup.take`."""
    items, indices = _plain(items), _plain(indices)
    out = empty(len(indices), items.dtype)
    failed = _C.lancefs_take_fixed(
        _at(items),
        len(items),
        items.itemsize,
        _at(indices),
        indices.itemsize,
        len(indices),
        _at(out),
    )
    if failed:
        _refuse(lookup.take, items, indices)
    return out


def take_strings(
    offsets: Array, data: Bytes, indices: Array, valid: Mask | None
) -> tuple[Array, Bytes]:
    """Look up strings; see `lookup.take_strings`."""
    arguments = offsets, data, indices, valid
    if int(offsets.min()) < 0 or int(offsets.max()) > len(data):
        _refuse(lookup.take_strings, *arguments)
    if len(data) > LARGEST or indices.itemsize > 4:
        return lookup.take_strings(*arguments)
    offsets, data, indices = _plain(offsets, np.int32), _plain(data), _aligned(indices)
    valid = None if valid is None else _plain(valid)
    shown = 0 if valid is None else _at(valid)
    items, count = len(offsets) - 1, len(indices)
    width = indices.itemsize
    size = _C.lancefs_measure_strings(
        _at(offsets), len(data), items, _at(indices), width, shown, count
    )
    if size > LARGEST:
        return lookup.take_strings(*arguments)
    if size < 0:
        _refuse(lookup.take_strings, *arguments)
    found, text = empty(count + 1, np.int32), empty(size, np.uint8, _SLACK)
    failed = _C.lancefs_take_strings(
        _at(offsets),
        _at(data),
        len(data),
        items,
        _at(indices),
        width,
        shown,
        count,
        _at(found),
        _at(text),
        size,
    )
    if failed:
        _refuse(lookup.take_strings, *arguments)
    return found, text


def expand(values: Array, lengths: Array, run_counts: Ints, counts: Ints) -> Array:
    """Repeat each value as often as its run is long; see `runs.expand`."""
    arguments = values, lengths, run_counts, counts
    room = int(counts.sum())
    if len(values) != len(lengths) or int(run_counts.sum()) != len(lengths):
        _refuse(runs.expand, *arguments)
    if not 0 <= room <= int(lengths.sum(dtype=np.float64)):
        _refuse(runs.expand, *arguments)
    values, lengths = _plain(values), _plain(lengths)
    run_counts, counts = _ints(run_counts), _ints(counts)
    out = empty(room, values.dtype)
    failed = _C.lancefs_expand_runs(
        _at(values),
        values.itemsize,
        _at(lengths),
        lengths.itemsize,
        len(lengths),
        _at(run_counts),
        _at(counts),
        len(counts),
        _at(out),
        room,
    )
    if failed:
        _refuse(runs.expand, *arguments)
    return out


def join_streams(data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int) -> Bytes:
    """Put the bytes of values together; see `streams.join_streams`."""
    arguments = data, starts, ends, counts, width
    room = int(counts.sum())
    if not 0 <= room * width <= len(data):
        _refuse(streams.join_streams, *arguments)
    data, starts, ends, counts = _plain(data), _ints(starts), _ints(ends), _ints(counts)
    out = empty(room * width, np.uint8)
    failed = _C.lancefs_join_streams(
        _at(data),
        len(data),
        _at(starts),
        _at(ends),
        _at(counts),
        len(counts),
        width,
        _at(out),
        room,
    )
    if failed:
        _refuse(streams.join_streams, *arguments)
    return out


def is_utf8(offsets: Array, data: Bytes) -> bool:
    """Tell whether all strings are UTF-8; see `utf8.is_utf8`."""
    if offsets.dtype != np.int32:
        return utf8.is_utf8(offsets, data)
    offsets, data = _plain(offsets), _plain(data)
    found = _C.lancefs_is_utf8(_at(offsets), len(offsets) - 1, _at(data), len(data))
    if found < 0:
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    return bool(found)


def _refuse(reference: Callable[..., Any], *arguments: Any) -> NoReturn:
    """Let the NumPy twin say what is wrong with the arguments."""
    reference(*arguments)
    raise AssertionError(f"the compiled twin of {reference.__name__} refuses what NumPy takes")


def _ints(array: Ints) -> Ints:
    return np.ascontiguousarray(array, np.int64)


@lru_cache(maxsize=64)
def _small(numbers: tuple[int, ...]) -> Ints:
    """Return a few numbers, such as many pages have alike, as an array that nobody changes."""
    return np.array(numbers, np.int64)


def _plain(array: Array, dtype: Any = None) -> Array:
    """Return values one after the other, as a pointer to them needs."""
    return np.ascontiguousarray(array, dtype)


def _aligned(array: Array) -> Array:
    return np.require(array, requirements=["C", "A"])


def _at(array: Array) -> int:
    # By far the fastest way to ask for it, and pages have dozens of arrays.
    address: int = pa.py_buffer(array).address
    return address
