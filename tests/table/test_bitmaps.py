"""Roaring bitmaps: read as they were written, and safe with any bytes."""

from __future__ import annotations

import struct

import numpy as np
import pyroaring
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import run_python

from lancefs.errors import CorruptFile
from lancefs.table.bitmaps import read_bitmap

RUNS = st.tuples(st.integers(0, 400_000), st.integers(1, 70_000)).map(
    lambda run: range(run[0], run[0] + run[1])
)
SETS = st.lists(RUNS | st.lists(st.integers(0, 2**32 - 1)), max_size=6)

# An array container, a bitset container and one for run_optimize to turn into runs.
VALUES = [3, 9, *range(100, 3000, 7), *range(65536, 78_000, 2), *range(140_000, 150_000)]


def serialize(values: object, optimize: bool) -> bytes:
    bitmap = pyroaring.BitMap(values)
    if optimize:
        bitmap.run_optimize()
    return bitmap.serialize()


@given(SETS, st.booleans())
def test_the_values_come_back_sorted(parts: list, optimize: bool) -> None:
    expected = np.unique(np.concatenate([np.empty(0, np.int64), *map(np.int64, parts)]))
    values = read_bitmap(serialize(expected, optimize), 2**32)
    assert values.dtype == np.int64
    assert np.array_equal(values, expected)


@pytest.mark.parametrize("containers", [1, 3, 4, 5, 9])
def test_run_bitmaps_have_a_table_of_offsets_from_four_containers_on(containers: int) -> None:
    expected = np.concatenate([np.arange(60_000) + (number << 16) for number in range(containers)])
    data = serialize(expected, optimize=True)
    assert len(data) == 4 + -(-containers // 8) + 10 * containers + 4 * containers * (
        containers >= 4
    )
    assert np.array_equal(read_bitmap(data, 2**32), expected)


def test_the_bytes_may_be_those_of_a_file() -> None:
    data = np.frombuffer(b"before" + serialize(VALUES, True), np.uint8)[6:]
    assert read_bitmap(data, 2**32).tolist() == VALUES


@pytest.mark.parametrize("values", [[5], [5, 9], range(70_000), [2**31], range(5000)], ids=str)
def test_a_value_at_or_beyond_the_limit_is_damage(values: list[int]) -> None:
    data = serialize(values, optimize=False)
    assert len(read_bitmap(data, max(values) + 1)) == len(values)
    for limit in (max(values), 1, 0):
        with pytest.raises(CorruptFile, match=f"expected values below {limit}"):
            read_bitmap(data, limit)


def test_more_values_than_expected_are_damage() -> None:
    assert len(read_bitmap(serialize([7, 9], True), 10, max_count=2)) == 2
    with pytest.raises(CorruptFile, match="holds 3 values, expected at most 2"):
        read_bitmap(serialize([7, 8, 9], True), 10, max_count=2)


def test_an_empty_bitmap_is_empty_within_any_limit() -> None:
    assert len(read_bitmap(serialize([], True), 0)) == 0


@pytest.mark.parametrize(
    ("limit", "max_count", "reason"),
    [
        (1_000_000, None, "holds 4294967295, expected values below 1000000"),
        (2**32, 2**24, "holds 4294967296 values, expected at most 16777216"),
    ],
)
def test_a_small_bitmap_that_would_fill_memory_is_refused(
    limit: int, max_count: int | None, reason: str
) -> None:
    header = struct.pack("<I", 12347 | 65535 << 16) + b"\xff" * 8192
    keys = b"".join(struct.pack("<HH", key, 65535) for key in range(65536))
    runs = struct.pack("<HHH", 1, 0, 65535) * 65536
    with pytest.raises(CorruptFile, match=reason):
        read_bitmap(header + keys + bytes(4 * 65536) + runs, limit, max_count)


@pytest.mark.parametrize("optimize", [False, True])
def test_a_bitmap_cut_short_or_with_more_behind_it_is_damage(optimize: bool) -> None:
    data = serialize(VALUES, optimize)
    for length in [*range(60), *range(60, len(data), 97), len(data) - 1]:
        with pytest.raises(CorruptFile):
            read_bitmap(data[:length], 2**32)
    with pytest.raises(CorruptFile, match=f"takes {len(data)} bytes, {len(data) + 1} were found"):
        read_bitmap(data + b"\0", 2**32)


