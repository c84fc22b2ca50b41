"""Handing an object to DuckDB's own replacement scan, which looks among the caller's variables.

DuckDB asks our replacement scan about a name first; the answer is another name, under which it
looks again, among the variables of the Python code that runs the query. So the object is put there
just before, and taken away when DuckDB has it. The name is no identifier and differs from thread to
thread: it can hide no variable, and threads that share variables do not meet.
"""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any


class _Published(threading.local):
    """What this thread has put among variables and not taken away yet."""

    def __init__(self) -> None:
        self.variables: list[tuple[dict[str, Any], str]] = []


_published = _Published()


def publish(name: str, value: object, caller: FrameType) -> None:
    """Put an object among the variables that DuckDB is about to search.

    Args:
        name: The name that DuckDB will ask for.
        value: The object.
        caller: The frame that called DuckDB.

    Raises:
        LookupError: There are no variables that DuckDB would search.
    """
    retract()
    namespace = _namespace(caller)
    _published.variables.append((namespace, name))  # first, so that nothing can be forgotten
    namespace[name] = value


def retract() -> None:
    """Take away what this thread has published."""
    while _published.variables:
        namespace, name = _published.variables[-1]
        namespace.pop(name, None)
        _published.variables.pop()


def _namespace(caller: FrameType) -> dict[str, Any]:
    """Return the variables that are searched, those of the first frame outside of DuckDB."""
    frame: FrameType | None = caller
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if not isinstance(module, str) or not (module == "duckdb" or module.startswith("duckdb.")):
            # A function's variables die with it and are seen by its own thread only. From Python
            # 3.13 on they are no dict, and nothing can be removed from them with certainty.
            variables: object = frame.f_locals
            return variables if isinstance(variables, dict) else frame.f_globals
        frame = frame.f_back
    raise LookupError("the query was not run by Python code")
