"""JSON columns: the bytes that they are stored as, and the text that readers see.

A JSON column holds a JSONB value a row, in the layout of the Rust crate `jsonb`. All words are
big-endian and 32 bits wide. A value is a container: a header (3 bits kind, 29 bits count), one
entry for each member (4 bits type, 28 bits length in bytes), then the members' bytes, in that
order and with nothing between them. An object has its keys' entries before its values', and its
keys' bytes likewise; a scalar is a container of one. Null and booleans are entries without bytes;
numbers and extension values begin with a byte that says of which sort they are.

The text is that of Lance 14: compact, keys in the order in which they are stored, only what JSON
demands escaped, floating point as the shortest text that reads back, in exponent notation below
0.00001 and from 1e16 on; null for NaN and infinities, which JSON lacks.

Format pages: JSONB (`docs/src/format/table/jsonb.md`) and the crate's README and constants.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from datetime import date
from typing import NoReturn, TypeAlias

import pyarrow as pa

from lancefs.errors import CorruptFile, UnsupportedFeature

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

# Bytes of a decimal after the first -> those of its unscaled value. The scale is the last byte;
# the odd ones out have the precision before it, as an early `jsonb` wrote it.
_DECIMAL_WIDTHS = {9: 8, 17: 16, 18: 16, 33: 32, 34: 32}

# Texts of a type that are remembered, and their longest: enough for what recurs, in little memory.
_REMEMBERED, _LONGEST_REMEMBERED = 1 << 14, 64

_quoted = json.JSONEncoder(ensure_ascii=False).encode

# A container that is yet to be written: where it begins and ends.
_Span: TypeAlias = tuple[int, int]


def to_text(array: pa.Array) -> pa.Array:
    """Return JSONB values as JSON text.

    Args:
        array: Binary or large binary, a JSONB value each. A value of no bytes, which is what lies
            below a missing struct, is `null`.

    Returns:
        A string array of the same length; nulls stay null.

    Raises:
        CorruptFile: The bytes are not JSONB. (Lance shows such bytes as if they were the text.)
        UnsupportedFeature: The text of the whole array is beyond the 2 GiB of a string array.
    """
    write = _Writer().write
    text = pa.array([None if v is None else write(v) for v in array.to_pylist()], pa.string())
    if isinstance(text, pa.ChunkedArray):
        raise UnsupportedFeature("more than 2 GiB of JSON text in one batch; read smaller batches")
    return text


class _Memo(dict[bytes, str]):
    """Texts by the bytes that they stand for: keys recur in every row, and many values do.

    Looking one up writes it where it is not known.
    """

    def __init__(self, write: Callable[[bytes], str]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, data: bytes) -> str:
        text = self._write(data)
        if len(data) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[data] = text
        return text


class _Writer:
    """Writes values as text, one after another."""

    def __init__(self) -> None:
        self._keys = _Memo(lambda data: _string(data) + ":")
        self._scalars = {kind: _Memo(write) for kind, write in _SCALARS.items()}

    def write(self, data: bytes) -> str:
        """Return the text of one value. No recursion: values may nest thousands deep."""
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
        """Write the container that is data[start:end], except for the containers in it.

        Returns:
            Text, and the containers within that are yet to be written; whether there are any.
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
        """Write the keys of an object; also return where they end."""
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
        """Write the members of a container, whose bytes are data[start:end]."""
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
        # Lengths only add up, so this also says that no key and no member lies outside.
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
        high, low = divmod(abs(unscaled), 1 << 128)  # rounded apart, as in Lance
        value = (float(high) * 2.0**128 + float(low)) / _power_of_ten(data[-1])
        return _float(-value if unscaled < 0 else value)
    _corrupt("a number", _hex(data))


def _float(value: float) -> str:
    if not math.isfinite(value):
        return "null"
    text = repr(value)  # the shortest that reads back, too, but with other exponents
    number, _, exponent = text.partition("e-")
    if not exponent:
        return text
    if exponent != "05":
        return f"{number}e-{int(exponent)}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.0000{number.lstrip('-').replace('.', '')}"


def _power_of_ten(scale: int) -> float:
    """10 to that power as Rust's `powi` works it out, rounding at every step."""
    power, square = 1.0, 10.0
    while True:
        if scale & 1:
            power *= square
        scale >>= 1
        if not scale:
            return power
        square *= square


def _extension(data: bytes) -> str:
    """Write a value of a type that JSON lacks; Lance reads them but writes none."""
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


# The span that such timestamps are clamped to: whatever the zone, it lies in years of four digits.
_FIRST_SECOND, _LAST_SECOND = -377_705_023_201, 253_402_207_200
_LARGEST_OFFSET = 26 * 3600 - 1
_ERA_YEARS, _ERA_DAYS = 400, 146_097  # after which the Gregorian calendar repeats
_EPOCH = date(1970, 1, 1).toordinal()


def _calendar(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day after 1970-01-01; the years are those of -9999 to 9999."""
    if not -4_371_587 <= days <= 2_932_896:
        _corrupt("a day of the years -9999 to 9999", f"day {days}")
    eras, days = divmod(days + _EPOCH - 1, _ERA_DAYS)  # Python's calendar begins with year 1
    day = date.fromordinal(days + 1)
    return day.year + eras * _ERA_YEARS, day.month, day.day


def _signed_year(year: int) -> str:
    return f"{year:04d}" if year >= 0 else f"-{-year:06d}"


def _timestamp(micros: int, offset: int) -> str:
    """Write microseconds after 1970 in a zone that many seconds ahead of UTC."""
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
