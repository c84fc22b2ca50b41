"""Databases of DuckDB that lancefs opens for itself, in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from lancefs.forks import Lock

if TYPE_CHECKING:
    import duckdb


class OwnDatabase:
    """A database in memory, opened when it is first used; a forked child gets another one.

    Args:
        open_database: Opens it.
    """

    def __init__(self, open_database: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._open_database = open_database
        self._lock = Lock()
        # By process. That of a parent cannot be used after a fork, nor closed.
        self._opened: dict[int, duckdb.DuckDBPyConnection] = {}

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection to the database of this process."""
        process = os.getpid()
        with self._lock:
            if process not in self._opened:
                self._opened[process] = self._open_database()
            return self._opened[process].cursor()
