"""Parts that several pages have: the frame, the head with links, sections."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.cli.report.markup import document
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
        text: What it says, as text.
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


def framed(title: str, *parts: str) -> str:
    """Return a whole page; its title is text, its parts HTML."""
    return document(title, "".join(parts))
