"""How long the values of a fragment are, and which are null, found out without decoding them."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.fields import Field
from lancefs.datafile.lengths import value_lengths
from lancefs.storage import run
from lancefs.table.fragment_reader import FragmentReader


def lengths_of(
    reader: FragmentReader, fields: Sequence[Field], ranges: Sequence[RowRange]
) -> list[Ints | None]:
    """Tell how many bytes the values of columns have, and which are null.

    Args:
        reader: Of the fragment.
        fields: Columns of the table.
        ranges: Offsets of rows, ascending and disjoint.

    Returns:
        For each column its lengths, below zero for nulls, 0 for other values of fixed width; None
        where the values must be read.

    Raises:
        LanceError: What tells the lengths cannot be read.
    """
    found: list[Ints | None] = [None] * len(fields)
    asked = []
    for position, field in enumerate(fields):
        files = [one for one in reader.fragment.files if field.id in one.fields]
        if len(files) == 1 and not files[0].is_legacy and not reader.fragment.overlays:
            asked.append((position, field, *reader.open_file(files[0])))
    steps = [(file, value_lengths(opened, field, ranges)) for _, field, file, opened in asked]
    for (position, *_), lengths in zip(asked, run(steps), strict=True):
        found[position] = lengths
    return found
