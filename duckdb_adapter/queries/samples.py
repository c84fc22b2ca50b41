"""How many rows a query draws of a table, as its text tells: `USING SAMPLE 10`.

DuckDB asks the Arrow scan for all columns of all rows, of which it then draws some. It draws before
it tests conditions, groups or orders. A share of the rows (`10%`), and what is drawn again with a
seed (`REPEATABLE`), is left to DuckDB.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duckdb_adapter.queries.table_query import TableQuery


def sampled_rows(query: TableQuery) -> int:
    """Return how many rows of a table a query draws; 0 where it uses others, too."""
    node = query.plain_select if "sample" in query.text.lower() else None
    if node is None:
        return 0
    source = node["from_table"]
    samples = [each for each in (node.get("sample"), source.get("sample")) if each]
    if len(samples) != 1 or not query.names({**source, "sample": None}):
        return 0
    return _rows(samples[0])


def _rows(sample: Mapping[str, Any]) -> int:
    """Return how many rows a sample has; 0 for a share, or one that is drawn again."""
    is_again = sample.get("repeatable") or sample["seed"] != -1
    if sample["is_percentage"] or sample["method"] != "Reservoir" or is_again:
        return 0
    size = sample["sample_size"]["value"]
    return size if isinstance(size, int) and size > 0 else 0
