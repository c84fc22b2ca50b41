"""A cache of directory listings that expires by the monotonic clock."""

from __future__ import annotations

import time
from typing import Any

from fsspec.dircache import DirCache


class ListingCache(DirCache):  # type: ignore[misc]  # fsspec has no types
    """fsspec's cache of listings, which goes by the wall clock: set back, it keeps old listings."""

    def __getitem__(self, path: str) -> list[dict[str, Any]]:
        expiry, made = self.listings_expiry_time, self._times.get(path)
        if expiry is not None and made is not None and time.monotonic() - made > expiry:
            self._cache.pop(path, None)
            self._times.pop(path, None)
        if self.max_paths:
            self._q(path)
        found: list[dict[str, Any]] = self._cache[path]
        return found

    def __setitem__(self, path: str, entries: list[dict[str, Any]]) -> None:
        super().__setitem__(path, entries)
        if path in self._cache and self.listings_expiry_time is not None:
            self._times[path] = time.monotonic()
