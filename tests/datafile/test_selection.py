"""What a mask keeps of an Arrow array is what Arrow itself keeps of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lancefs.datafile.masks import filtered
from lancefs.errors import CorruptFile

ROWS = 1_000
SOURCE = np.random.default_rng(20)
NUMBERS = SOURCE.integers(0, 100, ROWS)
SOME_NULL = SOURCE.random(ROWS) < 0.2


def _struct(row: int) -> dict[str, object] | None:
    return (
        {"a": row, "b": [row] * (row % 3), "c": None if row % 5 else str(row)} if row % 4 else None
    )


ARRAYS = {
    "int64": pa.array(NUMBERS),
    "int64 with nulls": pa.array(NUMBERS, mask=SOME_NULL),
    "int8": pa.array(NUMBERS.astype(np.int8)),
    "date": pa.array(NUMBERS.astype(np.int32)).cast(pa.date32()),
    "decimal": pa.array(NUMBERS).cast(pa.decimal128(30, 2)),
    "half": pa.array(NUMBERS.astype(np.float16)),
    "bool": pa.array([True, None, False, True] * (ROWS // 4)),
    "flags": pa.array(NUMBERS < 40),
    "binary of 3": pa.array([b"abc", b"def"] * (ROWS // 2), pa.binary(3)),
    "binary of 0": pa.array([b""] * ROWS, pa.binary(0)),
    "short strings": pa.array([str(row) for row in range(ROWS)]),
    "long strings": pa.array([str(row) * (row % 30) for row in range(ROWS)]),
    "strings with nulls": pa.array([None if row % 3 else str(row) for row in range(ROWS)]),
    "only nulls": pa.array([None] * ROWS, pa.string()),
    "large strings": pa.array(["x", "yy"] * (ROWS // 2), pa.large_string()),
    "null": pa.nulls(ROWS),
    "dictionary": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
    "struct": pa.array([_struct(row) for row in range(ROWS)]),
    "vectors": pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float32(), 2)),
    "lists": pa.array([[row] * (row % 3) for row in range(ROWS)]),
    "lists with nulls": pa.array(
        [None if n % 7 == 0 else [None, "a"] * (n % 3) for n in range(ROWS)]
    ),
    "lists of lists": pa.array([[["x"] * (row % 4)] * (row % 3) for row in range(ROWS)]),
    "lists of structs": pa.array([[_struct(row)] * (row % 3) for row in range(ROWS)]),
    "coded lists": pa.ListArray.from_arrays(
        pa.array(range(0, 2 * ROWS + 1, 2), pa.int32()),
        pa.array(["a", "b", None, "a"] * (ROWS // 2)).dictionary_encode(),
    ),
    "maps": pa.array([[("k", row)] * (row % 3) for row in range(ROWS)], pa.map_("string", "int64")),
}


@pytest.mark.parametrize("share", [0, 0.02, 0.3, 0.9, 1])
@pytest.mark.parametrize("name", ARRAYS)
def test_kept_slots_are_those_that_arrow_keeps(name: str, share: float) -> None:
    for start, rows in ((0, ROWS), (13, 500), (ROWS - 1, 1), (5, 0)):
        array = ARRAYS[name].slice(start, rows)
        kept = np.random.default_rng(start).random(rows) < share
        (found,) = filtered([array], kept)
        found.validate(full=True)
        assert found.type == array.type
        assert found.equals(array.filter(pa.array(kept, pa.bool_())))


def test_offsets_that_leave_the_bytes_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 40, 2, 3], np.int32))
    array = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    with pytest.raises(CorruptFile, match="offsets"):
        filtered([array], np.array([True, True, False]))


def test_offsets_that_leave_the_items_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 40, 2, 3], np.int32))
    items = pa.array([1, 2, 3])
    array = pa.Array.from_buffers(pa.list_(items.type), 3, [None, offsets], children=[items])
    with pytest.raises(CorruptFile, match="offsets of lists"):
        filtered([array], np.array([True, True, False]))
