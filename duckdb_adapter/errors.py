"""Errors of the DuckDB adapter."""

from __future__ import annotations

from lancefs.errors import LanceError


class UnsupportedDuckDB(LanceError, RuntimeError):
    """This DuckDB, or the interpreter that it runs in, cannot be extended in the way asked for."""
