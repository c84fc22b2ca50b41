"""Representations of a dataset: one line of text, and HTML for notebooks.

They read the manifest and, for HTML, a few rows of the first columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.errors import LanceError
from lancefs.masking import mask_secrets

if TYPE_CHECKING:
    from lancefs.table.manifest import Manifest
    from lancefs.table.mem_wal import Generation

NULL = "null"
_MAX_ITEMS = 4  # of a list
_MAX_CHARACTERS = 200  # of a value
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
    def is_fresh(self) -> bool: ...
    def unmerged_generations(self) -> list[Generation]: ...
    def head(self, num_rows: int, columns: Sequence[str]) -> pa.Table: ...


def as_text(dataset: Shown) -> str:
    """Return one line with the address, version and size of a dataset."""
    manifest = dataset.manifest
    rows = "" if manifest.num_rows is None else f"{_plural(manifest.num_rows, 'row')}, "
    columns, fragments = len(manifest.fields), len(manifest.fragments)
    name = f"{mask_secrets(dataset.uri)}@{_version(dataset)}"
    sizes = f"{rows}{_plural(columns, 'column')}, {_plural(fragments, 'fragment')}"
    if dataset.is_fresh:
        sizes += f", with {_plural(len(dataset.unmerged_generations()), 'unmerged generation')}"
    return f"<LanceDataset {name}: {sizes}>"


def as_html(dataset: Shown) -> str:
    """Return HTML with the address, version, size, first rows and columns of a dataset."""
    name = escape(f"{mask_secrets(dataset.uri)}@{_version(dataset)}")
    committed = dataset.manifest.timestamp.strftime("%Y-%m-%d %H:%M:%S UTC")
    sizes = escape(as_text(dataset).rpartition(": ")[2].rstrip(">"))
    return (
        f"<div><div><b>LanceDataset</b> <code>{name}</code></div>"
        f"<div>{sizes}; committed {committed}</div>"
        f"{_first_rows(dataset)}"
        f"<details><summary>Columns</summary>{_schema(dataset.manifest.fields)}</details></div>"
    )


def readable_columns(fields: Sequence[Field]) -> list[str]:
    """Return the names of the columns whose types this release supports."""
    return [field.name for field in fields if field.shown_type is not None]


def cell(value: Any) -> str:
    """Format a value as one short line, with control characters escaped."""
    text = _format(value)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def readable(table: pa.Table) -> pa.Table:
    """Cast columns to types whose values become Python values without pandas: no nanoseconds."""
    fields = [pa.field(field.name, plain_type(field.type)) for field in table.schema]
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, fields, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type that `readable` casts values of a type to."""
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if pa.types.is_duration(data_type) and data_type.unit == "ns":
        return pa.int64()
    is_time = pa.types.is_timestamp(data_type) or pa.types.is_time64(data_type)
    if is_time and data_type.unit == "ns":
        return pa.string()
    if pa.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_struct(data_type):
        return pa.struct([_plain_field(field) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_plain_field(data_type.value_field))
    if pa.types.is_large_list(data_type):
        return pa.large_list(_plain_field(data_type.value_field))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(_plain_field(data_type.value_field), data_type.list_size)
    return data_type


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def _format(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, str):
        return value[: _MAX_CHARACTERS + 1]
    if isinstance(value, bytes):
        return f"{value[:8].hex(' ')}{' …' if len(value) > 8 else ''} ({len(value):,} bytes)"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_format(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        items = [_format(item) for item in value[:_MAX_ITEMS]]
        more = [f"… {len(value):,} items"] if len(value) > _MAX_ITEMS else []
        return f"[{', '.join(items + more)}]"
    return str(value).removesuffix("+00:00") if hasattr(value, "tzinfo") else str(value)


def _version(dataset: Shown) -> str:
    return f"{dataset.branch}:{dataset.version}" if dataset.branch else str(dataset.version)


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _first_rows(dataset: Shown) -> str:
    """Return a table of the first rows of the first columns, or the error of reading them."""
    names = readable_columns(dataset.manifest.fields)
    shown = names[:_MAX_COLUMNS]
    try:
        table = readable(dataset.head(_MAX_ROWS, columns=shown))
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
    more = [[f"… {len(rows) - _MAX_FIELDS} more", "", ""]] if len(rows) > _MAX_FIELDS else []
    return _table(["column", "type", ""], rows[:_MAX_FIELDS] + more)


def _walk(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield the path, the type and the nullability of each field, parents before children."""
    for field in fields:
        kind = field.shown_type or f"{field.logical_type} (not known to this release)"
        kind = kind.partition("<")[0] if field.children else kind
        yield prefix + field.name, kind, field.nullable
        yield from _walk(field.children, f"{prefix}{field.name}.")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th style="{_STYLE}">{escape(title)}</th>' for title in titles)
    lines = [
        "<tr>" + "".join(f'<td style="{_STYLE}">{escape(text)}</td>' for text in row) + "</tr>"
        for row in rows
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
