"""Identifiers and string constants in SQL."""

from __future__ import annotations

import string

_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """Return a name in lower case, as DuckDB compares names: letters of ASCII only."""
    return name.lower() if name.isascii() else name.translate(_TO_LOWER)


def quoted(name: str) -> str:
    """Return a name as an identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a constant in SQL."""
    return "'" + text.replace("'", "''") + "'"
