"""Which file reads which encoding of a data file 0.1."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lancefs.datafile.fields import Encoding
from lancefs.datafile.legacy import dictionary, nulls, plain, var_binary
from lancefs.datafile.legacy.column import Column
from lancefs.datafile.legacy.page_slots import Pieces
from lancefs.errors import UnsupportedFeature
from lancefs.storage import Steps

_READERS: dict[Encoding, Callable[[Column, Pieces], Steps[pa.Array]]] = {
    Encoding.NONE: nulls.read,
    Encoding.PLAIN: plain.read,
    Encoding.VAR_BINARY: var_binary.read,
    Encoding.DICTIONARY: dictionary.read,
    # RLE has a number, but no release wrote it.
}


def read_column(encoding: Encoding, column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Read pieces of a field that has pages and none below it.

    Args:
        encoding: As the file's own schema says.
        column: The field.
        pieces: What is wanted, in values.

    Returns:
        An array of the column's type with as many values as the pieces have.

    Raises:
        CorruptFile: The pages are damaged, or hold values of another type.
        UnsupportedFeature: The encoding is not known.
    """
    if encoding not in _READERS:
        raise UnsupportedFeature(f"the encoding {encoding.name} of data files 0.1")
    return _READERS[encoding](column, pieces)
