"""`lancefs du`: the bytes of a version by column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancefs.cli import shared_options
from lancefs.cli.render.grid import GridColumn, print_line
from lancefs.cli.render.text import plural, share, size

if TYPE_CHECKING:
    import pyarrow as pa

    from lancefs.cli.target import Target
    from lancefs.cli.usage import ColumnUse, Usage

# What a terminal shows of a column.
_COLUMNS = [
    GridColumn("column", "column", str, style="cyan"),
    GridColumn("bytes", "bytes", size, right=True),
    GridColumn("share", "share", share, right=True),
    GridColumn("in memory", "shown_memory", lambda value: value or "", right=True),
    GridColumn("ratio", "ratio", lambda v: "–" if v is None else f"{v:.1f}", right=True),
    GridColumn("dead", "dead", lambda value: size(value) if value else "", right=True),
    GridColumn("encoding", "encoding", lambda value: value or ""),
]


@shared_options.command(
    examples="""
    lancefs du orders.lance
    lancefs du orders.lance@prod --format csv
    """,
    epilog="Dead bytes belong to deleted rows (estimated: all rows count as equally large) and to "
    "columns that were dropped or replaced; a compaction frees them.",
)
@shared_options.table
@shared_options.output
def du(target: Target, form: str) -> None:
    """Show the bytes of a version by column: on disk, in memory, encoding, dead bytes."""
    from lancefs.cli.render.rows import print_records
    from lancefs.cli.usage import measure_bytes

    usage = measure_bytes(target)
    rows = sorted((_to_row(column, usage) for column in usage.columns), key=_descending_bytes)
    other_bytes = {
        "(dropped or replaced columns)": (usage.tombstoned, usage.tombstoned),
        "(format 0.1: not known by column)": (usage.unattributed, 0),
        _overhead_name(target): (usage.overhead, 0),
    }
    for name, (number, dead) in other_bytes.items():
        if number:
            part = number / usage.total if usage.total else None
            rows.append({"column": name, "bytes": number, "share": part, "dead": dead})
    print_records(_schema(), rows, form, _COLUMNS)
    if form == "table":
        files = sum(len(fragment.files) for fragment in target.manifest.fragments)
        dead_part = f", {size(usage.dead)} of them dead" if usage.dead else ""
        print_line()
        print_line(f"{size(usage.total)} in {plural(files, 'data file')}{dead_part}")
        for problem in usage.problems:
            print_line(f"not counted: {problem}")


def _schema() -> pa.Schema:
    """Return what programs get of a column."""
    import pyarrow as pa

    return pa.schema(
        [
            ("column", pa.string()),
            ("bytes", pa.int64()),
            ("share", pa.float64()),
            ("memory", pa.int64()),
            ("memory_is_estimate", pa.bool_()),
            ("ratio", pa.float64()),
            ("dead", pa.int64()),
            ("encoding", pa.string()),
        ]
    )


def _to_row(column: ColumnUse, usage: Usage) -> dict[str, Any]:
    is_known = column.bytes or not usage.unattributed
    approximately = "≈" if column.is_estimate else ""
    return {
        "column": column.name,
        "bytes": column.bytes if is_known else None,
        "share": column.bytes / usage.total if usage.total and is_known else None,
        "memory": column.memory,
        "memory_is_estimate": column.is_estimate,
        "shown_memory": approximately + size(column.memory),
        "ratio": column.ratio,
        "dead": column.dead,
        "encoding": ", ".join(sorted(column.encodings, key=lambda k: -column.encodings[k])),
    }


def _overhead_name(target: Target) -> str:
    """Return a name for the bytes of data files outside of pages."""
    has_blobs = any(field.is_blob for field in target.manifest.fields)
    return "(blobs, footers and metadata)" if has_blobs else "(footers and metadata)"


def _descending_bytes(row: dict[str, Any]) -> int:
    return -(row["bytes"] or 0)
