"""`lancefs du`: where the bytes of a version are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancefs.cli import shared_options
from lancefs.cli.render.grid import Column, print_plain
from lancefs.cli.render.text import plural, share, size

if TYPE_CHECKING:
    from lancefs.cli.target import Target
    from lancefs.cli.usage import ColumnUse, Usage


@shared_options.command(
    examples="""
    lancefs du orders.lance
    lancefs du orders.lance@prod --format csv
    """,
    epilog="Dead bytes are those of deleted rows (taken to be as large as others) and of columns "
    "that were dropped or replaced; a compaction frees them.",
)
@shared_options.table
@shared_options.output
def du(target: Target, form: str) -> None:
    """Show the bytes of a version by column: on disk, in memory, encoding, dead bytes."""
    import pyarrow as pa

    from lancefs.cli.render.rows import print_records
    from lancefs.cli.usage import measure

    usage = measure(target)
    rows = sorted((_row(column, usage) for column in usage.columns), key=_by_bytes)
    others = {
        "(dropped or replaced columns)": (usage.tombstoned, usage.tombstoned),
        "(format 0.1: columns not told apart)": (usage.untold, 0),
        _rest(target): (usage.overhead, 0),
    }
    for name, (number, dead) in others.items():
        if number:
            part = number / usage.total if usage.total else None
            rows.append({"column": name, "bytes": number, "share": part, "dead": dead})
    schema = pa.schema(
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
    shown = [
        Column("column", "column", str, style="cyan"),
        Column("bytes", "bytes", size, right=True),
        Column("share", "share", share, right=True),
        Column("in memory", "shown_memory", lambda value: value or "", right=True),
        Column("ratio", "ratio", lambda v: "–" if v is None else f"{v:.1f}", right=True),
        Column("dead", "dead", lambda value: size(value) if value else "", right=True),
        Column("encoding", "encoding", lambda value: value or ""),
    ]
    print_records(schema, rows, form, shown)
    if form == "table":
        files = sum(len(one.files) for one in target.manifest.fragments)
        of_them = f", {size(usage.dead)} of them dead" if usage.dead else ""
        print_plain(f"\n{size(usage.total)} in {plural(files, 'data file')}{of_them}")
        for problem in usage.problems:
            print_plain(f"not counted: {problem}")


def _row(column: ColumnUse, usage: Usage) -> dict[str, Any]:
    is_told = column.bytes or not usage.untold
    around = "≈" if column.is_estimate else ""
    return {
        "column": column.name,
        "bytes": column.bytes if is_told else None,
        "share": column.bytes / usage.total if usage.total and is_told else None,
        "memory": column.memory,
        "memory_is_estimate": column.is_estimate,
        "shown_memory": around + size(column.memory),
        "ratio": column.ratio,
        "dead": column.dead,
        "encoding": ", ".join(sorted(column.encodings, key=lambda k: -column.encodings[k])),
    }


def _rest(target: Target) -> str:
    """What is in data files beside the pages of columns."""
    has_blobs = any(one.is_blob for one in target.manifest.fields)
    return "(blobs, footers and metadata)" if has_blobs else "(footers and metadata)"


def _by_bytes(row: dict[str, Any]) -> int:
    return -(row["bytes"] or 0)
