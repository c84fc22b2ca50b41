"""The page `rows`: the rows of a version, some at a time."""

from __future__ import annotations

from lancefs.cli.pages.page_request import PageRequest, link
from lancefs.cli.pages.parts import anchor, section
from lancefs.cli.report.markup import table
from lancefs.printable import as_html, plural
from lancefs.showing import NULL, cell, python_values, readable, readable_columns

_ROWS = 50
_MOST_COLUMNS = 60


def make(asked: PageRequest) -> str:
    """Return some rows, from the row `start` on, with links to those before and after."""
    start = asked.number("start", 0)
    total = asked.dataset.count_rows()
    names = readable_columns(asked.target.manifest.fields)
    shown = names[:_MOST_COLUMNS]
    found = asked.dataset.to_table(shown, limit=_ROWS, offset=start)
    values = [python_values(column) for column in readable(found).columns]
    rows = [
        [str(start + number), *(_show(value) for value in row)]
        for number, row in enumerate(zip(*values, strict=True))
    ]
    said = [f"<p>{_which(start, found.num_rows, total)} {_moves(asked, start, total)}</p>"]
    if len(shown) < len(names):
        rest = plural(len(names) - len(shown), "more column")
        said.append(f"<p>{as_html(rest)} not shown</p>")
    return section(f"{''.join(said)}{table(('', *shown), rows, (0,))}")


def _show(value: object) -> str:
    text = as_html(cell(value))
    return f"<small>{text}</small>" if value is None and text == NULL else text


def _which(start: int, number: int, total: int) -> str:
    if not number:
        return f"{plural(total, 'row')}, none of them from {start:,} on"
    return f"rows {start:,} to {start + number - 1:,} of {total:,}"


def _moves(asked: PageRequest, start: int, total: int) -> str:
    """Return links to other rows of the same version."""
    last = max(0, (total - 1) // _ROWS * _ROWS)
    moves = {
        "first": 0 if start else None,
        "before": max(0, min(start, total) - _ROWS) if start else None,
        "after": start + _ROWS if start + _ROWS < total else None,
        "last": last if start < last else None,
    }
    return " ".join(
        anchor(link("rows", ref=str(asked.ref), start=to), text)
        for text, to in moves.items()
        if to is not None
    )
