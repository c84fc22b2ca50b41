"""Nulls: fields of the null type have pages of a length, without bytes."""

from __future__ import annotations

import pyarrow as pa

from lancefs.datafile.legacy.column import Column
from lancefs.datafile.legacy.page_slots import Pieces
from lancefs.errors import UnsupportedFeature
from lancefs.storage import Steps


def read(column: Column, pieces: Pieces) -> Steps[pa.Array]:
    """Return nulls for pieces of a field of the null type."""
    if not pa.types.is_null(column.data_type):
        raise UnsupportedFeature(f"values of type {column.data_type} without a known encoding")
    column.pages.check(pieces)
    yield from ()
    return pa.nulls(pieces.count)
