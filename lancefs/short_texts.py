"""Values as short texts, for the cells of tables in terminals, notebooks and reports.

A column is first cast to a type that Python knows (`readable`), then made Python values
(`python_values`), each of which becomes a line (`cell`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.fields import Field
from lancefs.datafile.logical_types import map_leaves
from lancefs.printable import printable, shortened

NULL = "null"
_MAX_ITEMS = 4  # of a list
_MAX_CHARACTERS = 200  # of a value

# What conversions to Python values raise: of a value that is out of range, no text in UTF-8, or a
# time zone that nobody knows.
_NO_VALUE = (OverflowError, ValueError, KeyError, pa.ArrowException)


def readable_columns(fields: Sequence[Field]) -> list[str]:
    """Return the names of the columns whose types this release supports."""
    return [field.name for field in fields if field.shown_type is not None]


def cell(value: Any) -> str:
    """Format a value as one short line, with control characters escaped."""
    return shortened(printable(_format(value)), _MAX_CHARACTERS)


def readable(table: pa.Table) -> pa.Table:
    """Cast columns to types whose values become Python values without pandas: no nanoseconds.

    Time zones that this machine does not know are left out: the times are those of UTC.
    """
    fields = [pa.field(field.name, plain_type(field.type)) for field in table.schema]
    columns = [
        column if column.type == field.type else _cast_plain(column, field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column of `readable` as Python values.

    A value that Python's type does not hold, such as a date after the year 9999, is the text that
    Arrow makes of it.
    """
    try:
        return list(column.to_pylist())
    except _NO_VALUE:
        return [_python_value(scalar) for scalar in column]


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type that `readable` casts values of a type to."""
    if _is_uuid(data_type):  # whose texts are not those of their bytes
        return data_type
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if pa.types.is_duration(data_type) and data_type.unit == "ns":
        return pa.int64()
    is_time = pa.types.is_timestamp(data_type) or pa.types.is_time64(data_type)
    if is_time and data_type.unit == "ns":
        return pa.string()
    if pa.types.is_timestamp(data_type) and not _knows_zone(data_type.tz):
        return pa.timestamp(data_type.unit)
    if pa.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([_plain_field(field) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(plain_type(data_type.key_type), _plain_field(data_type.item_field))
    if pa.types.is_list(data_type):
        return pa.list_(_plain_field(data_type.value_field))
    if pa.types.is_large_list(data_type):
        return pa.large_list(_plain_field(data_type.value_field))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(_plain_field(data_type.value_field), data_type.list_size)
    return data_type


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def _cast_plain(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    try:
        return column.cast(target)
    except pa.ArrowInvalid:  # nanoseconds become texts, for which their zone must be known
        return column.cast(map_leaves(column.type, _without_zone)).cast(target)


def _without_zone(data_type: pa.DataType) -> pa.DataType:
    """Return a leaf type without the time zone of a timestamp."""
    if _is_uuid(data_type):
        return data_type
    if isinstance(data_type, pa.BaseExtensionType):
        return map_leaves(data_type.storage_type, _without_zone)
    if pa.types.is_dictionary(data_type):
        return map_leaves(data_type.value_type, _without_zone)
    return pa.timestamp(data_type.unit) if pa.types.is_timestamp(data_type) else data_type


def _is_uuid(data_type: pa.DataType) -> bool:
    is_extension = isinstance(data_type, pa.BaseExtensionType)
    return bool(is_extension and data_type.extension_name == "arrow.uuid")


@lru_cache(maxsize=1024)
def _knows_zone(zone: str | None) -> bool:
    """Return whether Arrow and Python know a time zone."""
    try:
        data_type = pa.timestamp("s", zone)
        scalar = pa.Array.from_buffers(data_type, 1, [None, pa.py_buffer(bytes(8))])[0]
        return bool(scalar.cast(pa.string()).is_valid and scalar.as_py())
    except _NO_VALUE:
        return zone is None


def _python_value(scalar: pa.Scalar) -> Any:
    """Return a value, or where Python has none the text that Arrow makes of it."""
    if not scalar.is_valid:
        return None
    if isinstance(scalar, pa.MapScalar):
        return [tuple(_python_value(pair).values()) for pair in scalar.values]
    if isinstance(scalar, pa.ListScalar):
        return [_python_value(item) for item in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        members = enumerate(scalar.type)
        return {field.name: _python_value(scalar[position]) for position, field in members}
    if isinstance(scalar, pa.DictionaryScalar):
        return _python_value(scalar.value)
    try:
        return scalar.as_py()
    except _NO_VALUE:
        return _text_of(scalar)


def far_times(column: pa.ChunkedArray) -> dict[int, str]:
    """Return the texts of dates and times of years that Arrow makes no text of, or a wrong one.

    Returns:
        The texts, by row; none for most columns.
    """
    unit = _far_unit(column.type)
    if unit is None:
        return {}
    kind = pa.int32() if unit == "D" else pa.int64()
    least, most = _near_times(unit)
    counts = [numbers_of(chunk.view(kind), null=0) for chunk in column.chunks]
    found = np.concatenate(counts) if counts else np.empty(0, np.int64)
    far = np.flatnonzero((found < least) | (found >= most)).tolist()
    return {row: _far_text(int(found[row]), unit, column.type) for row in far}


def _far_unit(data_type: pa.DataType) -> str | None:
    """Return NumPy's name for the unit of dates and times; None where they are never far."""
    if pa.types.is_timestamp(data_type):
        return None if data_type.unit == "ns" else str(data_type.unit)
    if pa.types.is_date32(data_type):
        return "D"
    return "ms" if pa.types.is_date64(data_type) else None


