"""Several fields at once, for readers that know how to read one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Field
from lancefs.errors import locating
from lancefs.storage import Steps, together

ReadField = Callable[[Field, Sequence[RowRange]], Steps[pa.Array]]


def read_fields(
    read: ReadField, url: str, fields: Sequence[Field], ranges: Sequence[RowRange]
) -> Steps[list[pa.Array]]:
    """Read the same rows of several fields, in the same rounds of requests.

    Args:
        read: Reads one field.
        url: The file, which errors name together with the field.
        fields: The fields.
        ranges: Rows of the file, ascending and disjoint.
    """
    return (yield from together([_named(read, url, field, ranges) for field in fields]))


def _named(read: ReadField, url: str, field: Field, ranges: Sequence[RowRange]) -> Steps[pa.Array]:
    with locating(url, field.name):
        return (yield from read(field, ranges))
