"""The page `diff`: what changed between two versions."""

from __future__ import annotations

import pyarrow as pa

from lancefs.cli.cell_changes import counts_of_rows
from lancefs.cli.pages.page_request import PageRequest
from lancefs.cli.pages.parts import section
from lancefs.cli.render.text import plural
from lancefs.cli.report.markup import table
from lancefs.printable import as_html
from lancefs.serve.refusals import BadRequest
from lancefs.showing import cell, python_values, readable
from lancefs.table.history import schema_differences

_MOST_ROWS = 100
_MARKS = {
    "insert": '<span class="good">+</span>',
    "delete": '<span class="bad">−</span>',
    "update_preimage": '<span class="bad">&lt;</span>',
    "update_postimage": '<span class="good">&gt;</span>',
}


def make(asked: PageRequest) -> str:
    """Return the differences of the versions `old` and `new`: schema, counts, and first rows."""
    old, new = asked.version("old", ""), asked.version("new")
    if old.manifest.version > new.manifest.version:
        raise BadRequest("old is newer than new")
    try:
        changes = new.dataset.changes(old.pinned)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    counts = counts_of_rows(changes)
    said = [f"{plural(number, 'row')} {what}" for what, number in counts.items()]
    said += schema_differences(old.manifest.fields, new.manifest.fields) or ["the same schema"]
    items = "".join(f"<li>{as_html(line)}</li>" for line in said)
    title = f"{old.pinned} → {new.pinned}"
    return section(f"<ul>{items}</ul>", title) + section(_rows(changes), "Rows")


def _rows(changes: pa.Table) -> str:
    """Return the first changed rows."""
    shown = readable(changes.slice(0, _MOST_ROWS))
    names = [name for name in shown.column_names if not name.startswith("_")]
    columns = [python_values(shown[name]) for name in ("_change_type", "_commit_version", *names)]
    rows = [
        [_MARKS[kind], str(version), *(as_html(cell(value)) for value in values)]
        for kind, version, *values in zip(*columns, strict=True)
    ]
    more = changes.num_rows - len(rows)
    rest = f"<p>{plural(more, 'more row')} not shown</p>" if more else ""
    return table(("", "version", *names), rows, (1,)) + rest
