"""Estimating the number of distinct values by the smallest hashes (k minimum values).

Hashes spread evenly. If the k-th least of them lies at a share x of their range, there are about
(k - 1) / x different ones. DuckDB hashes the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.datafile.arrays import mask_of

Hashes = npt.NDArray[np.uint64]

# The hashes that are kept: the error of the number is about 1 / sqrt(k), 0.8 %.
KEPT = 16 * 1024
_RANGE = 2.0**64


class Hasher:
    """Hashes values of many columns in one call of DuckDB."""

    def __init__(self) -> None:
        import duckdb

        # One thread, so that none of DuckDB's runs beside those that decode.
        self._connection: Any = duckdb.connect(":memory:", config={"threads": 1})

    def close(self) -> None:
        """Close the database that hashes."""
        self._connection.close()

    def hashes(self, columns: Sequence[pa.Array]) -> list[Hashes]:
        """Return the hashes of the values that are not missing, of each column."""
        if not columns:
            return []
        names = [f"c{position}" for position in range(len(columns))]
        rows = pa.table([_hashable(column) for column in columns], names=names)
        self._connection.register("rows", rows)
        terms = ", ".join(f"hash({name}) AS {name}" for name in names)
        found = self._connection.sql(f"SELECT {terms} FROM rows").fetchnumpy()
        self._connection.unregister("rows")
        return [
            _of_values(found[name], column) for name, column in zip(names, columns, strict=True)
        ]


def _hashable(column: pa.Array) -> pa.Array:
    """Return values in a type that DuckDB takes as they are, and hashes apart.

    Decimals become bytes: DuckDB has none of negative scale, nor of 256 bits, and it hashes those
    of 128 bits alike whose halves are alike, as they are of 0 and of the number before it.
    """
    if not pa.types.is_decimal(column.type):
        return column
    as_bytes = pa.binary(column.type.byte_width)
    return pa.Array.from_buffers(as_bytes, len(column), column.buffers(), offset=column.offset)


def _of_values(hashes: Hashes, column: pa.Array) -> Hashes:
    if not column.null_count:
        return hashes
    found: Hashes = hashes[mask_of(column.is_valid())]
    return found


class DistinctCount:
    """Counts different hashes: exactly while there are few, else about.

    Args:
        kept: The least hashes that are kept.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._least: Hashes = np.empty(0, np.uint64)
        self._waiting: list[Hashes] = []
        self._added = 0

    def add(self, hashes: Hashes) -> None:
        """Add the hashes of values."""
        self._added += len(hashes)
        if len(self._least) == self._kept:
            hashes = hashes[hashes < self._least[-1]]
        self._waiting.append(hashes)
        if sum(map(len, self._waiting)) > self._kept:
            self._add_up()

    def count(self) -> tuple[int, bool]:
        """Return how many different values there are, and whether the number is exact."""
        self._add_up()
        if len(self._least) < self._kept:
            return len(self._least), True
        about = round((self._kept - 1) / ((float(self._least[-1]) + 1) / _RANGE))
        return min(about, self._added), False

    def _add_up(self) -> None:
        if self._waiting:
            hashes = np.sort(np.concatenate([self._least, *self._waiting]))
            is_first = np.append(True, hashes[1:] != hashes[:-1])
            self._least, self._waiting = hashes[is_first[: len(hashes)]][: self._kept], []
