"""Decoding morsels in threads ahead of the consumer, within a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from time import perf_counter
from typing import TypeVar

from lancefs.datafile.buffers import use_system_allocator
from lancefs.errors import LanceError
from lancefs.scan.morsel_reader import MorselReader
from lancefs.scan.morsels import DecodedMorsel, Morsel
from lancefs.scan.pace import Pace
from lancefs.scan.settings import BATCH_ROWS
from lancefs.table.fragment_run import FragmentRun
from lancefs.threads import THREADS, Threads, prefetch, submit

# A morsel of fewer rows is not cut before it is decoded.
_MIN_CUT = 2 * BATCH_ROWS

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def decode_ahead(
    morsels: Iterator[Morsel],
    reader: MorselReader,
    pace: Pace,
    begins_here: bool,
    uses_system: bool,
) -> Iterator[DecodedMorsel]:
    """Decode morsels in threads, in order, and choose the length of the next ones.

    Args:
        morsels: The morsels.
        reader: Decodes them.
        pace: Chooses how many rows the next ones have.
        begins_here: Whether the first ones are decoded in this thread, until threads would pay.
        uses_system: Whether threads allocate from the system; see `use_system_allocator`.
    """

    def decode() -> Iterator[DecodedMorsel]:
        left = (yield from _decode_inline(morsels, reader, pace)) if begins_here else morsels
        yield from _decode_in_threads(left, reader, pace, uses_system)

    for decoded in decode():
        pace.learn(decoded)
        yield decoded


def _decode_in_threads(
    morsels: Iterator[Morsel], reader: MorselReader, pace: Pace, uses_system: bool
) -> Iterator[DecodedMorsel]:
    """Decode morsels in threads, in order; closing the generator stops the threads."""
    first = next(morsels, None)
    if first is None:
        return
    is_local = first.fragment.is_local
    most = THREADS if is_local else reader.request.settings.remote_prefetch
    read = partial(reader.read, pace=pace)

    def start(morsel: Morsel) -> Callable[[], DecodedMorsel]:
        is_tiny = pace.is_tiny(morsel) or isinstance(morsel.fragment, FragmentRun)
        return partial(read, morsel) if is_tiny and is_local else submit(pool, read, morsel)

    def is_full(under_way: Sequence[Morsel]) -> bool:
        if len(under_way) <= THREADS:
            return False
        if is_local or len(under_way) >= most:
            return True
        return sum(morsel.rows for morsel in under_way) > THREADS * pace.rows

    left = chain([first], morsels)
    begin = use_system_allocator if uses_system else None
    pool, is_done = Threads(most, "lancefs-scan", begin), False
    try:
        yield from prefetch(
            _cut(left, reader, pace) if is_local else left,
            start,
            is_full,
            lambda morsel, decoded: morsel.after(decoded.morsel),
        )
        is_done = True
    finally:
        # Threads that have nothing left to do give their memory back while the consumer goes on.
        pool.shutdown(wait=not is_done, cancel_futures=True)


def _cut(morsels: Iterator[Morsel], reader: MorselReader, pace: Pace) -> Iterator[Morsel]:
    """Yield the parts of long morsels that are decoded together, as far as is known before.

    What decoding leaves of a morsel waits until that is done; several parts have several threads.
    So has the last morsel, if a filter makes batches of any length.
    """
    for morsel in morsels if reader.request.filter is None else _share_last(morsels, pace):
        rest: Morsel | None = morsel
        while rest is not None:
            part = _fit_if_known(rest, reader, pace)
            rest = rest.after(part)
            part = part.trim()
            if part.rows:
                yield part


def _fit_if_known(morsel: Morsel, reader: MorselReader, pace: Pace) -> Morsel:
    """Return as many rows of a morsel as are decoded together, if that is known."""
    if morsel.rows <= _MIN_CUT:
        return morsel
    try:
        return reader.fit(morsel, pace)
    except LanceError:  # decoding the rows reports it, after those before them
        return morsel


def _share_last(morsels: Iterator[Morsel], pace: Pace) -> Iterator[Morsel]:
    """Yield morsels, and in place of the last one as many parts of it as there are threads."""
    last = next(morsels, None)
    for morsel in morsels:
        assert last is not None
        yield last
        last = morsel
    if last is not None:
        yield from pace.share(last, THREADS)


def _decode_inline(
    morsels: Iterator[Morsel], reader: MorselReader, pace: Pace
) -> Generator[DecodedMorsel, None, Iterator[Morsel]]:
    """Decode morsels in this thread until threads would pay.

    The first morsel is decoded here in any case: it may be all that is wanted.

    Returns:
        The morsels that are left.
    """
    spent = per_row = 0.0
    request, settings = reader.request, reader.request.settings
    most = settings.short_inline_seconds if request.is_short else settings.inline_seconds
    while (morsel := next(morsels, None)) is not None:
        if spent + per_row * morsel.rows > most:
            return chain([morsel], morsels)
        started = perf_counter()
        decoded = reader.read(morsel, pace)
        seconds = perf_counter() - started
        yield decoded
        rest = morsel.after(decoded.morsel)
        if rest is not None:
            morsels = chain(pace.split(rest), morsels)
        if not morsel.fragment.is_local:
            break
        spent, per_row = spent + seconds, seconds / decoded.morsel.rows
    return morsels


def do_each(do: Callable[[_Item], _Result], items: Iterable[_Item], most: int) -> Iterator[_Result]:
    """Call a function for each of some items, and yield the results in order.

    Args:
        do: The function.
        items: The items.
        most: How many are under way together, in threads; 1 for one after the other in this thread.
    """
    left = iter(items)
    first = list(islice(left, 2))
    if len(first) < 2 or most < 2:
        yield from map(do, chain(first, left))
        return
    with Threads(most, "lancefs-take") as pool:
        yield from prefetch(
            chain(first, left), partial(submit, pool, do), lambda waiting: len(waiting) >= most
        )