@lru_cache(maxsize=4)
def _near_times(unit: str) -> tuple[int, int]:
    """Return the first time of which Arrow's text is right, and the first one beyond these."""
    ends = np.array(["-32766", "32767"], f"datetime64[{unit}]").astype(np.int64)
    return int(ends[0]), int(ends[1])


def _far_text(count: int, unit: str, data_type: pa.DataType) -> str:
    """Return the text of a time; where there is a zone, it is that of UTC, and says so."""
    time = np.array(count, np.int64).view(f"datetime64[{unit}]")
    if pa.types.is_date(data_type):
        time = time.astype("datetime64[D]")
    text = str(np.datetime_as_string(time)).replace("T", " ")
    return f"{text}Z" if pa.types.is_timestamp(data_type) and data_type.tz is not None else text


def _text_of(scalar: pa.Scalar) -> str:
    if unit := _far_unit(scalar.type):
        least, most = _near_times(unit)
        if not least <= scalar.value < most:
            return _far_text(scalar.value, unit, scalar.type)
    if pa.types.is_timestamp(scalar.type) and scalar.type.tz is not None:
        # The zone would be applied to what it cannot be: the text is that of UTC, and says so.
        return f"{scalar.cast(pa.timestamp(scalar.type.unit)).cast(pa.string()).as_py()}Z"
    unit = f" {scalar.type.unit}" if pa.types.is_duration(scalar.type) else ""
    if isinstance(scalar, pa.StringScalar | pa.LargeStringScalar):  # no UTF-8
        return str(scalar.as_buffer().to_pybytes(), "utf-8", "backslashreplace")
    return f"{scalar.cast(pa.string()).as_py()}{unit}"


def _format(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, str):
        return value[: _MAX_CHARACTERS + 1]
    if isinstance(value, bytes):
        return f"{value[:8].hex(' ')}{' …' if len(value) > 8 else ''} ({len(value):,} bytes)"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, pa.MonthDayNano):
        return interval_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_format(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        items = [_format(item) for item in value[:_MAX_ITEMS]]
        more = [f"… {len(value):,} items"] if len(value) > _MAX_ITEMS else []
        return f"[{', '.join(items + more)}]"
    return str(value).removesuffix("+00:00") if hasattr(value, "tzinfo") else str(value)


def interval_text(value: pa.MonthDayNano) -> str:
    """Return an interval of months, days and nanoseconds as ISO 8601 has it: `P1M2DT3.5S`."""
    date = "".join(f"{n}{unit}" for n, unit in ((value.months, "M"), (value.days, "D")) if n)
    if date and not value.nanoseconds:
        return f"P{date}"
    seconds, fraction = divmod(abs(value.nanoseconds), 1_000_000_000)
    sign = "-" if value.nanoseconds < 0 else ""
    return f"P{date}T{sign}{seconds}{f'.{fraction:09}'.rstrip('0').rstrip('.')}S"
