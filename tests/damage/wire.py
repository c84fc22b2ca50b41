"""Protobuf messages as trees of fields, without their schema, and ways to damage them.

A message is damaged on the level of its fields, and the lengths of all messages around the damaged
field are written anew: what comes out is mostly a message that parses, and says something else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
# Numbers at which code that does not look breaks.
LIMITS = [
    *(0, 1, 2, 3, 7, 8, 63, 64, 127, 128, 255, 256, 1000, 65535, 65536),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 48, 1 << 53),
    *((1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1),
]
# Texts that are names, types or paths in one place, and mean something else in another.
TEXTS = [
    *("", ".", "..", "../../../etc/passwd", "/etc/passwd", "/dev/zero", "/proc/self/mem", "a/b"),
    *(
        "%2e%2e/x",
        "a?b#c",
        "file:///etc/passwd",
        "http://localhost:9/x",
        "s3://b/k",
        "\x00",
        "a\nb",
    ),
    *("\x1b[31mred\x1b[0m", "<script>alert(1)</script>", "=1+1", "'; DROP TABLE t; --", '"', "`"),
    *("_rowid", "_rowaddr", "_rowoffset", "id", "item", "data", "é\u202e", "x" * 5000, "\ud7ff"),
    *("int64", "int32", "float", "double", "halffloat", "string", "large_string", "binary", "null"),
    *("bool", "uint8", "struct", "list", "list.struct", "large_list", "fixed_size_list:float:0"),
    *("fixed_size_list:float:4", "fixed_size_list:int64:2147483647", "fixed_size_binary:0"),
    *("fixed_size_binary:-1", "decimal:128:38:10", "decimal:128:99:-9", "decimal:256:76:0"),
    *("timestamp:us:UTC", "timestamp:ns:No/Where", "date32:day", "time64:ns", "duration:s"),
    *("dict:string:int8:false", "dict:string:int32:true", "blob", "json", "map", "nosuchtype"),
    *(
        "lance-encoding:blob",
        "lance-encoding:packed",
        "packed",
        "ARROW:extension:name",
        "arrow.json",
    ),
    *("lance.json", "arrow.uuid", "lance.bfloat16", "arrow.fixed_shape_tensor", "{}", "[", "true"),
    *("zstd", "lz4", "none", "fsst", "2.0", "2.1", "2.3", "0.1", "legacy", "stable", "99.99"),
]


@dataclass
class Field:
    """A field of a message.

    Attributes:
        number: The number that the schema gives it.
        kind: Its wire type.
        value: A number, bytes, or the fields of a message.
    """

    number: int
    kind: int
    value: int | bytes | list[Field] = field(repr=False)


class NoMessage(ValueError):
    """Bytes that are no protobuf message."""


def parse(data: bytes, depth: int = 0) -> list[Field]:
    """Parse a message; bytes that could be a message are taken for one.

    Raises:
        NoMessage: The bytes are none.
    """
    fields, place = [], 0
    while place < len(data):
        key, place = _read_varint(data, place)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise NoMessage
        value: int | bytes | list[Field]
        if kind == VARINT:
            value, place = _read_varint(data, place)
        elif kind in (FIXED32, FIXED64):
            width = 4 if kind == FIXED32 else 8
            if place + width > len(data):
                raise NoMessage
            value = int.from_bytes(data[place : place + width], "little")
            place += width
        elif kind == BYTES:
            length, place = _read_varint(data, place)
            if place + length > len(data):
                raise NoMessage
            value = _message_or_bytes(data[place : place + length], depth)
            place += length
        else:
            raise NoMessage
        fields.append(Field(number, kind, value))
    return fields


def _message_or_bytes(data: bytes, depth: int) -> bytes | list[Field]:
    if not data or depth > 20:
        return data
    try:
        found = parse(data, depth + 1)
    except NoMessage:
        return data
    return found if serialize(found) == data else data


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise NoMessage
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def varint(value: int) -> bytes:
    """Serialize a number, of which 64 bits count."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def serialize(fields: list[Field]) -> bytes:
    """Serialize a message."""
    out = bytearray()
    for one in fields:
        out += varint(one.number << 3 | one.kind)
        if isinstance(one.value, int):
            widths = {FIXED32: 4, FIXED64: 8}
            width = widths.get(one.kind)
            value = one.value
            out += varint(value) if width is None else value.to_bytes(8, "little")[:width]
        else:
            data = one.value if isinstance(one.value, bytes) else serialize(one.value)
            out += varint(len(data)) + data
    return bytes(out)


