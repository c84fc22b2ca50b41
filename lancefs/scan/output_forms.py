"""The forms in which a scan can return a column: values, dictionary, validity, 64-bit decimals."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple


class OutputForms(NamedTuple):
    """The columns that come in another form than their values.

    A column that is in several of the sets comes as its validity, else dictionary-encoded.

    Attributes:
        dictionary: Field ids of string columns that come dictionary-encoded, with int32 indices.
        validity: Field ids of columns that come as their validity: true where there is a value,
            null where none is.
        decimal64: Field ids of columns of decimals of up to 18 digits that come in 64 bits.
        items: Field ids of columns of lists of strings whose items come dictionary-encoded, with
            int32 indices. Filters, and reads of few rows, take these columns as their values.
    """

    dictionary: frozenset[int] = frozenset()
    validity: frozenset[int] = frozenset()
    decimal64: frozenset[int] = frozenset()
    items: frozenset[int] = frozenset()

    def with_dictionaries(self, ids: Set[int]) -> OutputForms:
        """Return the forms with some more columns dictionary-encoded."""
        return self._replace(dictionary=self.dictionary | ids) if ids else self

    def only_dictionaries(self) -> OutputForms:
        """Return the forms with those of string columns alone; others come as values."""
        return OutputForms(self.dictionary)


# All columns come as their values.
AS_VALUES = OutputForms()
