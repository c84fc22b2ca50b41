"""Arrow arrays of decoded values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.datafile.arrays import array_bytes, spelled_out, to_arrow, true_slots
from lancefs.datafile.blocks import FixedWidth, VariableWidth
from lancefs.errors import CorruptFile


@pytest.mark.parametrize(
    ("dtype", "data_type", "step"),
    [
        ("u2", pa.int16(), 2),
        ("u4", pa.date32(), 4),
        ("u8", pa.timestamp("us"), 8),
        ("V16", pa.decimal128(38), 8),
        ("V12", pa.binary(12), 4),
        ("V3", pa.binary(3), 1),
        ("V0", pa.binary(0), 1),
    ],
)
@pytest.mark.parametrize("first", range(9))
def test_values_are_aligned_as_arrow_wants_them(
    dtype: str, data_type: pa.DataType, step: int, first: int
) -> None:
    bytes_of = np.zeros(128, np.uint8)
    width = np.dtype(dtype).itemsize
    values = np.empty(5, dtype) if not width else bytes_of[first : first + 5 * width].view(dtype)
    array = to_arrow(FixedWidth(8 * width, values), data_type, None)
    address = array.buffers()[1].address
    assert address % step == 0
    is_shared = bytes_of.ctypes.data <= address < bytes_of.ctypes.data + 128
    assert is_shared == (width > 0 and (bytes_of.ctypes.data + first) % step == 0)
    assert len(array.unique()) == 1


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 13, 30])
@pytest.mark.parametrize("values", [[True, None, False], [None], [True], []], ids=str)
def test_slots_that_are_neither_false_nor_null_are_true(
    values: list[bool | None], offset: int
) -> None:
    # Below a null may be any bit.
    bits = pa.py_buffer(np.full(32, 0xFF, np.uint8))
    array = pa.array([None] * offset + values * 11, pa.bool_()).slice(offset)
    assert true_slots(array).tolist() == [value is True for value in values * 11]
    if None in values:
        valid = array.buffers()[0]
        array = pa.Array.from_buffers(pa.bool_(), len(array), [valid, bits], offset=offset)
        assert true_slots(array).tolist() == [value is not None for value in values * 11]


SPELLED: dict[str, pa.Array] = {
    "strings": pa.array(["b", None, "", "ünïcode", "b", None]),
    "numbers": pa.array([3, None, 3, -(2**40), 0, 7], pa.int64()),
    "decimals": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal("1.50")] * 2),
    "days": pa.array([None, 3, 2, 3, 3], pa.date32()),
    "codes": pa.array([b"abc", b"xyz", None, b"abc"], pa.binary(3)),
    "nulls": pa.nulls(3, pa.string()),
    "no rows": pa.array([], pa.float64()),
    "no nulls": pa.array([1.5, 2.5, 1.5]),
}


@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("name", SPELLED)
def test_values_of_dictionaries_are_spelled_out(name: str, index: pa.DataType) -> None:
    plain = SPELLED[name]
    encoded = plain.dictionary_encode().cast(pa.dictionary(index, plain.type))
    for first in range(len(plain) + 1):
        found = spelled_out(encoded[first:])
        found.validate(full=True)
        assert found.equals(plain[first:])


COUNTED = [
    pa.array(range(40)),
    pa.array([None, 1] * 20, pa.int32()),
    pa.array([None, True] * 20),
    pa.array([Decimal(1), None] * 20, pa.decimal128(20, 0)),
    pa.array(["x" * number for number in range(40)]),
    pa.array([None, "ab"] * 20, pa.large_string()),
    pa.array([b"abcd"] * 40, pa.binary(4)),
    pa.array(["a", None] * 20).dictionary_encode(),
    pa.array([[1, 2], None, [], [3]] * 10),
    pa.array([[True], [False, True]] * 20, pa.large_list(pa.bool_())),
    pa.array([[1, 2], None] * 20, pa.list_(pa.int32(), 2)),
    pa.array([[("a", 1)], []] * 20, pa.map_(pa.string(), pa.int8())),
    pa.array([{"a": 1, "b": "x"}, None] * 20),
    pa.array([[{"a": 1}], None] * 20),
    pa.nulls(40),
]


@pytest.mark.parametrize("array", COUNTED, ids=lambda array: str(array.type))
@pytest.mark.parametrize(("start", "count"), [(0, 40), (0, 0), (3, 7), (8, 16), (9, 1), (5, 35)])
def test_bytes_are_counted_as_arrow_counts_them(array: pa.Array, start: int, count: int) -> None:
    part = array.slice(start, count)
    assert array_bytes(part) == part.nbytes


@given(
    texts=st.lists(st.sampled_from(["A", "N", "R", " ", "\x7f"]), min_size=1, max_size=40),
    other=st.sampled_from([None, "", "é", "ZZ", "\x80"]),
    shift=st.integers(0, 3),
    repeats=st.sampled_from([1, 1, 400]),
    nulls=st.booleans(),
)
def test_flags_become_dictionaries_as_other_strings_do(
    texts: list[str], other: str | None, shift: int, repeats: int, nulls: bool
) -> None:
    """Also where only some of them have one byte each, or new ones come late."""
    texts = texts * repeats + ([] if other is None else [other, "late"][: 1 + (other == "ZZ")])
    data = b"x" * shift + "".join(texts).encode()
    lengths = [len(text.encode()) for text in texts]
    offsets = np.cumsum([shift, *lengths]).astype(np.int32)
    valid = np.arange(len(texts)) % 3 > 0 if nulls else None
    block = VariableWidth(offsets, np.frombuffer(data, np.uint8))
    array = to_arrow(block, pa.dictionary(pa.int32(), pa.string()), valid)
    array.validate(full=True)
    expected = [text if valid is None or valid[at] else None for at, text in enumerate(texts)]
    assert array.to_pylist() == expected
    assert len(array.dictionary) <= len(set(texts))


def test_a_flag_that_is_no_text_is_corrupt() -> None:
    block = VariableWidth(np.arange(4, dtype=np.int32), np.frombuffer(b"A\xffB", np.uint8))
    with pytest.raises(CorruptFile):
        to_arrow(block, pa.dictionary(pa.int32(), pa.string()), None)
