"""The compiled twins of the NumPy kernels that give strings, or look at them; see `compiled`.

Strings of more than 2 GiB in all are left to NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask, check_size, empty, total
from lancefs.datafile.kernels.calls import SLACK, C, aligned, at, in_numpy, ints, plain, refuse
from lancefs.datafile.kernels.strings import LARGEST
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

if TYPE_CHECKING:
    from lancefs.datafile.kernels.fsst import SymbolTable


def decode_fsst(table: SymbolTable, offsets: Array, data: Bytes) -> tuple[Array, Bytes]:
    """Decompress FSST strings; see `fsst.decode`."""
    from lancefs.datafile.kernels.fsst import stream

    ends, codes = stream(offsets, data)
    if table.raw or not len(codes) or len(codes) > LARGEST:
        decoded: tuple[Array, Bytes] = in_numpy("decode_fsst", table, offsets, data)
        return decoded
    codes, ends = plain(codes), plain(ends, np.int32)
    size = C.lancefs_fsst_measure(at(codes), len(codes), at(table.lengths))
    if size > LARGEST:
        decoded = in_numpy("decode_fsst", table, offsets, data)
        return decoded
    if size < 0:
        refuse("decode_fsst", table, offsets, data)
    text = empty(size, np.uint8, SLACK)
    found = empty(len(ends), np.int32)
    failed = C.lancefs_fsst_decode(
        at(codes),
        len(codes),
        at(ends),
        len(ends) - 1,
        at(table.symbols),
        at(table.lengths),
        at(text),
        size,
        at(found),
    )
    if failed:
        refuse("decode_fsst", table, offsets, data)
    return found, text


def fsst_lengths(table: SymbolTable, offsets: Array, data: Bytes) -> Ints:
    """Tell how long FSST strings are; see `fsst.lengths`."""
    from lancefs.datafile.kernels.fsst import stream

    ends, codes = stream(offsets, data)
    if table.raw or not len(codes) or len(codes) > LARGEST:
        lengths: Ints = in_numpy("fsst_lengths", table, offsets, data)
        return lengths
    codes, ends = plain(codes), plain(ends, np.int32)
    found = empty(len(ends) - 1, np.int64)
    failed = C.lancefs_fsst_lengths(
        at(codes), len(codes), at(ends), len(ends) - 1, at(table.lengths), at(found)
    )
    if failed:
        refuse("fsst_lengths", table, offsets, data)
    return found


def join_chunks(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int
) -> tuple[Array, Bytes]:
    """Join the strings of chunks; see `strings.join_chunks`."""
    arguments = data, starts, ends, counts, width
    values = total(counts)
    room = total(ends - starts) - (values + len(counts)) * width
    if values < 0 or room < 0 or room + values * width > len(data):
        refuse("join_chunks", *arguments)
    if room > LARGEST:
        joined: tuple[Array, Bytes] = in_numpy("join_chunks", *arguments)
        return joined
    data, starts, ends, counts = plain(data), ints(starts), ints(ends), ints(counts)
    offsets, text = empty(values + 1, np.int32), empty(room, np.uint8)
    size = C.lancefs_join_chunks(
        at(data),
        len(data),
        at(starts),
        at(ends),
        at(counts),
        len(counts),
        width,
        at(offsets),
        values,
        at(text),
        room,
    )
    if size < 0:
        refuse("join_chunks", *arguments)
    return offsets, text[:size]


def find_strings(
    data: Bytes, starts: Ints, ends: Ints, counts: Ints, width: int, wanted: Ints
) -> tuple[Ints, Ints]:
    """Find single strings of chunks; see `strings.find_strings`."""
    arguments = data, starts, ends, counts, width, wanted
    data, starts, ends, counts = plain(data), ints(starts), ints(ends), ints(counts)
    wanted = ints(wanted)
    begins, stops = np.empty((2, len(wanted)), np.int64)
    failed = C.lancefs_find_strings(
        at(data),
        len(data),
        at(starts),
        at(ends),
        at(counts),
        len(counts),
        width,
        at(wanted),
        len(wanted),
        at(begins),
        at(stops),
    )
    if failed:
        refuse("find_strings", *arguments)
    return begins, stops


def take_strings(
    offsets: Array, data: Bytes, indices: Array, valid: Mask | None
) -> tuple[Array, Bytes]:
    """Look up strings; see `lookup.take_strings`."""
    arguments = offsets, data, indices, valid
    if int(offsets.min()) < 0 or int(offsets.max()) > len(data):
        refuse("take_strings", *arguments)
    if len(data) > LARGEST or indices.itemsize > 4:
        taken: tuple[Array, Bytes] = in_numpy("take_strings", *arguments)
        return taken
    offsets, data, indices = plain(offsets, np.int32), plain(data), aligned(indices)
    valid = None if valid is None else plain(valid)
    shown = 0 if valid is None else at(valid)
    items, count = len(offsets) - 1, len(indices)
    width = indices.itemsize
    size = C.lancefs_measure_strings(
        at(offsets), len(data), items, at(indices), width, shown, count
    )
    if size < 0:
        refuse("take_strings", *arguments)
    check_size(size)
    if size > LARGEST:
        taken = in_numpy("take_strings", *arguments)
        return taken
    found, text = empty(count + 1, np.int32), empty(size, np.uint8, SLACK)
    failed = C.lancefs_take_strings(
        at(offsets),
        at(data),
        len(data),
        items,
        at(indices),
        width,
        shown,
        count,
        at(found),
        at(text),
        size,
    )
    if failed:
        refuse("take_strings", *arguments)
    return found, text


def is_utf8(offsets: Array, data: Bytes) -> bool:
    """Tell whether all strings are UTF-8; see `utf8.is_utf8`."""
    if offsets.dtype != np.int32:
        said: bool = in_numpy("is_utf8", offsets, data)
        return said
    offsets, data = plain(offsets), plain(data)
    found = C.lancefs_is_utf8(at(offsets), len(offsets) - 1, at(data), len(data))
    if found < 0:
        raise CorruptFile("the offsets of strings descend or leave their bytes")
    return bool(found)


def keep_strings(offsets: Array, data: Bytes, kept: Mask) -> tuple[Array, Bytes]:
    """Return the strings that are kept; see `selection.keep_strings`."""
    arguments = offsets, data, kept
    offsets, data, kept = plain(offsets), plain(data), plain(kept)
    size = C.lancefs_measure_kept(at(offsets), at(kept), len(kept))
    if not 0 <= size <= len(data):
        refuse("keep_strings", *arguments)
    found = empty(int(np.count_nonzero(kept)) + 1, np.int32)
    text = empty(size, np.uint8, SLACK)
    failed = C.lancefs_keep_strings(
        at(offsets),
        at(data),
        len(data),
        at(kept),
        len(kept),
        at(found),
        len(found) - 1,
        at(text),
        size,
    )
    if failed:
        refuse("keep_strings", *arguments)
    return found, text
