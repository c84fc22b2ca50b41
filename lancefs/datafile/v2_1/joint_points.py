"""A few rows of leaf columns in several local files, by one call of a kernel (2.0 and later).

Rows that are drawn from a table lie in many fragments. The columns of all of them whose pages the
kernel supports are read as one; see `points`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.row_ranges import count_rows, rows_of
from lancefs.datafile.v2_1.kernel_choice import MAX_JOINT_ROWS, is_worthwhile
from lancefs.datafile.v2_1.leaf_columns import LeafField
from lancefs.datafile.v2_1.nested_points import FilePlan
from lancefs.datafile.v2_1.point_plans import LeafPlan
from lancefs.datafile.v2_1.point_reader import PointReader


class JointPlan(NamedTuple):
    """How rows of several files are read at once.

    Attributes:
        files: The plan of each file, with the same leaves.
        rows: The wanted rows of each file: int64, shape (rows,), ascending and each once.
    """

    files: Sequence[FilePlan]
    rows: Sequence[Ints]


def plan_joint(
    files: Sequence[tuple[PointReader, Sequence[RowRange]]], leaves: Sequence[LeafField]
) -> JointPlan | None:
    """Plan how rows are read of those columns whose pages the kernel supports in all files.

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
    counts = [len(own) for own in rows]
    if sum(counts) > MAX_JOINT_ROWS:
        return None
    if not all(reader.container.file.is_in_memory for reader in readers):
        return None
    stored = {leaf.field.id for leaf in leaves}.intersection(*(each.columns for each in readers))
    for reader in readers:
        reader.container.load_columns([reader.columns[id] for id in stored])
    planned, others = [], set()
    for leaf in leaves:
        plans = _plans(leaf, readers) if leaf.field.id in stored else None
        if plans is not None and _are_worthwhile(plans, counts):
            planned.append((leaf, plans))
        else:
            others.add(leaf.top.id)  # of a struct, all leaves are read in the same way
    planned = [(leaf, plans) for leaf, plans in planned if leaf.top.id not in others]
    if not planned:
        return None
    kept = [leaf for leaf, _ in planned]
    of_files = zip(*(plans for _, plans in planned), strict=True)
    pairs = zip(readers, of_files, strict=True)
    return JointPlan([reader.file_plan(kept, own) for reader, own in pairs], rows)


def files_by_form(
    files: Sequence[tuple[PointReader, Sequence[RowRange]]], leaves: Sequence[LeafField]
) -> list[list[int]]:
    """Return the positions of files, those together whose leaves the kernel gives in one form.

    Those of which it does not read all leaves are together too.

    Args:
        files: As for `plan_joint`, which found no way to read the leaves of all files as one.
        leaves: The leaves of a field.

    Raises:
        CorruptFile: The metadata of a file is damaged.
        ReadFailed: A file was rewritten meanwhile, or cannot be read.
    """
    found: dict[object, list[int]] = {}
    for position, (reader, ranges) in enumerate(files):
        form = _form(reader, count_rows(ranges), leaves)
        found.setdefault(form, []).append(position)
    return list(found.values())


def _form(reader: PointReader, count: int, leaves: Sequence[LeafField]) -> object:
    """Return what the kernel gives for so many rows of leaves; None where it does not read all."""
    if not all(leaf.field.id in reader.columns for leaf in leaves):
        return None
    reader.container.load_columns([reader.columns[leaf.field.id] for leaf in leaves])
    form = []
    for leaf in leaves:
        plan = reader.plan(leaf, is_nested=bool(leaf.around))
        if plan is None or not is_worthwhile(count, plan.rows, plan.values):
            return None
        form.append(plan.joint_form)
    return tuple(form)


def _are_worthwhile(plans: Sequence[LeafPlan], counts: Sequence[int]) -> bool:
    """Whether so many rows of a leaf in each file are few enough to be read singly.

    They are if those of all files are, or those of each: file by file the kernel would read them
    as well, with a call for each.
    """
    count = sum(counts)
    rows, values = sum([plan.rows for plan in plans]), sum([plan.values for plan in plans])
    if is_worthwhile(count, rows, values):
        return True
    return count * values // max(rows, 1) <= MAX_JOINT_ROWS and all(
        is_worthwhile(own, plan.rows, plan.values) for plan, own in zip(plans, counts, strict=True)
    )


def _plans(leaf: LeafField, readers: Sequence[PointReader]) -> list[LeafPlan] | None:
    """Return the plan of a leaf in each file; None where these cannot be read as one."""
    plans = _alike(leaf, readers, is_nested=False)
    return _alike(leaf, readers, is_nested=True) if plans is None and leaf.around else plans


def _alike(
    leaf: LeafField, readers: Sequence[PointReader], is_nested: bool
) -> list[LeafPlan] | None:
    plans: list[LeafPlan] = []
    for reader in readers:
        plan = reader.plan(leaf, is_nested)
        if plan is None or not reader.may_have(plan.rows):
            return None
        if plans and plan.joint_form != plans[0].joint_form:
            return None
        plans.append(plan)
    return plans
