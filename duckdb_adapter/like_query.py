"""What texts must hold for a query to use their rows, as its text tells: `WHERE c LIKE 'a%b'`.

DuckDB gives the Arrow scan no conditions on parts of texts: it asks for all rows, and tests each of
them. What is found here is left out by the scan, where dictionaries, indices and the lengths of
other columns make it cheap. DuckDB tests the other rows again, so that less than what a pattern
asks for may be found, never more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from duckdb_adapter.query_trees import column_of, select_from, terms_of
from lancefs.lance_dataset import LanceDataset

_LIKE = "~~"
# One text of any length, or one letter.
_WILDCARDS = re.compile("[%_]+")


def text_conditions(text: str, name: str, dataset: LanceDataset) -> list[pc.Expression]:
    """Return conditions that are true for all rows that a query uses of a table.

    They hold for the table that the query selects from, and for no other use of it.

    Args:
        text: The whole statement.
        name: The table, as it stands in the text.
        dataset: Its rows.
    """
    if "like" not in text.lower():
        return []
    select = select_from(text, name, dataset.schema)
    where = None if select is None else select.node.get("where_clause")
    if select is None or where is None or select.node.get("sample"):
        return []
    return [each for term in terms_of(where) for each in _conditions(term, select.columns)]


def _conditions(term: Mapping[str, Any], columns: Mapping[str, str]) -> Iterator[pc.Expression]:
    """Yield what a text must hold for `column LIKE 'pattern'`; nothing for other conditions."""
    if term["class"] != "FUNCTION" or not term["is_operator"] or term["function_name"] != _LIKE:
        return
    text, pattern = (argument["expression"] for argument in term["arguments"])
    column, wanted = column_of(text, columns), _constant(pattern)
    if column is None or wanted is None:
        return
    first, *others = _WILDCARDS.split(wanted)
    if not others:
        return  # DuckDB makes a comparison of it
    *parts, last = others
    field = pc.field(columns[column])
    if first:
        yield pc.starts_with(field, first)
    if last:
        yield pc.ends_with(field, last)
    for part in filter(None, parts):
        yield pc.match_substring(field, part)


def _constant(node: Mapping[str, Any]) -> str | None:
    """Return a text that stands in the query; None for anything else."""
    literal = node.get("literal") if node["class"] == "CONSTANT" else None
    return literal["text"] if literal is not None and literal["kind"] == "STRING" else None
