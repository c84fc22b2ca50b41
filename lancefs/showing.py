"""Representations of a dataset: one line of text, and HTML for notebooks.

They read the manifest and, for HTML, a few rows of the first columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.errors import LanceError
from lancefs.masking import mask_secrets
from lancefs.printable import as_html as html_of
from lancefs.printable import ends_of, plural, printable
from lancefs.short_texts import cell, python_values, readable, readable_columns

if TYPE_CHECKING:
    from lancefs.table.manifest import Manifest
    from lancefs.table.mem_wal import Generation

# In HTML:
_MAX_ROWS = 5
_MAX_COLUMNS = 12
_MAX_FIELDS = 50

_STYLE = "text-align:left;padding:2px 8px;vertical-align:top"


class Shown(Protocol):
    """What is shown of a dataset; `LanceDataset` has it."""

    @property
    def uri(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def branch(self) -> str | None: ...
    @property
    def manifest(self) -> Manifest: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def is_fresh(self) -> bool: ...
    @property
    def is_filtered(self) -> bool: ...
    def unmerged_generations(self) -> list[Generation]: ...
    def head(self, num_rows: int, columns: Sequence[str]) -> pa.Table: ...


def as_text(dataset: Shown) -> str:
    """Return one line with the address, version and size of a dataset."""
    manifest = dataset.manifest
    rows = "" if manifest.num_rows is None else f"{plural(manifest.num_rows, 'row')}, "
    if rows and dataset.is_filtered:  # how many pass, only a scan would tell
        rows = f"{rows[:-2]} before filters, "
    columns, fragments = len(dataset.schema.names), len(manifest.fragments)
    name = f"{mask_secrets(dataset.uri)}@{_version(dataset)}"
    sizes = f"{rows}{plural(columns, 'column')}, {plural(fragments, 'fragment')}"
    if dataset.is_fresh:
        sizes += f", with {plural(len(dataset.unmerged_generations()), 'unmerged generation')}"
    return f"<LanceDataset {printable(name)}: {sizes}>"


def as_html(dataset: Shown) -> str:
    """Return HTML with the address, version, size, first rows and columns of a dataset."""
    name = html_of(f"{mask_secrets(dataset.uri)}@{_version(dataset)}")
    committed = dataset.manifest.timestamp.strftime("%Y-%m-%d %H:%M:%S UTC")
    sizes = html_of(as_text(dataset).rpartition(": ")[2].rstrip(">"))
    return (
        f"<div><div><b>LanceDataset</b> <code>{name}</code></div>"
        f"<div>{sizes}; committed {committed}</div>"
        f"{_first_rows(dataset)}"
        f"<details><summary>Columns</summary>{_schema(dataset.manifest.fields)}</details></div>"
    )


def _version(dataset: Shown) -> str:
    return f"{dataset.branch}:{dataset.version}" if dataset.branch else str(dataset.version)


def _first_rows(dataset: Shown) -> str:
    """Return a table of the first rows of the first columns, or the error of reading them."""
    names = readable_columns(dataset.manifest.fields)
    shown = names[:_MAX_COLUMNS]
    try:
        table = readable(dataset.head(_MAX_ROWS, columns=shown))
    except LanceError as error:
        return f"<div><b>The rows cannot be read:</b> {html_of(str(error))}</div>"
    columns = [python_values(column) for column in table.columns]
    titles = [*shown, "…"] if len(names) > len(shown) else shown
    body = [
        [cell(value) for value in row] + ["…"] * (len(titles) - len(shown))
        for row in zip(*columns, strict=True)
    ]
    return html_table(titles, body)


def _schema(fields: Sequence[Field]) -> str:
    rows = [[path, kind, "" if null else "never null"] for path, kind, null in _walk(fields)]
    more = [[f"… {len(rows) - _MAX_FIELDS} more", "", ""]] if len(rows) > _MAX_FIELDS else []
    return html_table(["column", "type", ""], rows[:_MAX_FIELDS] + more)


def _walk(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield the path, the type and the nullability of each field, parents before children."""
    for field in fields:
        kind = field.shown_type or f"{field.logical_type} (not known to this release)"
        kind = kind.partition("<")[0] if field.children else kind
        yield prefix + field.name, kind, field.nullable
        yield from _walk(field.children, f"{prefix}{field.name}.")


def html_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return texts as a table for notebooks.

    Args:
        titles: Titles of the columns.
        rows: Texts, one for each column.
    """
    head = "".join(_html_cell("th", title) for title in titles)
    lines = ["<tr>" + "".join(_html_cell("td", text) for text in row) + "</tr>" for row in rows]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _html_cell(tag: str, text: str) -> str:
    return f'<{tag} style="{_STYLE}">{html_of(ends_of(text))}</{tag}>'
