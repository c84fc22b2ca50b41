"""Limits on rows up to which kernels are faster than the page-by-page path (2.0 and later).

The page-by-page path costs Python some time for each leaf, and some hundred microseconds for each
range of rows, however few these are; for many rows of a column, whole pages are quicker.
"""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.row_ranges import count_rows

# Most rows of a point read, also as a share of the rows of a column: beyond them, reading whole
# pages is quicker.
MAX_ROWS = 4096
_MAX_SHARE = 1 / 4
# A column of up to this many rows is read by a point read even if all of its rows are wanted.
_FEW_OF_ALL = 256
# The same of leaves in lists and nullable structs, whose pages take several times as long, where
# rows lie apart: ranges have fewer rows than this on average.
_MAX_NESTED_ROWS = 256 * 1024
_APART = 64
# Most rows, and most items of lists, that are read as one from files that have few each.
MAX_JOINT_ROWS = 1024 * 1024
# Most items of lists that the rows of a point read are likely to have: a thousand lists of 500
# items are read in a third of the time that whole pages take.
_MAX_ITEMS = 512 * 1024
# Contiguous rows of `_MIN_LEAVES` leaves or more are point reads too, up to `_MAX_CONTIGUOUS` rows.
_MIN_LEAVES, _MAX_CONTIGUOUS = 16, 16 * 1024
# So are spans of rows that lie apart, such as pages of an index. Each has at least a block of
# packed numbers; the limits on average and in total let Arrow use memory again.
_MIN_SPAN, _MAX_SPAN, _MAX_OF_SPANS = 1024, 64 * 1024, 1024 * 1024
# If some columns are not plain, the kernels of plain columns read the plain ones only from this
# number of contiguous rows on.
_FEW_PLAIN = 256


def is_worthwhile(count: int, rows: int, values: int, most: int = MAX_ROWS) -> bool:
    """Whether rows are few enough to be read singly.

    Args:
        count: Number of wanted rows.
        rows: Number of rows of the column.
        values: Number of values of these, which are the items where the column has lists.
        most: Rows that are read in this way at most; see `most_rows`.
    """
    is_few = 0 < count <= min(most, max(int(rows * _MAX_SHARE), _FEW_OF_ALL))
    # A damaged column may have no rows where some are wanted.
    return is_few and rows > 0 and count * values // rows <= max(most, _MAX_ITEMS)


def most_rows(ranges: Sequence[RowRange]) -> int:
    """Return how many rows in some ranges are read by the kernel at most.

    Rows that follow each other are unpacked a block at a time, and the page-by-page path takes some
    hundred microseconds for each range.
    """
    if len(ranges) < 2 or count_rows(ranges) < _MIN_SPAN * len(ranges):
        return MAX_ROWS
    return min(_MAX_SPAN * len(ranges), _MAX_OF_SPANS)


def most_nested_rows(ranges: Sequence[RowRange]) -> int:
    """Return how many rows in some ranges are read by the kernel of leaves with levels at most."""
    is_apart = count_rows(ranges) < _APART * len(ranges)
    return _MAX_NESTED_ROWS if is_apart else most_rows(ranges)


def are_contiguous(leaves: int, ranges: Sequence[RowRange]) -> bool:
    """Whether contiguous rows of several leaves are read faster by a point read.

    Args:
        leaves: Number of leaves.
        ranges: Ranges of rows.
    """
    return leaves >= _MIN_LEAVES and len(ranges) == 1 and 0 < count_rows(ranges) <= _MAX_CONTIGUOUS


def are_plainly_read(are_numbers: bool, ranges: Sequence[RowRange]) -> bool:
    """Whether rows of plain columns are quicker read by a kernel of theirs; see `PlainColumns`.

    Args:
        are_numbers: Whether all columns may be plain. Few rows of others beside them are quicker
            read with them, by one call of another kernel.
        ranges: The rows.
    """
    count = count_rows(ranges) if len(ranges) == 1 else 0
    return count > (0 if are_numbers else _FEW_PLAIN)
