"""Ctrl-C while DuckDB runs our code and turns KeyboardInterrupt into an error of its own.

Python raises it in whatever runs in the main thread. Where that was called by DuckDB, the exception
may end as a text in an error of DuckDB; then the main thread gets it a second time.
"""

from __future__ import annotations

import _thread
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import CodeType, FrameType
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Seconds between two looks at the main thread, and at most until the interrupt is raised again.
_PAUSE, _LONGEST = 0.05, 5.0
# Modules whose code runs between DuckDB and us, or between DuckDB and its caller.
_INNER = re.compile(r"(_?duckdb|duckdb_adapter|pyarrow|contextlib|lancefs(?!\.cli))\b")

# The name of the code by which a wrapped connection runs a query, perhaps several times.
QUERY_SCOPE = "<lancefs: a query>"


def raise_again(error: KeyboardInterrupt) -> None:
    """Let the main thread see an interrupt that was caught in code that DuckDB called.

    Not while the main thread is in the same call of DuckDB, which would turn that one into an error
    as well; and not where the caller of DuckDB got the interrupt as it is.

    Args:
        error: The interrupt, which is raised on.
    """
    threading.Thread(target=_deliver, args=(error, _place_of_main()), daemon=True).start()


def reraise_interrupts(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have an interrupt of a function, which is so decorated, raised again."""

    @wraps(function)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        try:
            return function(*arguments, **options)
        except KeyboardInterrupt as error:
            raise_again(error)
            raise

    return call


def catch_early(
    codes: Sequence[CodeType], handle: Callable[[Mapping[str, object], KeyboardInterrupt], None]
) -> None:
    """Have interrupts handled that callbacks of ctypes cannot catch.

    One that waits when DuckDB calls back is raised before the first line, where no `try` reaches;
    ctypes then tells `sys.unraisablehook` of it, and returns to DuckDB as if all were well.

    Args:
        codes: What the callbacks run.
        handle: Called before DuckDB goes on, with the arguments of the callback by their names.
    """
    outer = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        error, trace = unraisable.exc_value, unraisable.exc_traceback
        if isinstance(error, KeyboardInterrupt) and trace and trace.tb_frame.f_code in codes:
            handle(trace.tb_frame.f_locals, error)
        else:
            outer(unraisable)

    sys.unraisablehook = hook


def _deliver(error: KeyboardInterrupt, place: tuple[FrameType, int] | None) -> None:
    give_up = time.monotonic() + _LONGEST
    time.sleep(_PAUSE)
    while not _has_come_out(error):
        if _place_of_main() != place or time.monotonic() > give_up:
            _thread.interrupt_main()
            return
        time.sleep(_PAUSE)


def _has_come_out(error: KeyboardInterrupt) -> bool:
    """Whether an interrupt has reached the code that called DuckDB."""
    trace = error.__traceback__  # begins with the outermost frame that it has reached
    return trace is not None and not _is_inner(trace.tb_frame)


def _place_of_main() -> tuple[FrameType, int] | None:
    """Return what the main thread runs above DuckDB and us: a frame and the instruction in it."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and _is_inner(frame):
        frame = frame.f_back
    return None if frame is None else (frame, frame.f_lasti)


def _is_inner(frame: FrameType) -> bool:
    if frame.f_code.co_filename == QUERY_SCOPE:  # it has the caller's variables, and so its name
        return True
    return _INNER.match(str(frame.f_globals.get("__name__"))) is not None
