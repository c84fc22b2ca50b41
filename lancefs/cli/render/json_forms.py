"""Values as JSON, where their Arrow type decides the form."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa

from lancefs.cli.render.text import jsonable, object_of
from lancefs.datafile.logical_types import is_list
from lancefs.short_texts import interval_text

JsonForm: TypeAlias = Callable[[Any], Any]

_NANOSECONDS = 1_000_000_000  # of a second


def json_form(data_type: pa.DataType) -> JsonForm | None:
    """Return what makes the Python values of a type ready for JSON; None where `jsonable` does.

    Durations in nanoseconds, which are whole numbers in Python, become seconds as all durations.
    Intervals, which are tuples, and times of which Python has only texts become ISO 8601. Maps
    become objects, or lists of pairs where a key is there twice: an object would lose an item.

    Args:
        data_type: The type of a column, before `readable` casts it.
    """
    if isinstance(data_type, pa.BaseExtensionType):
        return json_form(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return json_form(data_type.value_type)
    if pa.types.is_duration(data_type) and data_type.unit == "ns":
        return _present(lambda value: value / _NANOSECONDS)
    if pa.types.is_interval(data_type):
        return _present(interval_text)
    if pa.types.is_timestamp(data_type):
        return _present(_iso_time)
    if pa.types.is_map(data_type):
        return _map_form(data_type)
    if is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        form = json_form(data_type.value_type)
        return form and _present(lambda items: [form(item) for item in items])
    return _struct_form(data_type) if pa.types.is_struct(data_type) else None


def _iso_time(value: datetime | str) -> str:
    """Return a time in ISO 8601; Arrow's texts have a blank in it."""
    return value.replace(" ", "T", 1) if isinstance(value, str) else value.isoformat()


def _struct_form(data_type: pa.StructType) -> JsonForm | None:
    forms = {field.name: json_form(field.type) for field in data_type}
    if not any(forms.values()):
        return None
    return _present(lambda value: {k: (forms[k] or jsonable)(item) for k, item in value.items()})


def _map_form(data_type: pa.MapType) -> JsonForm:
    key_form = json_form(data_type.key_type) or jsonable
    item_form = json_form(data_type.item_type) or jsonable
    return _present(
        lambda pairs: object_of([(key_form(key), item_form(item)) for key, item in pairs])
    )


def _present(form: JsonForm) -> JsonForm:
    return lambda value: None if value is None else form(value)
