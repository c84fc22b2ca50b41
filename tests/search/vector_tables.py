"""Tables of vectors, and what pylance finds in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancefs

DTYPES = {"halffloat": np.float16, "float": np.float32, "double": np.float64, "uint8": np.uint8}


def vector_array(values: np.ndarray[Any, Any], is_valid: np.ndarray[Any, Any] | None) -> pa.Array:
    """The rows of a matrix as vectors."""
    mask = None if is_valid is None else pa.array(~is_valid)
    return pa.FixedSizeListArray.from_arrays(
        pa.array(values.reshape(-1)), values.shape[1], mask=mask
    )


def rows(
    count: int, dimension: int, seed: int = 0, dtype: str = "float", first: int = 0
) -> pa.Table:
    """Rows with vectors around ten centres; a few vectors are missing."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(0, 3, (10, dimension))
    values = centres[draw.integers(0, 10, count)] + draw.normal(0, 1, (count, dimension))
    if dtype == "uint8":
        values = draw.integers(0, 256, (count, dimension))
    ids = np.arange(first, first + count)
    is_valid = draw.random(count) > 0.02
    return pa.table(
        {
            "id": ids,
            "small": pa.array(ids % 7, pa.int32()),
            "name": [f"n{number}" for number in ids],
            "v": vector_array(values.astype(DTYPES[dtype]), is_valid),
        }
    )


def write(path: Path, table: pa.Table, **options: Any) -> str:
    lance.write_dataset(table, path, **options)
    return str(path)


def theirs(
    path: str, q: object, k: int = 10, columns: Sequence[str] = ("id",), **options: Any
) -> pa.Table:
    """What pylance finds; options are those of its `nearest`, and `filter` and `prefilter`."""
    scan = {name: options.pop(name) for name in ("filter", "prefilter") if name in options}
    return lance.dataset(path).to_table(
        columns=[*columns, "_distance"], nearest={"column": "v", "q": q, "k": k, **options}, **scan
    )


def ours(
    path: str, q: object, k: int = 10, columns: Sequence[str] = ("id",), **options: Any
) -> pa.Table:
    """What lancefs finds."""
    return lancefs.open(path).nearest("v", q, k, columns=columns, **options)


def assert_same(found: pa.Table, expected: pa.Table, is_ordered: bool = True) -> None:
    """Compare rows and distances; sums of floats differ in their last digits, and so may order."""
    assert found.column_names == expected.column_names
    distances, known = (np.asarray(table["_distance"]) for table in (found, expected))
    np.testing.assert_allclose(distances, known, rtol=1e-5, atol=2e-6)
    ids, known_ids = (table["id"].to_pylist() for table in (found, expected))
    if ids == known_ids:
        return
    # Rows may change places, or drop out at the end, only where their distances are about the same.
    apart = [at for at, pair in enumerate(zip(ids, known_ids, strict=True)) if pair[0] != pair[1]]
    for at in apart:
        near = np.isclose(known, known[at], rtol=1e-5, atol=2e-6)
        assert near.sum() > 1 or at == len(ids) - 1, (ids, known_ids)
