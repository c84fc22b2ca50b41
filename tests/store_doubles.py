"""Stores that count, fail or are slow, for tests."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem

Answer = Callable[[str, bytes], bytes]


class CountingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory, separate for each instance, with a list of all requests for bytes."""

    protocol = "counting"
    cachable = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = [""]
        self.requests: list[tuple[str, int | None, int | None]] = []  # path, start, end
        self._read: Counter[str] = Counter()

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        self.requests.append((path, start, end))
        if path not in self.store:
            raise FileNotFoundError(path)
        # Threads that open the same file in memory share its position.
        data: bytes = self.store[path].getvalue()[start:end]
        self._read[path] += len(data)
        return data

    def bytes_read(self, part: str = "") -> int:
        """Return the number of bytes read from files whose paths contain a text."""
        return sum(length for path, length in self._read.items() if part in path)

    def put_tree(self, source: str | Path, target: str) -> None:
        """Copy a local directory into the store."""
        for path in Path(source).rglob("*"):
            if path.is_file():
                self.pipe_file(f"{target}/{path.relative_to(source)}", path.read_bytes())


class TroubledFileSystem(CountingFileSystem):
    """A store where every nth request for bytes fails, once `answer` is set."""

    protocol = "troubled"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.answer: Answer | None = None  # makes the answer of a failing request
        self.every = 3

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        data = super().cat_file(path, start, end, **kwargs)
        if self.answer is not None and len(self.requests) % self.every == 0:
            is_exact = start is not None and end == start + len(data)
            return data if self.answer is cut_short and not is_exact else self.answer(path, data)
        return data


def refuse(path: str, data: bytes) -> bytes:
    """Fail as a busy object store does."""
    raise OSError(errno.EBUSY, "Please reduce your request rate")


def time_out(path: str, data: bytes) -> bytes:
    """Fail as a network that is down does."""
    raise TimeoutError


def cut_short(path: str, data: bytes) -> bytes:
    """Return fewer bytes than requested."""
    return data[: len(data) // 2]


class SlowFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Local files as on a network: each request takes some time, many run concurrently.

    `rounds` is the number of requests that were waited for one after the other.
    """

    protocol = "slow"
    cachable = False

    def __init__(self, seconds: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds
        self.requests: list[str] = []
        self.bytes = self.rounds = 0
        self.most_at_once = self._under_way = 0  # requests

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        self.requests.append(f"GET {path}")
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        await self._wait()
        self._under_way -= 1
        with open(path, "rb") as file:
            file.seek(start or 0)
            data = file.read(-1 if end is None else end - (start or 0))
        self.bytes += len(data)
        return data

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        self.requests.append(f"HEAD {path}")
        await self._wait()
        return self._entry(Path(path))

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        self.requests.append(f"LIST {path}")
        await self._wait()
        found = [self._entry(one) for one in sorted(Path(path).iterdir())]
        return found if detail else [one["name"] for one in found]

    def ukey(self, path: str) -> str:
        return str(path)

    async def _wait(self) -> None:
        round_number = self.rounds + 1
        await asyncio.sleep(self.seconds)
        self.rounds = max(self.rounds, round_number)

    @staticmethod
    def _entry(path: Path) -> dict[str, Any]:
        status = path.stat()
        kind = "directory" if path.is_dir() else "file"
        return {
            "name": str(path),
            "size": status.st_size,
            "type": kind,
            "ETag": f"{status.st_mtime_ns}-{status.st_ino}",
        }
