"""What the tests of views share."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.memory import MemoryFileSystem

from lancefs.views import lazy_file, measures, view


class CountingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory; `fetched` has the length of each range of data files that was asked for."""

    protocol = "views-counting"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs: list[str] = [""]  # noqa: RUF012
    cachable = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.fetched: list[int] = []

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        data: bytes = self.store[self._strip_protocol(path)].getvalue()[start:end]
        if "/data/" in path:
            self.fetched.append(len(data))
        return data


def forget() -> None:
    """Forget all that is remembered of views in this process."""
    for cache in (
        lazy_file._BODIES,
        lazy_file._CONTENTS,
        measures._KNOWN,
        measures._READ,
        view._MADE,
        view._SIZES,
    ):
        cache.clear()
