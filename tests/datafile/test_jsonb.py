"""JSON text equals, byte for byte, what Lance shows; damaged JSONB is refused."""

from __future__ import annotations

import json
import re
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.datafile.jsonb import to_text
from lancefs.errors import CorruptFile, LanceError

STRING, NUMBER, CONTAINER, EXTENSION = 1, 2, 5, 6


def scalar(kind: int, data: bytes = b"") -> bytes:
    return struct.pack(">II", 0x2000_0000, kind << 28 | len(data)) + data


def array(*members: tuple[int, bytes]) -> bytes:
    entries = b"".join(struct.pack(">I", kind << 28 | len(data)) for kind, data in members)
    return struct.pack(">I", 0x8000_0000 | len(members)) + entries + b"".join(d for _, d in members)


def double(value: float) -> bytes:
    return scalar(NUMBER, b"\x60" + struct.pack(">d", value))


def text(data: bytes) -> str:
    shown: str = to_text(pa.array([data], pa.large_binary()))[0].as_py()
    return shown


# A value that Lance 14 wrote: {"b":1,"a":2,"B":3,"é":4,"":5}
OBJECT = bytes.fromhex(
    "4000000510000000100000011000000110000001100000022000000220000002200000022000000220000002"
    "426162c3a950055003500250015004"
)
# And one more: {"a":{"b":[1,{"c":null}]}}
NESTED = bytes.fromhex(
    "4000000110000001500000286140000001100000015000001b628000000220000002"
    "5000000d500140000001100000010000000063"
)


def test_nulls_stay_null_and_slices_are_honoured() -> None:
    values = pa.array([b"", None, OBJECT, scalar(4)], pa.large_binary())
    assert to_text(values).equals(
        pa.array(["null", None, '{"":5,"B":3,"a":2,"b":1,"é":4}', "true"], pa.string())
    )
    assert to_text(values.slice(2, 1)).to_pylist() == ['{"":5,"B":3,"a":2,"b":1,"é":4}']
    assert to_text(values.cast(pa.binary())).to_pylist()[3] == "true"
    assert to_text(values[:0]).equals(pa.array([], pa.string()))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (scalar(0), "null"),
        (scalar(3), "false"),
        (scalar(STRING, b'a\0\x1f\x7f\n"\\/'), '"a\\u0000\\u001f\x7f\\n\\"\\\\/"'),
        (scalar(STRING, "é\u2028😀".encode()), '"é\u2028😀"'),
        (scalar(NUMBER, b"\x00"), "0"),
        (scalar(NUMBER, b"\x40\xff"), "-1"),
        (scalar(NUMBER, b"\x40\x80\0\0\0\0\0\0\0"), "-9223372036854775808"),
        (scalar(NUMBER, b"\x50\xff\xff\xff\xff\xff\xff\xff\xff"), "18446744073709551615"),
        (scalar(NUMBER, b"\x10"), "null"),  # NaN
        (scalar(NUMBER, b"\x30"), "null"),  # an infinity
        (double(-0.0), "-0.0"),
        (double(1e15), "1000000000000000.0"),
        (double(1e16), "1e+16"),
        (double(-0.000025), "-0.000025"),
        (double(1e-6), "1e-6"),
        (double(5e-324), "5e-324"),
        (double(1.7976931348623157e308), "1.7976931348623157e+308"),
        (array(), "[]"),
        (struct.pack(">I", 0x4000_0000), "{}"),
        (array((CONTAINER, array()), (0, b""), (CONTAINER, array((4, b"")))), "[[],null,[true]]"),
        (NESTED, '{"a":{"b":[1,{"c":null}]}}'),
    ],
)
def test_text_is_that_of_lance(data: bytes, shown: str) -> None:
    assert text(data) == shown


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x70" + struct.pack(">qB", 12345, 2), "123.45"),
        (b"\x70" + struct.pack(">qB", -5, 3), "-0.005"),
        (b"\x70" + struct.pack(">qB", 1, 255), "9.999999999999997e-256"),
        (b"\x70" + (10**22 + 1).to_bytes(16, "big") + b"\x05", "1e+17"),
        (b"\x70" + (12345).to_bytes(16, "big") + b"\x26\x02", "123.45"),
        (
            b"\x70" + (-(2**128) - 2**75 - 1).to_bytes(32, "big", signed=True) + b"\0",
            "-3.402823669209385e+38",
        ),
    ],
)
def test_decimals_are_rounded_as_lance_does(data: bytes, shown: str) -> None:
    assert text(scalar(NUMBER, data)) == shown


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\0\x01\xab", "01AB"),
        (b"\x10" + struct.pack(">i", 20000), "2024-10-04"),
        (b"\x10" + struct.pack(">i", -800000), "-000221-09-04"),
        (b"\x10" + struct.pack(">i", -719528), "0000-01-01"),
        (b"\x20" + struct.pack(">q", -1), "1969-12-31 23:59:59.999999"),
        (b"\x20" + struct.pack(">q", -(2**62)), "-9999-01-02 01:59:59.000000"),
        (b"\x20" + struct.pack(">q", 2**62), "9999-12-30 22:00:00.000000"),
        (b"\x30" + struct.pack(">qb", 10**15, -5), "2001-09-08 20:46:40.000000 -0500"),
        (b"\x30" + struct.pack(">qi", 10**15, 19801), "2001-09-09 07:16:41.000000 +053001"),
        (
            b"\x40" + struct.pack(">iiq", 14, 3, 3723000004),
            "1 year 2 months 3 days 01:02:03.000004",
        ),
        (b"\x40" + struct.pack(">iiq", -1, -1, -1440000000000), "-1 month -1 day -400:00:00"),
        (b"\x40" + bytes(16), "00:00:00"),
    ],
)
def test_extension_values_are_strings(data: bytes, shown: str) -> None:
    assert text(scalar(EXTENSION, data)) == f'"{shown}"'


