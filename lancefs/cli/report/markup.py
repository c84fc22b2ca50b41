"""Parts of a page: tables, folded parts, bars."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.printable import as_html


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
    """Return what is shown when its summary is clicked.

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
