"""Work that is shared among threads, as long as there are any."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

# Not when it is needed: that may be while the interpreter ends, when it can no more be imported.
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

_One = TypeVar("_One")
_Result = TypeVar("_Result")

# Threads that decode. Those that wait for a store may be more.
THREADS = min(4, os.cpu_count() or 1)


def handed_to(pool: Executor, do: Callable[[_One], _Result], one: _One) -> Callable[[], _Result]:
    """Have a thread do something; where no thread starts any more, it is done when asked for.

    Args:
        pool: The threads.
        do: What to do.
        one: With what.

    Returns:
        What waits for the result and returns it, or raises what was raised.
    """
    with suppress(RuntimeError):  # none starts while the interpreter ends
        return pool.submit(do, one).result
    return partial(do, one)


def in_threads(
    do: Callable[[_One], _Result], things: Sequence[_One], threads: int, name: str
) -> list[_Result]:
    """Do the same with several things, at the same time.

    Args:
        do: What to do.
        things: With what.
        threads: How many threads do it, at most.
        name: What the names of the threads begin with.

    Returns:
        The results, in the order of the things.

    Raises:
        Exception: What was raised for the first thing that it was raised for; those that wait are
            left out then.
    """
    threads = min(threads, len(things))
    if threads < 2:
        return [do(one) for one in things]
    with ThreadPoolExecutor(threads, name) as pool:
        results = [handed_to(pool, do, one) for one in things]
        try:
            return [result() for result in results]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
