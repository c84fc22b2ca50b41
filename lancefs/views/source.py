"""The batches of a view, and reading columns of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile
from lancefs.table.all_valid import all_valid
from lancefs.table.fragment_reader import FragmentReader

# Rows of a batch in a view. Batches are cut within each fragment at multiples of this, counted with
# the deleted rows. Part of what the bytes of a view are: see `leaf.LAYOUT`.
BATCH_ROWS = 64 * 1024


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

    def read(self, fields: Sequence[Field]) -> list[pa.Array]:
        """Read columns, as readers see them.

        Raises:
            LanceError: They cannot be read.
        """
        read = self.fragment.read(fields, [(self.start, self.end)])
        arrays = [present(array, field) for array, field in zip(read, fields, strict=True)]
        if self.rows == self.end - self.start:
            return arrays
        kept = np.ones(self.end - self.start, np.bool_)
        kept[self.deleted()] = False
        if np.count_nonzero(kept) != self.rows:
            raise CorruptFile(
                f"fragment {self.fragment.fragment.id}: {np.count_nonzero(kept)} rows from row "
                f"{self.start} on are not deleted; the manifest says {self.rows}"
            )
        mask = pa.array(kept)
        return [array.filter(mask) for array in arrays]


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