def test_no_bytes_are_no_bitmap() -> None:
    with pytest.raises(CorruptFile, match="not a Roaring bitmap: it is empty"):
        read_bitmap(b"", 2**32)


def array_bitmap(keys: list[int], lows: list[list[int]]) -> bytes:
    head = struct.pack("<II", 12346, len(keys))
    head += b"".join(struct.pack("<HH", k, len(v) - 1) for k, v in zip(keys, lows, strict=True))
    body = b"".join(struct.pack(f"<{len(v)}H", *v) for v in lows)
    return head + bytes(4 * len(keys)) + body


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(array_bitmap([1, 0], [[1], [1]]), id="containers out of order"),
        pytest.param(array_bitmap([1, 1], [[1], [1]]), id="a container twice"),
        pytest.param(array_bitmap([0], [[5, 3]]), id="values out of order"),
        pytest.param(array_bitmap([0], [[5, 5]]), id="a value twice"),
        pytest.param(struct.pack("<II", 12346, 2**20), id="too many containers"),
        pytest.param(struct.pack("<II", 12346, 2**32 - 1), id="far too many containers"),
        pytest.param(struct.pack("<I", 12345), id="another cookie"),
        pytest.param(
            struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, 5000, 0) + bytes(8192),
            id="a bitset of fewer values than announced",
        ),
        pytest.param(
            struct.pack("<IBHHHHHHH", 12347, 1, 0, 19, 2, 0, 9, 5, 9), id="runs that overlap"
        ),
        pytest.param(
            struct.pack("<IBHHHHH", 12347, 1, 0, 9, 1, 65530, 9), id="a run that leaves 16 bits"
        ),
    ],
)
def test_what_contradicts_itself_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="not a Roaring bitmap"):
        read_bitmap(data, 2**32)


@pytest.mark.parametrize("optimize", [False, True])
@given(data=st.data())
def test_damaged_bytes_give_sorted_values_below_the_limit_or_our_error(
    optimize: bool, data: st.DataObject
) -> None:
    damaged = bytearray(serialize(VALUES, optimize))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 40) | st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    check(bytes(damaged), 150_000)


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x3a\x30\0\0", b"\x3b\x30\0\0"]))
def test_any_bytes_give_sorted_values_below_the_limit_or_our_error(
    data: bytes, cookie: bytes
) -> None:
    check(cookie + data, 100_000)


def check(data: bytes, limit: int) -> None:
    try:
        values = read_bitmap(data, limit)
    except CorruptFile:
        return
    assert (np.diff(values) > 0).all()
    assert len(values) == 0 or 0 <= values[0] <= values[-1] < limit


# Small bitmaps of each kind of container, so that most mutations hit what gives structure. One
# of the mutated bytes of each bitmap lies in its header.
MUTATIONS = """
import random
import numpy as np
import pyroaring
from lancefs.errors import CorruptFile
from lancefs.table.bitmaps import read_bitmap

LIMIT = 2**20
rng = random.Random(7)
SETS = [range(0, 60, 3), range(0, 15_000, 3), range(500), range(5, 65536),
        [*range(0, 40, 2), *range(65536, 65536 + 9000), *range(200_000, 200_000 + 60_000, 2)],
        [key << 16 | low for key in range(12) for low in (1, 2, 3, 4, 5, 6, 9)]]
seeds = []
for values in SETS:
    bitmap = pyroaring.BitMap(values)
    seeds.append(bitmap.serialize())
    bitmap.run_optimize()
    seeds.append(bitmap.serialize())
counts = {"read": 0, "refused": 0}
for number in range(6_000):
    data = bytearray(seeds[number % len(seeds)])
    data[rng.randrange(min(len(data), 64))] = rng.randrange(256)
    for _ in range(rng.randrange(3)):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    if number % 5 == 0:
        del data[rng.randrange(len(data)):]
    try:
        values = read_bitmap(bytes(data), LIMIT)
    except CorruptFile:
        counts["refused"] += 1
        continue
    counts["read"] += 1
    assert (np.diff(values) > 0).all()
    assert len(values) == 0 or 0 <= values[0] <= values[-1] < LIMIT
print(counts["read"], counts["refused"])
"""


def test_thousands_of_damaged_bitmaps_do_not_crash_a_process() -> None:
    read, refused = map(int, run_python(MUTATIONS).split())
    assert read > 100
    assert refused > 1000
