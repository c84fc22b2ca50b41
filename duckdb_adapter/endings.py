"""The end of a process or a connection while a query is running.

The threads of the query go on to ask for rows. If one of them calls Python while the interpreter
shuts down, Python ends the thread, and C++ aborts the process: so all streams end with an error
before that. Before DuckDB 2.0, a connection that is dropped and not closed waits for its threads
with the interpreter locked, forever: so its opener closes it, and so does the end of the
interpreter. `sql(query, params=…)` waits in the same way, and each thread drops its last batch only
when its task is over: so the last batches of streams, whose memory Python owns, are kept.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import re
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from duckdb_adapter.releases import is_new
from lancefs.errors import ReadFailed
from lancefs.forks import Lock

if TYPE_CHECKING:
    import duckdb

# Seconds to wait at the end for threads that are in the middle of something, and between two looks.
_LONGEST, _PAUSE = 5.0, 0.02
# When a stream has ended, each thread of DuckDB before 2.0 may still hold one of its batches: at
# most `_HELD`. They are kept alive until `_MAX_ENDED` more streams have ended, or until all that
# are kept have `_MAX_KEPT` bytes.
_HELD, _MAX_ENDED, _MAX_KEPT = (os.cpu_count() or 1) + 1, 64, 64 * 1024 * 1024
# This many looks in a row must find no thread of DuckDB in Python: one may be about to drop its
# rows.
_QUIET_LOOKS = 5
_THREAD = re.compile(rb"^(?:Current t|T)hread 0x([0-9a-f]+)", re.MULTILINE)


class _Streams:
    """The streams that DuckDB reads, to be stopped at the end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open = self._busy = 0
        self._is_over = False
        # The last batches of streams that ended, and their bytes; and the bytes of all of them.
        self._ended: deque[tuple[Sequence[pa.RecordBatch], int]] = deque()
        self._kept = 0

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches, until the interpreter ends.

        Raises:
            ReadFailed: It does; a query must not take the rows so far for all.
        """
        self._count(1, 1)
        last: deque[pa.RecordBatch] = deque(maxlen=0 if is_new() else _HELD)
        try:
            for batch in batches:
                if self._is_over:
                    raise ReadFailed("the interpreter ends, and with it the queries that it ran")
                last.append(batch)
                self._count(0, -1)
                try:
                    yield batch
                finally:
                    self._count(0, 1)
        finally:
            self._keep(last)
            self._count(-1, -1)

    def _keep(self, last: Sequence[pa.RecordBatch]) -> None:
        """Keep the last batches of a stream until others have ended, as far as memory allows."""
        if not last:
            return
        size = sum([batch.nbytes for batch in last])
        with self._lock:
            self._ended.append((last, size))
            self._kept += size
            while len(self._ended) > 1 and (
                self._kept > _MAX_KEPT or len(self._ended) > _MAX_ENDED
            ):
                self._kept -= self._ended.popleft()[1]

    @property
    def are_open(self) -> bool:
        """Whether a query may still ask for rows."""
        return self._open > 0

    def stop(self) -> None:
        """Let no more rows come."""
        self._is_over = True

    def wait(self) -> None:
        """Wait for the threads that are about to fetch rows, and for those that got an error."""
        give_up = time.monotonic() + _LONGEST
        quiet = 0
        while quiet < _QUIET_LOOKS and time.monotonic() < give_up:
            time.sleep(_PAUSE)
            quiet = 0 if self._busy or _foreign_threads() else quiet + 1

    def _count(self, opened: int, busy: int) -> None:
        with self._lock:
            self._open += opened
            self._busy += busy


def _foreign_threads() -> set[int]:
    """Return the threads that Python did not start and that are in it, or wait for its lock.

    Such a thread need not run Python code: pyarrow's C++ takes the lock to drop an object. Only
    the dump of all threads names them all.
    """
    with tempfile.TemporaryFile() as dump:
        faulthandler.dump_traceback(dump)
        dump.seek(0)
        found = {int(ident, 16) for ident in _THREAD.findall(dump.read())}
    # `threading` makes a dummy of a thread that asks for its name.
    own = (one for one in threading.enumerate() if not isinstance(one, threading._DummyThread))
    return found - {one.ident or 0 for one in own}


streams = _Streams()
_watched: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
# Connections whose wrapper is gone, while queries read Lance tables.
_kept: list[duckdb.DuckDBPyConnection] = []


def close_at_exit(connection: duckdb.DuckDBPyConnection) -> None:
    """Have a connection closed when the interpreter ends, if it is still there."""
    _watched.add(connection)


def let_go(connection: duckdb.DuckDBPyConnection, is_owned: bool, is_shared: bool) -> None:
    """Give up a connection whose wrapper goes away.

    What nobody else can use is closed: after the last row was fetched, a thread of DuckDB may still
    be about to drop it. What relations and others may use is dropped while no query reads Lance
    tables. In the middle of a query, the wrapper closes it if it opened it; otherwise it is kept.

    Args:
        connection: The connection.
        is_owned: Whether the wrapper opened it.
        is_shared: Whether something else may use it.
    """
    if is_owned and not is_shared:
        _close(connection)
    elif not streams.are_open:
        _kept.clear()
    elif is_owned:
        _close(connection)
    else:
        _kept.append(connection)


@atexit.register
def _end() -> None:
    were_open = streams.are_open
    streams.stop()
    for connection in list(_watched):
        _close(connection)
    if were_open:  # by now, they may have ended with an error that a thread is about to drop
        streams.wait()


def _close(connection: duckdb.DuckDBPyConnection) -> None:
    import duckdb

    with suppress(duckdb.Error):  # it may be closed
        connection.interrupt()
        connection.close()
