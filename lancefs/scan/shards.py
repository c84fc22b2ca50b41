"""The rows of a version divided into shards, one for each process, and shuffled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lancefs.arguments import check_number
from lancefs.scan.scanner import LanceScanner
from lancefs.table.row_metadata import ROW_OFFSET

# A shuffle distributes blocks of consecutive rows, which are then shuffled in memory: at most this
# many rows a block, and at least this many blocks.
_BLOCK_ROWS = 1024
_BLOCKS = 256

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardedRows:
    """The rows of all shards, and their order.

    Attributes:
        scanner: Reads rows by position; has no filter.
        positions: Positions of the rows that a filter keeps, ascending, of shape (rows,); None for
            all rows of the scanner.
        rows: Number of rows.
        batch_rows: Number of rows of a batch.
        buffer_rows: Number of rows that are read, and shuffled, at a time.
        seed: Seed of the shuffle; None for the order of the table.
    """

    scanner: LanceScanner
    positions: _Ints | None
    rows: int
    batch_rows: int
    buffer_rows: int
    seed: int | None

    @property
    def block_rows(self) -> int:
        """Rows that stay together in the order of shuffled blocks."""
        return max(1, min(_BLOCK_ROWS, self.rows // _BLOCKS))

    def order(self, start: int, end: int) -> _Ints:
        """Return which rows are the `start`th to `end`th in the order of blocks.

        Returns:
            Numbers of rows among those that the filter keeps, of shape (end − start,).
        """
        if self.seed is None:
            return np.arange(start, end)
        block_rows = self.block_rows
        blocks, ends = _shuffled_blocks(self.rows, block_rows, self.seed)
        first, last = np.searchsorted(ends, (start, end - 1), side="right")
        before = int(ends[first - 1]) if first else 0
        ranges = [
            np.arange(block * block_rows, min(self.rows, (block + 1) * block_rows))
            for block in blocks[first : last + 1].tolist()
        ]
        return np.concatenate(ranges)[start - before : end - before]

    def read(self, numbers: _Ints) -> pa.Table:
        """Read rows by their numbers, in this order."""
        return self.scanner.take(numbers if self.positions is None else self.positions[numbers])


@lru_cache(maxsize=4)  # asked for by each buffer
def _shuffled_blocks(rows: int, block_rows: int, seed: int) -> tuple[_Ints, _Ints]:
    """Return the numbers of all blocks in their order, and the number of rows up to each end."""
    blocks = np.random.default_rng(seed).permutation(-(-rows // block_rows))
    return blocks, np.cumsum(np.minimum(block_rows, rows - blocks * block_rows))


class Shard:
    """One of several parts of equal size; each iteration reads its rows as record batches.

    It can be pickled, and wrapped in a PyTorch `IterableDataset`.

    Args:
        rows: The rows of all shards.
        start: The first row of this shard, in the order of the rows.
        end: The row after the last one.
    """

    def __init__(self, rows: ShardedRows, start: int, end: int) -> None:
        self._rows, self._start, self._end = rows, start, end

    def __repr__(self) -> str:
        return f"<Shard of {self.num_rows:,} of {self._rows.rows:,} rows>"

    @property
    def num_rows(self) -> int:
        """Number of rows of the shard."""
        return self._end - self._start

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._rows.scanner.projected_schema

    def __len__(self) -> int:
        """Return the number of batches of the shard."""
        return -(-self.num_rows // self._rows.batch_rows)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches.

        Raises:
            LanceError: The rows cannot be read.
        """
        batch_rows = self._rows.batch_rows
        # A buffer has whole batches, so that only the last batch of the shard is a short one.
        step = max(1, self._rows.buffer_rows // batch_rows) * batch_rows
        for start in range(self._start, self._end, step):
            table = self._buffer(start, min(self._end, start + step))
            yield from table.combine_chunks().to_batches(batch_rows)

    def _buffer(self, start: int, end: int) -> pa.Table:
        numbers, seed = self._rows.order(start, end), self._rows.seed
        if seed is not None:
            np.random.default_rng((seed, start)).shuffle(numbers)
        return self._rows.read(numbers)


class Shards(Sequence[Shard]):
    """The rows of a dataset in parts of equal size; `LanceDataset.shards` makes them.

    Args:
        rows: The rows.
        count: Number of shards.
    """

    def __init__(self, rows: ShardedRows, count: int) -> None:
        self._rows, self._count = rows, count

    def __repr__(self) -> str:
        return f"<{self._count:,} Shards of {self._rows.rows:,} rows>"

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Shard: ...
    @overload
    def __getitem__(self, index: slice) -> list[Shard]: ...
    def __getitem__(self, index: int | slice) -> Shard | list[Shard]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        each = range(self._count)[index]
        rows = self._rows.rows
        return Shard(self._rows, rows * each // self._count, rows * (each + 1) // self._count)

    def shuffled(self, seed: int | None) -> Shards:
        """Return shards of the same rows in another order, for the next epoch; nothing is read.

        Args:
            seed: As for `LanceDataset.shards`.
        """
        return Shards(replace(self._rows, seed=seed), self._count)


def make_shards(
    count: int,
    scanner: LanceScanner,
    passing: LanceScanner | None,
    batch_rows: int,
    buffer_rows: int,
    seed: int | None,
) -> Shards:
    """Return the rows of a scanner in shards; see `LanceDataset.shards`.

    Args:
        count: How many shards.
        scanner: What to read of the rows; has no filter.
        passing: Reads `_rowoffset`, and nothing else, of the rows that are wanted; None for all.
        batch_rows: Rows of a batch.
        buffer_rows: Rows that are read, and shuffled, at a time.
        seed: Shuffles the rows.

    Raises:
        TypeError: A number is not whole.
        ValueError: A number is too small.
    """
    for name, value in (("count", count), ("batch_size", batch_rows), ("buffer_size", buffer_rows)):
        check_number(name, value, least=1)
    if seed is not None:
        check_number("seed", seed)
    if passing is None:
        positions, rows = None, scanner.count_rows()
    else:
        table = passing.to_table()
        positions = table[ROW_OFFSET.name].to_numpy().astype(np.int64)
        rows = len(positions)
    return Shards(ShardedRows(scanner, positions, rows, batch_rows, buffer_rows, seed), count)
