"""Handing an object to DuckDB's own replacement scan, which looks among the caller's variables.

DuckDB asks our replacement scan about a name first; the answer is another name, under which it
looks again, among the variables of the Python code that runs the query. So the object is put there
just before, and taken away when DuckDB has it. The name is no identifier and differs from thread to
thread: it can hide no variable, and threads that share variables do not meet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType
from typing import Any, TypeAlias

# Returns an object; its argument is called when DuckDB has it.
Source: TypeAlias = Callable[[Callable[[], None]], object]


class _Published(threading.local):
    """What this thread has put among variables and not taken away yet."""

    def __init__(self) -> None:
        self.variables: dict[str, dict[str, Any]] = {}


_published = _Published()


def publish(sources: Mapping[str, Source], caller: FrameType | None) -> None:
    """Put objects among the variables that DuckDB is about to search.

    Args:
        sources: The objects, by the names that DuckDB will ask for.
        caller: The frame that called DuckDB; None in a thread of DuckDB's own.

    Raises:
        LookupError: There are no variables that DuckDB would search.
    """
    retract()
    namespace = _namespace(caller)
    for name, source in sources.items():
        value = source(partial(retract, name))
        _published.variables[name] = namespace  # first, so that nothing can be forgotten
        namespace[name] = value


def variable_of(name: str, caller: FrameType | None) -> object | None:
    """Return the variable that DuckDB takes for a table of this name; None where there is none.

    Args:
        name: As it stands in SQL.
        caller: As for `publish`.
    """
    frame = _outer_frame(caller)
    if frame is None:
        return None
    found: object | None = frame.f_locals.get(name, frame.f_globals.get(name))
    return found


def is_published(name: str) -> bool:
    """Whether this thread has put an object of this name among variables."""
    return name in _published.variables


def retract(*names: str) -> None:
    """Take away what this thread has published; all of it where no name is given."""
    for name in names or list(_published.variables):
        namespace = _published.variables.get(name)
        if namespace is not None:
            namespace.pop(name, None)
            _published.variables.pop(name, None)


def _namespace(caller: FrameType | None) -> dict[str, Any]:
    """Return the variables that are searched, those of the first frame outside of DuckDB."""
    frame = _outer_frame(caller)
    if frame is None:
        raise LookupError("the query was not run by Python code")
    # A function's variables die with it and are seen by its own thread only. From Python 3.13 on
    # they are no dict, and nothing can be removed from them with certainty.
    variables: object = frame.f_locals
    return variables if isinstance(variables, dict) else frame.f_globals


def _outer_frame(caller: FrameType | None) -> FrameType | None:
    """Return the first frame outside of DuckDB's own Python code."""
    frame = caller
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if not isinstance(module, str) or not (module == "duckdb" or module.startswith("duckdb.")):
            return frame
        frame = frame.f_back
    return None
