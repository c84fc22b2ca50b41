"""Locks and cached values that stay usable in a forked child process.

A fork copies the memory of a process and one of its threads. A lock that another thread held at
that moment stays locked in the child for ever. Locks of lancefs are therefore `Lock`s, values that
are computed once are `cached_property`s of this module, and thread pools belong to `generation`s.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_generation = 0
_renewal = threading.Lock()


def generation() -> int:
    """Return a number that is another one in a forked child."""
    return _generation


class Lock:
    """A lock that is free in a forked child, whoever held it in the parent.

    What it guards must be of use after any statement, since the child may go on from there.
    """

    __slots__ = ("_generation", "_lock")

    def __init__(self) -> None:
        self._generation = _generation
        self._lock = threading.Lock()

    # Both are looked up before the lock is taken, and are functions of C: an interrupt comes before
    # or inside of what the lock is held for. In a method of ours it could come with the lock held.
    @property
    def __enter__(self) -> Callable[[], bool]:
        return (self._lock if self._generation == _generation else self._renewed()).__enter__

    @property
    def __exit__(self) -> Callable[[type[BaseException] | None, Any, Any], None]:
        return (self._lock if self._generation == _generation else self._renewed()).__exit__

    def _renewed(self) -> threading.Lock:
        """Return the lock of a process that was forked since the last use."""
        with _renewal:
            if self._generation != _generation:
                self._lock = threading.Lock()
                self._generation = _generation
        return self._lock

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # used as a decorator
        """`functools.cached_property` without the lock that it has until Python 3.11.

        All instances of a class share that lock, and it is held while a value is computed. Here,
        two threads may compute a value at the same time, and both get the value of the first.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type[Any], name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._function(instance))


def _count_fork() -> None:
    global _generation, _renewal
    _generation += 1
    _renewal = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
