"""Drawn bytes of protobuf messages: mostly sound, sometimes unusual, sometimes damaged.

Protobuf's own classes write one form of each message. Here fields come in any order and repeatedly,
numbers take more bytes than they need, unknown fields stand between known ones, and lengths lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from hypothesis import strategies as st

# What the fields of a message hold, by their numbers: a number, bytes, text, packed numbers, or
# another message.
Spec: TypeAlias = Mapping[int, "str | Spec"]

_DATA_FILE: Spec = {
    1: "text",
    2: "numbers",
    3: "numbers",
    4: "number",
    5: "number",
    6: "number",
    7: "number",
}
_EXTERNAL: Spec = {1: "text", 2: "number", 3: "number"}
_FRAGMENT: Spec = {
    1: "number",
    2: _DATA_FILE,
    3: {1: "number", 2: "number", 3: "number", 4: "number", 7: "number"},
    4: "number",
    5: "bytes",
    6: _EXTERNAL,
    7: "bytes",
    9: "bytes",
    11: {1: _DATA_FILE, 2: "bytes", 3: "number"},
    12: {},
    15: "number",
    16: {1: "text", 2: "text"},
}
_MANIFEST: Spec = {
    1: {2: "text", 3: "number", 4: "number", 5: "text", 6: "number"},
    2: _FRAGMENT,
    3: "number",
    5: {1: "text", 2: "bytes"},
    7: {1: "number", 2: "number"},
    9: "number",
    11: "number",
    12: "text",
}
_NUMBERS = st.sampled_from(
    [0, 1, 2, 7, 127, 128, 300, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62, 2**63, 2**64 - 1]
) | st.integers(0, 20)
_TEXTS = st.sampled_from([b"", b"a.lance", b"x" * 130, "é".encode(), b"\xff", b"\xed\xa0\x80"])


def varint(number: int, surplus: int = 0) -> bytes:
    """Return a number as protobuf writes it, with some bytes more than it needs."""
    groups = []
    while True:
        groups.append(number & 0x7F)
        number >>= 7
        if not number:
            break
    groups += [0] * surplus
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def manifests() -> st.SearchStrategy[bytes]:
    """Draw the message of a manifest, and change a byte of some."""
    return messages(_MANIFEST) | _changed(messages(_MANIFEST))


def fragments() -> st.SearchStrategy[bytes]:
    """Draw the message of a fragment, mostly a sound one with one file."""
    plain = _plain_fragments()
    return plain | _changed(plain) | messages(_FRAGMENT)


@st.composite
def _plain_fragments(draw: st.DrawFn) -> bytes:
    numbers = [draw(_NUMBERS.map(varint)) for _ in range(3)]
    path = draw(st.sampled_from([b"a.lance", b"b-1_2.lance", b".lance", b"a/b", b"%2e", b""]))
    fields = b"".join(map(varint, draw(st.sampled_from([(), (0, 1), (0, 300)]))))
    parts = [b"\x0a" + varint(len(path)) + path, b"\x12" + varint(len(fields)) + fields]
    parts += [b"\x20" + varint(2), b"\x28" + varint(draw(st.integers(0, 2)))]
    parts += [b"\x30" + numbers[0], b"\x38" + numbers[1]][: draw(st.integers(0, 2))]
    file = b"".join(draw(st.permutations(parts)))
    return b"\x12" + varint(len(file)) + file + b"\x20" + numbers[2]


@st.composite
def _changed(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> bytes:
    message = bytearray(draw(messages))
    at = draw(st.integers(0, len(message)))
    kind = draw(st.sampled_from(["replace", "insert", "cut", "end"]))
    if kind == "end":
        return bytes(message[:at])
    byte = draw(st.integers(0, 255))
    message[at : at + (kind != "insert")] = [] if kind == "cut" else [byte]
    return bytes(message)


def messages(spec: Spec) -> st.SearchStrategy[bytes]:
    """Draw a message whose fields are mostly those that are given."""
    return st.lists(_fields(spec), max_size=6).map(b"".join)


@st.composite
def _fields(draw: st.DrawFn, spec: Spec) -> bytes:
    """Draw a field with its tag."""
    if not spec or not draw(st.integers(0, 24)):
        return _odd_field(draw)
    number = draw(st.sampled_from(sorted(spec)))
    kind = spec[number]
    surplus = 0 if draw(st.integers(0, 24)) else draw(st.integers(1, 9))
    if kind == "number":
        return varint(number << 3) + varint(draw(_NUMBERS), surplus)
    payload = draw(_payload(kind))
    length = len(payload) + (0 if draw(st.integers(0, 24)) else draw(st.integers(-1, 2)))
    return varint(number << 3 | 2) + varint(max(0, length), surplus) + payload


def _payload(kind: Any) -> st.SearchStrategy[bytes]:
    match kind:
        case "bytes":
            return st.binary(max_size=3)
        case "text":
            return _TEXTS
        case "numbers":
            return st.lists(_NUMBERS.map(varint), max_size=4).map(b"".join)
    return messages(kind)


def _odd_field(draw: st.DrawFn) -> bytes:
    """Draw a field of any number and type: unknown, of the wrong type, or a group."""
    number = draw(st.integers(0, 20) | st.sampled_from([2047, 2048, 2**29 - 1, 2**29]))
    kind = draw(st.integers(0, 7))
    tag = varint(number << 3 | kind, 0 if draw(st.integers(0, 9)) else 1)
    match kind:
        case 0:
            return tag + varint(draw(_NUMBERS))
        case 1:
            return tag + bytes(8)
        case 2:
            payload = draw(st.binary(max_size=3))
            return tag + varint(len(payload)) + payload
        case 3:
            return tag + (varint(number << 3 | 4) if draw(st.booleans()) else b"")
        case 5:
            return tag + bytes(4)
    return tag
