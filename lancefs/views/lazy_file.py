"""Arrow IPC files that are laid out before their values are read: the `.arrow` views.

What a byte range needs is read when it is asked for: the columns of the batches that it touches,
and, for the message before a batch, the null counts of that batch. Lengths of strings and lists
are needed before anything else, since all that follows them in the file moves with them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lancefs.cache import BudgetCache
from lancefs.scan import THREADS
from lancefs.storage import Bytes
from lancefs.views import dictionaries
from lancefs.views.bodies import encode
from lancefs.views.dictionaries import Dictionaries
from lancefs.views.layout import Layout, lay_out
from lancefs.views.layout_cache import LayoutCache
from lancefs.views.measures import Measures
from lancefs.views.view import Key, View, known_size, note_size

# Columns of batches as they stand in files, for readers that come back to them.
_BODIES: BudgetCache[tuple[object, ...], Bytes] = BudgetCache(64 * 1024 * 1024)

# Bytes of columns that are read together, also ahead of somebody who copies a file.
TOGETHER = 16 * 1024 * 1024


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
        self._messages = 0  # of batches, read since any values were
        self._run = 1  # how many batches were read one after the other, at most
        self._last: tuple[int, list[int]] = (-1, [])  # the batch and columns that were read last
        self._held: dict[tuple[int, int], Bytes] = {}  # values that were read last

    @property
    def size(self) -> int:
        size = known_size(self._key)
        if size is None:
            size = self._content().layout.size
            note_size(self._key, size)
        return size

    def read(self, start: int, end: int) -> bytes:
        layout = self._content().layout
        end = min(end, layout.size)
        if start >= end:
            return b""
        is_copying = start == self._end and layout.is_inside_a_buffer(start)
        parts: list[memoryview | bytes] = [layout.head[start:end]]
        first = max(0, int(np.searchsorted(layout.starts, start, "right")) - 1)
        last = min(len(layout.rows), int(np.searchsorted(layout.starts, end, "left")))
        for batch in range(first, last):
            parts += self._message(batch, start, end)
            parts += self._values(batch, start, end, is_copying)
        tail = int(layout.starts[-1])
        parts.append(layout.tail[max(start - tail, 0) : max(end - tail, 0)])
        self._end = end
        return b"".join(parts)

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

    def _message(self, batch: int, start: int, end: int) -> list[bytes]:
        """Return what a range has of the message before a batch."""
        layout, measures = self._content().layout, self._content().measures
        begin, values = int(layout.starts[batch]), layout.values_start(batch)
        if not (start < values and begin < end):
            return []
        if not measures.is_known(batch):
            # Who reads messages alone will read all of them; who copies, one after the other. From
            # afar, more and more of them are found out at once.
            is_copied = end > values
            count = len(layout.rows) if self._messages > 0 and not is_copied else 1
            if measures.batches[batch].is_remote:
                count = max(count, self._run)
            measures.require_all(range(batch, min(batch + count, len(layout.rows))))
            if self._cache is not None and measures.is_complete:
                self._cache.save(self._key[2], measures, self._content().dictionaries)
        self._messages += 1
        message = layout.batch_message(batch, measures.null_counts(batch))
        return [message[max(start - begin, 0) : end - begin]]

    def _values(self, batch: int, start: int, end: int, is_copying: bool) -> list[memoryview]:
        """Return what a range has of the values of a batch."""
        bounds = self._content().layout.column_bounds(batch)
        spans = list(enumerate(pairwise(bounds)))
        wanted = [column for column, (low, high) in spans if max(low, start) < min(high, end)]
        if not wanted:
            return []
        self._messages = 0
        ahead = [column for column, _ in spans[wanted[-1] + 1 :]] if is_copying else []
        self._run_on(batch, wanted)
        held, found = self._held, []
        for column in wanted:
            if (batch, column) not in held:
                group = [one for one in wanted if one >= column] + ahead
                held = self._group(batch, _within_budget(group, bounds))
            low = bounds[column]
            found.append(held[batch, column].data[max(start - low, 0) : end - low])
        self._held = held
        return found

    def _run_on(self, batch: int, columns: list[int]) -> None:
        """See whether somebody reads the same columns of one batch after the other, from afar.

        Those of the next batches are then read with them: each request takes its time.
        """
        before, others = self._last
        self._last = batch, columns
        content = self._content()
        measures, rows = content.measures, content.layout.rows
        if not measures.batches[batch].is_remote or columns != others:
            self._run = 1
            return
        if batch != before + 1 or _BODIES.peek(self._place(batch, columns[0])) is not None:
            return
        self._run = min(4 * self._run, len(rows))
        count = min(self._run, TOGETHER // self._weight(batch, columns))
        spans = measures.spans(range(batch, min(batch + count, len(rows))), len(columns))
        if count > 1:
            with content.making:
                measures.in_threads(lambda span: self._keep(span, columns), spans)

    def _keep(self, batches: Sequence[int], columns: Sequence[int]) -> None:
        """Make the values of columns of several batches, for whoever reads them next."""
        read = self._content().measures.read_together(batches, columns)
        for batch, arrays in zip(batches, read, strict=True):
            for column, array in zip(columns, arrays, strict=True):
                values = self._encoded(batch, column, array)
                _BODIES.put(self._place(batch, column), values, len(values))

    def _weight(self, batch: int, columns: Sequence[int]) -> int:
        """The bytes that columns of a batch have in the file."""
        sizes = np.diff(self._content().layout.column_bounds(batch))
        return max(1, int(sizes[columns].sum()))

    def _group(self, batch: int, columns: Sequence[int]) -> dict[tuple[int, int], Bytes]:
        """Return the values of columns of a batch, made or at hand."""
        with self._content().making:  # whoever waits may find them made
            return self._made(batch, columns)

    def _made(self, batch: int, columns: Sequence[int]) -> dict[tuple[int, int], Bytes]:
        held = {(batch, one): _BODIES.peek(self._place(batch, one)) for one in columns}
        missing = [column for column in columns if held[batch, column] is None]
        if len(missing) > 1:
            parts = [missing[start::THREADS] for start in range(min(THREADS, len(missing)))]
            with ThreadPoolExecutor(len(parts), thread_name_prefix="lancefs-view") as pool:
                made = list(pool.map(lambda part: self._make(batch, part), parts))
        else:
            made = [self._make(batch, missing)]
        for column, values in (pair for part in made for pair in part):
            held[batch, column] = values
            _BODIES.put(self._place(batch, column), values, len(values))
        return {place: values for place, values in held.items() if values is not None}

    def _make(self, batch: int, columns: Sequence[int]) -> list[tuple[int, Bytes]]:
        """Read columns of a batch, and write their values as they stand in the file."""
        arrays = self._content().measures.read(batch, columns)
        return [
            (column, self._encoded(batch, column, array))
            for column, array in zip(columns, arrays, strict=True)
        ]

    def _encoded(self, batch: int, column: int, array: pa.Array) -> Bytes:
        content = self._content()
        shape, bounds = content.layout.shapes[column], content.layout.column_bounds(batch)
        values = encode(array, shape, content.dictionaries.indices(column, array, shape))
        assert len(values) == bounds[column + 1] - bounds[column]
        return values

    def _place(self, batch: int, column: int) -> tuple[object, ...]:
        """What tells the values of a column of a batch from all others."""
        measures = self._content().measures
        # Indices into a dictionary depend on the file.
        file = self._key if measures.shapes[column].dictionaries else None
        return measures.key(column, batch), measures.batches[batch].number, file


def _within_budget(columns: Sequence[int], bounds: Sequence[int]) -> list[int]:
    """Return the first of some columns, as many as are read together."""
    sizes = np.array([bounds[column + 1] - bounds[column] for column in columns])
    return list(columns[: max(1, int(np.searchsorted(np.cumsum(sizes), TOGETHER, "right")))])
