"""The steps of a scan: the rows that are read together, how many, and by which threads."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.buffers import spare_memory
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import is_list
from lancefs.datafile.v2_1.levels import LEVEL_BYTES
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun
from lancefs.threads import handed_to

_LONGEST_STEP = 1024 * 1024  # rows
# To read so little is mostly Python's own work, which threads only slow down: in all, and a column.
_TINY_ROWS = 32 * 1024
_TINY_BYTES = 1024 * 1024
_TINY_COLUMN = 384 * 1024
# Steps of fewer rows, or bytes of a column, take mostly Python's time.
_FEW_ROWS = 16 * 1024
_LITTLE = 128 * 1024
_CHUNK = 1024  # rows that are mostly stored together
# Where rows have so many times fewer bytes than they were told to have, what is guessed of them is
# doubted; what then turns out to be too much is cut off (see `datafile.buffers.limited`).
_FAR = 2


class Step(NamedTuple):
    """Some rows of a fragment, or of a run of small ones, by their offsets in the data files."""

    fragment: FragmentReader | FragmentRun
    start: int
    end: int
    within: Sequence[RowRange] | None = None  # where the rows lie that may be wanted
    fitting: int = _LONGEST_STEP  # rows that steps here may have, as the data files tell
    told: float = 0  # bytes that the data files tell its rows to have; 0 where they do not

    @property
    def rows(self) -> int:
        """Its rows, deleted ones included."""
        return self.end - self.start

    @property
    def all(self) -> list[RowRange]:
        """All rows of the step."""
        return [(self.start, self.end)]

    def begun(self, rows: int) -> Step:
        """Return its first rows; steps here may have no more."""
        return self._replace(end=self.start + rows, fitting=min(rows, self.fitting))

    def touches(self, ranges: Sequence[RowRange]) -> bool:
        """Whether some of the ranges, ascending and disjoint, overlap it."""
        first = bisect_right(ranges, self.start, key=lambda one: one[1])
        return first < len(ranges) and ranges[first][0] < self.end

    def wanted(self) -> Mask | None:
        """Return which rows may be wanted and are not deleted; None where all are."""
        deleted = self.fragment.deleted
        first, last = np.searchsorted(deleted, (self.start, self.end))
        if first == last and self.within is None:
            return None
        wanted = np.full(self.rows, self.within is None)
        if self.within is not None:
            low = bisect_right(self.within, self.start, key=lambda one: one[1])
            high = bisect_left(self.within, self.end, key=lambda one: one[0])
            for start, end in self.within[low:high]:
                wanted[max(0, start - self.start) : end - self.start] = True
        wanted[deleted[first:last] - self.start] = False
        return wanted


class Read(NamedTuple):
    """What was read of a step."""

    step: Step
    batch: pa.RecordBatch
    kept: Mask | None  # which rows of the step are in the batch; None for all
    size: int  # bytes of all that was decoded, also of rows that are not in the batch


def decoded_bytes(arrays: Mapping[int, pa.Array]) -> int:
    """Return the bytes of arrays, and of the levels that lists among them were made of."""
    return sum(array.nbytes + _level_bytes(array) for array in arrays.values())


def _level_bytes(array: pa.Array, is_item: bool = False) -> int:
    data_type = array.type
    if pa.types.is_struct(data_type):
        parts = [array.field(index) for index in range(data_type.num_fields)]
        return sum(_level_bytes(part, is_item) for part in parts)
    if is_list(data_type):
        return _level_bytes(array.values, is_item=True)
    return LEVEL_BYTES * len(array) if is_item else 0


class Pace:
    """How long steps are: so long that they have a number of bytes, as far as is known yet.

    Args:
        batch_rows: Rows of the first step. Others have a multiple of it, half of it, or fewer
            where so many have clearly more bytes than the budget.
        budget: Bytes.
        columns: How many are read.
    """

    def __init__(self, batch_rows: int, budget: int, columns: int) -> None:
        self.rows = self._unit = batch_rows
        self._budget = budget
        self._columns = columns
        self._last = 0  # bytes of the last step
        self._doubt = 1.0  # times fewer bytes than are guessed are taken for them

    @property
    def largest(self) -> int:
        """Bytes that values of a step may have whose sizes are found out late."""
        return 2 * self._budget

    def learn(self, read: Read) -> None:
        """Choose the length of the steps to come by what the last ones had."""
        self._last = read.size
        if read.step.told:
            doubt = read.step.told / (_FAR * max(read.size, 1))
            self._doubt = max(1, min(doubt, 4 * self._doubt))
        if read.step.rows:
            longest = int(self._budget * read.step.rows / max(read.size, 1))
            rows = self._rounded(min(longest, _LONGEST_STEP, 4 * self.rows))
            # Steps that are planned longer than they can be read are read one by one.
            self.rows = min(rows, read.step.fitting)

    def parts(self, step: Step) -> Iterator[Step]:
        """Yield the parts of a step that are read one after the other, and may have wanted rows."""
        while step.rows:
            part = step._replace(end=min(step.start + self._even(step.rows), step.end))
            step = step._replace(start=part.end)
            if part.within is None or part.touches(part.within):
                yield part

    def _even(self, rows: int) -> int:
        """Return how long steps of so many rows are that have about as many each."""
        steps = -(-rows // self.rows)
        return min(-(-rows // (steps * self._unit)) * self._unit, self.rows)

    def is_tiny(self, step: Step) -> bool:
        """Whether a step, which follows one that was learned of, is best read without a thread."""
        rows = min(step.rows, self.rows)  # what is left of a step that was cut short is cut as well
        return rows <= _TINY_ROWS and self._last <= max(_TINY_BYTES, _TINY_COLUMN * self._columns)

    def fitted(self, step: Step, fields: Sequence[Field], share: float = 1) -> Step:
        """Return a step, or its beginning where the whole has too many bytes.

        Either the data files tell so, or what was learned since the step was planned.

        Args:
            step: The step.
            fields: What is read of its rows.
            share: Of the rows that are read.
        """
        if step.rows > self.rows + self.rows // 8:  # a few rows are not worth a step of their own
            step = step._replace(end=step.start + self.rows)
        sizes = step.fragment.row_sizes(fields) if share else None
        if sizes is None:
            return step
        fitting = sizes.rows_within(step.start, self._budget / share, self._doubt)
        if fitting < step.fragment.physical_rows - step.start:
            rows = self._rounded(fitting)
            if fitting < step.rows:
                step = step._replace(end=min(step.start + rows, step.end))
            step = step._replace(fitting=min(rows, step.fitting))
        return step._replace(told=share * sizes.bytes_of(step.start, step.end))

    def _rounded(self, rows: int) -> int:
        """Return whole batches, half a batch, or fewer rows where so many are less than those."""
        # A little more than the budget is better than steps of another length.
        for unit in (self._unit, max(self._unit // 2, 1)):
            if 8 * rows >= 5 * unit:
                return max((rows + rows // 16) // unit, 1) * unit
        # To read long values takes more room besides; and where many columns make rows long, one
        # step is read at a time, which may have more bytes.
        longer = int(rows * min(max(self._columns * _LITTLE / self._budget, 0.5), 2))
        rows = min(longer, max(rows, _FEW_ROWS))
        return rows // _CHUNK * _CHUNK if rows > _CHUNK else max(rows, 1)


class Readers:
    """Threads that read steps, whose results come in the order of the steps.

    Args:
        read: Reads a step.
        threads: How many steps are read at the same time, at most.
        is_spare: Whether they take memory that is given back at once (see `spare_memory`).
    """

    def __init__(self, read: Callable[[Step], Read], threads: int, is_spare: bool) -> None:
        self._read = read
        self._pool = ThreadPoolExecutor(
            threads, "lancefs-scan", initializer=spare_memory if is_spare else None
        )
        self._pending: deque[tuple[Step, bool, Callable[[], Read]]] = deque()
        self.rows = 0  # of the steps that are pending

    def __len__(self) -> int:
        return len(self._pending)

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, step: Step, is_tiny: bool) -> None:
        """Have a step read: in a thread, or when its turn comes."""
        self.rows += step.rows
        self._pending.append((step, is_tiny, self._result(step, is_tiny)))

    def next(self) -> Read:
        """Return the result for the earliest of the steps; the rest of it, if any, is the next."""
        step, is_tiny, result = self._pending.popleft()
        read = result()
        self.rows -= read.step.rows
        if read.step.end < step.end:
            rest = step._replace(start=read.step.end)
            self._pending.appendleft((rest, is_tiny, self._result(rest, is_tiny)))
        return read

    def _result(self, step: Step, is_tiny: bool) -> Callable[[], Read]:
        """Return what gives the result for a step, having a thread read it unless it is tiny."""
        return partial(self._read, step) if is_tiny else handed_to(self._pool, self._read, step)
