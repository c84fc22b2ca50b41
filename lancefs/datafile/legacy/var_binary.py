"""Var-binary: strings and byte strings.

The page is at its n + 1 offsets (i64), which are positions in the file; the bytes lie anywhere.
In a nullable field an empty value is a missing one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.blocks import VariableWidth, offsets_of
from lancefs.datafile.legacy.column import Column
from lancefs.datafile.legacy.offsets import read_spans
from lancefs.datafile.legacy.pages import Pieces
from lancefs.datafile.legacy.plain import joined
from lancefs.errors import CorruptFile
from lancefs.storage import Steps


def read(column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Read pieces of a field of byte strings."""
    column.pages.check(pieces)
    spans = yield from read_spans(column.pages.extended(), pieces, 64)
    if np.any(spans.ends > column.pages.limit):
        raise CorruptFile(f"a value ends at byte {spans.ends.max()}, beyond the file")
    buffers = yield list(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))
    block = VariableWidth(offsets_of(spans.lengths), joined(buffers))
    return to_arrow(block, column.data_type, spans.lengths > 0 if column.nullable else None)
