"""The tables, and the directories of their trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lancefs.cli.browsing import describe_table
from lancefs.cli.pages.parts import TITLES, anchor, head, section, unlisted_anchor
from lancefs.cli.render.text import count, moment, plural, size
from lancefs.cli.report.markup import document, table
from lancefs.cli.target import Target
from lancefs.printable import as_html
from lancefs.serve.listings import Entry
from lancefs.threads import in_threads

_MAX_DESCRIBED = 100
_READERS = 8


def tables_page(entries: Sequence[Entry], tables: Mapping[str, Target]) -> str:
    """Return the page that lists the tables.

    Args:
        entries: The tables as entries of a directory.
        tables: The tables by their names. Of many, those beyond the first are only named.
    """
    looked_at = entries[:_MAX_DESCRIBED]
    facts = in_threads(
        lambda entry: describe_table(tables[entry.name].store, entry.name),
        looked_at,
        _READERS,
        "lancefs-serve",
    )
    rows = [_table_row(entry, found) for entry, found in zip(looked_at, facts, strict=True)]
    rows += [[anchor(entry.link, entry.name), *[""] * 4] for entry in entries[_MAX_DESCRIBED:]]
    titles = ("name", "version", "rows", "bytes", "committed (UTC)")
    top = head("Tables", [f"{plural(len(entries), 'table')}, read-only"], [])
    return document("Lance tables", top + section(table(titles, rows, (1, 2, 3))))


def _table_row(entry: Entry, facts: Mapping[str, Any]) -> list[str]:
    """Return the cells of a table, as HTML."""
    if "committed" not in facts:  # not listed by its server, or damaged, as its own pages say
        what = "cannot be read" if facts.get("note") else ""
        return [anchor(entry.link, entry.name), "", "", "", what]
    return [
        anchor(entry.link, entry.name),
        str(facts["version"]),
        count(facts["rows"]),
        size(facts["bytes"]),
        moment(facts["committed"]),
    ]


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
    return document(f"{name}/{path}", head("/".join(shown), [], links) + section(body))
