"""Parts of a page: its frame, tables, folded parts, bars."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files

from lancefs.printable import as_html
from lancefs.version import __version__


def document(title: str, body: str) -> str:
    """Return a whole page, which loads nothing else.

    Args:
        title: Its title, as text.
        body: What it shows, as HTML.
    """
    style = (files("lancefs.cli.report") / "page.css").read_text("utf-8")
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        f"<title>{as_html(title)}</title><style>{style}</style></head><body><main>{body}"
        f"<footer>Made by lancefs {as_html(__version__)}, {made}</footer>"
        "</main></body></html>\n"
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table.

    Args:
        titles: Titles of the columns, as text.
        rows: Cells, as HTML.
        numbers: Positions of the columns that are aligned on the right.
    """

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=n' if position in numbers else ''}>{text}</{tag}>"
            for position, text in enumerate(cells)
        )

    head = line("th", [as_html(title) for title in titles])
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, body: str, is_open: bool = False) -> str:
    """Return a folded part of a page, which a click on its summary unfolds.

    Args:
        summary: The summary, as text.
        body: What is shown then, as HTML.
        is_open: Whether it is shown at first.
    """
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{as_html(summary)}</summary>{body}</details>"


def meter(part: float, good: bool = False) -> str:
    """Return a bar that is filled to a share, in the colour of good or of bad things."""
    colour = "--good" if good else "--bad"
    return (
        f'<span class="meter"><i style="width:{part * 100:.1f}%;background:var({colour})"></i>'
        "</span>"
    )
