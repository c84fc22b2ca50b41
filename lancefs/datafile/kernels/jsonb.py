"""JSONB values as JSON text.

A JSON column holds one JSONB value for each row, in the layout of the Rust crate `jsonb`. All words
are big-endian and 32 bits wide. A value is a container: a header (3 bits kind, 29 bits count), one
entry for each member (4 bits type, 28 bits length in bytes), then the bytes of the members, in this
order and without gaps. In an object the entries of the keys precede those of the values, and so do
their bytes. A scalar is a container with one member. Nulls and booleans are entries without bytes;
the first byte of a number or extension value tells its sort.

The text equals that of Lance 14: compact, keys in stored order, only escapes that JSON demands,
floating point as the shortest text that reads back, in exponent notation below 0.00001 and from
1e16 on; null for NaN and infinities, which JSON lacks.

Format pages: JSONB (`docs/src/format/table/jsonb.md`) and the crate's README and constants.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from datetime import date
from itertools import pairwise, repeat
from typing import NoReturn, TypeAlias

import numpy as np

from lancefs.datafile.buffers import Array, Ints, Mask, empty
from lancefs.datafile.kernels.calls import Call, twin_of
from lancefs.datafile.kernels.segments import gather
from lancefs.errors import CorruptFile

# Kinds of containers: the high bits of a header.
_SCALAR, _OBJECT, _ARRAY = 1, 2, 4
_KIND_SHIFT = 29
_COUNT = (1 << 29) - 1

# Types of members: the high bits of an entry.
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER, _EXTENSION = range(7)
_TYPE_SHIFT = 28
_LENGTH = (1 << 28) - 1

# Sorts of numbers and extension values: their first byte.
_ZERO, _NAN, _INFINITY, _MINUS_INFINITY, _INT, _UINT, _FLOAT, _DECIMAL = range(0x00, 0x80, 0x10)
_BINARY, _DATE, _TIMESTAMP, _TIMESTAMP_TZ, _INTERVAL = range(0x00, 0x50, 0x10)

# Bytes of a decimal after its first byte -> bytes of its unscaled value. The scale is the last
# byte. In the variants with one more byte, from an early `jsonb`, the precision precedes the scale.
_DECIMAL_WIDTHS = {9: 8, 17: 16, 18: 16, 33: 32, 34: 32}

# Number of cached texts of a type, and bytes of the longest cached value.
_MAX_CACHED, _LONGEST_CACHED = 1 << 14, 64

_quoted = json.JSONEncoder(ensure_ascii=False).encode

# Start and end of a container that is not yet written.
_Span: TypeAlias = tuple[int, int]


def write_json(offsets: Ints, data: Array, valid: Mask | None) -> tuple[Ints, Array]:
    """Write JSONB values as JSON text.

    Args:
        offsets: Value i is `data[offsets[i]:offsets[i + 1]]`, shape (n + 1,). A value of no bytes
            is `null`.
        data: The bytes of the values.
        valid: Mask of the values that are not null, shape (n,); None if none is. Nulls have no
            text.

    Returns:
        The offsets of the texts, shape (n + 1,), and their bytes.

    Raises:
        CorruptFile: The bytes are not JSONB.
    """
    write, whole, bounds = _Writer().write, data.tobytes(), offsets.tolist()
    texts = [
        write(whole[start:end]).encode() if is_there else b""
        for (start, end), is_there in zip(
            pairwise(bounds), repeat(True) if valid is None else valid.tolist(), strict=False
        )
    ]
    ends = np.zeros(len(offsets), np.int64)
    np.cumsum([len(text) for text in texts], out=ends[1:])
    return ends, np.frombuffer(b"".join(texts), np.uint8)


@twin_of(write_json, "ints number bytes number bytes out number out out")
def _compiled_write_json(
    call: Call, offsets: Ints, data: Array, valid: Mask | None
) -> tuple[Ints, Array]:
    count = len(offsets) - 1
    ends, is_left = np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
    # Most texts have fewer bytes than their values, but for long numbers and escapes.
    size = int(offsets[-1] - offsets[0]) * 5 // 4 + 4 * count
    while True:
        text = empty(size, np.uint8)
        needed = call(offsets, count, data, len(data), valid, text, size, ends, is_left)
        if needed <= size:
            break
        size = needed
    left = np.flatnonzero(is_left)
    if len(left):
        return _with_others(ends, text[:needed], left, offsets, data)
    if 4 * needed >= 3 * size:
        return ends, text[:needed]
    exact = empty(needed, np.uint8)  # what was allocated for more would be held as long
    exact[:] = text[:needed]
    return ends, exact


def _with_others(
    ends: Ints, text: Array, left: Ints, offsets: Ints, data: Array
) -> tuple[Ints, Array]:
    """Put the texts of values that C leaves to Python in the places of nothing."""
    starts, stops = offsets[left], offsets[left + 1]
    others = np.concatenate([np.zeros(1, np.int64), np.cumsum(stops - starts)])
    own_ends, own = write_json(others, gather(data, starts, stops), None)
    lengths = np.diff(ends)
    is_other = np.zeros(len(lengths), np.bool_)
    is_other[left], lengths[left] = True, np.diff(own_ends)
    is_own = np.repeat(is_other, lengths)
    joined = np.empty(len(is_own), np.uint8)
    joined[is_own], joined[~is_own] = own, text
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), joined


class _Memo(dict[bytes, str]):
    """A cache of texts by their JSONB bytes: keys recur in every row, and many values do.

    A lookup writes a text that is not cached.
    """

    def __init__(self, write: Callable[[bytes], str]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, data: bytes) -> str:
        text = self._write(data)
        if len(data) <= _LONGEST_CACHED:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[data] = text
        return text


class _Writer:
    """Writes JSONB values as text."""

    def __init__(self) -> None:
        self._keys = _Memo(lambda data: _string(data) + ":")
        self._scalars = {kind: _Memo(write) for kind, write in _SCALARS.items()}

    def write(self, data: bytes) -> str:
        """Return the text of one value, without recursion: values may nest thousands deep."""
        if not data:
            return "null"
        done: list[str] = []
        todo: list[str | _Span] = [(0, len(data))]
        while todo:
            piece = todo.pop()
            if isinstance(piece, str):
                done.append(piece)
                continue
            pieces, nested = self._container(data, *piece)
            if nested:
                todo += reversed(pieces)
            else:
                done += pieces  # type: ignore[arg-type]  # all of them are text
        return "".join(done)

    def _container(self, data: bytes, start: int, end: int) -> tuple[list[str | _Span], bool]:
        """Write the container `data[start:end]`, except for nested containers.

        Returns:
            Text and nested containers, in order; whether there are any nested containers.
        """
        (header,) = _words(data, start, 1, end)
        kind, count = header >> _KIND_SHIFT, header & _COUNT
        start += 4
        if kind == _OBJECT:
            entries = _words(data, start, 2 * count, end)
            keys, start = self._read_keys(data, entries[:count], start + 8 * count)
            return self._members(data, entries[count:], keys, start, end, "{}")
        if kind == _ARRAY:
            entries = _words(data, start, count, end)
            keys = [""] * count
            return self._members(data, entries, keys, start + 4 * count, end, "[]")
        if kind == _SCALAR:
            entries = _words(data, start, 1, end)
            if entries[0] >> _TYPE_SHIFT == _CONTAINER:
                _corrupt("a scalar", "a container")
            return self._members(data, entries, [""], start + 4, end, ("", ""))
        _corrupt("the header of a scalar, an object or an array", f"{header:#010x}")

    def _read_keys(self, data: bytes, entries: Sequence[int], start: int) -> tuple[list[str], int]:
        """Write the keys of an object; return the end of their bytes as well."""
        known = self._keys
        keys = []
        for entry in entries:
            if entry >> _TYPE_SHIFT != _STRING:
                _corrupt("a key", f"the entry {entry:#010x}")
            stop = start + (entry & _LENGTH)
            keys.append(known[data[start:stop]])
            start = stop
        return keys, start

    def _members(
        self,
        data: bytes,
        entries: Sequence[int],
        keys: Sequence[str],
        start: int,
        end: int,
        brackets: Sequence[str],
    ) -> tuple[list[str | _Span], bool]:
        """Write the members of a container, whose bytes are `data[start:end]`."""
        pieces: list[str | _Span] = []
        nested = False
        scalars = self._scalars
        lead, closing = brackets
        for entry, key in zip(entries, keys, strict=True):
            kind = entry >> _TYPE_SHIFT
            stop = start + (entry & _LENGTH)
            if kind in scalars:
                pieces.append(lead + key + scalars[kind][data[start:stop]])
            elif kind == _CONTAINER:
                pieces += lead + key, (start, stop)
                nested = True
            else:
                _corrupt("an entry of a known type", f"{entry:#010x}")
            lead = ","
            start = stop
        # Lengths only add up: if the last member ends here, no key and no member lies outside.
        if start != end:
            _corrupt(f"the members to end at byte {end}", f"at byte {start}")
        pieces.append(closing if entries else lead + closing)
        return pieces, nested


def _words(data: bytes, start: int, count: int, end: int) -> tuple[int, ...]:
    if start + 4 * count > end:  # before anything is allocated
        _corrupt(f"{count} words from byte {start} on", f"an end at byte {end}")
    return struct.unpack_from(f">{count}I", data, start)


def _string(data: bytes) -> str:
    try:
        return _quoted(data.decode())
    except UnicodeDecodeError as error:
        raise CorruptFile(f"a JSONB string is not UTF-8: {error}") from error


def _number(data: bytes) -> str:
    sort, size = data[0] if data else None, len(data) - 1
    if sort in (_INT, _UINT) and size in (1, 2, 4, 8):
        return str(int.from_bytes(data[1:], "big", signed=sort == _INT))
    if sort == _FLOAT and size == 8:
        return _float(struct.unpack_from(">d", data, 1)[0])
    if sort == _ZERO and size == 0:
        return "0"
    if sort in (_NAN, _INFINITY, _MINUS_INFINITY) and size == 0:
        return "null"
    if sort == _DECIMAL and size in _DECIMAL_WIDTHS:
        unscaled = int.from_bytes(data[1 : 1 + _DECIMAL_WIDTHS[size]], "big", signed=True)
        high, low = divmod(abs(unscaled), 1 << 128)  # each is rounded, as in Lance
        value = (float(high) * 2.0**128 + float(low)) / _power_of_ten(data[-1])
        return _float(-value if unscaled < 0 else value)
    _corrupt("a number", _hex(data))


def _float(value: float) -> str:
    if not math.isfinite(value):
        return "null"
    text = repr(value)  # also the shortest text that reads back, but with other exponents
    number, _, exponent = text.partition("e-")
    if not exponent:
        return text
    if exponent != "05":
        return f"{number}e-{int(exponent)}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{number.lstrip('-').replace('.', '')}"


def _power_of_ten(scale: int) -> float:
    """Return 10 to a power as Rust's `powi` computes it, rounding at every step."""
    power, square = 1.0, 10.0
    while True:
        if scale & 1:
            power *= square
        scale >>= 1
        if not scale:
            return power
        square *= square


