"""Parts that several pages have: the frame, the head with links, sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lancefs.printable import as_html

# The pages of a table in the order of the links to them, with their titles.
TITLES = {
    "log": "Versions",
    "schema": "Columns",
    "rows": "Rows",
    "describe": "Values",
    "report": "Report",
}


def anchor(url: str, text: str) -> str:
    """Return a link.

    Args:
        url: Where it leads, quoted as a URL, not escaped for HTML.
        text: Its text, not escaped for HTML.
    """
    return f'<a href="{as_html(url)}">{as_html(text)}</a>'


def unlisted_anchor(url: str, text: str) -> str:
    """Return a link that is no entry of a listing.

    fsspec takes all that looks like `href="…"` for an entry; HTML allows a space in it.
    """
    return anchor(url, text).replace(' href="', ' href ="', 1)


def head(title: str, lines: Sequence[str], links: Sequence[str]) -> str:
    """Return the head of a page.

    Args:
        title: What the page is about, as HTML; empty where the page says so itself.
        lines: What is said below, as HTML.
        links: Links to other pages, as HTML.
    """
    said = "".join(f"<p>{line}</p>" for line in lines)
    nav = f"<nav>{' '.join(links)}</nav>" if links else ""
    shown = f"<h1>{title}</h1>" if title else ""
    return f"<header>{nav}{shown}{said}</header>"


def section(body: str, title: str = "") -> str:
    """Return a section; its title is text, its body HTML."""
    shown = f"<h2>{as_html(title)}</h2>" if title else ""
    return f"<section>{shown}{body}</section>"


@dataclass(frozen=True)
class Box:
    """A box for a text in a form.

    Attributes:
        name: The parameter of the URL that it fills.
        label: What stands before it.
        value: What is in it.
        example: What it shows in grey while it is empty.
        is_long: Whether it takes the rest of the line.
    """

    name: str
    label: str
    value: str
    example: str = ""
    is_long: bool = False


def form(page: str, boxes: Sequence[Box], button: str, rest: Mapping[str, object]) -> str:
    """Return a form that asks for a page with other parameters.

    Args:
        page: The page.
        boxes: What may be changed; a box that is left empty is an empty parameter.
        button: What the button says.
        rest: The parameters that stay as they are.
    """
    hidden = "".join(
        f'<input type="hidden" name="{as_html(name)}" value="{as_html(str(value))}">'
        for name, value in rest.items()
    )
    shown = "".join(map(_labelled, boxes))
    return (
        f'<form action="{as_html(page)}">{hidden}{shown}<button>{as_html(button)}</button></form>'
    )


def _labelled(box: Box) -> str:
    name, value, example = as_html(box.name), as_html(box.value), as_html(box.example)
    style = ' class="long"' if box.is_long else ""
    return (
        f"<label{style}>{as_html(box.label)} "
        f'<input name="{name}" value="{value}" placeholder="{example}" spellcheck="false" '
        'autocapitalize="off"></label>'
    )
