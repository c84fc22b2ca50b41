"""`lancefs schema`: the columns of a version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from lancefs.cli import shared_options
from lancefs.cli.render.grid import GridColumn

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.datafile.fields import Field


@shared_options.command(
    examples="""
    lancefs schema orders.lance
    lancefs schema orders.lance@3 --ids
    lancefs schema orders.lance --format json
    """
)
@shared_options.table
@click.option("--ids", is_flag=True, help="Show field ids, and the types as Lance spells them.")
@shared_options.output
def schema(target: Target, ids: bool, form: str) -> None:
    """Show the columns of a version: names, types, and which may be null."""
    import pyarrow as pa

    from lancefs.cli.render.rows import print_records

    rows = list(field_rows(target.manifest.fields))
    if form == "table":
        for row in rows:
            row["column"] = "  " * int(str(row["depth"])) + str(row["column"]).rpartition(".")[2]
    columns = [
        GridColumn("column", "column", str, style="cyan"),
        GridColumn("type", "type", lambda value: value or "not known to this release"),
        GridColumn("null", "nullable", lambda value: "" if value else "never"),
    ]
    if any(row["key"] for row in rows):
        columns.append(GridColumn("key", "key", lambda value: "key" if value else ""))
    if ids:
        columns[1:1] = [GridColumn("id", "id", str, right=True)]
        columns.append(GridColumn("Lance type", "logical_type", str))
    arrow_schema = pa.schema(
        [
            ("column", pa.string()),
            ("type", pa.string()),
            ("nullable", pa.bool_()),
            ("id", pa.int32()),
            ("logical_type", pa.string()),
            ("key", pa.bool_()),
            ("depth", pa.int32()),
            ("problem", pa.string()),
        ]
    )
    print_records(arrow_schema, rows, form, columns)


def field_rows(
    fields: Sequence[Field], prefix: str = "", depth: int = 0
) -> Iterator[dict[str, object]]:
    """Yield a row for each field, followed by the rows of its children.

    Args:
        fields: Fields of one level.
        prefix: Path of their parent, with a dot at the end.
        depth: Number of their ancestors.
    """
    from lancefs.errors import UnsupportedFeature

    for field in fields:
        problem = None
        try:
            kind: str | None = short_type(field)
        except UnsupportedFeature as error:
            kind, problem = None, str(error)
        yield {
            "column": prefix + field.name,
            "type": kind,
            "nullable": field.nullable,
            "id": field.id,
            "logical_type": field.logical_type,
            "key": field.primary_key is not None,
            "depth": depth,
            "problem": problem,
        }
        yield from field_rows(field.children, f"{prefix}{field.name}.", depth + 1)


def short_type(field: Field) -> str:
    """Return the Arrow type of a field, without the types of its children."""
    text = str(field.to_arrow().type)
    return text if not field.children else text.partition("<")[0]
