"""The forms in which a scan can return a column: values, dictionary, validity, 64-bit decimals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from lancefs.arguments import check_list
from lancefs.datafile.decimals import decimal64_field
from lancefs.datafile.fields import Field
from lancefs.table.stored_dictionaries import is_encodable

if TYPE_CHECKING:
    from lancefs.table.open_version import OpenVersion


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


def forms_of(
    version: OpenVersion,
    has_expressions: bool,
    *,
    dictionary_columns: Collection[str],
    validity_columns: Collection[str],
    decimal64_columns: Collection[str],
) -> OutputForms:
    """Return the forms in which the columns of some options of a scan come.

    Args:
        version: The version of the table.
        has_expressions: Whether the scan computes its columns.
        dictionary_columns: See `LanceDataset.scanner`.
        validity_columns: The same.
        decimal64_columns: The same.

    Raises:
        ColumnNotFound: A column is not in the table.
        TypeError: An option is no list of names.
        ValueError: A column cannot come in the form, or the scan computes its columns.
    """
    if dictionary_columns == validity_columns == decimal64_columns == ():
        return AS_VALUES
    for option, names in (
        ("validity_columns", validity_columns),
        ("decimal64_columns", decimal64_columns),
    ):
        check_list(option, names)
        if names and has_expressions:
            raise ValueError(f"{option} needs columns by their names, not expressions")
    validity = frozenset(version.column(name).id for name in validity_columns)
    rule = "columns of strings, and of lists of strings, come dictionary-encoded"
    encoded = _of_kind(version, "dictionary_columns", dictionary_columns, is_encodable, rule)
    dictionary = frozenset(field.id for field in encoded if not field.children)
    items = frozenset(field.id for field in encoded if field.children)
    rule = "decimals of up to 18 digits come in 64 bits, with pyarrow 19 or newer"
    decimals = _of_kind(version, "decimal64_columns", decimal64_columns, _has_decimal64, rule)
    decimal64 = frozenset(field.id for field in decimals)
    return OutputForms(dictionary - validity, validity, decimal64 - validity, items - validity)


def _of_kind(
    version: OpenVersion,
    option: str,
    names: Collection[str],
    is_fit: Callable[[Field], bool],
    rule: str,
) -> Sequence[Field]:
    """Return the columns of an option, all of which must be of some kind.

    Args:
        version: The version of the table.
        option: Its name.
        names: The columns.
        is_fit: Whether a column is of the kind.
        rule: What the error says of columns of the kind.
    """
    check_list(option, names)
    fields = [version.column(name) for name in names]
    other = next((field for field in fields if not is_fit(field)), None)
    if other is not None:
        shown = f"{option} has {other.name!r}, which is {other.shown_type}"
        raise ValueError(f"{shown}; only {rule}")
    return fields


def _has_decimal64(field: Field) -> bool:
    return decimal64_field(field) is not None
