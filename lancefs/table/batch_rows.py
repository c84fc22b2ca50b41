"""The number of rows of a batch, estimated from the manifest: the wider the rows, the fewer."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lancefs.datafile.value_widths import has_variable_width, min_value_bytes
from lancefs.table.fragments import Fragment

# Estimated bytes of a batch.
_BATCH_BYTES = 8 * 1024 * 1024
_MIN_ROWS, MAX_ROWS = 64, 64 * 1024
# Assumed ratio of decoded to stored bytes.
_EXPANSION = 3


def fixed_row_bytes(types: Sequence[pa.DataType]) -> float | None:
    """Return the bytes of a row; None where a type has values of different lengths.

    Args:
        types: Types of the columns.
    """
    if any(has_variable_width(data_type) for data_type in types):
        return None
    return sum(min_value_bytes(data_type) for data_type in types)


def batch_rows_for(fragment: Fragment, types: Sequence[pa.DataType]) -> int:
    """Estimate how many rows make a batch of 8 MiB.

    Types of fixed width give the bytes of a row. With any other type, the size of the fragment's
    data files is the estimate: it includes columns that are not read, and is compressed.

    Args:
        fragment: The fragment whose rows are read.
        types: Types of the columns that are read.

    Returns:
        A power of two from 64 to `MAX_ROWS`.
    """
    row_bytes = fixed_row_bytes(types)
    if row_bytes is None:
        least = sum(min_value_bytes(data_type) for data_type in types)
        stored = sum(file.size or 0 for file in fragment.files)
        row_bytes = max(least, _EXPANSION * stored / max(1, fragment.physical_rows or 1))
    rows = int(min(MAX_ROWS, max(_MIN_ROWS, _BATCH_BYTES // max(1.0, row_bytes))))
    return 1 << (rows.bit_length() - 1)
