"""KeyboardInterrupt in the n-th read of a file, or at the n-th step of a module, for tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from store_doubles import CountingFileSystem

from lancefs.storage import open_files

MOST = 500  # reads of what is interrupted, far more than there are


class Interrupts:
    """Raises KeyboardInterrupt in the read that a counter says."""

    def __init__(self) -> None:
        self.left: int | None = None

    def count(self) -> None:
        """Count one read."""
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise KeyboardInterrupt


class InterruptedStore(CountingFileSystem):
    """A store in memory whose requests can be interrupted."""

    protocol = "interrupted"

    def __init__(self, interrupts: Interrupts, table: str) -> None:
        super().__init__()
        self.put_tree(table, "/t.lance")
        self.interrupts = interrupts

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        self.interrupts.count()
        return super().cat_file(path, *args, **kwargs)

    def ls(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self.interrupts.count()
        return super().ls(path, *args, **kwargs)


def interrupts_of_local_files(monkeypatch: pytest.MonkeyPatch) -> Interrupts:
    """Return what interrupts reads of local files."""
    made, opened = Interrupts(), open_files.open_regular

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.count()
        return opened(*args, **kwargs)

    monkeypatch.setattr(open_files, "open_regular", counted)
    return made


def each_step(work: Callable[[], object], file: str, check: Callable[[], object]) -> int:
    """Interrupt some work before each step that it takes in a module.

    Args:
        work: The work; it must let the interrupt out.
        file: Path of the module.
        check: Called after each interrupt.

    Returns:
        The number of steps.
    """
    left = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != file:
            return None
        left -= 1
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    for steps in range(MOST):
        left = steps
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            check()
        else:
            return steps
        finally:
            sys.settrace(before)
    raise AssertionError("the steps do not end")
