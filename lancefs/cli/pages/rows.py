"""The page `rows`: the rows of a version, some at a time."""

from __future__ import annotations

from lancefs.cli.pages.page_request import PageRequest, link
from lancefs.cli.pages.parts import Box, anchor, form, section
from lancefs.cli.report.markup import table
from lancefs.printable import as_html, plural
from lancefs.short_texts import NULL, cell, python_values, readable, readable_columns

_ROWS = 50
_MAX_COLUMNS = 60


def make(asked: PageRequest) -> str:
    """Return some rows, from the row `start` on, with links to those before and after.

    The parameter `where` is a filter in SQL text. With it, the rows are not counted: that would
    read the table.
    """
    start, where = asked.number("start", 0), asked.query.get("where", "").strip()
    names = readable_columns(asked.target.manifest.fields)
    shown = names[:_MAX_COLUMNS]
    found = asked.dataset.to_table(shown, where or None, limit=_ROWS + 1, offset=start)
    has_more, found = found.num_rows > _ROWS, found.slice(0, _ROWS)
    values = [python_values(column) for column in readable(found).columns]
    rows = [
        [str(start + number), *(_show(value) for value in row)]
        for number, row in enumerate(zip(*values, strict=True))
    ]
    total = None if where else asked.dataset.count_rows()
    moves = _moves(start, has_more, total)
    links = " ".join(anchor(_link(asked, where, to), text) for text, to in moves.items())
    said = [f"<p>{_which(start, found.num_rows, total)} {links}</p>"]
    if len(shown) < len(names):
        rest = plural(len(names) - len(shown), "more column")
        said.append(f"<p>{as_html(rest)} not shown</p>")
    box = Box("where", "Rows where", where, _example(names), is_long=True)
    asking = form("rows", [box], "Show", {"ref": asked.ref})
    return section(f"{asking}{''.join(said)}{table(('', *shown), rows, (0,))}")


def _show(value: object) -> str:
    text = as_html(cell(value))
    return f"<small>{text}</small>" if value is None and text == NULL else text


def _which(start: int, number: int, total: int | None) -> str:
    """Return which rows are shown, of how many; of a filter it is not known how many there are."""
    if not number and total is None:
        return "no more rows" if start else "no rows"
    if not number:
        return f"{plural(total or 0, 'row')}, none of them from {start:,} on"
    return f"rows {start:,} to {start + number - 1:,}" + (f" of {total:,}" if total else "")


def _moves(start: int, has_more: bool, total: int | None) -> dict[str, int]:
    """Return where to go from here: what a link says -> the first row that it shows."""
    moves: dict[str, int] = {}
    if start:
        last_start = start if total is None else min(start, total)
        moves |= {"first": 0, "before": max(0, last_start - _ROWS)}
    if has_more:
        moves |= {"after": start + _ROWS}
    if has_more and total is not None:
        moves |= {"last": max(0, (total - 1) // _ROWS * _ROWS)}
    return moves


def _link(asked: PageRequest, where: str, start: int) -> str:
    return link("rows", ref=str(asked.ref), **({"where": where} if where else {}), start=start)


def _example(names: list[str]) -> str:
    """Return a filter as an example, of the first column whose name needs no quotes."""
    plain = next((name for name in names if name.isidentifier()), None)
    return "" if plain is None else f"{plain} is not null"