def _extension(data: bytes) -> str:
    """Write a value of a type that JSON lacks; Lance reads such values but writes none."""
    sort, rest = data[0] if data else None, data[1:]
    if sort == _BINARY:
        return f'"{rest.hex().upper()}"'
    if sort == _DATE and len(rest) == 4:
        year, month, day = _calendar(int.from_bytes(rest, "big", signed=True))
        return f'"{_signed_year(year)}-{month:02d}-{day:02d}"'
    if sort == _TIMESTAMP and len(rest) == 8:
        return f'"{_timestamp(int.from_bytes(rest, "big", signed=True), 0)}"'
    if sort == _TIMESTAMP_TZ and len(rest) in (9, 12):
        micros, offset = struct.unpack(">qb" if len(rest) == 9 else ">qi", rest)
        offset *= 3600 if len(rest) == 9 else 1
        return f'"{_timestamp(micros, offset)} {_zone(offset)}"'
    if sort == _INTERVAL and len(rest) == 16:
        return f'"{_interval(*struct.unpack(">iiq", rest))}"'
    _corrupt("an extension value", _hex(data))


# Limits of timestamps, to which Lance clamps them: years of four digits in every time zone.
_FIRST_SECOND, _LAST_SECOND = -377_705_023_201, 253_402_207_200
_LARGEST_OFFSET = 26 * 3600 - 1
_ERA_YEARS, _ERA_DAYS = 400, 146_097  # the period of the Gregorian calendar
_EPOCH = date(1970, 1, 1).toordinal()


