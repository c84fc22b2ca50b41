"""Arrow IPC files whose layout is known before their values are read: the `.arrow` views.

The layout of a file (see `arrow_layout`) needs the extents of all columns: the lengths of strings
and lists determine where everything after them lies. Everything else is read when a byte range
needs it: the columns of the batches that the range touches, and the null counts of a batch if the
range touches its message.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import array_bytes
from lancefs.datafile.buffers import MAX_MEMORY, empty, expanding, reserve
from lancefs.errors import ReadFailed, locating
from lancefs.forks import Lock
from lancefs.storage import Bytes
from lancefs.storage.budget_cache import BudgetCache
from lancefs.views.arrow import unified_dictionaries
from lancefs.views.arrow.arrow_layout import Layout, lay_out
from lancefs.views.arrow.bodies import encode
from lancefs.views.arrow.known_measures import OtherLayout
from lancefs.views.arrow.layout_cache import LayoutCache
from lancefs.views.arrow.measures import MIN_TOGETHER, Measures
from lancefs.views.arrow.small_batches import are_plain, encode_batches
from lancefs.views.arrow.unified_dictionaries import UnifiedDictionaries
from lancefs.views.view import Key, View, known_size, note_size
from lancefs.views.view_batches import split

# These constants count bytes of values in the file.
# Columns that are read together for a sequential reader. Reads of at most this size are cached for
# other readers.
GROUP_BYTES = 16 * 1024 * 1024
# Columns that one thread reads and encodes at a time: smaller tasks cost more Python than they
# save.
_TASK_BYTES = 16 * 1024 * 1024
# Columns of one batch that are read in one round of requests.
_ROUND_BYTES = 64 * 1024 * 1024
# Largest read-ahead of a remote store: decoded values that wait to be encoded.
AHEAD_BYTES = 256 * 1024 * 1024
# Bytes of the messages of a block of batches, which are encoded at once; and cached blocks,
# since threads of a reader ask for messages that lie apart.
_BLOCK_BYTES, _BLOCKS = 64 * 1024, 4


@dataclass(frozen=True, slots=True)
class Content:
    """Everything about a file except its values.

    Attributes:
        layout: Where everything lies.
        measures: Null counts and extents, with the batches to read values from.
        dictionaries: The unified dictionaries.
        lock: Held while values are read.
    """

    layout: Layout
    measures: Measures
    dictionaries: UnifiedDictionaries
    lock: Lock

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return _CONTENT_BYTES + self.measures.cost + self.layout.cost


_CONTENTS: BudgetCache[Key, Content] = BudgetCache(64 * 1024 * 1024)  # bytes
# Memory of a `Content` in bytes, without its parts that grow with the number of batches.
_CONTENT_BYTES = 16 * 1024


def forget(sharer: str) -> None:
    """Forget the layouts of files, and let go of what their values are read from.

    Args:
        sharer: Identifies the readers that share them, as the first part of a key.
    """
    _CONTENTS.discard(lambda key: key[0] == sharer)


class LazyFile(View):
    """An Arrow IPC file whose bytes are made when they are asked for.

    Args:
        key: Identity of the bytes. Views with the same key share everything but values.
        schema: The schema of the file.
        measures: Returns the measures of the file, known or not.
        cache: Layouts on disk that other processes can use; None for no such cache.
    """

    def __init__(
        self,
        key: Key,
        schema: pa.Schema,
        measures: Callable[[], Measures],
        cache: LayoutCache | None,
    ) -> None:
        super().__init__(key)
        self._schema = schema
        self._measures = measures
        self._cache = cache
        self._known_content: Content | None = None
        self._has_given_bytes = False
        self._pattern = _AccessPattern()
        # Both by (batch, column): decoded columns that are not encoded yet, and encoded columns
        # that the last range covered only in part.
        self._arrays: dict[tuple[int, int], pa.Array] = {}
        self._bodies: dict[tuple[int, int], Bytes] = {}
        # The bytes of small batches that are read one after the other, and where they begin.
        self._ahead: tuple[int, pa.Buffer] | None = None
        self._messages: dict[int, Bytes] = {}  # of blocks of batches
        self._bounds: tuple[int, list[int]] = (-1, [])  # of the columns of the last batch

    @property
    def size(self) -> int:
        size = known_size(self.key)
        if size is None:
            size = self._content().layout.size
            note_size(self.key, size)
        return size

    def read(self, start: int, end: int) -> pa.Buffer:
        try:
            data = self._read(start, end)
        except OtherLayout as error:
            self._lay_out_anew(error)
            data = self._read(start, end)
        self._has_given_bytes |= data.size > 0
        return data

    def _lay_out_anew(self, error: OtherLayout) -> None:
        """Replace a layout of the cache that values contradict.

        Args:
            error: The contradiction.

        Raises:
            ReadFailed: The reader has seen bytes, or the size, of the other layout.
        """
        wrong_size = self._content().layout.size
        if self._cache is not None:
            self._cache.discard(self.key[2])
        _CONTENTS.discard(lambda key: key == self.key)
        self._known_content = None
        self._arrays, self._bodies, self._ahead = {}, {}, None
        self._messages, self._bounds = {}, (-1, [])
        size = self._content().layout.size
        note_size(self.key, size)
        if self._has_given_bytes or size != wrong_size:
            raise ReadFailed(
                f"{error}; the layout cache had a layout of other values, which is removed: open "
                "the file anew"
            ) from error

    def _read(self, start: int, end: int) -> pa.Buffer:
        layout = self._content().layout
        end = min(end, layout.size)
        if start >= end:
            return pa.py_buffer(b"")
        self._pattern.begin_range(start, layout)
        if (ready := self._ready(start, end)) is not None:
            self._pattern.last_end = end
            return ready
        output = _OutputRange(start, empty(end - start, np.uint8))
        output.write(0, layout.head)
        first = max(0, int(np.searchsorted(layout.starts, start, "right")) - 1)
        last = min(len(layout.rows), int(np.searchsorted(layout.starts, end, "left")))
        for batch in range(first, last):
            if self._write_ahead(batch, output):
                continue
            if output.end <= layout.body_start(batch):
                self._write_message(batch, output)
                continue
            self._read_small(batch, output)
            if self._write_ahead(batch, output):  # which `_read_small` has encoded
                continue
            self._write_message(batch, output)
            self._write_body(batch, output)
        output.write(int(layout.starts[-1]), layout.tail)
        self._pattern.last_end = end
        return pa.py_buffer(output.data)

    def _ready(self, start: int, end: int) -> pa.Buffer | None:
        """Return a range of the batches that were encoded ahead, if it lies in them."""
        if self._ahead is None:
            return None
        first, data = self._ahead
        if not first <= start < end <= first + data.size:
            return None
        if end == first + data.size:  # a reader of one batch after the other needs no more of it
            self._ahead = None
        return data.slice(start - first, end - start)

    def _write_ahead(self, batch: int, output: _OutputRange) -> bool:
        """Write a batch if it is among those that were encoded ahead; return whether it is."""
        if self._ahead is None:
            return False
        first, data = self._ahead
        start, end = self._content().layout.starts[batch : batch + 2].tolist()
        if not first <= start <= end <= first + data.size:
            return False
        output.write(start, np.frombuffer(data, np.uint8)[start - first : end - first])
        return True

    def _content(self) -> Content:
        if self._known_content is None:
            self._known_content = _CONTENTS.get(
                self.key, self._lay_out, lambda content: content.cost
            )
        return self._known_content

    def _lay_out(self) -> Content:
        measures = self._measures()
        cached = None if self._cache is None else self._cache.load(self.key[2], measures)
        was_cached = cached is not None and measures.has_extents
        dictionaries = unified_dictionaries.unify(measures) if cached is None else cached
        try:
            measures.require_extents()
        except OtherLayout:
            assert self._cache is not None
            self._cache.discard(self.key[2])
            return self._lay_out()
        if self._cache is not None and not was_cached:
            self._cache.save(self.key[2], measures, dictionaries)
        layout = lay_out(
            self._schema, measures.shapes, measures.rows, measures.columns, dictionaries.messages()
        )
        _check_columns(layout, measures)
        return Content(layout, measures, dictionaries, Lock())

    def _write_message(self, batch: int, output: _OutputRange) -> None:
        """Write the part of a batch's message that lies in the output range."""
        layout, measures = self._content().layout, self._content().measures
        start, body = int(layout.starts[batch]), layout.body_start(batch)
        if not (output.start < body and start < output.end):
            return
        if not measures.is_known(batch):
            self._read_whole(batch)
        if not measures.is_known(batch):
            # A reader of all messages needs the null counts of all batches. Any other reader needs
            # those of this batch, and of those that will be read ahead with it.
            includes_values = output.end > body
            is_listing = self._pattern.is_reading_messages and not includes_values
            count = len(layout.rows) if is_listing else 1
            if measures.batches[batch].is_remote:
                count = max(count, self._pattern.run)
            elif batch == self._pattern.next_batch and not self._pattern.is_reading_all:
                count = max(count, len(measures.small_group(batch)))
            measures.require_all(range(batch, min(batch + count, len(layout.rows))))
            if self._cache is not None and measures.is_complete:
                self._cache.save(self.key[2], measures, self._content().dictionaries)
        self._pattern.is_reading_messages = True
        output.write(start, self._message(batch))

    def _message(self, batch: int) -> Bytes:
        """Return the message of a batch, whose null counts are known; encode those beside it, too.

        Many messages take hardly longer than one.
        """
        layout, measures = self._content().layout, self._content().measures
        together = max(1, _BLOCK_BYTES // layout.message)
        block, place = divmod(batch, together)
        if block not in self._messages:
            batches = range(block * together, min((block + 1) * together, len(layout.rows)))
            counts = measures.null_counts(batches)
            if (counts < 0).any():
                alone: Bytes = layout.batch_messages(range(batch, batch + 1), counts[[place]])[0]
                return alone
            if len(self._messages) == _BLOCKS:
                self._messages = {}
            self._messages[block] = layout.batch_messages(batches, counts)
        message: Bytes = self._messages[block][place]
        return message

    def _bounds_of(self, batch: int) -> list[int]:
        """Return where the columns of a batch begin in the file; see `Layout.column_bounds`."""
        known, bounds = self._bounds
        if known != batch:
            bounds = self._content().layout.column_bounds(batch)
            self._bounds = batch, bounds
        return bounds

    def _read_whole(self, batch: int) -> None:
        """Read a local batch whose message is asked for, after all columns of the one before."""
        content = self._content()
        every = list(range(len(content.layout.shapes)))
        size = self._bytes_of(batch, every)
        is_next = batch == self._pattern.next_batch and self._pattern.is_reading_all
        if content.measures.batches[batch].is_remote or not is_next or size > _TASK_BYTES:
            return
        missing = [column for column in every if not self._has(batch, column)]
        with content.lock:
            self._hold([batch], missing, content.measures.read_and_measure([batch], missing))

    def _read_small(self, batch: int, output: _OutputRange) -> None:
        """Read ahead the batches of small local fragments, for a reader of one after the other."""
        content = self._content()
        columns = self._columns_in(batch, output)
        if not columns:
            return
        is_next = self._pattern.begin_batch(batch, len(columns) == len(content.layout.shapes))
        if self._pattern.is_copying:
            columns = list(range(len(content.layout.shapes)))
        missing = [column for column in columns if not self._has(batch, column)]
        if not (is_next and missing):
            return
        with content.lock:
            group = content.measures.small_group(batch)
            if len(group) < MIN_TOGETHER:
                return
            arrays = content.measures.read_small(group, missing)
            if self._encode_ahead(group, missing, arrays):
                self._pattern.next_batch = group[-1] + 1
                return
            parts = split(arrays, content.layout.rows[group].tolist())
            self._hold(group, missing, parts)

    def _encode_ahead(
        self, batches: Sequence[int], columns: Sequence[int], arrays: Sequence[pa.Array]
    ) -> bool:
        """Encode small batches for a reader of all columns; return whether this can be done.

        Args:
            batches: Numbers of the batches, which follow each other.
            columns: The columns that were read.
            arrays: Their rows in all of these batches.
        """
        layout, measures = self._content().layout, self._content().measures
        first, last = batches[0], batches[-1] + 1
        is_large = layout.starts[last] - layout.starts[first] > _ROUND_BYTES
        if len(columns) < len(layout.shapes) or is_large or not are_plain(layout.shapes):
            return False
        data = encode_batches(arrays, layout, first, measures.null_counts(batches))
        self._ahead = int(layout.starts[first]), pa.py_buffer(data)
        return True

    def _columns_in(self, batch: int, output: _OutputRange) -> list[int]:
        """Return the columns of a batch that lie in the output range, at least partly."""
        bounds = self._bounds_of(batch)
        first = max(0, bisect_right(bounds, output.start) - 1)
        last = min(len(bounds) - 1, bisect_left(bounds, output.end))
        return [column for column in range(first, last) if bounds[column] < bounds[column + 1]]

    def _write_body(self, batch: int, output: _OutputRange) -> None:
        """Write the part of a batch's body that lies in the output range."""
        bounds = self._bounds_of(batch)
        columns = self._columns_in(batch, output)
        if not columns:
            return
        self._pattern.is_reading_messages = False
        if next(iter(self._arrays), (batch,))[0] < batch:  # they were read in this order
            self._arrays = {at: array for at, array in self._arrays.items() if at[0] >= batch}
        bodies: dict[tuple[int, int], Bytes] = {}
        for group in _group_columns(columns, bounds, _ROUND_BYTES):
            bodies |= self._write_columns(batch, group, output)
        self._bodies = bodies

    def _write_columns(
        self, batch: int, columns: Sequence[int], output: _OutputRange
    ) -> dict[tuple[int, int], Bytes]:
        """Read and write columns of a batch, in threads if any must be read.

        Returns:
            The encoded columns that lie only partly in the output range, by (batch, column).
        """
        content = self._content()
        missing = [column for column in columns if not self._has(batch, column)]
        if not missing:
            return self._encode_columns(batch, columns, output)
        is_small = self._bytes_of(batch, missing) <= GROUP_BYTES
        bounds = self._bounds_of(batch)
        with content.lock:  # threads that wait may find the values cached
            self._load(batch, missing, is_small)
            bodies = content.measures.in_threads(
                lambda group: self._encode_columns(batch, group, output, is_small),
                _group_columns(columns, bounds, _TASK_BYTES),
            )
        return {place: body for group in bodies for place, body in group.items()}

    def _has(self, batch: int, column: int) -> bool:
        """Return whether a column of a batch is at hand, decoded or encoded."""
        return (batch, column) in self._bodies or (batch, column) in self._arrays

    def _encode_columns(
        self, batch: int, columns: Sequence[int], output: _OutputRange, cache: bool = True
    ) -> dict[tuple[int, int], Bytes]:
        """Encode columns of a batch into the output range; read those that are not at hand.

        Returns:
            The encoded columns that lie only partly in the output range, by (batch, column).
        """
        content = self._content()
        missing = [column for column in columns if not self._has(batch, column)]
        if missing:
            arrays = content.measures.read_and_measure([batch], missing, cache)
            self._hold([batch], missing, arrays)
        bounds, bodies = self._bounds_of(batch), {}
        for column in columns:
            low, high = bounds[column], bounds[column + 1]
            body = self._bodies.get((batch, column))
            if body is None:
                is_whole = output.start <= low and high <= output.end
                body = output.slice(low, high) if is_whole else empty(high - low, np.uint8)
                self._encode(batch, column, body)
                if is_whole:
                    continue
            output.write(low, body)
            bodies[batch, column] = body
        return bodies

    def _encode(self, batch: int, column: int, body: Bytes) -> None:
        """Encode a decoded column of a batch into `body`, and release the decoded values."""
        array = self._arrays.pop((batch, column))
        content = self._content()
        shape = content.layout.shapes[column]
        encode(array, shape, content.dictionaries.indices(column, array, shape), body)

    def _load(self, batch: int, missing: Sequence[int], cache: bool) -> None:
        """Read columns of a batch, and read ahead what the reader will probably ask for next.

        A sequential copy will ask for the columns that follow. On a remote store, where each round
        of requests takes its time, a reader that asks for the same columns of one batch after the
        other gets a growing number of batches at once. Nothing is read here for other readers of
        local files: `_encode_columns` reads their columns in threads.

        Args:
            batch: Number of the batch.
            missing: Positions of the columns to read, ascending.
            cache: Whether to cache the values for other readers, unless there are too many.
        """
        layout, measures = self._content().layout, self._content().measures
        is_remote = measures.batches[batch].is_remote
        is_copying = self._pattern.is_copying
        if not (is_remote or is_copying):
            return
        columns, bounds = list(missing), self._bounds_of(batch)
        every = range(len(layout.shapes)) if is_copying else columns
        columns += [column for column in every if column > columns[-1]]
        count = self._batches_to_read(batch, every) if is_remote else 1
        if count == 1 and is_copying:
            columns = _group_columns(columns, bounds, GROUP_BYTES)[0]
        following = range(batch + 1, batch + count)
        if list(every) == columns:
            plan = [(range(batch, batch + count), columns)]
        else:
            plan = [(range(batch, batch + 1), columns), (following, list(every))]
        # Batches of a fragment share requests. Columns are split among threads, so that some of
        # them decode while others wait for their requests.
        most = GROUP_BYTES // count if is_remote else _TASK_BYTES
        tasks = [
            (group, part)
            for batches, planned in plan
            for group in measures.group_by_fragment(batches)
            for part in _group_columns(planned, bounds, most)
        ]
        cache = cache and count * self._bytes_of(batch, every) <= GROUP_BYTES
        read = measures.in_threads(lambda task: measures.read_and_measure(*task, cache), tasks)
        for (group, part), arrays in zip(tasks, read, strict=True):
            self._hold(group, part, arrays)
        self._pattern.end_run(columns, batch + count)

    def _batches_to_read(self, batch: int, columns: Sequence[int]) -> int:
        """Return the number of batches to read at once from a remote store, from `batch` on.

        It is that of `begin_run`, within the budget of `AHEAD_BYTES`. The batches end with a
        fragment if that keeps more than half of them: the next takes requests of its own anyway.
        """
        left = len(self._content().layout.rows) - batch
        run = self._pattern.begin_run(columns[0], batch, left)
        budget = AHEAD_BYTES - sum(map(array_bytes, self._arrays.values()))
        count = max(1, min(run, budget // self._bytes_of(batch, columns)))
        if count >= left:
            return left
        *whole, _ = self._content().measures.group_by_fragment(range(batch, batch + count + 1))
        complete = sum(map(len, whole))
        return complete if 2 * complete > count else count

    def _hold(
        self, batches: Sequence[int], columns: Sequence[int], read: Sequence[Sequence[pa.Array]]
    ) -> None:
        """Hold decoded columns of batches until they are encoded."""
        for batch, arrays in zip(batches, read, strict=True):
            self._arrays.update(zip(((batch, column) for column in columns), arrays, strict=True))

    def _bytes_of(self, batch: int, columns: Sequence[int]) -> int:
        """Return the length in bytes of columns of a batch in the file, at least 1."""
        sizes = np.diff(self._bounds_of(batch))
        return max(1, int(sizes[list(columns)].sum()))


class _AccessPattern:
    """What a reader asked for last, which tells what it is likely to ask for next.

    Attributes:
        last_end: End of the range that was read last.
        is_copying: Whether ranges follow each other regardless of buffers, which goes on to the end
            of the file: a sequential copy. Other readers ask for whole buffers.
        is_reading_messages: Whether a message was read, and no values since: whoever asks for a
            second one then reads all messages.
        next_batch: The batch after the one that was read last.
        is_reading_all: Whether all columns of that one were read.
        run: Batches that the last remote read was to take together.
    """

    def __init__(self) -> None:
        self.last_end = 0
        self.is_copying = False
        self.is_reading_messages = False
        self.next_batch = 0
        self.is_reading_all = False
        self.run = 1
        # By column: the batch after those that the last remote read took, and their number.
        self._runs: dict[int, tuple[int, int]] = {}

    def begin_range(self, start: int, layout: Layout) -> None:
        """Note where a range begins."""
        is_next = start == self.last_end
        self.is_copying = is_next and (self.is_copying or layout.is_inside_a_buffer(start))

    def begin_batch(self, batch: int, is_whole: bool) -> bool:
        """Note a batch of which columns are read; return whether it follows the one before."""
        is_next, self.next_batch = batch == self.next_batch, batch + 1
        self.is_reading_all = is_whole
        return is_next

    def begin_run(self, column: int, batch: int, left: int) -> int:
        """Return how many of the batches that are left are read together from a remote store.

        Four times as many as by the last read of the column, if this one continues it; else one.
        """
        end, run = self._runs.get(column, (-1, 1))
        self.run = min(4 * run, left) if batch == end else 1
        return self.run

    def end_run(self, columns: Sequence[int], end: int) -> None:
        """Note the batch after those that were read together."""
        self._runs.update(dict.fromkeys(columns, (end, self.run)))


@dataclass(frozen=True, slots=True)
class _OutputRange:
    """The bytes of a range of a file, to be filled in.

    Attributes:
        start: Position of the range in the file.
        data: The bytes of the range.
    """

    start: int
    data: Bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def slice(self, low: int, high: int) -> Bytes:
        """Return the memory for the positions of the file from `low` to `high`, in the range."""
        return self.data[low - self.start : high - self.start]

    def write(self, start: int, data: bytes | Bytes) -> None:
        """Write the part of `data` that lies in the range; `data` begins at `start` in the file."""
        low, high = max(start, self.start), min(start + len(data), self.end)
        if low < high:
            self.slice(low, high)[:] = np.frombuffer(data, np.uint8)[low - start : high - start]


def _group_columns(columns: Sequence[int], bounds: Sequence[int], most: int) -> list[list[int]]:
    """Group columns, in order, into groups of at most `most` bytes; a larger column is alone.

    Args:
        columns: Positions of the columns.
        bounds: Positions in the file of all columns of a batch, then the end of its body.
        most: Largest size of a group in bytes.
    """
    groups: list[list[int]] = []
    left = 0
    for column in columns:
        size = bounds[column + 1] - bounds[column]
        if size > left:
            groups.append([])
            left = most
        groups[-1].append(column)
        left -= size
    return groups


def _check_columns(layout: Layout, measures: Measures) -> None:
    """Refuse a column too large to be read, before a reader allocates memory for its bytes.

    Raises:
        MemoryLimitExceeded: A batch of a column would be too many times as large as the files.
    """
    if layout.buffer_offsets[:, -1].max(initial=0) <= MAX_MEMORY:
        return
    sizes = np.diff(layout.buffer_offsets[:, layout.first_buffers], axis=1)
    for batch, column in np.argwhere(sizes > MAX_MEMORY).tolist():
        fragment = measures.batches[batch].fragment
        with (
            locating(place=measures.fields[column].name),
            expanding(fragment.files.max_memory, columns=1),
        ):
            reserve(int(sizes[batch, column]), fragment.stored_bytes)