def damage(data: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Damage a message in one to three places.

    Returns:
        The message, and what was done to it.

    Raises:
        NoMessage: The bytes are no message with a field.
    """
    fields = parse(data)
    if not fields:
        raise NoMessage
    times = int(rng.choice([1, 1, 1, 2, 3]))
    done = [_damage_one(fields, rng) for _ in range(times)]
    return serialize(fields), "; ".join(done)


def _damage_one(fields: list[Field], rng: np.random.Generator) -> str:
    """Damage one field: one of each message in the tree is as likely as one of any other."""
    inside, at, path = _choose(fields, rng)
    way = _WAYS[rng.integers(len(_WAYS))]
    what = way(inside, at, rng) if inside else "nothing left to damage"
    return f"{path}: {what}"


def _choose(fields: list[Field], rng: np.random.Generator) -> tuple[list[Field], int, str]:
    """Walk down the tree by chance, and choose a field where the walk ends."""
    path, inside = "", fields
    while True:
        if not inside:
            return inside, 0, path
        at = int(rng.integers(len(inside)))
        one = inside[at]
        path += f".{one.number}"
        if not isinstance(one.value, list) or not one.value or rng.random() < 0.15:
            return inside, at, path
        inside = one.value


def _remove(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    del inside[at]
    return "removed"


def _double(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    times = int(rng.choice([1, 1, 2, 100]))
    inside[at:at] = [inside[at]] * times
    return f"{times} times more"


def _empty(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    one = inside[at]
    inside[at] = Field(one.number, one.kind, 0 if isinstance(one.value, int) else b"")
    return "emptied"


def _swap(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    """Exchange the values of two fields, or their places where they are of one number."""
    other = int(rng.integers(len(inside)))
    one, two = inside[at], inside[other]
    inside[at] = Field(one.number, two.kind, two.value)
    inside[other] = Field(two.number, one.kind, one.value)
    return f"exchanged with .{two.number}"


def _copy(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    """Overwrite a field with another of its message."""
    other = inside[rng.integers(len(inside))]
    inside[at] = Field(inside[at].number, other.kind, other.value)
    return f"set to the value of .{other.number}"


def _change_number(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    """Set a number to a limit, or to one near it; in packed numbers, one of them."""
    one = inside[at]
    if isinstance(one.value, int):
        value = _near(one.value, rng)
        inside[at] = Field(one.number, one.kind, value)
        return f"{one.value} set to {value}"
    if isinstance(one.value, bytes) and one.value:
        return _change_packed(inside, at, one.value, rng)
    return _swap(inside, at, rng)


def _near(value: int, rng: np.random.Generator) -> int:
    if rng.random() < 0.4:
        ways = [value + 1, value - 1, 2 * value, value // 2, -value, value ^ 1]
        value = ways[rng.integers(len(ways))]
    else:
        value = LIMITS[rng.integers(len(LIMITS))]
    return value & (1 << 64) - 1


def _change_packed(inside: list[Field], at: int, data: bytes, rng: np.random.Generator) -> str:
    """Set one of packed numbers; where the bytes are none, some of the bytes."""
    numbers, place = [], 0
    try:
        while place < len(data):
            number, place = _read_varint(data, place)
            numbers.append(number)
    except NoMessage:
        return _flip(inside, at, rng)
    index = int(rng.integers(len(numbers)))
    before, numbers[index] = numbers[index], _near(numbers[index], rng)
    inside[at] = Field(inside[at].number, BYTES, b"".join(map(varint, numbers)))
    return f"number {index}, {before}, set to {numbers[index]}"


def _flip(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    one = inside[at]
    if isinstance(one.value, int):
        bit = int(rng.integers(64))
        inside[at] = Field(one.number, one.kind, one.value ^ 1 << bit)
        return f"bit {bit} flipped"
    data = bytearray(one.value if isinstance(one.value, bytes) else serialize(one.value))
    if not data:
        return _replace_text(inside, at, rng)
    place, bit = int(rng.integers(len(data))), int(rng.integers(8))
    data[place] ^= 1 << bit
    inside[at] = Field(one.number, one.kind, bytes(data))
    return f"bit {bit} of byte {place} flipped"


def _replace_text(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    one = inside[at]
    if isinstance(one.value, int):
        return _change_number(inside, at, rng)
    text = TEXTS[rng.integers(len(TEXTS))]
    inside[at] = Field(one.number, one.kind, text.encode())
    return f"set to {text[:30]!r}"


def _resize(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    one = inside[at]
    if isinstance(one.value, int):
        return _change_number(inside, at, rng)
    data = one.value if isinstance(one.value, bytes) else serialize(one.value)
    ways = [data[: len(data) // 2], data[:-1], data * 2, data + rng.bytes(3), data[::-1]]
    index = int(rng.integers(len(ways)))
    inside[at] = Field(one.number, one.kind, ways[index])
    return f"{len(data)} bytes made {len(ways[index])} (way {index})"


def _retype(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    """Give a value another wire type, or another field number."""
    one = inside[at]
    if rng.random() < 0.5:
        number = int(rng.integers(1, 30))
        inside[at] = Field(number, one.kind, one.value)
        return f"made .{number}"
    if isinstance(one.value, int):
        inside[at] = Field(one.number, BYTES, struct.pack("<Q", one.value & (1 << 64) - 1))
        return "made bytes"
    number = LIMITS[rng.integers(len(LIMITS))]
    inside[at] = Field(one.number, VARINT, number)
    return f"made the number {number}"


def _wrap(inside: list[Field], at: int, rng: np.random.Generator) -> str:
    """Put a field inside of itself, some times over."""
    depth = int(rng.choice([1, 2, 50, 99, 150]))
    one = inside[at]
    for _ in range(depth):
        one = Field(inside[at].number, BYTES, serialize([one]))
    inside[at] = one
    return f"put {depth} times into itself"


_WAYS: list[Callable[[list[Field], int, np.random.Generator], str]] = [
    _remove,
    _remove,
    _double,
    _empty,
    _swap,
    _swap,
    _copy,
    _change_number,
    _change_number,
    _change_number,
    _change_number,
    _flip,
    _replace_text,
    _replace_text,
    _resize,
    _retype,
    _wrap,
]
