"""What is found out about columns from their metadata, and kept for the next read.

A table that is opened again has the same data files: what was found out is kept with the reader of
the file (`known_files.py`), where the file has all columns of its fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lancefs.datafile.fields import Field

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import RowSizes

_Found = TypeVar("_Found")

_MAX_KEPT = 64  # groups of columns of which something is kept


class FoundColumns:
    """What was found out about columns of a fragment from their metadata.

    Attributes:
        row_sizes: The estimated sizes of rows, by the ids of the columns.
        with_dictionaries: Those whose pages have dictionaries, by the ids of the columns asked for.
        zipped: Those with full-zip pages, likewise.
    """

    def __init__(self) -> None:
        self.row_sizes: dict[tuple[int, ...], RowSizes] = {}
        self.with_dictionaries: dict[tuple[int, ...], frozenset[int]] = {}
        self.zipped: dict[tuple[int, ...], frozenset[int]] = {}


def find_once(
    known: dict[tuple[int, ...], _Found], fields: Sequence[Field], find: Callable[[], _Found]
) -> _Found:
    """Return what is found out about columns, and keep it.

    Args:
        known: What is kept, by the ids of columns.
        fields: The columns.
        find: Finds it out.
    """
    key = tuple([field.id for field in fields])
    found = known.get(key)
    if found is None:
        found = find()
        if len(known) >= _MAX_KEPT:
            known.clear()
        known[key] = found
    return found
