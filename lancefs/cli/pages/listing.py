"""The tables, and the directories of their trees."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.cli.pages.parts import TITLES, anchor, framed, head, section, unlisted_anchor
from lancefs.cli.render.text import moment, plural, size
from lancefs.cli.report.markup import table
from lancefs.printable import as_html
from lancefs.serve.listings import Entry


def tables_page(entries: Sequence[Entry]) -> str:
    """Return the page that lists the tables."""
    items = "".join(f"<li>{anchor(entry.link, entry.name)}</li>" for entry in entries)
    top = head("Tables", [f"{plural(len(entries), 'table')}, read-only"], [])
    return framed("Lance tables", top, section(f'<ul class="names">{items}</ul>'))


def directory_page(name: str, path: str, entries: Sequence[Entry]) -> str:
    """Return the page that lists a directory of the tree of a table.

    Args:
        name: Name of the table.
        path: The directory; empty for the top of the tree.
        entries: What is in it.
    """
    depth = path.count("/") + 1 if path else 0
    up = "../" * depth
    links = [unlisted_anchor(f"{up}../", "Tables")]
    links += [unlisted_anchor(f"{up}{page}", title) for page, title in TITLES.items()]
    shown = [
        as_html(name) if not path else unlisted_anchor(up, name),
        *(as_html(part) for part in path.split("/") if part),
    ]
    rows = [[unlisted_anchor("../", "../"), "", ""]] if path else []
    rows += [
        [
            anchor(entry.link, entry.name + ("/" if entry.is_directory else "")),
            "" if entry.size is None else size(entry.size),
            "" if entry.committed is None else moment(entry.committed),
        ]
        for entry in entries
    ]
    body = table(("name", "bytes", "committed (UTC)"), rows, (1,))
    return framed(f"{name}/{path}", head("/".join(shown), [], links), section(body))
