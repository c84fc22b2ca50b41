"""Progress of long work, on the terminal that errors go to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """Counts what is done; shows it where there is somebody to see it."""

    def __init__(self, bar: object = None, task: object = None) -> None:
        self._bar = bar
        self._task = task

    def advance(self, amount: int) -> None:
        """Say that so much more is done."""
        if self._bar is not None:
            self._bar.advance(self._task, amount)  # type: ignore[attr-defined]


@contextmanager
def progress(what: str, total: int) -> Iterator[Progress]:
    """Show a bar while work goes on; nothing where standard error is no terminal.

    Args:
        what: The work, in a word or two.
        total: How much there is to do, in rows.
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        yield Progress(bar, bar.add_task(what, total=max(total, 1)))
