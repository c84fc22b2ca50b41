"""Helpers of the tests of the filesystem: rows, tables, and a store that counts requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import lance
import pyarrow as pa
from fsspec.implementations.memory import MemoryFileSystem


def rows(start: int, end: int) -> pa.Table:
    """Return the rows with the ids from `start` to `end`, always the same."""
    ids = range(start, end)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"name {i}" if i % 7 else None for i in ids],
            "price": [i / 4 for i in ids],
            "a,b/c%": pa.array([i % 3 for i in ids], pa.int32()),
        }
    )


def write_table(path: str) -> None:
    """Write three versions (1000 rows; 900 left; 100 more), the tag `prod`, and two branches."""
    dataset = lance.write_dataset(rows(0, 1000), path, max_rows_per_file=400)
    dataset.delete("id % 10 = 3")
    dataset = lance.write_dataset(rows(1000, 1100), path, mode="append")
    dataset.tags.create("prod", 2)
    for name in ("exp", "team/exp"):
        branch = dataset.create_branch(name, 3)
        branch.delete("id >= 100")


def read(data: bytes) -> pa.Table:
    """Return the rows in the bytes of an Arrow file."""
    return pa.ipc.open_file(data).read_all()


def ids(data: bytes) -> list[int]:
    """Return the ids in the bytes of an Arrow file."""
    found: list[int] = read(data)["id"].to_pylist()
    return found


class CountingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory that count requests; as on S3, `info` is answered from listings."""

    protocol = "counting"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs: list[str] = [""]  # noqa: RUF012
    cachable = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests: Counter[str] = Counter()

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        if path not in self.dircache:
            self.requests["list"] += 1
            self.dircache[path] = super().ls(path, detail=True)
        return self.dircache[path] if detail else [one["name"] for one in self.dircache[path]]

    def info(self, path: str, **kwargs: Any) -> Any:
        path = self._strip_protocol(path)
        for one in self.dircache.get(self._parent(path), []):
            if one["name"] == path:
                return one
        self.requests["head"] += 1
        return super().info(path)

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        self.requests["get"] += 1
        data: bytes = self.store[self._strip_protocol(path)].getvalue()
        return data[start:end]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()
