"""Drawn JSONB values, for the kernel that writes them as text."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from hypothesis import strategies as st

_SCALAR, _OBJECT, _ARRAY = 1, 2, 4
_NULL, _STRING, _NUMBER, _FALSE, _TRUE, _CONTAINER, _EXTENSION = range(7)
# The type of a member, and its bytes.
Member = tuple[int, bytes]

_TEXTS = st.text(max_size=6).map(lambda text: (_STRING, text.encode()))
# Few digits, powers of two, halves of small units, and any bits at all.
_DOUBLES = st.one_of(
    st.builds(
        lambda number, digits: number / 10**digits, st.integers(0, 10**17), st.integers(0, 22)
    ),
    st.builds(lambda number, power: number * 2.0**power, st.integers(1, 99), st.integers(-90, 90)),
    st.floats(),
)
_INTEGERS = st.one_of(
    st.sampled_from("bhiq").flatmap(
        lambda kind: st.integers(-(2 ** (8 * struct.calcsize(f">{kind}") - 1)), -1).map(
            lambda number: b"\x40" + struct.pack(f">{kind}", number)
        )
    ),
    st.integers(0, 2**64 - 1).map(lambda number: b"\x50" + struct.pack(">Q", number)),
)
_SCALARS = st.one_of(
    st.sampled_from([(_NULL, b""), (_FALSE, b""), (_TRUE, b"")]),
    st.sampled_from([b"\0", b"\x10", b"\x20", b"\x30"]).map(lambda sort: (_NUMBER, sort)),
    st.just((_NUMBER, b"\x70" + struct.pack(">qB", 12345, 2))),
    st.just((_EXTENSION, b"\x10" + struct.pack(">i", 20000))),
    _TEXTS,
    _INTEGERS.map(lambda number: (_NUMBER, number)),
    _DOUBLES.map(lambda number: (_NUMBER, b"\x60" + struct.pack(">d", number))),
)


def _container(kind: int, keys: list[Member], members: list[Member]) -> bytes:
    parts = [*keys, *members]
    words = [kind << 29 | len(members), *(sort << 28 | len(data) for sort, data in parts)]
    return struct.pack(f">{len(words)}I", *words) + b"".join(data for _, data in parts)


def _containers(members: st.SearchStrategy[Member]) -> st.SearchStrategy[Member]:
    some = st.lists(members, max_size=4)
    arrays = some.map(lambda found: _container(_ARRAY, [], found))
    objects = st.lists(st.tuples(_TEXTS, members), max_size=4).map(
        lambda pairs: _container(_OBJECT, [key for key, _ in pairs], [one for _, one in pairs])
    )
    return (arrays | objects).map(lambda data: (_CONTAINER, data))


_MEMBERS = st.recursive(_SCALARS, _containers, max_leaves=12)


@st.composite
def json_values(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw the arguments of `write_json`."""
    members = draw(st.lists(st.none() | _MEMBERS, max_size=8))
    values = [b"" if one is None else _value(one) for one in members]
    data = np.frombuffer(b"".join(values), np.uint8).copy()
    if len(data) and not draw(st.integers(0, 2)):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in values])]).astype(np.int64)
    valid = np.array([draw(st.booleans()) for _ in values], np.bool_)
    return offsets, data, draw(st.sampled_from([None, valid]))


def _value(member: Member) -> bytes:
    return member[1] if member[0] == _CONTAINER else _container(_SCALAR, [], [member])
