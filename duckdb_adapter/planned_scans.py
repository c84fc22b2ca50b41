"""The filters that DuckDB 2.0 pushes into the scans that it plans, and the answer to each.

DuckDB shows nothing of a scan of Arrow data but its filters. It asks for each filter while it
plans, also for EXPLAIN, so that it is known then which indices the scan would use.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from operator import and_

import pyarrow.compute as pc

from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import to_text


class PlannedScan:
    """A scan of a table in a plan.

    Args:
        dataset: The table.

    Attributes:
        filters: The conditions that the scan is given; rows for which all are true come out.
        left: Conditions that it could be given, and that keep most rows, so that DuckDB tests them.
    """

    def __init__(self, dataset: LanceDataset) -> None:
        self.dataset = dataset
        self.filters: list[pc.Expression] = []
        self.left: list[pc.Expression] = []

    def add(self, filter: pc.Expression, is_left: bool = False) -> None:
        """Note a condition; DuckDB may ask for the same one several times.

        Args:
            filter: The condition.
            is_left: Whether it is left to DuckDB.
        """
        noted = self.left if is_left else self.filters
        if not any(filter.equals(known) for known in noted):
            noted.append(filter)

    def explain(self) -> str:
        """Tell how the rows are found, a line each; indices are read for it."""
        filter = reduce(and_, self.filters) if self.filters else None
        lines = [self.dataset.scanner(filter=filter).explain()]
        lines += [f"DuckDB tests {to_text(one)}, which keeps most rows" for one in self.left]
        return "\n".join(lines)


_noted: ContextVar[list[PlannedScan] | None] = ContextVar("planned scans", default=None)


@contextmanager
def noting_scans() -> Iterator[list[PlannedScan]]:
    """Note the scans of tables in all queries that this thread plans inside of the context."""
    scans: list[PlannedScan] = []
    token = _noted.set(scans)
    try:
        yield scans
    finally:
        _noted.reset(token)


def note_scan(dataset: LanceDataset) -> PlannedScan:
    """Return a scan for its filters to be noted, which counts where scans are noted."""
    scan, noted = PlannedScan(dataset), _noted.get()
    if noted is not None:
        noted.append(scan)
    return scan
