"""The page `diff`: what changed between two versions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pyarrow as pa
from click import BadParameter

from lancefs.cli.cell_changes import changed_cells, counts_by_column, counts_of_rows
from lancefs.cli.pages.page_request import PageRequest
from lancefs.cli.pages.parts import Box, form, section
from lancefs.cli.render.text import plural
from lancefs.cli.report.markup import table
from lancefs.cli.shared_options import read_columns
from lancefs.cli.target import Target
from lancefs.errors import LanceError
from lancefs.printable import as_html
from lancefs.serve.refusals import BadRequest
from lancefs.short_texts import cell, python_values, readable, readable_columns
from lancefs.table.refs import Ref
from lancefs.table.schema_changes import schema_differences

_MAX_ROWS = 100
_MARKS = {
    "insert": '<span class="good">+</span>',
    "delete": '<span class="bad">−</span>',
    "update_preimage": '<span class="bad">&lt;</span>',
    "update_postimage": '<span class="good">&gt;</span>',
}


def make(asked: PageRequest) -> str:
    """Return the differences of the versions `old` and `new`: schema, counts, and first rows.

    With the columns of a `key`, updates are told from deletes and inserts, and changed values are
    shown.
    """
    new = asked.version("new")
    old = asked.version("old", _before(new))
    if old.manifest.version > new.manifest.version:
        raise BadRequest(f"old={old.pinned} is newer than new={new.pinned}: exchange them")
    key = _key(asked.query.get("key", ""))
    try:
        changes = new.dataset.changes(old.pinned, key=key)
    except LanceError:  # a damaged file is a ValueError, too
        raise
    except ValueError as error:
        raise BadRequest(str(error)) from error
    counts = counts_of_rows(changes)
    said = [f"{plural(number, 'row')} {what}" for what, number in counts.items()]
    said += schema_differences(old.opened, new.opened) or ["the same schema"]
    items = "".join(f"<li>{as_html(line)}</li>" for line in said)
    boxes = [
        Box("old", "From", str(old.pinned)),
        Box("new", "To", str(new.pinned)),
        Box("key", "Rows told apart by", asked.query.get("key", ""), _example(new), is_long=True),
    ]
    asking = form("diff", boxes, "Compare", {})
    title = f"{old.pinned} → {new.pinned}"
    cells = "" if key is None else section(_cells(changes, key), "Changed values")
    return section(f"{asking}<ul>{items}</ul>", title) + cells + section(_rows(changes), "Rows")


def _before(version: Target) -> str:
    """Return the version before one, or the same where there is none, as a ref."""
    earlier = [one for one in version.dataset.versions() if one < version.manifest.version]
    return str(
        Ref(version=earlier[-1], branch=version.resolved.branch) if earlier else version.pinned
    )


def _example(version: Target) -> str:
    """Return a column as the example of a key."""
    names = readable_columns(version.manifest.fields)
    return names[0] if names else ""


def _key(text: str) -> list[str] | None:
    """Return the columns of a key, None where there is none.

    Raises:
        BadRequest: The text is no list of names.
    """
    if not text.strip():
        return None
    try:
        return read_columns((text,))
    except BadParameter as error:
        raise BadRequest(f"key: {error.message}") from error


def _cells(changes: pa.Table, key: Sequence[str]) -> str:
    """Return how many values of each column updates changed, and the first of these values."""
    counts = counts_by_column(changes)
    if not counts:
        return "<p>none</p>"
    said = [f"{name}: {plural(number, 'value')}" for name, number in counts.items()]
    items = "".join(f"<li>{as_html(line)}</li>" for line in said)
    rows = [
        [
            *(as_html(cell(one.key[name])) for name in key),
            as_html(one.column),
            f'<span class="bad">{as_html(cell(one.before))}</span>',
            f'<span class="good">{as_html(cell(one.after))}</span>',
            str(one.version),
        ]
        for one in islice(changed_cells(changes, key), _MAX_ROWS)
    ]
    shown = table((*key, "column", "before", "after", "version"), rows, (len(key) + 3,))
    more = sum(counts.values()) - len(rows)
    return f"<ul>{items}</ul>{shown}" + (_rest(more, "more value") if more else "")


def _rest(number: int, what: str) -> str:
    return f"<p>{plural(number, what)} not shown</p>"


def _rows(changes: pa.Table) -> str:
    """Return the first changed rows."""
    shown = readable(changes.slice(0, _MAX_ROWS))
    names = [name for name in shown.column_names if not name.startswith("_")]
    columns = [python_values(shown[name]) for name in ("_change_type", "_commit_version", *names)]
    rows = [
        [_MARKS[kind], str(version), *(as_html(cell(value)) for value in values)]
        for kind, version, *values in zip(*columns, strict=True)
    ]
    more = changes.num_rows - len(rows)
    return table(("", "version", *names), rows, (1,)) + (_rest(more, "more row") if more else "")
