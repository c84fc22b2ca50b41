"""The interface of the reader of a data file of any format, and reading fields one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.fields import Field
from lancefs.datafile.v2_1.leaf_columns import FetchedRows, LeafField
from lancefs.errors import Refusal, locating
from lancefs.storage import Reads, together

if TYPE_CHECKING:
    from lancefs.datafile.row_sizes import PageSizes


class FieldReader(Protocol):
    """Reads fields of one data file."""

    @property
    def num_rows(self) -> int:
        """Number of rows of the file."""
        ...

    @property
    def decodes_dictionaries(self) -> bool:
        """Whether a field of strings can be read as a field of a dictionary type."""
        ...

    @property
    def reads_decimal64(self) -> bool:
        """Whether decimals can be read in 64 bits; see `decimal64_field`."""
        ...

    def read(self, field: Field, ranges: Sequence[RowRange]) -> Reads[pa.Array]:
        """Read rows of a field as an array of its storage type.

        Args:
            field: The field, pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
        """
        ...

    def read_all(
        self, fields: Sequence[Field], ranges: Sequence[RowRange]
    ) -> Reads[list[pa.Array]]:
        """Read the same rows of several fields; see `read`. Errors name the field."""
        ...

    def fetch(
        self,
        leaves: Sequence[LeafField],
        ranges: Sequence[RowRange],
        refusal: Refusal | None = None,
    ) -> Reads[FetchedRows] | None:
        """Fetch rows that are decoded together with the rows of other files.

        Args:
            leaves: The leaves of fields that are pruned to what the file holds.
            ranges: Rows of the file, ascending and disjoint.
            refusal: The error of a kernel that refused pages of the leaves, so that all of them are
                read page by page; None if none did.

        Returns:
            None if the format cannot decode several files as one.
        """
        ...

    def page_sizes(self, fields: Sequence[Field]) -> Sequence[Sequence[PageSizes]]:
        """Return the sizes of the pages of each field's columns."""
        ...


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
