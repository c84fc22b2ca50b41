"""Comparison of SQL identifiers as DuckDB does it."""

from __future__ import annotations

import string

_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """Return a name in lower case, as DuckDB compares names: letters of ASCII only."""
    return name.lower() if name.isascii() else name.translate(_TO_LOWER)
