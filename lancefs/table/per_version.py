"""A cache with one entry for each open version."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Generic, TypeVar

from lancefs.forks import Lock
from lancefs.table.open_version import OpenVersion

T = TypeVar("T")


class PerVersion(Generic[T]):
    """Holds something for each version, as long as the version is open; threads share it.

    Args:
        make: Makes it for a version when it is first wanted.
    """

    def __init__(self, make: Callable[[OpenVersion], T]) -> None:
        self._make = make
        self._kept: weakref.WeakKeyDictionary[OpenVersion, T] = weakref.WeakKeyDictionary()
        self._lock = Lock()

    def of(self, version: OpenVersion) -> T:
        """Return the cached value of a version."""
        with self._lock:
            if version in self._kept:
                return self._kept[version]
        made = self._make(version)  # which may read, and is not waited for by others
        with self._lock:
            return self._kept.setdefault(version, made)


def per_version(read: Callable[[OpenVersion], T]) -> Callable[[OpenVersion], T]:
    """Have a function run once for each version: what it returned is kept while that is open."""
    kept = PerVersion(read)

    @wraps(read)
    def kept_of(version: OpenVersion) -> T:
        return kept.of(version)

    return kept_of
