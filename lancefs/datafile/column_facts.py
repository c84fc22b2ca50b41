"""A cache of facts about columns that page metadata tells: row sizes, dictionaries, full-zip pages.

A table that is opened again has the same data files: facts are cached with the reader of the file
(`reader_cache.py`), where the file has all columns of its fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lancefs.datafile.fields import Field

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import RowSizes

_Fact = TypeVar("_Fact")

_MAX_GROUPS = 64  # groups of columns about which a fact is cached


class ColumnFacts:
    """Facts about columns of a fragment, by the ids of the columns that were asked for.

    Attributes:
        row_sizes: The estimated sizes of rows.
        with_dictionaries: Ids of those whose pages have dictionaries.
        zipped: Ids of those with full-zip pages.
    """

    def __init__(self) -> None:
        self.row_sizes: dict[tuple[int, ...], RowSizes] = {}
        self.with_dictionaries: dict[tuple[int, ...], frozenset[int]] = {}
        self.zipped: dict[tuple[int, ...], frozenset[int]] = {}


def cached_fact(
    cache: dict[tuple[int, ...], _Fact], fields: Sequence[Field], find: Callable[[], _Fact]
) -> _Fact:
    """Return a fact about columns, found once.

    Args:
        cache: An attribute of `ColumnFacts`.
        fields: The columns.
        find: Finds the fact in page metadata.
    """
    key = tuple([field.id for field in fields])
    fact = cache.get(key)
    if fact is None:
        fact = find()
        if len(cache) >= _MAX_GROUPS:
            cache.clear()
        cache[key] = fact
    return fact
