"""The kinds of filters that each kind of index can answer, in words."""

from __future__ import annotations

from collections.abc import Mapping

from lancefs.index.segments import (
    HOLDS_ROW_IDS,
    TEXTS_HOLD_ROW_IDS,
    VECTORS_HOLD_ROW_IDS,
    is_over_vectors,
)
from lancefs.table.indices import Index

# By kind, what a filter may ask. An index narrows the scan; the filter is evaluated all the same.
_FILTERS: Mapping[str, tuple[str, ...]] = {
    "BTree": ("=", "IN", "ranges", "IS NULL", "prefixes"),
    "Bitmap": ("=", "<>", "IN", "ranges", "LIKE", "IS NULL", "counts"),
    "ZoneMap": ("=", "IN", "ranges", "IS NULL", "prefixes"),
    "LabelList": ("array_has", "array_has_any", "array_has_all"),
    "NGram": ("contains", "LIKE", "ILIKE", "starts_with", "ends_with", "=", "IN", "IS NULL"),
    "BloomFilter": ("=", "IN", "IS NULL"),
}


def answers_of(index: Index) -> tuple[str, ...]:
    """Return what a segment of an index is asked by lancefs; nothing where it is only listed.

    Args:
        index: The segment.
    """
    version = index.index_version or 0
    if is_over_vectors(index):
        return ("nearest",) if version in VECTORS_HOLD_ROW_IDS else ()
    kind = index.type or ""
    if kind == "Inverted":
        return ("search",) if version in TEXTS_HOLD_ROW_IDS else ()
    if version not in HOLDS_ROW_IDS.get(kind, {}):
        return ()
    has_nulls = kind == "LabelList" and version > 0
    return (*_FILTERS[kind], "IS NULL") if has_nulls else _FILTERS[kind]
