"""Blocks and arrays of decimals in 64 bits, in place of 128."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.blocks import Block, Constant, Dictionary, FixedWidth, Mask, VariableWidth
from lancefs.datafile.decimals import decimal64_array, decimal64_block, decimal64_field
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile

pytestmark = pytest.mark.skipif(
    not hasattr(pa, "decimal64"), reason="this pyarrow has no decimals of 64 bits"
)

LARGE = 5 << 70
FEW = [7, -7, 10**15 - 1, 1 - 10**15]


def stored(numbers: list[int]) -> FixedWidth:
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return FixedWidth(128, np.frombuffer(data, "V16"))


def unscaled(block: Block, valid: Mask | None = None) -> list[int | None]:
    """Return the numbers of a block that is narrowed and made an array."""
    kind = pa.decimal64(15, 2)
    array = to_arrow(decimal64_block(block, kind, valid), kind, valid)
    array.validate(full=True)
    return [None if one is None else int(one.scaleb(2)) for one in array.to_pylist()]


def test_blocks_of_all_kinds_are_narrowed() -> None:
    assert unscaled(stored(FEW)) == FEW
    assert unscaled(stored([])) == []
    indices = np.array([3, 0, 0, 1], np.uint8)
    assert unscaled(Dictionary(indices, stored(FEW))) == [FEW[3], 7, 7, -7]
    assert unscaled(Constant((-7).to_bytes(16, "little", signed=True), 3)) == [-7] * 3
    assert unscaled(Constant(None, 2)) == [None, None]


def test_what_lies_below_nulls_may_be_anything() -> None:
    valid = np.array([True, False, True])
    assert unscaled(stored([1, LARGE, 3]), valid) == [1, None, 3]
    indices = np.array([0, 1, 0], np.uint16)
    assert unscaled(Dictionary(indices, stored([5, -LARGE])), valid) == [5, None, 5]
    assert unscaled(Dictionary(indices[:1], stored([5, LARGE]))) == [5]
    none = np.zeros(2, np.bool_)
    assert unscaled(Constant(LARGE.to_bytes(16, "little"), 2), none) == [None, None]


@pytest.mark.parametrize(
    "block",
    [
        stored([1, LARGE, 3]),
        stored([1, 1 << 63, 3]),
        Dictionary(np.array([0, 1, 0], np.uint8), stored([5, LARGE])),
        Constant(LARGE.to_bytes(16, "little"), 3),
    ],
)
def test_numbers_of_more_bits_are_refused(block: Block) -> None:
    for valid in (None, np.array([False, True, False])):
        with pytest.raises(CorruptFile, match="takes more than 64 bits"):
            unscaled(block, valid)


@pytest.mark.parametrize(
    "block",
    [
        FixedWidth(64, np.arange(3, dtype="<u8")),
        FixedWidth(32, np.arange(3, dtype="<u4")),
        Dictionary(np.zeros(3, np.uint8), FixedWidth(64, np.arange(3, dtype="<u8"))),
        Dictionary(np.zeros(3, np.uint8), Constant(b"\x01" * 8, 1)),
        Constant(b"\x01" * 8, 3),
        VariableWidth(np.array([0, 8, 16, 24], np.int32), np.zeros(24, np.uint8)),
    ],
)
def test_values_of_other_widths_are_refused(block: Block) -> None:
    with pytest.raises(CorruptFile):
        unscaled(block)


@given(
    st.lists(st.none() | st.integers(-(10**18) + 1, 10**18 - 1)), st.integers(0, 9), st.booleans()
)
def test_arrays_are_narrowed_as_pyarrow_does(
    numbers: list[int | None], start: int, is_cut: bool
) -> None:
    exact = Context(prec=18)
    values = [None if one is None else Decimal(one).scaleb(-4, exact) for one in numbers]
    array = pa.array(values, pa.decimal128(18, 4))
    array = array[start:-1] if is_cut else array
    found = decimal64_array(array)
    found.validate(full=True)
    assert found.equals(array.cast(pa.decimal64(18, 4)))


@pytest.mark.parametrize(
    ("logical_type", "is_narrow"),
    [
        ("decimal:128:18:2", True),
        ("decimal:128:1:0", True),
        ("decimal:128:5:-3", True),
        ("decimal:128:19:2", False),
        ("decimal:256:10:2", False),
        ("int64", False),
        ("dict:decimal:128:10:2:int32:false", False),
    ],
)
def test_columns_of_up_to_18_digits_are_narrow(logical_type: str, is_narrow: bool) -> None:
    field = Field(1, "c", logical_type)
    narrow = decimal64_field(field)
    assert (narrow is not None) is is_narrow
    if narrow is not None:
        kind = field.storage_type
        assert narrow.storage_type == pa.decimal64(kind.precision, kind.scale)
        assert narrow.to_arrow().type == narrow.storage_type
