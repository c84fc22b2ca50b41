"""What is kept for each open version, by those that read it again and again."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from lancefs.forks import Lock
from lancefs.table.open_version import OpenVersion

T = TypeVar("T")


class PerVersion(Generic[T]):
    """Holds something for each version, as long as the version is open; threads share it.

    Args:
        make: Makes it when it is first wanted.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._kept: weakref.WeakKeyDictionary[OpenVersion, T] = weakref.WeakKeyDictionary()
        self._lock = Lock()

    def of(self, version: OpenVersion) -> T:
        """Return what is kept for a version."""
        with self._lock:
            kept = self._kept.get(version)
            if kept is None:
                kept = self._kept[version] = self._make()
            return kept
