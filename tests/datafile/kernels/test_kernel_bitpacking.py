"""Bit-packed values, against a plain definition of how they are packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import Arguments, ints
from hypothesis import given, settings
from kernel_inputs import outcome, packed_values
from support import examples

from lancefs.datafile import kernels
from lancefs.datafile.kernels import bitpacking

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def packed(values: list[int], bits: int, width: int) -> np.ndarray[Any, Any]:
    """Pack 1024 values, bit by bit, as the format describes it."""
    lanes = 1024 // bits
    stored = np.zeros((width, lanes), f"<u{bits // 8}")
    for row in range(bits):
        for lane in range(lanes):
            value = values[ORDER[row // 8] * 16 + row % 8 * 128 + lane]
            for bit in range(width):
                word, shift = divmod(row * width + bit, bits)
                if value >> bit & 1:
                    stored[word, lane] |= stored.dtype.type(1 << shift)
    return stored.reshape(-1).view(np.uint8)


@pytest.mark.parametrize(
    ("bits", "width"), [(8, 3), (8, 8), (16, 1), (16, 11), (32, 12), (32, 31), (64, 18), (64, 64)]
)
def test_packed_values_come_out_again(bits: int, width: int) -> None:
    source = np.random.default_rng(bits + width)
    values = [int(v) >> (64 - width) for v in source.integers(0, 1 << 64, 1024, np.uint64)]
    found = kernels.unpack(
        packed(values, bits, width), ints([0]), ints([width]), ints([1000]), bits
    )
    assert found.tolist() == values[:1000]
    assert found.dtype == np.dtype(f"<u{bits // 8}")


@settings(max_examples=examples(100))
@given(packed_values())
def test_single_values_are_those_of_whole_blocks(arguments: Arguments) -> None:
    *blocks, wanted, bits = arguments
    found = outcome(bitpacking.unpack_at, arguments)
    if isinstance(found, list):
        assert found == outcome(lambda *all_: bitpacking.unpack(*all_)[wanted], (*blocks, bits))


def test_values_left_over_at_the_end_of_a_buffer_may_be_packed_or_raw() -> None:
    values = [*range(1024), 7, 8, 9]
    blocks = packed(values[:1024], 16, 10)
    raw = np.array(values[1024:], np.uint16).view(np.uint8)
    block = packed(values[1024:] + [0] * 1021, 16, 10)
    for tail in (raw, block):
        data = np.concatenate((blocks, tail))
        ends = ints([len(data)])
        found = kernels.unpack_buffers(data, ints([0]), ends, ints([1027]), 10, 16)
        assert found.tolist() == values


def test_values_of_no_bits_are_zeros() -> None:
    data = np.zeros(0, np.uint8)
    assert not kernels.unpack(data, ints([0, 0]), ints([0, 0]), ints([1024, 5]), 32).any()
