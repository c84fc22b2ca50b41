"""Var-binary: strings and byte strings.

The page is at its n + 1 offsets (i64), which are positions in the file; the bytes lie anywhere.
In a nullable field an empty value is a missing one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.blocks import FixedWidth, Mask, VariableWidth, offsets_of
from lancefs.datafile.buffers import check_size
from lancefs.datafile.legacy.column import Column
from lancefs.datafile.legacy.offsets import Spans, read_spans
from lancefs.datafile.legacy.page_slots import Pieces
from lancefs.datafile.legacy.plain import joined
from lancefs.errors import CorruptFile
from lancefs.storage import Steps


def read(column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Read pieces of a field of byte strings."""
    spans = yield from _spans(column, pieces)
    check_size(int(spans.lengths.sum()))
    buffers = yield list(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))
    block = VariableWidth(offsets_of(spans.lengths), joined(buffers))
    return to_arrow(block, column.data_type, _valid(column, spans))


def read_lengths(column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Read how long the byte strings of an outline are."""
    spans = yield from _spans(column, pieces)
    return to_arrow(FixedWidth(64, spans.lengths), column.data_type, _valid(column, spans))


def _spans(column: Column, pieces: Pieces) -> Steps[Spans]:
    column.pages.check(pieces)
    spans = yield from read_spans(column.pages.extended(), pieces, 64)
    if np.any(spans.ends > column.pages.limit):
        raise CorruptFile(f"a value ends at byte {spans.ends.max()}, beyond the file")
    return spans


def _valid(column: Column, spans: Spans) -> Mask | None:
    return spans.lengths > 0 if column.nullable else None
