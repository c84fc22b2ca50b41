"""All pages of `lancefs serve`, by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lancefs.cli.exits import Failure
from lancefs.cli.pages import differences, rows
from lancefs.cli.pages.about_version import describe_page, log_page, report_page, schema_page
from lancefs.cli.pages.listing import directory_page, tables_page
from lancefs.cli.pages.page_request import PageRequest, link
from lancefs.cli.pages.parts import TITLES, anchor, head
from lancefs.cli.report.markup import document
from lancefs.cli.target import Target
from lancefs.errors import NoSuchPath
from lancefs.printable import as_html
from lancefs.serve.listings import Entry
from lancefs.serve.refusals import BadRequest

_PAGES: dict[str, Callable[[PageRequest], str]] = {
    "log": log_page,
    "schema": schema_page,
    "rows": rows.make,
    "describe": describe_page,
    "report": report_page,
    "diff": differences.make,
}
# What they may be asked for, beside `ref`. A slip in a name would show other rows than those meant.
_PARAMETERS = {
    "log": ("newest",),
    "rows": ("start", "where"),
    "describe": ("column",),
    "diff": ("old", "new", "key"),
}


class TablePages:
    """The pages about some tables; see `lancefs.serve.app.Pages`.

    Args:
        tables: The tables by their names.
    """

    names = frozenset(_PAGES)

    def __init__(self, tables: Mapping[str, Target]) -> None:
        self._tables = tables

    def tables(self, entries: Sequence[Entry]) -> str:
        """Return the page that lists the tables."""
        return tables_page(entries, self._tables)

    def directory(self, table: str, path: str, entries: Sequence[Entry]) -> str:
        """Return the page that lists a directory of the tree of a table."""
        return directory_page(table, path, entries)

    def page(self, table: str, name: str, query: Mapping[str, str]) -> str:
        """Return a page about a table.

        Raises:
            BadRequest: The query makes no sense.
            FileNotFoundError: There is no such version.
            LanceError: The table cannot be read.
        """
        known = ("ref", *_PARAMETERS.get(name, ()))
        unknown = [one for one in query if one not in known]
        if unknown:
            raise BadRequest(f"{name} takes no {unknown[0]!r}, but {', '.join(known)}")
        asked = PageRequest(table, self._tables[table], query)
        try:
            body = _PAGES[name](asked)
            return document(asked.title, self._head(asked, name) + body)
        except Failure as error:  # the table is gone
            raise NoSuchPath(str(error)) from error

    def _head(self, asked: PageRequest, name: str) -> str:
        """Return the head of a page, with links to the other pages of the same version."""
        links = [anchor("../", "Tables"), anchor("./", "Files")]
        ref = str(asked.ref)
        links += [anchor(link(page, ref=ref), title) for page, title in TITLES.items()]
        title = f'{as_html(asked.table)} <span class="version">version {as_html(ref)}</span>'
        return head("" if name == "report" else title, [], links)
