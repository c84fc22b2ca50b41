"""Errors of lancefs without Python tracebacks, which Spark would print in full.

Our own frames, and the errors that ours were made of, mean nothing to the user who runs a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lancefs.errors import LanceError

P = ParamSpec("P")
R = TypeVar("R")


def brief(method: Callable[P, R]) -> Callable[P, R]:
    """Have the errors of lancefs leave a method without their causes, and without our frames."""
    return _brief(method, (LanceError,))


def brief_about_options(method: Callable[P, R]) -> Callable[P, R]:
    """Have errors about options leave a method in the same way, too: these are `ValueError`s."""
    return _brief(method, (LanceError, ValueError))


def _brief(method: Callable[P, R], kinds: tuple[type[Exception], ...]) -> Callable[P, R]:
    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except kinds as error:
            raise error.with_traceback(None) from None

    return run


def briefly(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield what an iterator yields; the same for errors that come meanwhile."""
    try:
        yield from batches
    except LanceError as error:
        raise error.with_traceback(None) from None
