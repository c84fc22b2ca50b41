"""Pages of offsets, which lists and byte strings have: one more than there are values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lancefs.datafile.blocks import Ints, offsets_of
from lancefs.datafile.legacy.page_slots import Pages, Pieces
from lancefs.datafile.legacy.plain import read_values
from lancefs.errors import CorruptFile
from lancefs.storage import Steps


@dataclass(frozen=True, slots=True)
class Spans:
    """The length of every value, and where the values of each piece start and end, together."""

    lengths: Ints
    starts: Ints
    ends: Ints


def read_spans(pages: Pages, pieces: Pieces, bits: int) -> Steps[Spans]:
    """Read the offsets of pieces.

    Args:
        pages: Pages of offsets, with the number of offsets as their lengths.
        pieces: What is wanted, in values.
        bits: The width of an offset.

    Raises:
        CorruptFile: The offsets descend, or lie outside of their page.
    """
    wanted = pieces.extended()
    block = yield from read_values(pages, wanted, bits)
    offsets = block.values.astype(np.int64)
    firsts = offsets_of(wanted.lengths)[:-1]
    lasts = firsts + pieces.lengths
    lengths = np.delete(np.diff(offsets), lasts[:-1])  # without those between two pieces
    if np.any(offsets < 0) or np.any(lengths < 0):
        raise CorruptFile("the offsets of values descend")
    return Spans(lengths, offsets[firsts], offsets[lasts])
