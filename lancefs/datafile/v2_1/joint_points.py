"""A few rows of leaf columns in several local files, by one call of a kernel (2.1 and later).

Rows that are drawn from a table lie in many fragments. The columns of all of them whose pages the
kernel knows are read as one; see `points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.kernels.points import PageColumn
from lancefs.datafile.row_ranges import rows_of
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.point_plans import MOST_ROWS, LeafPlan, PlanTable, is_worthwhile
from lancefs.datafile.v2_1.points import Points, PointSource, read_points
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import CorruptFile
from lancefs.storage import Bytes, count_pages


class JointRows(NamedTuple):
    """What was read of several files at once.

    Attributes:
        arrays: The values of the leaves that the kernel could read, by field id; no struct around
            them is null.
        refusal: The error of the kernel if it refused pages; the general way says what is damaged.
    """

    arrays: dict[int, pa.Array]
    refusal: CorruptFile | None = None


class JointPlan(NamedTuple):
    """How rows of several files are read at once.

    Attributes:
        fields: The id of each leaf.
        tables: The plans of the leaves, in each file.
        rows: The wanted rows of each file.
    """

    fields: Sequence[int]
    tables: Sequence[PlanTable]
    rows: Sequence[Ints]

    def read(self, data: Sequence[Bytes]) -> Points:
        """Read the rows.

        Args:
            data: The bytes of each file that its table spans.

        Raises:
            CorruptFile: A page is damaged.
            TooLarge: The strings have more bytes than `limited` allows.
        """
        points = read_points(
            [
                PointSource(table, rows, own, table.span[0])
                for table, rows, own in zip(self.tables, self.rows, data, strict=True)
            ]
        )
        count_pages(sum(map(_pages_with_rows, self.tables, self.rows)))
        return points


def plan_joint(
    files: Sequence[tuple[StructuralReader, Sequence[RowRange]]], leaves: Sequence[LeafField]
) -> JointPlan | None:
    """Plan how rows are read of those columns whose pages the kernel knows in all files.

    Args:
        files: The reader of each file, and ranges of its rows, ascending and disjoint.
        leaves: The leaves of fields that are pruned to what each of the files holds.

    Returns:
        None where there are no such leaves, or too many rows.

    Raises:
        CorruptFile: The metadata of a file is damaged.
        ReadFailed: A file was rewritten meanwhile, or cannot be read.
    """
    readers, rows = [reader for reader, _ in files], [rows_of(ranges) for _, ranges in files]
    count = sum(map(len, rows))
    if count > MOST_ROWS or not all(reader.container.file.is_in_memory for reader in readers):
        return None
    for reader in readers:
        reader.container.load_columns([reader.columns[leaf.field.id] for leaf in leaves])
    planned, others = [], set()
    for leaf in leaves:
        plans = _plans(leaf, readers)
        if plans is not None and is_worthwhile(count, sum([plan.rows for plan in plans])):
            planned.append((leaf, plans))
        else:
            others.add(leaf.top.id)  # of a struct, all leaves are read in the same way
    planned = [(leaf, plans) for leaf, plans in planned if leaf.top.id not in others]
    if not planned:
        return None
    fields = [leaf.field.id for leaf, _ in planned]
    of_leaves = [plans for _, plans in planned]
    of_files = zip(*of_leaves, strict=True)
    tables = [reader.plan_table(plans) for reader, plans in zip(readers, of_files, strict=True)]
    return JointPlan(fields, tables, rows)


def _plans(leaf: LeafField, readers: Sequence[StructuralReader]) -> list[LeafPlan] | None:
    """Return the plan of a leaf in each file; None where these cannot be read as one."""
    plans: list[LeafPlan] = []
    for reader in readers:
        plan = reader.plan(leaf)
        if plan is None or not reader.may_have(plan.rows):
            return None
        if plans and (plan.form, plan.bits) != (plans[0].form, plans[0].bits):
            return None
        plans.append(plan)
    return plans


def _pages_with_rows(table: PlanTable, rows: Ints) -> int:
    """Return the number of pages of leaves that hold rows."""
    count = 0
    for plan in table.plans:
        first_rows = plan.pages[1:, PageColumn.FIRST_ROW]
        count += len(np.unique(first_rows.searchsorted(rows, "right"))) if len(first_rows) else 1
    return count
