"""A thread-safe LRU cache with a cost budget: each missing value is made by one thread only."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Interrupted(Exception):
    """The thread that made a value was interrupted."""


class BudgetCache(Generic[K, V]):
    """Keep the most recently used values whose costs add up to no more than a budget.

    Threads may share a cache. When several threads ask for the same missing value, one thread makes
    it and the others wait for its result. A forked child process starts with an empty cache and a
    new lock: the thread that held the old lock, or was making a value, does not exist in the child.

    Args:
        budget: Largest sum of the costs of the cached values, in the unit that callers give costs
            in (mostly bytes). The least recently used values are evicted first.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._reset()
        _instances.add(self)

    def get(self, key: K, make: Callable[[], V], cost: Callable[[V], int]) -> V:
        """Return the value of a key; make and cache a missing value.

        Args:
            key: The key.
            make: Makes a missing value.
            cost: Returns the cost of a value. A value that costs more than the budget is returned
                but not cached.

        Raises:
            Exception: Whatever `make` raises, also in the threads that wait for the value. The next
                call tries again.
        """
        while True:
            mine: Future[V] | None = None
            try:  # an interrupt may come at any line
                with self._lock:
                    if key in self._entries:
                        self._entries.move_to_end(key)
                        return self._entries[key][0]
                    others = self._in_flight.get(key)
                    if others is None:
                        mine = self._in_flight[key] = Future[V]()
                if mine is not None:
                    value = make()
                    self.put(key, value, cost(value))
                    mine.set_result(value)
                    return value
            except BaseException as error:
                if mine is not None and not mine.done():
                    with self._lock:
                        if self._in_flight.get(key) is mine:
                            del self._in_flight[key]
                    mine.set_exception(error if isinstance(error, Exception) else _Interrupted())
                raise
            assert others is not None
            with suppress(_Interrupted):  # make it in this thread then
                return others.result()

    def __contains__(self, key: K) -> bool:
        """Return whether a value is cached. The value does not count as used."""
        with self._lock:
            return key in self._entries

    def peek(self, key: K) -> V | None:
        """Return the cached value of a key, or None. The value counts as used."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Cache a value that was made elsewhere.

        Args:
            key: The key.
            value: The value; it replaces a cached value of the same key.
            cost: Cost of the value. A value that costs more than the budget is not cached.
        """
        with self._lock:
            self._in_flight.pop(key, None)
            _, freed = self._entries.pop(key, (None, 0))
            self._total -= freed
            if cost > self.budget:
                return
            self._entries[key] = value, cost
            self._total += cost
            while self._total > self.budget:
                _, (_, freed) = self._entries.popitem(last=False)
                self._total -= freed

    def values(self) -> list[V]:
        """Return the cached values."""
        with self._lock:
            return [value for value, _ in self._entries.values()]

    def items(self) -> list[tuple[K, V]]:
        """Return the keys and the cached values, the least recently used first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.items()]

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._entries.clear()
            self._total = 0

    def discard(self, is_unwanted: Callable[[K], bool]) -> None:
        """Remove the values whose keys satisfy a predicate."""
        with self._lock:
            for key in [key for key in self._entries if is_unwanted(key)]:
                self._total -= self._entries.pop(key)[1]

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()  # values with their costs
        self._in_flight: dict[K, Future[V]] = {}  # values that a thread is making
        self._total = 0  # cost of all entries


_instances: weakref.WeakSet[BudgetCache[Any, Any]] = weakref.WeakSet()


def _reset_all() -> None:
    for cache in list(_instances):
        cache._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
