"""Where the rows of each file came from: which version, which fragments, which rows of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lancefs.spark.pipeline.destination import Materialized

LINEAGE = "_lineage.jsonl"


def lineage(complete: Materialized) -> Iterator[dict[str, Any]]:
    """Yield where the rows of each file came from, in the order of the table.

    Args:
        complete: One whole version at a destination.

    Returns:
        For each file its path, the table, version, branch and time of the commit, the ids of the
        fragments that it has rows of, and how many rows it has. `first_row` is the position of its
        first row in the version, from which it has `rows` consecutive ones; None where the rows
        were divided among directories, by the values in its path.
    """
    start = 0
    for piece in complete.pieces:
        first = start
        for part in piece.parts:
            yield {
                "file": part.path,
                "source": complete.source,
                "version": complete.version,
                "branch": complete.branch,
                "committed": complete.committed,
                "fragments": [number for number, _ in piece.fragments],
                "rows": part.rows,
                "first_row": None if complete.settings.partition_by else first,
            }
            first += part.rows
        start += piece.rows


def to_lines(complete: Materialized) -> bytes:
    """Return the lineage of a version as lines of JSON."""
    return "".join(json.dumps(line) + "\n" for line in lineage(complete)).encode()
