"""Reading several fields with a reader that reads one field at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Field
from lancefs.errors import locating
from lancefs.storage import Reads, together

ReadField = Callable[[Field, Sequence[RowRange]], Reads[pa.Array]]


def read_fields(
    read: ReadField, url: str, fields: Sequence[Field], ranges: Sequence[RowRange]
) -> Reads[list[pa.Array]]:
    """Read the same rows of several fields, in the same rounds of requests.

    Args:
        read: Reads one field.
        url: The file, for error messages, which also name the field.
        fields: The fields.
        ranges: Rows of the file, ascending and disjoint.
    """
    return (yield from together([_read_field(read, url, field, ranges) for field in fields]))


def _read_field(
    read: ReadField, url: str, field: Field, ranges: Sequence[RowRange]
) -> Reads[pa.Array]:
    with locating(url, field.name):
        return (yield from read(field, ranges))
