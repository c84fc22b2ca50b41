"""FSST decompression (docs: format/file/encoding, "FSST").

A string is a sequence of one-byte codes. A code below 255 stands for a symbol of 1 to 8 bytes; 255,
the escape, says that the next byte is literal. An escape and its byte are in the same string, so
the strings of a page are decoded as one stream.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints, Mask, empty, to_arrow_numbers
from lancefs.datafile.kernels.calls import SLACK, Call, c_function, twin_of
from lancefs.datafile.kernels.strings import LARGEST, compact_offsets
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

ESCAPE = 255
LONGEST = 8  # bytes of a symbol
_MAGIC = b"TSSF"


class SymbolTable(NamedTuple):
    """The symbols of one page."""

    symbols: Array  # uint8, shape (256, 8): the bytes of each symbol, zero-padded
    lengths: Array  # uint8, shape (256,): 0 for unused codes
    raw: bool  # the strings are not compressed


@lru_cache(maxsize=256)  # a few rows of a page take as long to decode as its table to read
def parse_table(data: bytes) -> SymbolTable:
    """Read a symbol table: an 8-byte header, 8 bytes per symbol, one byte per length.

    Raises:
        CorruptFile: The table is cut short or has another magic number, or a symbol is not 1 to 8
            bytes long.
    """
    if len(data) < 8 or data[4:8] != _MAGIC:
        raise CorruptFile("the FSST symbol table does not carry its magic number")
    count = data[0]
    if data[3] == 0:
        return SymbolTable(np.zeros((256, 8), np.uint8), np.zeros(256, np.uint8), raw=True)
    if len(data) < 8 + 9 * count:
        raise CorruptFile(f"the FSST symbol table of {count} symbols has only {len(data)} bytes")
    symbols = np.zeros((256, LONGEST), dtype=np.uint8)
    lengths = np.zeros(256, dtype=np.uint8)
    symbols[:count] = np.frombuffer(data, np.uint8, 8 * count, 8).reshape(count, LONGEST)
    lengths[:count] = np.frombuffer(data, np.uint8, count, 8 + 8 * count)
    if count and (lengths[:count].min() == 0 or lengths.max() > LONGEST):
        raise CorruptFile("an FSST symbol is not 1 to 8 bytes long")
    symbols.flags.writeable = lengths.flags.writeable = False
    return SymbolTable(symbols, lengths, raw=False)


def decode_fsst(table: SymbolTable, offsets: Array, data: Bytes) -> tuple[Array, Bytes]:
    """Decompress strings.

    Args:
        table: The symbols.
        offsets: n + 1 ascending offsets of the compressed strings in `data`.
        data: The codes.

    Returns:
        The n + 1 offsets of the strings, from 0 (int32 if they fit), and their bytes.

    Raises:
        CorruptFile: A string ends in an escape, a code has no symbol, or the offsets are damaged.
    """
    ends, codes = _cut_codes(offsets, data)
    if np.any(ends[1:] < ends[:-1]):
        raise CorruptFile("the offsets of FSST strings descend")
    if table.raw or not len(codes):
        return compact_offsets(ends), codes
    escapes, literal = _find_escapes(table, ends, codes)
    # 512 entries: the symbols, then the 256 literal bytes.
    index = (codes.astype(np.int16) + literal.astype(np.int16) * 256)[~escapes]
    stops, text = _join_symbols(table, index)
    positions = np.cumsum(~escapes)
    upto = np.concatenate(([0], positions))[ends]
    return compact_offsets(stops[upto]), text


_c_decode_fsst_size = c_function("decode_fsst_size", "bytes number bytes")


@twin_of(decode_fsst, "bytes number offsets number bytes bytes out number out")
def _compiled_decode_fsst(
    call: Call, table: SymbolTable, offsets: Array, data: Bytes
) -> tuple[Array, Bytes]:
    ends, codes = _cut_codes(offsets, data)
    count, symbols, lengths = len(codes), table.symbols, table.lengths
    if table.raw or not 0 < count <= LARGEST:
        return decode_fsst(table, offsets, data)
    size = _c_decode_fsst_size(codes, count, lengths)
    if size > LARGEST:
        return decode_fsst(table, offsets, data)
    text, found = empty(size, np.uint8, SLACK), empty(len(ends), np.int32)
    call(codes, count, ends, len(ends) - 1, symbols, lengths, text, size, found)
    return found, text


def fsst_lengths(table: SymbolTable, offsets: Array, data: Bytes) -> Ints:
    """Return the lengths of strings, without decompressing them.

    Args:
        table: The symbols.
        offsets: n + 1 ascending offsets of the compressed strings in `data`.
        data: The codes.

    Returns:
        The length in bytes of each string.

    Raises:
        CorruptFile: As for `decode_fsst`.
    """
    ends, codes = _cut_codes(offsets, data)
    if np.any(ends[1:] < ends[:-1]):
        raise CorruptFile("the offsets of FSST strings descend")
    if table.raw or not len(codes):
        return np.diff(ends).astype(np.int64)
    escapes, literal = _find_escapes(table, ends, codes)
    sizes = table.lengths[codes].astype(np.int64)
    sizes[escapes], sizes[literal] = 0, 1
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))[ends]
    return np.diff(upto)


@twin_of(fsst_lengths, "bytes number offsets number bytes out")
def _compiled_fsst_lengths(call: Call, table: SymbolTable, offsets: Array, data: Bytes) -> Ints:
    ends, codes = _cut_codes(offsets, data)
    if table.raw or not 0 < len(codes) <= LARGEST:
        return fsst_lengths(table, offsets, data)
    found = empty(len(ends) - 1, np.int64)
    call(codes, len(codes), ends, len(ends) - 1, table.lengths, found)
    return found


def _find_escapes(table: SymbolTable, ends: Array, codes: Bytes) -> tuple[Mask, Mask]:
    """Return which bytes are escapes, and which bytes are literals.

    Raises:
        CorruptFile: A string ends in an escape, or a code has no symbol.
    """
    escapes = _are_escapes(codes)
    literal = np.zeros(len(codes), dtype=bool)
    literal[1:] = escapes[:-1]
    if escapes[-1] or np.any(literal[ends[1:-1][ends[1:-1] < len(codes)]]):
        raise CorruptFile("an FSST string ends in the middle of an escape")
    used = codes[~escapes & ~literal]
    if len(used) and np.any(table.lengths[used] == 0):
        raise CorruptFile("an FSST code has no symbol in the table")
    return escapes, literal


def _cut_codes(offsets: Array, data: Bytes) -> tuple[Array, Bytes]:
    """Cut the codes of all strings out of a buffer; return their offsets from 0, and the codes.

    Raises:
        CorruptFile: The codes are not in the buffer.
    """
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= len(data):
        raise CorruptFile(f"FSST strings at bytes {first}–{last} of {len(data)}")
    # Those of 64 bits might wrap to others of the 32 bits that C takes.
    is_wide = offsets.itemsize > 4
    if is_wide and (int(offsets.min()) < first or int(offsets.max()) > last):
        raise CorruptFile("the offsets of FSST strings descend")
    return offsets - first if first else offsets, data[first:last]


def _are_escapes(codes: Bytes) -> Mask:
    """Tell which bytes are escapes: in a run of 255s every second byte is a literal 255."""
    is_escape: Mask = codes == ESCAPE
    if not is_escape.any():
        return is_escape
    where = np.flatnonzero(is_escape)
    begins = np.ones(len(where), dtype=bool)
    begins[1:] = np.diff(where) != 1
    run_start = np.maximum.accumulate(np.where(begins, where, 0))
    odd = (where - run_start) % 2 == 1
    is_escape[where[odd]] = False
    return is_escape


def _join_symbols(table: SymbolTable, index: Array) -> tuple[Ints, Bytes]:
    """Return the ends of symbols in their joined bytes, and these; Arrow's `take` copies them."""
    lengths = np.concatenate((table.lengths, np.ones(256, np.uint8))).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    mask = np.arange(LONGEST) < table.lengths[:, None]
    letters = np.concatenate((table.symbols[mask], np.arange(256, dtype=np.uint8)))
    words = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 512, [None, pa.py_buffer(starts), pa.py_buffer(letters)]
    )
    text = words.take(to_arrow_numbers(index))
    _, stops, joined = text.buffers()
    ends = np.frombuffer(stops, dtype=np.int64)[: len(index) + 1]
    return ends, np.frombuffer(joined, dtype=np.uint8)[: int(ends[-1])]