def test_values_that_c_does_not_write_keep_their_places() -> None:
    rare, plain = scalar(NUMBER, b"\x70" + struct.pack(">qB", 5, 1)), scalar(STRING, b"some text")
    values = pa.array([rare, plain, None, rare, rare, plain, b""], pa.large_binary())
    shown = ["0.5", '"some text"', None, "0.5", "0.5", '"some text"', "null"]
    assert to_text(values).to_pylist() == shown


def test_text_may_be_many_times_as_long_as_its_bytes() -> None:
    assert text(scalar(STRING, bytes(1000))) == '"' + "\\u0000" * 1000 + '"'


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_have_the_fewest_digits_that_read_back(value: float) -> None:
    shown = text(double(value))
    assert float(shown) == value
    assert len(digits_of(shown)) == len(digits_of(repr(value)))


def digits_of(number: str) -> str:
    return re.sub("[^0-9]", "", number.split("e")[0]).strip("0")


def test_deep_nesting_needs_no_recursion() -> None:
    depth = 20_000
    data = b""
    for _ in range(depth):
        data = array((CONTAINER, data)) if data else array()
    assert text(data) == "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0\0\0\0", "header"),
        (b"[1]", "words"),
        (b'{"a": 1}', "header"),
        (scalar(STRING, b"abc")[:-1], "members to end"),
        (scalar(0) + b"x", "members to end"),
        (struct.pack(">I", 0x9FFF_FFFF), "536870911 words"),
        (struct.pack(">I", 0x5FFF_FFFF) + bytes(64), "words"),
        (struct.pack(">IIII", 0x4000_0001, 0x2000_0001, 0, 0), "a key"),
        (struct.pack(">III", 0x4000_0001, 0x1FFF_FFFF, 0), "members to end"),
        (scalar(7), "known type"),
        (scalar(CONTAINER, array()), "a scalar"),
        (scalar(STRING, b"\xff"), "UTF-8"),
        (scalar(NUMBER), "a number"),
        (scalar(NUMBER, b"\x40\x01\x02\x03"), "a number"),
        (scalar(NUMBER, b"\x60\x01"), "a number"),
        (scalar(EXTENSION, b"\x10" + struct.pack(">i", 2**31 - 1)), "years"),
        (scalar(EXTENSION, b"\x30" + struct.pack(">qi", 0, 93600)), "26 hours"),
        (scalar(EXTENSION, b"\x50"), "an extension value"),
    ],
)
def test_damage_is_named(data: bytes, message: str) -> None:
    with pytest.raises(CorruptFile, match=message):
        text(data)


@given(data=st.sampled_from([OBJECT, NESTED]), at=st.integers(0, 200), flip=st.integers(1, 255))
def test_flipped_bytes_give_json_or_a_named_error(data: bytes, at: int, flip: int) -> None:
    damaged = bytearray(data)
    damaged[at % len(data)] ^= flip
    try:
        shown = text(bytes(damaged))
    except LanceError:
        return
    json.loads(shown)


@given(st.binary(max_size=60))
def test_any_bytes_give_text_or_a_named_error(data: bytes) -> None:
    try:
        text(data)
    except LanceError:
        return
