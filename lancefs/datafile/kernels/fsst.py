"""FSST decompression (docs: format/file/encoding, "FSST").

A string is a sequence of one-byte codes. A code below 255 stands for a symbol of 1 to 8 bytes, 255
says that the next byte is meant literally. Codes never cross strings, so that the strings of a
page can be decoded as one stream.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Array, Ints, Mask, to_arrow_numbers
from lancefs.datafile.kernels.strings import narrowed
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

ESCAPE = 255
LONGEST = 8  # bytes of a symbol
_MAGIC = b"TSSF"


class SymbolTable(NamedTuple):
    """The symbols of one page."""

    symbols: Array  # uint8, shape (256, 8): the bytes of each symbol, zero-padded
    lengths: Array  # uint8, shape (256,): 0 for codes that are not in use
    raw: bool  # the strings are stored as they are


def parse_table(data: bytes) -> SymbolTable:
    """Read a symbol table: an 8-byte header, 8 bytes a symbol, one byte a length.

    Raises:
        CorruptFile: It is cut short, has another magic, or a symbol is not 1 to 8 bytes long.
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
    return SymbolTable(symbols, lengths, raw=False)


def decode(table: SymbolTable, offsets: Array, data: Bytes) -> tuple[Array, Bytes]:
    """Decompress strings.

    Args:
        table: The symbols.
        offsets: n + 1 ascending offsets of the compressed strings in `data`.
        data: The codes.

    Returns:
        The n + 1 offsets of the strings, from 0 (int32 where they fit), and their bytes.

    Raises:
        CorruptFile: A string ends in an escape, a code has no symbol, or the offsets are damaged.
    """
    ends, codes = stream(offsets, data)
    if np.any(ends[1:] < ends[:-1]):
        raise CorruptFile("the offsets of FSST strings descend")
    if table.raw or not len(codes):
        return narrowed(ends), codes
    escapes, literal = _checked(table, ends, codes)
    # 512 entries: the symbols, then the 256 literal bytes.
    index = (codes.astype(np.int16) + literal.astype(np.int16) * 256)[~escapes]
    stops, text = _spell(table, index)
    positions = np.cumsum(~escapes)
    upto = np.concatenate(([0], positions))[ends]
    return narrowed(stops[upto]), text


def lengths(table: SymbolTable, offsets: Array, data: Bytes) -> Ints:
    """Tell how long strings are, without spelling them out.

    Args:
        table: The symbols.
        offsets: n + 1 ascending offsets of the compressed strings in `data`.
        data: The codes.

    Returns:
        The bytes of each string.

    Raises:
        CorruptFile: As `decode`.
    """
    ends, codes = stream(offsets, data)
    if np.any(ends[1:] < ends[:-1]):
        raise CorruptFile("the offsets of FSST strings descend")
    if table.raw or not len(codes):
        return np.diff(ends).astype(np.int64)
    escapes, literal = _checked(table, ends, codes)
    sizes = table.lengths[codes].astype(np.int64)
    sizes[escapes], sizes[literal] = 0, 1
    upto = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))[ends]
    return np.diff(upto)


def _checked(table: SymbolTable, ends: Array, codes: Bytes) -> tuple[Mask, Mask]:
    """Return which bytes are escapes, and which stand after one.

    Raises:
        CorruptFile: A string ends in an escape, or a code has no symbol.
    """
    escapes = _escapes(codes)
    literal = np.zeros(len(codes), dtype=bool)
    literal[1:] = escapes[:-1]
    if escapes[-1] or np.any(literal[ends[1:-1][ends[1:-1] < len(codes)]]):
        raise CorruptFile("an FSST string ends in the middle of an escape")
    used = codes[~escapes & ~literal]
    if len(used) and np.any(table.lengths[used] == 0):
        raise CorruptFile("an FSST code has no symbol in the table")
    return escapes, literal


def stream(offsets: Array, data: Bytes) -> tuple[Array, Bytes]:
    """Cut the codes of all strings out of a buffer; return the offsets in them, and them.

    Raises:
        CorruptFile: They are not in the buffer.
    """
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= len(data):
        raise CorruptFile(f"FSST strings at bytes {first}–{last} of {len(data)}")
    if int(offsets.min()) < first or int(offsets.max()) > last:
        raise CorruptFile("the offsets of FSST strings descend")
    return offsets - first if first else offsets, data[first:last]


def _escapes(codes: Bytes) -> Mask:
    """Tell which bytes are escapes: in a run of 255s every second one is a literal 255."""
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


def _spell(table: SymbolTable, index: Array) -> tuple[Ints, Bytes]:
    """Replace dictionary indices by their bytes; Arrow's `take` does the copying."""
    lengths = np.concatenate((table.lengths, np.ones(256, np.uint8))).astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    mask = np.arange(LONGEST) < table.lengths[:, None]
    letters = np.concatenate((table.symbols[mask], np.arange(256, dtype=np.uint8)))
    words = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 512, [None, pa.py_buffer(starts), pa.py_buffer(letters)]
    )
    text = words.take(to_arrow_numbers(index))
    _, stops, spelled = text.buffers()
    ends = np.frombuffer(stops, dtype=np.int64)[: len(index) + 1]
    return ends, np.frombuffer(spelled, dtype=np.uint8)[: int(ends[-1])]
