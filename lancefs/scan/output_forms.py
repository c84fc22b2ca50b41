"""The forms in which a scan can return a column: values, dictionary, validity, 64-bit decimals.

And the schemas of batches, which follow from them. Of few rows, a schema takes longer to make than
the columns to decode, so that schemas are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from lancefs.arguments import check_list
from lancefs.datafile.decimals import decimal64_field
from lancefs.datafile.extensions import is_shown_as_stored
from lancefs.datafile.fields import Blobs, CacheByFields, Field
from lancefs.datafile.logical_types import decimal64_type
from lancefs.datafile.validity import VALIDITY
from lancefs.table.dictionary_columns import encoded_type
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

_Schemas: TypeAlias = dict[tuple[Blobs, OutputForms], pa.Schema]
_CACHE = CacheByFields[_Schemas]()


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


def schema_of(fields: Iterable[Field], blobs: Blobs, forms: OutputForms = AS_VALUES) -> pa.Schema:
    """Return the schema of batches.

    Args:
        fields: The columns, in order.
        blobs: Whether blob columns show where their bytes are, or the bytes.
        forms: Which columns come in another form than their values.
    """
    columns = tuple(fields)
    cached = _cached_schemas(columns)
    if cached is None:
        return _schema(columns, blobs, forms)
    schema = cached.get((blobs, forms))
    if schema is None:
        schema = cached[blobs, forms] = _schema(columns, blobs, forms)
    return schema


def have_fixed_types(fields: Sequence[Field]) -> bool:
    """Tell whether the types of columns are the stored ones, whatever the application registers.

    Args:
        fields: The columns.
    """
    return _cached_schemas(fields) is not None


def _cached_schemas(fields: Sequence[Field]) -> _Schemas | None:
    """Return the schemas that are kept for some columns; None if their types are not fixed."""
    found = _CACHE.find(fields) if fields else (fields, {})
    if found is not None:
        return found[1]
    if not all(map(is_shown_as_stored, fields)):
        return None
    schemas: _Schemas = {}
    _CACHE.put(fields, schemas)
    return schemas


def _schema(fields: Sequence[Field], blobs: Blobs, forms: OutputForms) -> pa.Schema:
    columns = []
    for field in fields:
        shown = field.to_arrow(blobs)
        if field.id in forms.validity:
            shown = pa.field(shown.name, VALIDITY)
        elif field.id in forms.dictionary or field.id in forms.items:
            shown = shown.with_type(encoded_type(shown.type))
        elif field.id in forms.decimal64:
            shown = shown.with_type(decimal64_type(shown.type) or shown.type)
        columns.append(shown)
    return pa.schema(columns)
