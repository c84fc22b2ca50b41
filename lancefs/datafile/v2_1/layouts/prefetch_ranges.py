"""Byte ranges to prefetch with the index of a remote page: an estimate of where rows lie.

Behind a network, the index of a page (its chunk table, or the starts of its rows) is one round of
requests, and the values that it leads to are another one. If all values were of like size, rows
would lie at their share of the page; most lie near there. So the bytes around that place are
fetched with the index, which mostly saves the second round.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.row_ranges import bounds_of
from lancefs.storage import GAP, ByteRange

# Bytes that are fetched around the places of all rows of a read, at most, and on each side of one
# place: both sides and the rows are read in about the time of a request.
_MOST, _MOST_OF_ONE = 1024 * 1024, 32 * 1024


class Unplaced(NamedTuple):
    """Values of which an index tells where each is.

    Attributes:
        values: Where all of them lie.
        pieces: Number of the chunks, or rows, that are found by the index.
        variation: How much the sizes of these vary: their standard deviation as a share of the
            mean, about.
    """

    values: ByteRange
    pieces: int
    variation: float


def spare_bytes(pages: int) -> int:
    """Return how many bytes are read around the rows of each page, where so many are read."""
    return _MOST // max(pages, 1)


def prefetch_ranges(
    unplaced: Unplaced, rows: int, wanted: Sequence[RowRange], spare: int
) -> list[ByteRange]:
    """Return the estimated ranges of rows of a page; none where prefetching them does not pay.

    Args:
        unplaced: The values of the page.
        rows: Number of rows of the page.
        wanted: Ranges of its rows, ascending and disjoint.
        spare: How many bytes are read around their places; see `spare_bytes`.
    """
    start, end = unplaced.values
    size, pieces = end - start, max(unplaced.pieces, 1)
    if not wanted or not rows:
        return []
    piece = -(-size // max(pieces - 1, 1))  # the last one may be short
    bounds = bounds_of(wanted) * (size / rows)
    # What lies between places that are near comes with them in one request.
    breaks = np.flatnonzero(bounds[1:, 0] - bounds[:-1, 1] > GAP + 2 * piece) + 1
    begins, ends = bounds[np.append(0, breaks), 0], bounds[np.append(breaks, len(bounds)) - 1, 1]
    spare = min(spare // (2 * len(begins)), _MOST_OF_ONE)
    if spare < piece and wanted[-1][0]:
        return []  # where the first rows lie is known
    # In the middle, the sum of sizes that vary by chance is off by no more in 95 of 100 pages.
    drift = int(unplaced.variation * piece * sqrt(pieces))
    margin = min(piece + drift, spare if spare >= piece else 2 * piece)
    return [
        (max(start + begin - margin, start), min(start + stop + margin, end))
        for begin, stop in zip(begins.astype(int).tolist(), ends.astype(int).tolist(), strict=True)
    ]