def _calendar(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day after 1970-01-01, in the years -9999 to 9999."""
    if not -4_371_587 <= days <= 2_932_896:
        _corrupt("a day of the years -9999 to 9999", f"day {days}")
    eras, days = divmod(days + _EPOCH - 1, _ERA_DAYS)  # Python's calendar begins with year 1
    day = date.fromordinal(days + 1)
    return day.year + eras * _ERA_YEARS, day.month, day.day


def _signed_year(year: int) -> str:
    return f"{year:04d}" if year >= 0 else f"-{-year:06d}"


def _timestamp(micros: int, offset: int) -> str:
    """Write microseconds after 1970 in a time zone `offset` seconds ahead of UTC."""
    if abs(offset) > _LARGEST_OFFSET:
        _corrupt("an offset below 26 hours", f"{offset} seconds")
    seconds, micros = divmod(micros, 1_000_000)
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        seconds, micros = min(max(seconds, _FIRST_SECOND), _LAST_SECOND), 0
    days, second = divmod(seconds + offset, 86_400)
    year, month, day = _calendar(days)
    return f"{year:04d}-{month:02d}-{day:02d} {_clock(second)}.{micros:06d}"


def _zone(offset: int) -> str:
    hours, rest = divmod(abs(offset), 3600)
    minutes, seconds = divmod(rest, 60)
    sign = "-" if offset < 0 else "+"
    return f"{sign}{hours:02d}{minutes:02d}" + (f"{seconds:02d}" if seconds else "")


def _interval(months: int, days: int, micros: int) -> str:
    sign = -1 if months < 0 else 1
    years, months = divmod(abs(months), 12)
    counts = (sign * years, "year"), (sign * months, "month"), (days, "day")
    parts = [f"{n} {unit}{'s' if abs(n) != 1 else ''}" for n, unit in counts if n]
    if micros or not parts:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        clock = _clock(seconds) + (f".{fraction:06d}" if fraction else "")
        parts.append(f"-{clock}" if micros < 0 else clock)
    return " ".join(parts)


def _clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _hex(data: bytes) -> str:
    return data[:40].hex() or "nothing"


def _corrupt(expected: str, found: str) -> NoReturn:
    raise CorruptFile(f"in a JSONB value {expected} was expected, not {found}")


_SCALARS: dict[int, Callable[[bytes], str]] = {
    _NULL: lambda _: "null",
    _FALSE: lambda _: "false",
    _TRUE: lambda _: "true",
    _STRING: _string,
    _NUMBER: _number,
    _EXTENSION: _extension,
}
