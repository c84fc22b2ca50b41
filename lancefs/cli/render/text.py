"""Values as short texts."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: int | None) -> str:
    """Return a count with separators: `1,191`; a dash where it is not known."""
    return "–" if value is None else f"{value:,}"


def size(value: float | None) -> str:
    """Return a number of bytes in a unit that suits it: `3.2 MiB`."""
    if value is None:
        return "–"
    number, unit = float(value), 0
    while number >= 1023.5 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} B" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"


def share(value: float | None) -> str:
    """Return a share in percent: `3.5 %`."""
    if value is None:
        return "–"
    return f"{value * 100:.0f} %" if value in (0, 1) else f"{value * 100:.1f} %"


def moment(value: datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return "–" if value is None else value.strftime("%Y-%m-%d %H:%M:%S")


def words(values: Sequence[str] | None) -> str:
    """Return names, separated by commas."""
    return ", ".join(values or ())


def plural(number: int, noun: str) -> str:
    """Return `1 row`, `2 rows`."""
    if number != 1:
        noun = noun.removesuffix("ex") + "ices" if noun.endswith("index") else noun + "s"
    return f"{number:,} {noun}"


def jsonable(value: Any) -> Any:
    """Return a value as JSON can say it.

    Times are ISO 8601, decimals texts, bytes base64, and numbers that JSON lacks (NaN) null.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    for kinds, convert in _JSON:
        if isinstance(value, kinds):
            return convert(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, tuple) and len(one) == 2 for one in value):  # a map
            return {str(key): jsonable(item) for key, item in value}
        return [jsonable(item) for item in value]
    return str(value)


def to_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON."""
    return json.dumps(jsonable(value), ensure_ascii=False, indent=indent)


_JSON: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((datetime, date, time), lambda value: value.isoformat()),
    (timedelta, lambda value: value.total_seconds()),
    (Decimal, str),
    (bytes, lambda value: base64.b64encode(value).decode()),
)
