"""Lines and grids of short texts, in colour on a terminal, plain elsewhere.

All that commands print as text passes through here, where characters that a terminal would act on
are escaped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from lancefs.cli.render.text import plural
from lancefs.printable import printable
from lancefs.short_texts import NULL, cell

_GAP = "  "
_TERMINAL_GAP = 3  # characters between columns on a terminal: rich's padding and separator
# Characters: a grid leaves out its last columns rather than cut columns below this width. rich
# levels widths including padding, so that a column may be one or two characters narrower.
_MIN_WIDTH = 16
_MAX_NAMES = 8  # of the columns that are left out


@dataclass(frozen=True, slots=True)
class GridColumn:
    """Column of a grid.

    Attributes:
        title: Header.
        name: Key of the column's values in records.
        show: Formats a value.
        right: Whether the texts are aligned on the right.
        style: Style on a terminal, as rich names it.
    """

    title: str
    name: str
    show: Callable[[Any], str] = cell
    right: bool = False
    style: str = ""


class Styled(NamedTuple):
    """A part of a line.

    Attributes:
        text: The text.
        style: `bold`, `dim` or the name of a colour.
    """

    text: str
    style: str


def is_terminal() -> bool:
    """Whether the output goes to a terminal."""
    return sys.stdout.isatty()


def print_grid(
    columns: Sequence[GridColumn], rows: Sequence[Sequence[Any]], caption: str | None = None
) -> None:
    """Print a grid.

    Args:
        columns: Columns of the grid.
        rows: Rows of values, one for each column.
        caption: Text below the grid, on terminals only.
    """
    columns = [replace(column, title=printable(column.title)) for column in columns]
    texts = [
        [printable(column.show(value)) for column, value in zip(columns, row, strict=True)]
        for row in rows
    ]
    if is_terminal():
        _print_rich(columns, texts, caption)
    else:
        _print_line(columns, texts)


def print_line(*parts: str | Styled) -> None:
    """Print a line that consists of some parts."""
    sys.stdout.write("".join(map(_part, parts)) + "\n")


def print_document(text: str) -> None:
    """Print a text of several lines."""
    for line in text.split("\n"):
        print_line(line)


def tell(text: str, style: str | None = None) -> None:
    """Print something on standard error, which says how the work went."""
    for line in text.split("\n"):
        sys.stderr.write(_part(line if style is None else Styled(line, style)) + "\n")


def heading(text: str) -> None:
    """Print a heading: bold on a terminal."""
    print_line(Styled(text, "bold"))


def note(text: str) -> None:
    """Print a remark, on terminals only."""
    if is_terminal():
        print_line(Styled(text, "dim"))


def console() -> Any:
    """Return rich's console for standard output, which honours NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def _part(part: str | Styled) -> str:
    """Return a part of a line, with the codes of its style if the terminal shows colours."""
    if isinstance(part, str):
        return printable(part)
    text, style = printable(part.text), part.style
    if not is_terminal() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    import click

    return click.style(text, **_STYLES[style])


_STYLES: dict[str, dict[str, Any]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    **{name: {"fg": name} for name in ("green", "red", "cyan", "yellow")},
}


def _print_line(columns: Sequence[GridColumn], texts: Sequence[Sequence[str]]) -> None:
    titles = [column.title for column in columns]
    lines = [titles, *texts]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        parts = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(line, widths, columns, strict=True)
        ]
        print_line(_GAP.join(parts).rstrip())


def _print_rich(
    columns: Sequence[GridColumn], texts: Sequence[Sequence[str]], caption: str | None
) -> None:
    """Print a grid that fits the terminal: rich cuts the longest texts, with an ellipsis."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    def to_text(text: str) -> Text:
        # Not `no_wrap` of the column: rich would not narrow it.
        return Text(text, "dim italic" if text == NULL else "", no_wrap=True, overflow="ellipsis")

    terminal = console()
    shown = columns[: _count_fitting(columns, texts, terminal.width)]
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for column in shown:
        justify: Literal["right", "left"] = "right" if column.right else "left"
        grid.add_column(to_text(column.title), justify=justify, style=column.style)
    for row in texts:
        grid.add_row(*map(to_text, row[: len(shown)]))
    terminal.print(grid)
    if len(shown) < len(columns):
        names = ", ".join(column.title for column in columns[len(shown) :][:_MAX_NAMES])
        more = plural(len(columns) - len(shown), "more column")
        ellipsis = ", …" if len(columns) - len(shown) > _MAX_NAMES else ""
        terminal.print(Text(f"{more}: {names}{ellipsis}", "dim"))
    if caption:
        terminal.print(Text(printable(caption), "dim"))


def _count_fitting(
    columns: Sequence[GridColumn], texts: Sequence[Sequence[str]], width: int
) -> int:
    """Return how many of the first columns fit if none is cut below `_MIN_WIDTH`."""
    from rich.cells import cell_len

    widths = [
        min(_MIN_WIDTH, max(cell_len(text) for text in (column.title, *(row[i] for row in texts))))
        for i, column in enumerate(columns)
    ]
    ends = accumulate(least + _TERMINAL_GAP for least in widths)
    return max(1, sum(end <= width + _TERMINAL_GAP for end in ends))
