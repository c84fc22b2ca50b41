"""Values that DuckDB finds in one scan of a statement, told to another one.

DuckDB calls our function of `bind_callback` with them while it runs the statement.
"""

from __future__ import annotations

import itertools
import json
import re
from abc import ABC, abstractmethod
from weakref import WeakValueDictionary

import numpy as np

from duckdb_adapter.bind_callback import BIND_FUNCTION
from lancefs.datafile.buffers import Ints

# What the argument begins with, and the number of what is told.
_PREFIX = "told "
_TOLD = re.compile(rf"{_PREFIX}(\d+) (.*)", re.DOTALL)
# DuckDB makes no longer list of the first values.
LONGEST = 999_998


class ToldValues(ABC):
    """What a part of a statement finds, and tells.

    Attributes:
        places: How often it reads the table for which it finds something.
        used: The columns that it reads of that table, by their names in lower case.
        reads_tables: Whether it reads any tables of the statement.
    """

    places = 0
    used = frozenset[str]()
    reads_tables = False

    def __init__(self) -> None:
        self._number = next(_numbers)
        _awaited[self._number] = self

    def condition(self, told: str, found: str) -> str:
        """Return a condition in SQL that is always true, once it has told what is found.

        Args:
            told: What is told, an aggregate of what is found, in SQL.
            found: A query of what is found.
        """
        argument = f"system.main.concat('{_PREFIX}{self._number} ', {told})"
        call = f"system.main.{BIND_FUNCTION}({argument})"
        return f"(SELECT {call} FROM ({found})) IS NOT NULL"

    @abstractmethod
    def note(self, told: str) -> None:
        """Note what is found, when that was read to its end.

        Args:
            told: What `condition` told.
        """


class PassingRows(ToldValues):
    """The positions of the rows that a search finds.

    Args:
        most: More rows than this are too many.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = min(most, LONGEST)
        self._positions: Ints | None = None

    def told_by(self, position: str, found: str) -> str:
        """Return the condition that tells the positions; see `condition`.

        Args:
            position: The column of positions.
            found: A query of the rows.
        """
        first = f"system.main.min({position}, {self._most + 1})"  # takes no more memory for others
        return self.condition(f"coalesce(CAST({first} AS VARCHAR), '[]')", found)

    def note(self, told: str) -> None:
        """Note the positions, a list."""
        self._positions = np.array(json.loads(told), np.int64)

    def take(self) -> Ints | None:
        """Return the positions, ascending, once; None if they are too many, or not known yet."""
        found, self._positions = self._positions, None
        return found if found is not None and len(found) <= self._most else None


_numbers = itertools.count(1)
# What statements that are not forgotten may tell.
_awaited: WeakValueDictionary[int, ToldValues] = WeakValueDictionary()


def note_told(argument: str) -> bool:
    """Note what a part of a statement has found; return whether the argument tells of anything.

    Args:
        argument: The argument of our function.
    """
    match = _TOLD.fullmatch(argument)
    if match is None:
        return False
    awaiting = _awaited.get(int(match[1]))
    if awaiting is not None:
        awaiting.note(match[2])
    return True
