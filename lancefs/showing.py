"""A dataset at a glance: one line for a prompt, a small page for a notebook.

Only what is shown is read: the manifest, and a few rows of the first columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.errors import LanceError

if TYPE_CHECKING:
    from lancefs.lance_dataset import LanceDataset

NULL = "null"
_ITEMS = 4  # of a list that are shown
_LONGEST = 200  # characters of a value
_ROWS = 5  # of a notebook's page
_COLUMNS = 12
_FIELDS = 50

_STYLE = "text-align:left;padding:2px 8px;vertical-align:top"


def as_text(dataset: LanceDataset) -> str:
    """Say in a line where a dataset is, which version, and how large."""
    manifest = dataset.manifest
    rows = "" if manifest.num_rows is None else f"{_plural(manifest.num_rows, 'row')}, "
    columns, fragments = len(manifest.fields), len(manifest.fragments)
    name = f"{dataset.uri}@{_version(dataset)}"
    sizes = f"{rows}{_plural(columns, 'column')}, {_plural(fragments, 'fragment')}"
    if dataset.is_fresh:
        sizes += f", with {_plural(len(dataset.unmerged_generations()), 'unmerged generation')}"
    return f"<LanceDataset {name}: {sizes}>"


def as_html(dataset: LanceDataset) -> str:
    """Show a dataset in a notebook: what it is, its columns, its first rows."""
    name = escape(f"{dataset.uri}@{_version(dataset)}")
    committed = dataset.manifest.timestamp.strftime("%Y-%m-%d %H:%M:%S UTC")
    sizes = escape(as_text(dataset).rpartition(": ")[2].rstrip(">"))
    return (
        f"<div><div><b>LanceDataset</b> <code>{name}</code></div>"
        f"<div>{sizes}; committed {committed}</div>"
        f"{_first_rows(dataset)}"
        f"<details><summary>Columns</summary>{_schema(dataset.manifest.fields)}</details></div>"
    )


def readable_columns(fields: Sequence[Field]) -> list[str]:
    """Return the names of the columns whose types this release knows."""
    return [one.name for one in fields if one.shown_type is not None]


def cell(value: Any) -> str:
    """Return a value of a table as one short line without control characters."""
    text = _cell(value)
    if not text.isprintable():
        text = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def readable(table: pa.Table) -> pa.Table:
    """Cast what becomes Python values only with pandas (nanoseconds) to what needs none."""
    wanted = [pa.field(field.name, plain_type(field.type)) for field in table.schema]
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, wanted, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(wanted))


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type that values are cast to before they become Python's."""
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if pa.types.is_duration(data_type) and data_type.unit == "ns":
        return pa.int64()
    is_moment = pa.types.is_timestamp(data_type) or pa.types.is_time64(data_type)
    if is_moment and data_type.unit == "ns":
        return pa.string()
    if pa.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([_plain_field(one) for one in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_plain_field(data_type.value_field))
    if pa.types.is_large_list(data_type):
        return pa.large_list(_plain_field(data_type.value_field))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(_plain_field(data_type.value_field), data_type.list_size)
    return data_type


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def _cell(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, str):
        return value[: _LONGEST + 1]
    if isinstance(value, bytes):
        return f"{value[:8].hex(' ')}{' …' if len(value) > 8 else ''} ({len(value):,} bytes)"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_cell(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        shown = [_cell(item) for item in value[:_ITEMS]]
        more = [f"… {len(value):,} items"] if len(value) > _ITEMS else []
        return f"[{', '.join(shown + more)}]"
    return str(value).removesuffix("+00:00") if hasattr(value, "tzinfo") else str(value)


def _version(dataset: LanceDataset) -> str:
    return f"{dataset.branch}:{dataset.version}" if dataset.branch else str(dataset.version)


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _first_rows(dataset: LanceDataset) -> str:
    """The first rows of the first columns; what is wrong with them stands in their place."""
    names = readable_columns(dataset.manifest.fields)
    shown = names[:_COLUMNS]
    try:
        table = readable(dataset.head(_ROWS, columns=shown))
    except LanceError as error:
        return f"<div><b>The rows cannot be read:</b> {escape(str(error))}</div>"
    columns = [column.to_pylist() for column in table.columns]
    titles = [*shown, "…"] if len(names) > len(shown) else shown
    body = [
        [cell(value) for value in row] + ["…"] * (len(titles) - len(shown))
        for row in zip(*columns, strict=True)
    ]
    return _table(titles, body)


def _schema(fields: Sequence[Field]) -> str:
    rows = [[path, kind, "" if null else "never null"] for path, kind, null in _walk(fields)]
    more = [[f"… {len(rows) - _FIELDS} more", "", ""]] if len(rows) > _FIELDS else []
    return _table(["column", "type", ""], rows[:_FIELDS] + more)


def _walk(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[str, str, bool]]:
    for one in fields:
        kind = one.shown_type or f"{one.logical_type} (not known to this release)"
        yield prefix + one.name, kind.partition("<")[0] if one.children else kind, one.nullable
        yield from _walk(one.children, f"{prefix}{one.name}.")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th style="{_STYLE}">{escape(title)}</th>' for title in titles)
    lines = [
        "<tr>" + "".join(f'<td style="{_STYLE}">{escape(text)}</td>' for text in row) + "</tr>"
        for row in rows
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
