"""What the bytes of a file in the tree look like to its readers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from lancefs.storage.budget_cache import BudgetCache

# Which bytes: who may share them, the table's address, and `Leaf.digest`.
Key: TypeAlias = tuple[str, str, str]

# Bytes of views that are kept for the next reader. A view larger than this lives as long as a file
# that is open on it.
BUDGET = 256 * 1024 * 1024

_MADE: BudgetCache[Key, pa.Buffer] = BudgetCache(BUDGET)
# Sizes are worth more than they weigh: they are asked for again and again, by `info`.
_SIZES: BudgetCache[Key, int] = BudgetCache(100_000)


class View(ABC):
    """The bytes of one file, which never change; any number of readers may share it."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The exact length in bytes."""

    @abstractmethod
    def read(self, start: int, end: int) -> pa.Buffer:
        """Return the bytes from `start` up to `end`, fewer where the view ends before.

        Args:
            start: Not negative.
            end: Exclusive.
        """


class WholeView(View):
    """A view that is made whole when its size, or any of its bytes, are first asked for.

    Args:
        key: Which bytes these are; two views of the same key share them.
        make: Makes the bytes.
    """

    def __init__(self, key: Key, make: Callable[[], pa.Buffer]) -> None:
        self._key = key
        self._make = make
        self._made: pa.Buffer | None = None

    @property
    def size(self) -> int:
        size = known_size(self._key)
        return self._bytes().size if size is None else size

    def read(self, start: int, end: int) -> pa.Buffer:
        made = self._bytes()
        start, end = min(start, made.size), min(end, made.size)
        return made.slice(start, max(0, end - start))

    def _bytes(self) -> pa.Buffer:
        if self._made is None:
            made = self._made = _MADE.get(self._key, self._make, lambda buffer: buffer.size)
            note_size(self._key, made.size)
        return self._made


def known_size(key: Key) -> int | None:
    """Return the size of a view where it was worked out before."""
    return _SIZES.peek(key)


def note_size(key: Key, size: int) -> None:
    """Remember the size of a view."""
    _SIZES.put(key, size, 1)
