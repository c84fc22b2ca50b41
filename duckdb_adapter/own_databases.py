"""Databases of DuckDB that lancefs opens for itself, in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lancefs.forks import Lock

if TYPE_CHECKING:
    import duckdb


class OwnDatabase:
    """A database in memory, opened when it is first used; a forked child gets another one.

    Args:
        config: Settings of DuckDB.
    """

    def __init__(self, config: dict[str, str | bool | int | float | list[str]]) -> None:
        self._config = config
        self._lock = Lock()
        # By process. That of a parent cannot be used after a fork, nor closed.
        self._opened: dict[int, duckdb.DuckDBPyConnection] = {}

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new connection to the database of this process."""
        import duckdb

        process = os.getpid()
        with self._lock:
            if process not in self._opened:
                self._opened[process] = duckdb.connect(config=self._config)
            return self._opened[process].cursor()
