"""What we claim of the names that DuckDB does not know, and what it reads in their place."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from duckdb_adapter import functions
from duckdb_adapter.arrow_source import (
    COUNTER,
    CountedDataset,
    Rows,
    make_source,
    make_table_source,
)
from duckdb_adapter.open_names import Storage, find_table
from duckdb_adapter.paths import quoted
from lancefs.lance_dataset import LanceDataset

# Settings without which DuckDB looks neither outside of the database nor among variables, so that
# nothing can be handed to it, and nothing may be looked at.
NEEDED_SETTINGS = ("enable_external_access", "python_enable_replacements")

_threads = itertools.count(1)


class _ThreadNumber(threading.local):
    """A short number for this thread."""

    def __init__(self) -> None:
        self.number = next(_threads)


_thread = _ThreadNumber()


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that is ours.

    Attributes:
        name: As it stands in SQL.
        answer: What it stands for.
    """

    name: str
    answer: LanceDataset | pa.Table

    @property
    def alias(self) -> str:
        """What the table is called in a query that gives it no name, as for other files."""
        if isinstance(self.answer, pa.Table):
            return self.name.partition(" ")[0]
        return re.sub(r"\.lance$", "", os.path.basename(self.answer.uri.rstrip("/")))

    def key(self) -> str:
        """Return the name of the variable that DuckDB will find the rows in.

        The same for every look at the name while a statement is prepared and run, since DuckDB
        remembers what it found, so that it reads one version.
        """
        return f"{self.name} (reader {_thread.number})"

    def select(self, key: str) -> str:
        """Return the query that the name stands for, given the name of the variable."""
        return f"SELECT *{self.left_out} FROM {quoted(key)}"

    @property
    def left_out(self) -> str:
        """What follows the star: the counting column is shown only of a table without columns."""
        is_counted = isinstance(self.answer, LanceDataset) and len(self.answer.schema)
        return f" EXCLUDE ({COUNTER})" if is_counted else ""

    def source(self, on_bind: Callable[[], None]) -> object:
        """Return the rows for DuckDB 2.0; `on_bind` is called when it has them."""
        if isinstance(self.answer, LanceDataset):
            return make_source(Rows(self.answer), on_bind)
        return make_table_source(self.answer, on_bind)

    def dataset(self) -> object:
        """Return the rows as any DuckDB can read them."""
        if isinstance(self.answer, LanceDataset):
            return CountedDataset(Rows(self.answer))
        return self.answer


def find_claim(name: str, storage: Storage) -> Claim | None:
    """Look whether a name is ours.

    Args:
        name: As it stands in SQL.
        storage: Gives the storage options, for names that carry none.

    Raises:
        LanceError: It is, but what it stands for cannot be read.
        ValueError: It is, but it contradicts itself.
    """
    called = functions.call(name, storage)
    if called is not None:
        return Claim(name, called)
    table = find_table(name, storage)
    return None if table is None else Claim(name, table.dataset)
