"""Ordered prefetch on a thread pool, which also works while the interpreter shuts down."""

from __future__ import annotations

import gc
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Sequence

# Imported here and not where it is needed: it cannot be imported while the interpreter ends.
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from lancefs.forks import generation

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Threads that decode. Threads that wait for a remote store may be more.
THREADS = min(4, os.cpu_count() or 1)
# Items that wait for each of some threads, at most: what waits takes memory.
_WAITING = 64

# The last key is the last phase of garbage collection. A function of C notes it: in one of Python,
# an interrupt would be lost. It takes what it is told beside the phase for `last`, which is true.
_phases = OrderedDict.fromkeys(("start", "stop"))
gc.callbacks.append(_phases.move_to_end)  # type: ignore[arg-type]


class Threads(ThreadPoolExecutor):
    """Threads that work; a forked child has none of them, nor waits for what they had to do."""

    def __init__(
        self, most: int, name: str, initializer: Callable[[], object] | None = None
    ) -> None:
        super().__init__(most, name, initializer)
        self._generation = generation()

    @property
    def are_here(self) -> bool:
        """Whether the threads belong to this process."""
        return self._generation == generation()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the threads, if they are here; see `Executor.shutdown`.

        While garbage is collected, nothing is waited for: that may happen at any line, also where a
        lock is held that one of the threads waits for, and in one of the threads.
        """
        if self.are_here:
            is_collecting = next(reversed(_phases)) == "start"
            super().shutdown(wait and not is_collecting, cancel_futures=cancel_futures)


def submit(pool: Threads, do: Callable[[_Item], _Result], item: _Item) -> Callable[[], _Result]:
    """Have a thread work on an item; where there is no thread any more, the caller does the work.

    Args:
        pool: The threads.
        do: The work.
        item: Its argument.

    Returns:
        A function that waits for the result and returns it, or raises what the work raised.
    """
    claim: Future[_Result] = Future()  # whoever has it running does the work
    try:
        if pool.are_here:
            return partial(_result, pool, pool.submit(_work, claim, do, item), do, item)
    except RuntimeError:
        # No thread starts while the interpreter ends, or without memory for one. The work may be in
        # the queue nevertheless, where a thread that started earlier finds it.
        return partial(_take_over, claim, do, item)
    return partial(do, item)


def _work(claim: Future[_Result], do: Callable[[_Item], _Result], item: _Item) -> _Result:
    """Do the work in a thread, unless the caller does it."""
    if not claim.set_running_or_notify_cancel():
        raise CancelledError
    try:
        result = do(item)
    except BaseException as error:
        claim.set_exception(error)
        raise
    claim.set_result(result)
    return result


def _take_over(claim: Future[_Result], do: Callable[[_Item], _Result], item: _Item) -> _Result:
    """Do the work, unless a thread is at it; return its result."""
    return do(item) if claim.cancel() else claim.result()


def _result(
    pool: Threads, future: Future[_Result], do: Callable[[_Item], _Result], item: _Item
) -> _Result:
    """Wait for a result; in a child that was forked meanwhile, do the work."""
    return future.result() if pool.are_here else do(item)


def prefetch(
    items: Iterable[_Item],
    start: Callable[[_Item], Callable[[], _Result]],
    is_full: Callable[[Sequence[_Item]], bool],
    remainder: Callable[[_Item, _Result], _Item | None] = lambda item, result: None,
) -> Generator[_Result, None, None]:
    """Yield the results of items in order, while work on the next items is under way.

    Args:
        items: What to work on; the next one is asked for only when there is room for it.
        start: Starts the work on an item and returns what waits for its result, see `submit`.
        is_full: Tells, from the items under way in order, whether no more may be started.
        remainder: What an item's result leaves to do; it is the next item then.

    Raises:
        Exception: What the work on the earliest failing item raised.
    """
    left = iter(items)
    under_way: deque[_Item] = deque()
    results: deque[Callable[[], _Result]] = deque()
    while True:
        while not under_way or not is_full(under_way):
            try:
                item = next(left)
            except StopIteration:
                break
            under_way.append(item)
            results.append(start(item))
        if not under_way:
            return
        result = results.popleft()()
        rest = remainder(under_way.popleft(), result)
        if rest is not None:
            under_way.appendleft(rest)
            results.appendleft(start(rest))
        yield result
        del result


def in_threads(
    do: Callable[[_Item], _Result], items: Sequence[_Item], threads: int, name: str
) -> list[_Result]:
    """Do the same work on several items at the same time.

    Args:
        do: The work.
        items: Its arguments.
        threads: Number of threads, at most.
        name: Prefix of the names of the threads.

    Returns:
        The results, in the order of the items.

    Raises:
        Exception: What the work on the earliest failing item raised; items that still wait for a
            thread are left out then.
    """
    threads = min(threads, len(items))
    if threads < 2:
        return [do(item) for item in items]
    with Threads(threads, name) as pool:
        try:
            start, most = partial(submit, pool, do), _WAITING * threads
            return list(prefetch(items, start, lambda under_way: len(under_way) >= most))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
