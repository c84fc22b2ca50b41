"""Progress bars on standard error, for work that takes longer than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

# Seconds of work before a bar is shown.
_PATIENCE = 1.0


class Progress:
    """Progress of some work: updates a bar on a terminal, does nothing elsewhere."""

    def __init__(self, bar: object = None, task: object = None) -> None:
        self._bar = bar
        self._task = task

    def advance(self, amount: int) -> None:
        """Add to the amount of work that is done."""
        if self._bar is not None:
            self._bar.advance(self._task, amount)  # type: ignore[attr-defined]


@contextmanager
def progress(what: str, total: int | None, unit: str = "rows") -> Iterator[Progress]:
    """Show a progress bar if standard error is a terminal, and the work takes long.

    Args:
        what: Label of the bar.
        total: Amount of work; None if it is not known, for a bar that moves meanwhile.
        unit: What the amount counts.
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    label = TextColumn("{task.description}", markup=False)
    columns = (
        (label, BarColumn(), TimeElapsedColumn())
        if total is None
        else (
            label,
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {unit}"),
            TimeRemainingColumn(),
        )
    )
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None if total is None else max(total, 1))
    timer = Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield Progress(bar, task)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
