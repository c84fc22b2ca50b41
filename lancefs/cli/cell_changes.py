"""Summary of changes: counts by kind, and the cells that updates changed, if compared by a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.short_texts import python_values, readable
from lancefs.table.changes import AFTER, BEFORE, CHANGED_COLUMNS, COMMIT_VERSION

# Updates whose values are made Python values at once.
_UPDATES = 1000


class CellChange(NamedTuple):
    """A value that an update changed.

    Attributes:
        key: The values of the key's columns, by name.
        column: The column.
        before: The value before.
        after: The value now.
        version: The version that changed it.
    """

    key: dict[str, Any]
    column: str
    before: Any
    after: Any
    version: int


def counts_of_rows(changes: pa.Table) -> dict[str, int]:
    """Return how many rows were inserted, deleted and updated.

    Args:
        changes: The rows of `LanceDataset.changes`.
    """
    kinds = changes["_change_type"].value_counts().to_pylist()
    counts = {str(kind["values"]): int(kind["counts"]) for kind in kinds}
    return {
        "inserted": counts.get("insert", 0),
        "deleted": counts.get("delete", 0),
        "updated": counts.get(AFTER, 0),
    }


def counts_by_column(changes: pa.Table) -> dict[str, int]:
    """Return how many updates changed each column, the column with most changes first.

    Args:
        changes: The rows of `LanceDataset.changes` with a key.
    """
    updates = changes.filter(pc.field("_change_type") == AFTER)
    names = pc.list_flatten(updates[CHANGED_COLUMNS.name]).to_pylist()
    return dict(Counter(names).most_common())


def changed_cells(changes: pa.Table, key: Sequence[str]) -> Iterator[CellChange]:
    """Yield the values that updates changed, update by update.

    Args:
        changes: The rows of `LanceDataset.changes` with a key.
        key: The columns of the key.
    """
    before, after = (changes.filter(pc.field("_change_type") == kind) for kind in (BEFORE, AFTER))
    for start in range(0, len(after), _UPDATES):
        yield from _cells(before.slice(start, _UPDATES), after.slice(start, _UPDATES), key)


def _cells(before: pa.Table, after: pa.Table, key: Sequence[str]) -> Iterator[CellChange]:
    names = before[CHANGED_COLUMNS.name].to_pylist()
    versions = after[COMMIT_VERSION.name].to_pylist()
    shown = sorted({*key, *(name for changed in names for name in changed)})
    old, new = (_columns(side, shown) for side in (before, after))
    for row, changed in enumerate(names):
        values = {name: old[name][row] for name in key}
        for name in changed:
            yield CellChange(values, name, old[name][row], new[name][row], versions[row])


def _columns(rows: pa.Table, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return some columns as Python values."""
    table = readable(rows.select(names))
    return {name: python_values(table[name]) for name in names}
