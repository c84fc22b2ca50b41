"""Ctrl-C while DuckDB runs code of ours, and makes an error of its own of KeyboardInterrupt.

Python raises it in whatever runs in the main thread. Where that was called by DuckDB, the exception
ends as a text in an error of DuckDB; so the main thread gets it a second time.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds that DuckDB has to return to its caller before the interrupt is raised again.
_AFTER = 0.05


def raise_again() -> None:
    """Let the main thread see an interrupt that was caught in code that DuckDB called.

    Not at once: that code would be the one to get it again.
    """
    timer = threading.Timer(_AFTER, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


@contextmanager
def passed_on() -> Iterator[None]:
    """Have an interrupt of what is in here, or of a function so decorated, raised again."""
    try:
        yield
    except KeyboardInterrupt:
        raise_again()
        raise
