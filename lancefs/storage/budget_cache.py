"""Keeping what was made, within a budget, each thing made once."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BudgetCache(Generic[K, V]):
    """Keeps the values that were last used, as long as their costs stay within a budget.

    Safe to share between threads: when several ask for the same value at a time, one makes it and
    the others wait. A forked child starts with an empty cache, since a thread that did not come
    along may have been in the middle of something.

    Args:
        budget: What the values that are kept may cost together.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._forget()
        _all.add(self)

    def get(self, key: K, make: Callable[[], V], cost: Callable[[V], int]) -> V:
        """Return the value of a key.

        Args:
            key: What is wanted.
            make: Makes it, where it is not there.
            cost: What a value costs; one above the budget is returned, but not kept.

        Raises:
            Exception: Whatever `make` raises, also in the threads that waited for it.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            coming = self._coming.get(key)
            if coming is None:
                mine = self._coming[key] = Future[V]()
        if coming is not None:
            return coming.result()
        try:
            value = make()
            self._keep(key, value, cost(value))
        except BaseException as error:
            with self._lock:
                self._coming.pop(key, None)
            mine.set_exception(error)
            raise
        mine.set_result(value)
        return value

    def peek(self, key: K) -> V | None:
        """Return the value of a key where it is kept, else None."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Keep a value that was made elsewhere.

        Args:
            key: Its key.
            value: It takes the place of one that is kept.
            cost: What it costs; above the budget it is not kept.
        """
        self._keep(key, value, cost)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._spent = 0

    def discard(self, is_unwanted: Callable[[K], bool]) -> None:
        """Forget the values of some keys."""
        with self._lock:
            for key in [key for key in self._kept if is_unwanted(key)]:
                self._spent -= self._kept.pop(key)[1]

    def _keep(self, key: K, value: V, cost: int) -> None:
        with self._lock:
            self._coming.pop(key, None)
            _, freed = self._kept.pop(key, (None, 0))
            self._spent -= freed
            if cost > self.budget:
                return
            self._kept[key] = value, cost
            self._spent += cost
            while self._spent > self.budget:
                _, (_, freed) = self._kept.popitem(last=False)
                self._spent -= freed

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._coming: dict[K, Future[V]] = {}
        self._spent = 0


_all: weakref.WeakSet[BudgetCache[Any, Any]] = weakref.WeakSet()


def _forget_all() -> None:
    for cache in list(_all):
        cache._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
