"""Byte ranges of files: coalesce them, split them, cut them out of fetched blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

# Bytes of a file: a read-only array of shape (length,).
Bytes: TypeAlias = npt.NDArray[np.uint8]
# Start and end (exclusive), in bytes from the beginning of a file.
ByteRange: TypeAlias = tuple[int, int]


class SparseRanges(list[ByteRange]):
    """Ranges of a mapped file of which a decoder looks at a few bytes only.

    Reading them counts nothing: the decoder tells `File.looked_at` how many bytes it looked at.
    """


def coalesce(ranges: Iterable[ByteRange], gap: int) -> list[ByteRange]:
    """Merge ranges that overlap or lie at most `gap` bytes apart.

    Args:
        ranges: Byte ranges, in any order.
        gap: Bytes between ranges that are read, rather than asked for apart.

    Returns:
        Disjoint ranges in ascending order, without empty ranges.
    """
    merged: list[ByteRange] = []
    for start, end in sorted(r for r in ranges if r[0] < r[1]):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def split(start: int, end: int, most: int) -> list[ByteRange]:
    """Split a range into consecutive ranges of at most `most` bytes."""
    return list(pairwise([*range(start, end, most), end]))


def cut(blocks: Sequence[tuple[int, Bytes]], ranges: Sequence[ByteRange]) -> list[Bytes]:
    """Return the bytes of ranges as slices of fetched blocks.

    Args:
        blocks: (offset in the file, bytes) of each block, in ascending order of offsets.
        ranges: The ranges; each one that is not empty lies within one block.
    """
    starts = np.array([offset for offset, _ in blocks], dtype=np.int64)
    slices: list[Bytes] = []
    for start, end in ranges:
        if start == end:
            slices.append(np.empty(0, dtype=np.uint8))
            continue
        offset, data = blocks[int(np.searchsorted(starts, start, side="right")) - 1]
        slices.append(data[start - offset : end - offset])
    return slices


def gaps(wanted: ByteRange, known: Sequence[ByteRange]) -> list[ByteRange]:
    """Return the parts of a range that lie in none of some others.

    Args:
        wanted: The range.
        known: The others, disjoint and ascending.
    """
    parts, (at, end) = [], wanted
    for start, stop in known:
        if at < start < end:
            parts.append((at, start))
        if start < end:
            at = max(at, stop)
    return [*parts, (at, end)] if at < end else parts


def join(blocks: Sequence[tuple[int, Bytes]], wanted: ByteRange) -> Bytes:
    """Return the bytes of a range out of blocks, of one without a copy.

    Args:
        blocks: (offset in the file, bytes) of each block, in ascending order of offsets; blocks may
            overlap.
        wanted: The range, all of which is in the blocks.
    """
    at, end = wanted
    parts = []
    for offset, data in blocks:
        if offset <= at < min(offset + len(data), end):
            parts.append(data[at - offset : end - offset])
            at += len(parts[-1])
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.uint8), *parts])
