"""Stores that count, fail or are slow, for tests."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fsspec import AbstractFileSystem
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from lancefs.threads import Threads

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
        return _entry(path)


def _entry(path: Path) -> dict[str, Any]:
    """Return the `info` of a local file as a store would give it."""
    status = path.stat()
    return {
        "name": str(path),
        "size": status.st_size,
        "type": "directory" if path.is_dir() else "file",
        "ETag": f"{status.st_mtime_ns}-{status.st_ino}",
    }


class _Clock(threading.local):
    """How many requests were waited for, one after the other, before what a thread does now."""

    rounds: int | None = None  # None in a thread that no thread of lancefs started


class _Waited:
    """What waits for the work of a thread; whoever waits knows what the thread has waited for."""

    def __init__(self, future: Future[Any], done: list[int], clock: _Clock) -> None:
        self._future, self._done, self._clock = future, done, clock

    def result(self) -> Any:
        try:
            return self._future.result()
        finally:
            self._clock.rounds = max([self._clock.rounds or 0, *self._done])


class ChainFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Local files as in a store, where requests are counted that wait for one another.

    `rounds` is the length of the longest chain: of requests of a thread, of the threads that it
    started, and of those that it waited for. No time is measured, and none passes. Ranges that are
    asked for together are one round, and so is what threads ask for side by side.
    """

    protocol = "chain"
    cachable = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests: list[str] = []
        self.log: list[tuple[int, str, int, int]] = []  # round, path, start, end
        self.bytes = self.rounds = 0
        self._clock = _Clock()

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count inside of the context; it gives `rounds`, `requests` and `bytes` at its end."""
        clock, submit, shutdown = self._clock, Threads.submit, Threads.shutdown
        ended: dict[int, list[list[int]]] = {}  # by the pool, when each work ended

        def follow(pool: Threads, do: Callable[..., Any], *arguments: Any) -> _Waited:
            begun, done = clock.rounds or 0, list[int]()
            ended.setdefault(id(pool), []).append(done)

            def work() -> Any:
                clock.rounds = begun
                try:
                    return do(*arguments)
                finally:
                    done.append(clock.rounds)

            return _Waited(submit(pool, work), done, clock)

        def join(pool: Threads, wait: bool = True, *, cancel_futures: bool = False) -> None:
            shutdown(pool, wait, cancel_futures=cancel_futures)
            if wait:
                every = [number for done in ended.get(id(pool), ()) for number in done]
                clock.rounds = max([clock.rounds or 0, *every])

        self.requests.clear()
        self.log.clear()
        self.bytes = self.rounds = clock.rounds = 0
        counted = Counter[str]()
        with patch.object(Threads, "submit", follow), patch.object(Threads, "shutdown", join):
            yield counted
        counted.update(rounds=self.rounds, requests=len(self.requests), bytes=self.bytes)

    def _wait(self) -> int:
        """Return the number of the next round of the thread, which waits for it."""
        known = self.rounds if self._clock.rounds is None else self._clock.rounds
        self._clock.rounds = known + 1
        self.rounds = max(self.rounds, known + 1)
        return known + 1

    def _get(self, number: int, path: str, start: int | None, end: int | None) -> bytes:
        self.requests.append(f"GET {path}")
        with open(path, "rb") as file:
            file.seek(start or 0)
            data = file.read(-1 if end is None else end - (start or 0))
        self.log.append((number, path, start or 0, (start or 0) + len(data)))
        self.bytes += len(data)
        return data

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        return self._get(self._wait(), path, start, end)

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Sequence[int],
        ends: Sequence[int],
        max_gap: int | None = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> list[Any]:
        number, answers = self._wait(), list[Any]()
        for path, start, end in zip(paths, starts, ends, strict=True):
            try:
                answers.append(self._get(number, path, start, end))
            except OSError as error:
                answers.append(error)
        return answers

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        self._wait()
        self.requests.append(f"HEAD {path}")
        return _entry(Path(path))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        self._wait()
        self.requests.append(f"LIST {path}")
        found = [_entry(one) for one in sorted(Path(path).iterdir())]
        return found if detail else [one["name"] for one in found]

    def ukey(self, path: str) -> str:
        return str(path)
