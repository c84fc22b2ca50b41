"""Rows that DuckDB finds in one scan of a statement, told to another one.

DuckDB calls our function of `bind_callback` with their positions while it runs the statement.
"""

from __future__ import annotations

import itertools
import json
import re
from weakref import WeakValueDictionary

import numpy as np

from lancefs.datafile.buffers import Ints

# What the argument begins with, and the number of the search.
_PREFIX = "rows "
# DuckDB makes no longer list of the first values.
_LONGEST = 999_998
_TOLD = re.compile(rf"{_PREFIX}(\d+) (\[.*\])", re.DOTALL)


class PassingRows:
    """The positions of the rows that a search finds.

    Args:
        most: More rows than this are too many.
    """

    def __init__(self, most: int) -> None:
        self._most = min(most, _LONGEST)
        self._positions: Ints | None = None
        self._number = next(_numbers)
        _searches[self._number] = self

    def argument(self, position: str) -> str:
        """Return the argument of our function in SQL: an aggregate of the rows that are found.

        Args:
            position: The column of their positions.
        """
        first = f"system.main.min({position}, {self._most + 1})"  # takes no more memory for others
        told = f"'{_PREFIX}{self._number} ', coalesce(CAST({first} AS VARCHAR), '[]')"
        return f"system.main.concat({told})"

    def note(self, positions: Ints) -> None:
        """Note the positions, when the search has ended."""
        self._positions = positions

    def take(self) -> Ints | None:
        """Return the positions, ascending, once; None if they are too many, or not known yet."""
        found, self._positions = self._positions, None
        return found if found is not None and len(found) <= self._most else None


_numbers = itertools.count(1)
# The searches of statements that are not forgotten.
_searches: WeakValueDictionary[int, PassingRows] = WeakValueDictionary()


def note_passing(told: str) -> bool:
    """Note the rows that a search has found; return whether the argument tells of any.

    Args:
        told: The argument of our function.
    """
    match = _TOLD.fullmatch(told)
    search = None if match is None else _searches.get(int(match[1]))
    if match is None:
        return False
    if search is not None:
        search.note(np.array(json.loads(match[2]), np.int64))
    return True
