"""What the tests of views share."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.memory import MemoryFileSystem
from leaks import forget_views


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


forget = forget_views
