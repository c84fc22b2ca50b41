"""Databases of DuckDB that lancefs opens for itself, in memory."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from lancefs.forks import Lock

if TYPE_CHECKING:
    import duckdb

_log = logging.getLogger("duckdb_adapter")

# Threads that open databases. A process that forks waits for them: DuckDB's own locks would stay
# locked in the child.
_opening: list[threading.Thread] = []


class OwnDatabase:
    """A database in memory, opened when it is first used; a forked child gets another one.

    Args:
        open_database: Opens it.
    """

    def __init__(self, open_database: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._open_database = open_database
        self._lock = Lock()
        # By process: after a fork, a child can neither use nor close the database of its parent.
        self._opened: dict[int, duckdb.DuckDBPyConnection] = {}
        self._opened_ahead: set[int] = set()  # processes that were asked to

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection to the database of this process."""
        return self._connection().cursor()

    def open_ahead(self) -> None:
        """Open the database in a thread: DuckDB takes 20 ms, which the first user would wait."""
        process = os.getpid()
        if process in self._opened_ahead or process in self._opened:
            return
        self._opened_ahead.add(process)
        thread = threading.Thread(target=self._try_to_open, name="lancefs-database")
        _opening.append(thread)
        try:
            thread.start()
        except RuntimeError as error:  # no thread starts, here or any more: the first user waits
            _opening.remove(thread)
            _log.debug("no database is opened ahead: %s", error)

    def _try_to_open(self) -> None:
        import duckdb

        try:
            self._connection()
        except duckdb.Error as error:  # reported where the database is needed
            _log.debug("a database could not be opened ahead: %s", error)
        finally:
            _opening.remove(threading.current_thread())

    def _connection(self) -> duckdb.DuckDBPyConnection:
        process = os.getpid()
        with self._lock:
            if process not in self._opened:
                self._opened[process] = self._open_database()
            return self._opened[process]


def _wait_for_threads() -> None:
    for thread in [*_opening]:
        if thread.is_alive():
            thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_threads, after_in_child=_opening.clear)
