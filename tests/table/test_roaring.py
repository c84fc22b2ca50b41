"""Roaring bitmaps: equal to the reference library, and safe with any bytes."""

from __future__ import annotations

import struct

import numpy as np
import pyroaring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.errors import CorruptFile
from lancefs.table.roaring import read_roaring


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype=np.uint8)


RUNS = st.tuples(st.integers(0, 400_000), st.integers(1, 70_000)).map(
    lambda run: range(run[0], run[0] + run[1])
)
SETS = st.lists(RUNS | st.lists(st.integers(0, 2**32 - 1)), max_size=6)


@given(SETS, st.booleans())
def test_values_are_those_of_the_reference(parts: list, optimise: bool) -> None:
    bitmap = pyroaring.BitMap()
    for part in parts:
        bitmap.update(part)
    if optimise:
        bitmap.run_optimize()
    values = read_roaring(as_bytes(bitmap.serialize()), 2**32)
    assert values.dtype == np.int64
    assert np.array_equal(values, bitmap.to_array())


@pytest.mark.parametrize("containers", [1, 3, 4, 5, 9])
def test_run_bitmaps_have_a_table_of_offsets_from_four_containers_on(containers: int) -> None:
    bitmap = pyroaring.BitMap()
    for number in range(containers):
        bitmap.add_range(number << 16, (number << 16) + 60_000)
    bitmap.run_optimize()
    values = read_roaring(as_bytes(bitmap.serialize()), 2**32)
    assert np.array_equal(values, bitmap.to_array())


@pytest.mark.parametrize("values", [[5], [5, 9], range(70_000), [2**31], range(5000)], ids=str)
def test_a_value_at_or_beyond_the_limit_is_damage(values: list[int]) -> None:
    data = as_bytes(pyroaring.BitMap(values).serialize())
    assert len(read_roaring(data, max(values) + 1)) == len(values)
    for limit in (max(values), 1, 0):
        with pytest.raises(CorruptFile, match="expected values below"):
            read_roaring(data, limit)


def test_an_empty_bitmap_is_empty_within_any_limit() -> None:
    assert len(read_roaring(as_bytes(pyroaring.BitMap().serialize()), 0)) == 0


def test_a_small_bitmap_that_would_fill_memory_is_refused() -> None:
    header = struct.pack("<I", 12347 | 65535 << 16) + b"\xff" * 8192
    keys = b"".join(struct.pack("<HH", key, 65535) for key in range(65536))
    runs = struct.pack("<HHH", 1, 0, 65535) * 65536
    with pytest.raises(CorruptFile, match="4294967296 values"):
        read_roaring(as_bytes(header + keys + bytes(4 * 65536) + runs), 1_000_000)


def test_a_bitmap_cut_short_or_with_more_behind_it_is_damage() -> None:
    bitmap = pyroaring.BitMap([1, 2, 70_000, *range(200_000, 212_000, 2)])
    bitmap.add_range(400_000, 450_000)
    bitmap.run_optimize()
    data = bitmap.serialize()
    for length in [*range(60), *range(60, len(data), 97), len(data) - 1]:
        with pytest.raises(CorruptFile):
            read_roaring(as_bytes(data[:length]), 2**32)
    with pytest.raises(CorruptFile, match="1 bytes follow"):
        read_roaring(as_bytes(data + b"\0"), 2**32)


def array_bitmap(keys: list[int], lows: list[list[int]]) -> bytes:
    head = struct.pack("<II", 12346, len(keys))
    head += b"".join(struct.pack("<HH", k, len(v) - 1) for k, v in zip(keys, lows, strict=True))
    body = b"".join(struct.pack(f"<{len(v)}H", *v) for v in lows)
    return head + bytes(4 * len(keys)) + body


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (array_bitmap([1, 0], [[1], [1]]), "containers .* not in order"),
        (array_bitmap([1, 1], [[1], [1]]), "containers .* not in order"),
        (array_bitmap([0], [[5, 3]]), "values .* not in order"),
        (array_bitmap([0], [[5, 5]]), "values .* not in order"),
        (struct.pack("<II", 12346, 2**20), "claims 1048576 containers"),
        (struct.pack("<II", 12346, 2**32 - 1), "claims"),
        (struct.pack("<I", 12345), "not a Roaring bitmap"),
        (struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, 5000, 0) + bytes(8192), "holds 0"),
        (struct.pack("<IBHHHHHHH", 12347, 1, 0, 19, 2, 0, 9, 5, 9), "overlap"),
        (struct.pack("<IBHHHHH", 12347, 1, 0, 9, 1, 65530, 9), "leave"),
        (struct.pack("<IBHHHHH", 12347, 1, 0, 9, 1, 0, 3), "holds 4 values, expected 10"),
    ],
)
def test_what_contradicts_itself_is_damage(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFile, match=reason):
        read_roaring(as_bytes(data), 2**32)


@given(st.data())
def test_damaged_bytes_give_sorted_values_below_the_limit_or_our_error(data: st.DataObject) -> None:
    bitmap = pyroaring.BitMap([3, 9, *range(100, 3000, 7), *range(70_000, 78_000)])
    bitmap.run_optimize()
    intact = bytearray(bitmap.serialize())
    for _ in range(data.draw(st.integers(1, 4))):
        intact[data.draw(st.integers(0, 40) | st.integers(0, len(intact) - 1))] = data.draw(
            st.integers(0, 255)
        )
    try:
        values = read_roaring(as_bytes(bytes(intact)), 100_000)
    except CorruptFile:
        return
    assert (np.diff(values) > 0).all()
    assert len(values) == 0 or 0 <= values[0] <= values[-1] < 100_000
