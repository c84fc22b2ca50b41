"""Arrow IPC files that are laid out before their values are read: the `.arrow` views.

What a byte range needs is read when it is asked for: the columns of the batches that it touches,
and, for the message before a batch, the null counts of that batch. Lengths of strings and lists
are needed before anything else, since all that follows them in the file moves with them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import empty
from lancefs.storage import Bytes
from lancefs.storage.budget_cache import BudgetCache
from lancefs.views.arrow import unified_dictionaries as dictionaries
from lancefs.views.arrow.arrow_layout import Layout, lay_out
from lancefs.views.arrow.bodies import encode
from lancefs.views.arrow.layout_cache import LayoutCache
from lancefs.views.arrow.measures import Measures
from lancefs.views.arrow.unified_dictionaries import Dictionaries
from lancefs.views.view import Key, View, known_size, note_size

# All in bytes of values in the file. What is read together ahead of somebody who copies a file, and
# how much of a batch is remembered for the next reader, where no more of it is read at a time.
TOGETHER = 16 * 1024 * 1024
# What a thread reads and writes before it takes the next: it stays in the caches of a processor.
_A_THREAD = 2 * 1024 * 1024
# What is read together from afar of one batch; and what of the next ones may wait to be asked for.
_A_ROUND = 64 * 1024 * 1024
AHEAD = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    """All that is known of a file but its values."""

    layout: Layout
    measures: Measures
    dictionaries: Dictionaries
    making: threading.Lock  # held by whoever makes values
    process: int  # another one cannot use the lock


_CONTENTS: BudgetCache[Key, Content] = BudgetCache(64 * 1024 * 1024)
_LEAST = 64 * 1024  # what one costs at least: it keeps readers of fragments


class LazyFile(View):
    """An Arrow IPC file whose bytes are made when they are asked for.

    Args:
        key: Which bytes these are; two views of the same key share what is known of them.
        schema: Of the rows.
        measures: Returns the columns and batches; nothing of them needs to be known yet.
        cache: Where layouts are kept for other processes.
    """

    def __init__(
        self,
        key: Key,
        schema: pa.Schema,
        measures: Callable[[], Measures],
        cache: LayoutCache | None = None,
    ) -> None:
        self._key = key
        self._schema = schema
        self._measures = measures
        self._cache = cache
        self._known: Content | None = None
        self._end = 0  # of the range that was read last
        self._is_copying = False  # whether one range follows the other, wherever buffers end
        self._messages = 0  # of batches, read since any values were
        self._run = 1  # how many batches were read together last, from afar
        # By column: the batch that comes after those that were read together, and how many it were.
        self._next: dict[int, tuple[int, int]] = {}
        # Columns of batches that were read and not asked for yet; and those that the last range had
        # a part of, as they stand in the file.
        self._arrays: dict[tuple[int, int], pa.Array] = {}
        self._held: dict[tuple[int, int], Bytes] = {}

    @property
    def size(self) -> int:
        size = known_size(self._key)
        if size is None:
            size = self._content().layout.size
            note_size(self._key, size)
        return size

    def read(self, start: int, end: int) -> pa.Buffer:
        layout = self._content().layout
        end = min(end, layout.size)
        if start >= end:
            return pa.py_buffer(b"")
        # Whoever goes on in the middle of a buffer copies the file, and does so to the end.
        is_next = start == self._end
        self._is_copying = is_next and (self._is_copying or layout.is_inside_a_buffer(start))
        part = _Part(start, empty(end - start, np.uint8))
        part.put(0, layout.head)
        first = max(0, int(np.searchsorted(layout.starts, start, "right")) - 1)
        last = min(len(layout.rows), int(np.searchsorted(layout.starts, end, "left")))
        for batch in range(first, last):
            self._message(batch, part)
            self._values(batch, part)
        part.put(int(layout.starts[-1]), layout.tail)
        self._end = end
        return pa.py_buffer(part.data)

    def _content(self) -> Content:
        if self._known is None or self._known.process != os.getpid():
            self._known = _CONTENTS.get(
                self._key, self._lay_out, lambda content: _LEAST + content.layout.cost
            )
        return self._known

    def _lay_out(self) -> Content:
        measures = self._measures()
        kept = None if self._cache is None else self._cache.load(self._key[2], measures)
        was_known = kept is not None and measures.is_laid_out
        joined = dictionaries.unify(measures) if kept is None else kept
        measures.require_extents()
        if self._cache is not None and not was_known:
            self._cache.save(self._key[2], measures, joined)
        layout = lay_out(
            self._schema, measures.shapes, measures.rows, measures.columns, joined.messages()
        )
        return Content(layout, measures, joined, threading.Lock(), os.getpid())

    def _message(self, batch: int, part: _Part) -> None:
        """Write what a part has of the message before a batch."""
        layout, measures = self._content().layout, self._content().measures
        begin, values = int(layout.starts[batch]), layout.values_start(batch)
        if not (part.start < values and begin < part.end):
            return
        if not measures.is_known(batch):
            # Who reads messages alone will read all of them; who copies, one after the other. From
            # afar, more and more of them are found out at once.
            is_copied = part.end > values
            count = len(layout.rows) if self._messages > 0 and not is_copied else 1
            if measures.batches[batch].is_remote:
                count = max(count, self._run)
            measures.require_all(range(batch, min(batch + count, len(layout.rows))))
            if self._cache is not None and measures.is_complete:
                self._cache.save(self._key[2], measures, self._content().dictionaries)
        self._messages += 1
        part.put(begin, layout.batch_message(batch, measures.null_counts(batch)))

    def _values(self, batch: int, part: _Part) -> None:
        """Write what a part has of the values of a batch."""
        bounds = self._content().layout.column_bounds(batch)
        spans = enumerate(pairwise(bounds))
        wanted = [one for one, (low, high) in spans if max(low, part.start) < min(high, part.end)]
        if not wanted:
            return
        self._messages = 0
        self._arrays = {place: one for place, one in self._arrays.items() if place[0] >= batch}
        held: dict[tuple[int, int], Bytes] = {}
        for columns in _groups(wanted, bounds, _A_ROUND):
            held |= self._written(batch, columns, part)
        self._held = held

    def _written(
        self, batch: int, columns: Sequence[int], part: _Part
    ) -> dict[tuple[int, int], Bytes]:
        """Write columns of a batch, in threads; return those of which only some is in the part."""
        content = self._content()
        missing = [one for one in columns if not self._has(batch, one)]
        if not missing:
            return self._write(batch, columns, part)
        keep = self._weight(batch, missing) <= TOGETHER
        groups = _groups(columns, content.layout.column_bounds(batch), _A_THREAD)
        with content.making:  # whoever waits may find them read
            self._load(batch, missing, keep)
            done = content.measures.in_threads(
                lambda one: self._write(batch, one, part, keep), groups
            )
        return {place: body for found in done for place, body in found.items()}

    def _has(self, batch: int, column: int) -> bool:
        """Whether the values of a column of a batch need not be read."""
        return (batch, column) in self._held or (batch, column) in self._arrays

    def _write(
        self, batch: int, columns: Sequence[int], part: _Part, keep: bool = True
    ) -> dict[tuple[int, int], Bytes]:
        """Write columns of a batch; return those of which only some is in the part."""
        content = self._content()
        missing = [one for one in columns if not self._has(batch, one)]
        if missing:
            read = content.measures.read_together([batch], missing, keep)
            self._note([batch], missing, read)
        bounds, held = content.layout.column_bounds(batch), {}
        for column in columns:
            low, high = bounds[column], bounds[column + 1]
            body = self._held.get((batch, column))
            if body is None:
                is_whole = part.start <= low and high <= part.end
                body = part.room(low, high) if is_whole else empty(high - low, np.uint8)
                self._encode(batch, column, body)
                if is_whole:
                    continue
            part.put(low, body)
            held[batch, column] = body
        return held

    def _encode(self, batch: int, column: int, body: Bytes) -> None:
        """Write the values of a column of a batch, which were read, as they stand in the file."""
        array = self._arrays.pop((batch, column))
        content = self._content()
        shape = content.layout.shapes[column]
        encode(array, shape, content.dictionaries.indices(column, array, shape), body)

    def _load(self, batch: int, missing: Sequence[int], keep: bool) -> None:
        """Read columns of a batch, before they are written, with others that are wanted next.

        Who copies a file wants the columns after them. From afar, each request takes its time: who
        reads columns of one batch after the other gets more and more batches at once.
        """
        layout, measures = self._content().layout, self._content().measures
        is_remote = measures.batches[batch].is_remote
        if not (is_remote or self._is_copying):
            return
        columns, bounds = list(missing), layout.column_bounds(batch)
        every = range(len(layout.shapes)) if self._is_copying else columns
        columns += [one for one in every if one > columns[-1]]
        count = self._count(batch, every) if is_remote else 1
        if count == 1 and self._is_copying:
            columns = _groups(columns, bounds, TOGETHER)[0]
        following = range(batch + 1, batch + count)
        if list(every) == columns:
            plan = [(range(batch, batch + count), columns)]
        else:
            plan = [(range(batch, batch + 1), columns), (following, list(every))]
        # Neighbours share requests; several threads decode while others still wait for theirs.
        most = TOGETHER // count if is_remote else _A_THREAD
        tasks = [
            (span, some)
            for batches, group in plan
            for span in measures.by_fragment(batches)
            for some in _groups(group, bounds, most)
        ]
        keep = keep and count * self._weight(batch, every) <= TOGETHER
        read = measures.in_threads(lambda task: measures.read_together(*task, keep), tasks)
        for (span, some), found in zip(tasks, read, strict=True):
            self._note(span, some, found)
        for column in columns:
            self._next[column] = batch + count, self._run

    def _count(self, batch: int, columns: Sequence[int]) -> int:
        """Return how many batches are read together from afar, with a batch that is wanted now.

        Their end is that of a fragment where one is near: another one takes requests of its own.
        """
        expected, run = self._next.get(columns[0], (-1, 1))
        left = len(self._content().layout.rows) - batch
        self._run = min(4 * run, left) if batch == expected else 1
        room = AHEAD - int(sum(array.nbytes for array in self._arrays.values()))
        count = max(1, min(self._run, room // self._weight(batch, columns)))
        if count >= left:
            return left
        *whole, _ = self._content().measures.by_fragment(range(batch, batch + count + 1))
        complete = sum(map(len, whole))
        return complete if 2 * complete > count else count

    def _note(
        self, batches: Sequence[int], columns: Sequence[int], read: Sequence[Sequence[pa.Array]]
    ) -> None:
        for batch, arrays in zip(batches, read, strict=True):
            self._arrays.update(zip(((batch, one) for one in columns), arrays, strict=True))

    def _weight(self, batch: int, columns: Sequence[int]) -> int:
        """The bytes that columns of a batch have in the file."""
        sizes = np.diff(self._content().layout.column_bounds(batch))
        return max(1, int(sizes[list(columns)].sum()))


@dataclass(frozen=True, slots=True)
class _Part:
    """Some bytes of a file, to be written.

    Attributes:
        start: Where in the file they begin.
        data: They.
    """

    start: int
    data: Bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def room(self, low: int, high: int) -> Bytes:
        """Return where the bytes between two places of the file are; all of them are in it."""
        return self.data[low - self.start : high - self.start]

    def put(self, start: int, data: bytes | Bytes) -> None:
        """Write what there is in it of bytes that begin at a place of the file."""
        low, high = max(start, self.start), min(start + len(data), self.end)
        if low < high:
            self.room(low, high)[:] = np.frombuffer(data, np.uint8)[low - start : high - start]


def _groups(columns: Sequence[int], bounds: Sequence[int], most: int) -> list[list[int]]:
    """Group columns, in order, that have at most `most` bytes together, or are alone."""
    groups: list[list[int]] = []
    room = 0
    for column in columns:
        size = bounds[column + 1] - bounds[column]
        if size > room:
            groups.append([])
            room = most
        groups[-1].append(column)
        room -= size
    return groups
