"""Grids: rows and columns of short texts, coloured on a terminal and plain elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lancefs.cli.render.text import plural
from lancefs.showing import NULL, cell

_GAP = "  "
_APART = 3  # characters between columns on a terminal
_NARROW = 16  # no column is cut to fewer characters


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid.

    Attributes:
        title: What stands above it.
        name: The key of its values.
        show: Turns a value into a text.
        right: Whether the texts are aligned on the right, as numbers are.
        style: Of the texts on a terminal, as rich names styles.
    """

    title: str
    name: str
    show: Callable[[Any], str] = cell
    right: bool = False
    style: str = ""


def is_terminal() -> bool:
    """Whether the output goes to a terminal."""
    return sys.stdout.isatty()


def width() -> int:
    """The width of the terminal, in characters."""
    return shutil.get_terminal_size((100, 30)).columns


def print_grid(
    columns: Sequence[Column], rows: Sequence[Sequence[Any]], caption: str | None = None
) -> None:
    """Print a grid.

    Args:
        columns: What to show.
        rows: Values, one for each column.
        caption: What to say below it; on terminals only.
    """
    texts = [[column.show(v) for column, v in zip(columns, row, strict=True)] for row in rows]
    if is_terminal():
        _print_rich(columns, texts, caption)
    else:
        _print_plain(columns, texts)


def print_plain(line: str = "") -> None:
    """Print a line."""
    sys.stdout.write(line + "\n")


def heading(text: str) -> None:
    """Print a line above what belongs to it."""
    if is_terminal():
        from rich.text import Text

        console().print(Text(text, "bold"))
    else:
        print_plain(text)


def note(text: str) -> None:
    """Print a remark, for people only."""
    if is_terminal():
        from rich.text import Text

        console().print(Text(text, "dim"))


def console() -> Any:
    """Return what prints to the terminal in colour; NO_COLOR is honoured."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def styled(text: str, style: str) -> str:
    """Return a text with the codes that colour it, on a terminal that shows colours."""
    if not is_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    import click

    return click.style(text, **_STYLES[style])


_STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    **{name: {"fg": name} for name in ("green", "red", "cyan", "yellow")},
}


def _print_plain(columns: Sequence[Column], texts: Sequence[Sequence[str]]) -> None:
    titles = [column.title for column in columns]
    lines = [titles, *texts]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        parts = [
            text.rjust(room) if column.right else text.ljust(room)
            for text, room, column in zip(line, widths, columns, strict=True)
        ]
        print_plain(_GAP.join(parts).rstrip())


def _print_rich(
    columns: Sequence[Column], texts: Sequence[Sequence[str]], caption: str | None
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    widths = _widths(columns, texts, width())
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for column, room in zip(columns, widths, strict=False):
        justify: Literal["right", "left"] = "right" if column.right else "left"
        style = column.style
        grid.add_column(
            column.title,
            justify=justify,
            style=style,
            width=room,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in texts:
        grid.add_row(*(_styled_cell(text, Text) for text in row[: len(widths)]))
    printer = console()
    printer.print(grid)
    left_out = [column.title for column in columns[len(widths) :]]
    if left_out:
        names = ", ".join(left_out[:8]) + (", …" if len(left_out) > 8 else "")
        printer.print(Text(f"{plural(len(left_out), 'more column')}: {names}", "dim"))
    if caption:
        printer.print(Text(caption, "dim"))


def _styled_cell(text: str, make: Any) -> Any:
    return make(text, "dim italic") if text == NULL else make(text)


def _widths(columns: Sequence[Column], texts: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the widths of the columns that fit side by side, the first ones.

    Long texts are cut before numbers are, and columns are left out only after that.
    """
    natural = [
        max([len(column.title), *(len(row[i]) for row in texts)])
        for i, column in enumerate(columns)
    ]
    shown = len(columns)
    while shown > 1 and sum(min(one, _NARROW) + _APART for one in natural[:shown]) > room + _APART:
        shown -= 1
    widths = natural[:shown]
    excess = sum(widths) + _APART * (shown - 1) - room
    while excess > 0 and max(widths) > _NARROW:
        widest = widths.index(max(widths))
        others = [one for i, one in enumerate(widths) if i != widest]
        cut = min(excess, max(1, widths[widest] - max([*others, _NARROW])))
        widths[widest] -= cut
        excess -= cut
    return widths
