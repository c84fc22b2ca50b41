"""`View`: the bytes of one file of the tree, as file objects read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from lancefs.storage.budget_cache import BudgetCache

# Identity of the bytes of a file: who may share them (an identity of store, credentials and rules),
# the URL of the table, and `FileNode.digest`.
Key: TypeAlias = tuple[str, str, str]

# Bytes of whole views that a process caches. The bytes of a larger view live as long as a file that
# is open on it.
BUDGET = 256 * 1024 * 1024

_BYTES: BudgetCache[Key, pa.Buffer] = BudgetCache(BUDGET)
# Sizes have a cache of their own, a number of entries: `info` asks for them again and again.
_SIZES: BudgetCache[Key, int] = BudgetCache(100_000)


class View(ABC):
    """The bytes of one file. They never change, and any number of readers may share them.

    Args:
        key: Identity of the bytes.
    """

    def __init__(self, key: Key) -> None:
        self.key = key

    @property
    @abstractmethod
    def size(self) -> int:
        """Exact length in bytes.

        Raises:
            LanceError: Something that the length depends on cannot be read.
        """

    @abstractmethod
    def read(self, start: int, end: int) -> pa.Buffer:
        """Return a byte range; the range is cut at the end of the file.

        Args:
            start: First byte, not negative.
            end: Byte after the last one.

        Raises:
            LanceError: Something that the bytes depend on cannot be read.
        """


class WholeView(View):
    """A view whose bytes are made all at once, when its size or any byte is first asked for.

    Args:
        key: Identity of the bytes. Views with the same key share cached bytes.
        make: Makes the bytes.
    """

    def __init__(self, key: Key, make: Callable[[], pa.Buffer]) -> None:
        super().__init__(key)
        self._make = make
        self._data: pa.Buffer | None = None

    @property
    def size(self) -> int:
        size = known_size(self.key)
        return self._bytes().size if size is None else size

    def read(self, start: int, end: int) -> pa.Buffer:
        data = self._bytes()
        start, end = min(start, data.size), min(end, data.size)
        return data.slice(start, max(0, end - start))

    def _bytes(self) -> pa.Buffer:
        if self._data is None:
            data = self._data = _BYTES.get(self.key, self._make, lambda buffer: buffer.size)
            note_size(self.key, data.size)
        return self._data


def known_size(key: Key) -> int | None:
    """Return the cached size of a view in bytes, or None."""
    return _SIZES.peek(key)


def note_size(key: Key, size: int) -> None:
    """Cache the size of a view.

    Args:
        key: Identity of the bytes.
        size: Length in bytes.
    """
    _SIZES.put(key, size, 1)
