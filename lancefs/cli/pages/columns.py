"""The page `schema`: the columns of a version."""

from __future__ import annotations

from urllib.parse import quote

from lancefs.cli.commands.schema import field_rows
from lancefs.cli.pages.page_request import PageRequest, link, tree_path
from lancefs.cli.pages.parts import anchor, section
from lancefs.cli.report.markup import table
from lancefs.printable import as_html
from lancefs.views.tree import quote_column


def make(asked: PageRequest) -> str:
    """Return the columns with their types, and links to their files and values."""
    rows = []
    for row in field_rows(asked.target.manifest.fields):
        name, depth = str(row["column"]), int(str(row["depth"]))
        links = ""
        if depth == 0:
            file = f"{tree_path(asked.ref)}/columns/{quote(quote_column(name))}.arrow"
            values = link("describe", ref=str(asked.ref), column=name)
            links = f"{anchor(file, 'file')} {anchor(values, 'values')}"
        indent = "&emsp;" * depth
        rows.append(
            [
                f"{indent}{as_html(name if depth == 0 else name.rpartition('.')[2])}",
                as_html(str(row["type"] or row["problem"] or "not known to this release")),
                "" if row["nullable"] else "never",
                "key" if row["key"] else "",
                links,
            ]
        )
    return section(table(("column", "type", "null", "", ""), rows))
