"""Progress bars on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Progress of some work: updates a bar on a terminal, does nothing elsewhere."""

    def __init__(self, bar: object = None, task: object = None) -> None:
        self._bar = bar
        self._task = task

    def advance(self, amount: int) -> None:
        """Add to the amount of work that is done, in rows."""
        if self._bar is not None:
            self._bar.advance(self._task, amount)  # type: ignore[attr-defined]


@contextmanager
def progress(what: str, total: int) -> Iterator[Progress]:
    """Show a progress bar if standard error is a terminal.

    Args:
        what: Label of the bar.
        total: Amount of work, in rows.
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Progress(bar, bar.add_task(what, total=max(total, 1)))
