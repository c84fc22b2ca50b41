"""Fields of data files 0.1 as outlines (see `datafile.outlines`): no value is read.

Byte strings are told by their offsets; plain values are never null.
"""

from __future__ import annotations

import pyarrow as pa

from lancefs.datafile.arrays import to_arrow
from lancefs.datafile.fields import Encoding
from lancefs.datafile.legacy import plain, var_binary
from lancefs.datafile.legacy.column import Column
from lancefs.datafile.legacy.page_slots import Pieces
from lancefs.datafile.outlines import LENGTHS, zeros
from lancefs.errors import CorruptFile
from lancefs.storage import Steps


def read(encoding: Encoding, column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Read pieces of a field that has pages and none below it.

    Args:
        encoding: As the file's own schema says.
        column: The field, of the type of an outline.
        pieces: What is wanted, in values.

    Raises:
        CorruptFile: The pages are damaged, or hold values of another type.
    """
    if encoding is Encoding.VAR_BINARY and column.data_type == LENGTHS:
        return (yield from var_binary.read_lengths(column, pieces))
    if encoding is Encoding.PLAIN and column.data_type != LENGTHS:
        plain.check(column.pages, pieces, column.data_type)
        return to_arrow(zeros(column.data_type, pieces.count), column.data_type, None)
    raise CorruptFile(f"values of another type than the field's, encoded as {encoding.name}")
