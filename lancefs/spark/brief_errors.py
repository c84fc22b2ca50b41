"""Errors of lancefs without Python tracebacks, which Spark would print in full.

Our own frames, and the errors that ours were made of, mean nothing to the user who runs a query. So
it is with a package that a store needs and that is missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lancefs.errors import LanceError

P = ParamSpec("P")
R = TypeVar("R")

_KINDS = (LanceError, ImportError)
# What Spark runs as Python processes of its own, which end with the first error.
_PROCESSES = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.",
    "lancefs.spark.daemon",
)
# What plans a stream, in a process of the first kind, too. Where it gets no reader it fails to stop
# that (PySpark 4.3), and our error is only in the traceback of that failure.
_STREAM_PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"
# By this variable of such a process Spark shows the message of an error without a traceback: it
# sets it where the session says so (`spark.sql.execution.pyspark.udf.hideTraceback.enabled`).
_HIDE = "SPARK_HIDE_TRACEBACK"


def brief(method: Callable[P, R]) -> Callable[P, R]:
    """Have the errors of lancefs leave a method without their causes, and without our frames."""
    return _brief(method, _KINDS)


def brief_about_options(method: Callable[P, R]) -> Callable[P, R]:
    """Have errors about options leave a method in the same way, too: these are `ValueError`s."""
    return _brief(method, (*_KINDS, ValueError))


def _brief(method: Callable[P, R], kinds: tuple[type[Exception], ...]) -> Callable[P, R]:
    @wraps(method)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except kinds as error:
            _hide_traceback()
            raise error.with_traceback(None) from None

    return run


def briefly(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield what an iterator yields; the same for errors that come meanwhile."""
    try:
        yield from batches
    except _KINDS as error:
        _hide_traceback()
        raise error.with_traceback(None) from None


def _hide_traceback() -> None:
    """Have Spark show the error that leaves now as a line, and not below a traceback of its own.

    Only in a process of Spark's: errors of users, in their processes, keep their tracebacks.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    is_of_spark = getattr(main, "name", "").startswith(_PROCESSES)
    if is_of_spark and _STREAM_PLANNER not in sys.modules:
        os.environ[_HIDE] = "1"
