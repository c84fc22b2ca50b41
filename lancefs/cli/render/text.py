"""Values formatted as short texts, and as JSON."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from lancefs.printable import plural as plural

# Candidates: of them, those that a terminal shows as they are stay.
_NOT_PRINTABLE = re.compile(r"[^ -~\n]")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: int | None) -> str:
    """Format a count: `1,191`; a dash for None."""
    return "–" if value is None else f"{value:,}"


def size(value: float | None) -> str:
    """Format a number of bytes: `3.2 MiB`; a dash for None."""
    if value is None:
        return "–"
    number, unit = float(value), 0
    while number >= 1023.5 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} B" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def share(value: float | None) -> str:
    """Format a share from 0 to 1: `3.5 %`; a dash for None."""
    if value is None:
        return "–"
    return f"{value * 100:.0f} %" if value in (0, 1) else f"{value * 100:.1f} %"


def moment(value: datetime | None) -> str:
    """Format a time to the second, without its zone; a dash for None."""
    return "–" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def words(values: Sequence[str] | None) -> str:
    """Join names with commas."""
    return ", ".join(values or ())


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def jsonable(value: Any) -> Any:
    """Convert a value to one that JSON can hold.

    Times become ISO 8601, decimals strings, bytes base64, durations seconds, NaN and infinities
    null. `json_forms.json_form` tells by their types what values do not tell.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    for types, convert in _CONVERSIONS:
        if isinstance(value, types):
            return convert(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):  # a map
            return object_of([(jsonable(key), jsonable(item)) for key, item in value])
        return [jsonable(item) for item in value]
    return str(value)


def object_of(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Return the items of a map as an object; where a key is there twice, as lists of two."""
    named = {str(key): item for key, item in pairs}
    return named if len(named) == len(pairs) else [list(pair) for pair in pairs]


def to_json(value: Any, indent: int | None = None) -> str:
    """Serialize a value as JSON.

    Characters that are not printable are escaped, which no reader of JSON can tell: what is printed
    may meet a terminal.
    """
    return _printable(json.dumps(jsonable(value), ensure_ascii=False, indent=indent))


def row_to_json(row: dict[str, Any]) -> str:
    """Serialize a row of values that are `jsonable`, as `to_json` does, in less time."""
    return _printable(_ENCODER.encode(row))


def _printable(text: str) -> str:
    return text if text.isprintable() else _NOT_PRINTABLE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((datetime, date, time), lambda value: value.isoformat()),
    (timedelta, lambda value: value.total_seconds()),
    (Decimal, str),
    (bytes, lambda value: base64.b64encode(value).decode()),
)
