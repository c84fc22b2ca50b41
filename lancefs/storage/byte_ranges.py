"""Byte ranges: joined, split, and cut out of what was fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]
ByteRange: TypeAlias = tuple[int, int]  # start, end (exclusive), from the beginning of a file


def coalesce(ranges: Iterable[ByteRange], gap: int) -> list[ByteRange]:
    """Merge ranges that overlap or lie closer than `gap` bytes; empty ones vanish."""
    merged: list[ByteRange] = []
    for start, end in sorted(r for r in ranges if r[0] < r[1]):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def split(start: int, end: int, most: int) -> list[ByteRange]:
    """Cut a range into parts of at most `most` bytes."""
    return list(pairwise([*range(start, end, most), end]))


def cut(blocks: list[tuple[int, Bytes]], ranges: Sequence[ByteRange]) -> list[Bytes]:
    """Cut ranges out of the blocks (offset, bytes), sorted by offset, that hold them."""
    starts = np.array([offset for offset, _ in blocks], dtype=np.int64)
    found: list[Bytes] = []
    for start, end in ranges:
        if start == end:
            found.append(np.empty(0, dtype=np.uint8))
            continue
        offset, data = blocks[int(np.searchsorted(starts, start, side="right")) - 1]
        found.append(data[start - offset : end - offset])
    return found
