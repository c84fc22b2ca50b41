"""`Reads`: decoders that do no I/O but yield the byte ranges that they need, in rounds.

A decoder is a generator (`Reads`) that yields the byte ranges it needs next, gets their bytes sent
in, and returns its result. `run` drives many decoders at once, so that the ranges which all columns
of a read need go out as one round of requests.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from operator import itemgetter
from typing import TypeAlias, TypeVar

from lancefs.errors import CorruptFile
from lancefs.storage.byte_ranges import ByteRange, Bytes, gaps, join
from lancefs.storage.file import File, read_all

T = TypeVar("T")
# A computation that asks for byte ranges and gets their bytes, in the same order.
Reads: TypeAlias = Generator[Sequence[ByteRange], Sequence[Bytes], T]


def run(steps: Sequence[tuple[File, Reads[T]]]) -> list[T]:
    """Drive computations to their ends, reading in each round what all of them ask for.

    Args:
        steps: Each computation with the file that its byte ranges refer to.

    Returns:
        The results, in order.

    Raises:
        ReadFailed: A file was rewritten meanwhile, or cannot be read.
    """
    files = {id(file): file for file, _ in steps}.values()
    try:
        results = _drive(steps)
    except CorruptFile:
        for file in files:
            file.let_go()  # it may have been read while something wrote it
        raise
    for file in files:
        file.verify()
    return [results[position] for position in range(len(steps))]


def _drive(steps: Sequence[tuple[File, Reads[T]]]) -> dict[int, T]:
    """Return the results of computations by their positions; see `run`."""
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[ByteRange]] = {}
    for position, (_, step) in enumerate(steps):
        _advance(position, step, None, waiting, results)
    while waiting:
        order = list(waiting)
        data = read_all([(steps[position][0], waiting.pop(position)) for position in order])
        for position, buffers in zip(order, data, strict=True):
            _advance(position, steps[position][1], buffers, waiting, results)
    return results


def _advance(
    position: int,
    step: Reads[T],
    buffers: Sequence[Bytes] | None,
    waiting: dict[int, Sequence[ByteRange]],
    results: dict[int, T],
) -> None:
    try:
        waiting[position] = step.send(buffers)  # type: ignore[arg-type]  # the first send is None
    except StopIteration as stop:
        results[position] = stop.value


def together(steps: Sequence[Reads[T]]) -> Reads[list[T]]:
    """Join computations over one file into one that asks in each round for what all of them need.

    Args:
        steps: The computations.

    Returns:
        Their results, in order.
    """
    if len(steps) == 1:  # nothing to join, as for the one page of a small file
        return [(yield from steps[0])]
    results: dict[int, T] = {}
    waiting: dict[int, Sequence[ByteRange]] = {}
    for position, step in enumerate(steps):
        _advance(position, step, None, waiting, results)
    while waiting:
        asked = list(waiting.items())
        waiting = {}
        data = iter((yield [byte_range for _, ranges in asked for byte_range in ranges]))
        for position, ranges in asked:
            buffers = [next(data) for _ in ranges]
            _advance(position, steps[position], buffers, waiting, results)
    return [results[position] for position in range(len(steps))]


def with_prefetch(step: Reads[T], ahead: Sequence[ByteRange]) -> Reads[T]:
    """Have a computation prefetch bytes in its first round that it may need in a later one.

    Args:
        step: The computation.
        ahead: Byte ranges of its file, disjoint and ascending. What it needs of them later is not
            asked for again.

    Returns:
        Its result.
    """
    try:
        wanted = next(step)
    except StopIteration as stop:
        result: T = stop.value
        return result
    buffers = list((yield [*wanted, *ahead]))
    held = [(start, data) for (start, _), data in zip(ahead, buffers[len(wanted) :], strict=True)]
    del buffers[len(wanted) :]
    while True:
        try:
            wanted = step.send(buffers)
        except StopIteration as stop:
            result = stop.value
            return result
        missing = [gap for one in wanted for gap in gaps(one, ahead)]
        data = (yield missing) if missing else ()
        blocks = sorted(
            [*held, *((start, own) for (start, _), own in zip(missing, data, strict=True))],
            key=itemgetter(0),
        )
        buffers = [join(blocks, one) for one in wanted]
