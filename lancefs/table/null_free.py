"""Whether rows of a fragment are known to have no nulls, found out without reading them."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.null_free_pages import known_without_nulls
from lancefs.storage import run
from lancefs.table.fragment_reader import FragmentReader


def all_valid(
    reader: FragmentReader, fields: Sequence[Field], ranges: Sequence[RowRange]
) -> list[bool]:
    """Tell for each field whether all its rows, and what is below them, are known to be valid.

    The metadata of columns is read for it, no values. Where the answer is no, there may still be no
    nulls.

    Args:
        reader: Of the fragment.
        fields: Columns of the table.
        ranges: Offsets of rows, ascending and disjoint.

    Raises:
        LanceError: The metadata cannot be read.
    """
    found = [False] * len(fields)
    asked = []
    files = [(one, frozenset(one.columns)) for one in reader.fragment.files]
    for position, field in enumerate(fields):
        holding = [(one, held) for one, ids in files if (held := field.prune(ids)) is not None]
        if len(holding) != 1 or holding[0][0].is_legacy or reader.fragment.overlays:
            continue
        if holding[0][1] == field:
            asked.append((position, field, *reader.open_file(holding[0][0])))
    steps = [(file, known_without_nulls(opened, field, ranges)) for _, field, file, opened in asked]
    for (position, *_), answer in zip(asked, run(steps), strict=True):
        found[position] = answer
    return found
