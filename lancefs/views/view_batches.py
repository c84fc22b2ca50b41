"""The batches of a view, and reading columns of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field
from lancefs.datafile.masks import filtered
from lancefs.errors import CorruptFile
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.null_free import all_valid

# Rows of a batch in a view. Batches are cut within each fragment at multiples of this, counted with
# the deleted rows. Part of what the bytes of a view are: see `file_node.LAYOUT`.
BATCH_ROWS = 64 * 1024
# Bytes of data files in a remote store that are read at once.
AT_ONCE = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a fragment that are a batch of every view that has them.

    Attributes:
        fragment: Its reader.
        number: Which step of the fragment it is.
        rows: Without the deleted ones.
    """

    fragment: FragmentReader
    number: int
    rows: int

    @property
    def is_remote(self) -> bool:
        """Whether each request for its bytes takes some time."""
        return not self.fragment.files.store.is_local

    @property
    def start(self) -> int:
        """The offset of the first row in the data files."""
        return self.number * BATCH_ROWS

    @property
    def end(self) -> int:
        """The offset after the last row in the data files."""
        return min(self.start + BATCH_ROWS, self.fragment.physical_rows)

    def deleted(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return which of its rows are deleted, counted from its first one."""
        deleted = self.fragment.deleted
        first, last = np.searchsorted(deleted, (self.start, self.end))
        return (deleted[first:last] - self.start).astype(np.int64)

    def known_valid(self, fields: Sequence[Field]) -> list[bool]:
        """Tell which columns are known, without reading them, to have no nulls at any depth.

        Raises:
            LanceError: The metadata of a data file cannot be read.
        """
        return all_valid(self.fragment, fields, [(self.start, self.end)])

    def live(self, arrays: list[pa.Array]) -> list[pa.Array]:
        """Return columns of all its rows without those that are deleted.

        Raises:
            LanceError: What is deleted could not be found out, or is not what the manifest says.
        """
        if self.rows == self.end - self.start:
            return arrays
        kept = np.ones(self.end - self.start, np.bool_)
        kept[self.deleted()] = False
        if np.count_nonzero(kept) != self.rows:
            raise CorruptFile(
                f"fragment {self.fragment.fragment.id}: {np.count_nonzero(kept)} rows from row "
                f"{self.start} on are not deleted; the manifest says {self.rows}"
            )
        return filtered(arrays, kept)


def joins(group: Sequence[Batch], batch: Batch, columns: int) -> bool:
    """Tell whether a batch is read with those before it, to share their requests.

    As many are as have `AT_ONCE` bytes in the data files of a remote store, columns being equal.

    Args:
        group: The batches before it that are read together; there may be none.
        batch: The next one.
        columns: How many columns are read.
    """
    fragment = batch.fragment
    if not group or not batch.is_remote or group[0].fragment is not fragment:
        return False
    size = sum(file.size or AT_ONCE for file in fragment.fragment.files)
    cells = max(1, fragment.physical_rows * len(fragment.fields))
    return (len(group) + 1) * BATCH_ROWS * columns * size <= AT_ONCE * cells


def read_together(batches: Sequence[Batch], fields: Sequence[Field]) -> list[list[pa.Array]]:
    """Read columns of several batches of one fragment in the same rounds of requests.

    Args:
        batches: At least one, ascending.
        fields: The columns, or outlines of them.

    Returns:
        For each batch its columns, as readers see them.

    Raises:
        LanceError: They cannot be read.
    """
    read = batches[0].fragment.read(fields, _ranges(batches))
    arrays = [present(array, field) for array, field in zip(read, fields, strict=True)]
    found, first = [], 0
    for batch in batches:
        rows = batch.end - batch.start
        found.append(batch.live([array.slice(first, rows) for array in arrays]))
        first += rows
    return found


def _ranges(batches: Sequence[Batch]) -> list[RowRange]:
    """Return which rows of the data files batches have."""
    ranges: list[RowRange] = []
    for batch in batches:
        if ranges and ranges[-1][1] == batch.start:
            ranges[-1] = (ranges[-1][0], batch.end)
        else:
            ranges.append((batch.start, batch.end))
    return ranges


def batches_of(fragments: Iterable[FragmentReader]) -> Iterator[Batch]:
    """Yield the batches of fragments, leaving out those without rows.

    Raises:
        LanceError: What is deleted could not be found out.
    """
    for fragment in fragments:
        steps = -(-fragment.physical_rows // BATCH_ROWS)
        if steps <= 1:  # the manifest knows
            rows = [fragment.num_rows] * steps
        else:
            gone = np.bincount(fragment.deleted // BATCH_ROWS, minlength=steps)
            sizes = np.full(steps, BATCH_ROWS)
            sizes[-1] = fragment.physical_rows - (steps - 1) * BATCH_ROWS
            rows = (sizes - gone).tolist()
        yield from (Batch(fragment, n, count) for n, count in enumerate(rows) if count > 0)
