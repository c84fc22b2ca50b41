"""What is read once of the indices of each open version."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from lancefs.forks import Lock
from lancefs.table.open_version import OpenVersion

T = TypeVar("T")


class ByVersion(Generic[T]):
    """Remembers what was read of the index section of a version, as long as the version is open.

    Args:
        read: Reads it; returns None where there is nothing.
    """

    def __init__(self, read: Callable[[OpenVersion], T | None]) -> None:
        self._read = read
        self._known: weakref.WeakKeyDictionary[OpenVersion, T | None] = weakref.WeakKeyDictionary()
        self._lock = Lock()

    def of(self, version: OpenVersion) -> T | None:
        """Return what was read of a version; None for one without indices.

        Args:
            version: The version.
        """
        if version.manifest.index_section is None or version.is_fresh:
            return None
        with self._lock:
            if version in self._known:
                return self._known[version]
        found = self._read(version)
        with self._lock:
            return self._known.setdefault(version, found)
