"""The schemas of the batches of a scan.

Of few rows, a schema takes longer to make than the columns to decode, so that schemas are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from lancefs.datafile.extensions import is_shown_as_stored
from lancefs.datafile.fields import Blobs, CacheByFields, Field
from lancefs.datafile.logical_types import decimal64_type
from lancefs.datafile.validity import VALIDITY
from lancefs.scan.output_forms import AS_VALUES, OutputForms
from lancefs.table.dictionary_columns import encoded_type

_Schemas: TypeAlias = dict[tuple[Blobs, OutputForms], pa.Schema]
_CACHE = CacheByFields[_Schemas]()


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
