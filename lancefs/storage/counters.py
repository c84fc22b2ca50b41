"""Counting what is read, for one caller: requests, bytes and pages.

The counters belong to the context (`contextvars`) that asked for them: threads and tasks that read
at the same time do not see each other's counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class ReadCounters:
    """What was read.

    Attributes:
        requests: Byte ranges asked of a remote store, after ranges that lie close were joined.
        bytes: Bytes of the ranges that decoders asked for, local or remote.
        pages: Pages of columns that were decoded, as a whole or in part.
    """

    requests: int = 0
    bytes: int = 0
    pages: int = 0


_COUNTERS: ContextVar[ReadCounters | None] = ContextVar("lancefs_read_counters", default=None)


@contextmanager
def counting() -> Iterator[ReadCounters]:
    """Count what this context reads from here on."""
    counters = ReadCounters()
    token = _COUNTERS.set(counters)
    try:
        yield counters
    finally:
        _COUNTERS.reset(token)


def counters_in_use() -> ReadCounters | None:
    """Return the counters of this context; None where nobody counts."""
    return _COUNTERS.get()


def count_pages(pages: int) -> None:
    """Count pages that are decoded."""
    counters = _COUNTERS.get()
    if counters is not None:
        counters.pages += pages


def count_bytes(size: int) -> None:
    """Count bytes of ranges that were not counted when they were asked for."""
    counters = _COUNTERS.get()
    if counters is not None:
        counters.bytes += size
