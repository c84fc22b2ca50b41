"""Opening a data file of any format, and reading rows of several files as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Ints, RowRange
from lancefs.datafile.buffers import TooLarge, empty
from lancefs.datafile.container import Container
from lancefs.datafile.field_reader import FieldReader as FieldReader
from lancefs.datafile.field_reader import read_fields
from lancefs.datafile.fields import Field
from lancefs.datafile.kernels import find_pages
from lancefs.datafile.page_ranges import join_columns
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.assembly import assemble, assemble_rows, report_disagreement
from lancefs.datafile.v2_1.joint_points import files_by_form, plan_joint
from lancefs.datafile.v2_1.kernel_choice import is_worthwhile
from lancefs.datafile.v2_1.leaf_columns import leaves_below, leaves_of
from lancefs.datafile.v2_1.nested_points import FoundLeaves
from lancefs.datafile.v2_1.point_reader import PointReader, take_leaves
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.datafile.v2_1.small_files import (
    SmallFiles,
    SmallRows,
    SupportedField,
    are_supported,
    decode_small,
    plan_small,
    supported_fields,
)
from lancefs.errors import (
    LanceError,
    Refusal,
    UnsupportedFeature,
    locating,
)
from lancefs.storage import (
    Bytes,
    File,
    SparseRanges,
    count_bytes,
    read_all,
    read_joined,
    run,
)

NEWEST = (2, 3)
_IS_2_0 = (0, 3)  # how footers tell the format 2.0
# Files with the same structure are read as one if groups of them have this many on average.
_MIN_ALIKE = 4


def open_data_file(
    file: File, columns: Mapping[int, int], is_legacy: bool, rows: int | None = None
) -> FieldReader:
    """Open a data file; the footer of formats from 2.0 on tells the format.

    Args:
        file: The file.
        columns: Column index of each field that has a column, by field id.
        is_legacy: Whether the manifest says that the file has format 0.1, which finds columns by
            field id.
        rows: Number of rows that the file should have; None if it is not known.

    Raises:
        MissingFile: The file is gone.
        CorruptFile: The file is not a data file, or damaged.
        UnsupportedFeature: The format is newer than this release of lancefs.
    """
    if is_legacy:
        from lancefs.datafile.legacy.reader import LegacyReader

        return LegacyReader(file, rows)
    container = Container(file)
    version = container.footer.version
    with locating(file.url):
        if version > NEWEST:
            raise UnsupportedFeature(
                f"data file format {version[0]}.{version[1]}; this release of lancefs reads up to "
                f"{NEWEST[0]}.{NEWEST[1]}"
            )
    if version == (2, 0):
        from lancefs.datafile.v2_0.reader import ArrayReader

        return ArrayReader(container, columns, rows)
    return StructuralReader(container, columns, rows)


def read_small(
    files: Sequence[tuple[File, int, Sequence[RowRange]]],
    columns: Mapping[int, int],
    fields: Sequence[Field],
    holds: bool,
) -> SmallRows:
    """Read rows of small local files, of those fields whose pages kernels support.

    Args:
        files: Each file, which is read as a whole; the rows that it should have; and ranges of its
            rows, ascending and disjoint.
        columns: Index of the column of each field, by field id; the same in all files.
        fields: The fields.
        holds: Whether the bytes of the files are held, for later reads; they are where other fields
            are left to be read.

    Raises:
        MissingFile: A file is gone.
        CorruptFile: A file is shorter than the manifest says.
        ReadFailed: A file was rewritten meanwhile, or cannot be read.
    """
    supported = supported_fields(columns, fields)
    if not supported:
        return SmallRows({})
    if len(supported) < len(fields):
        rows = sum(own for _, own, _ in files)
        if is_worthwhile(sum(count_rows(ranges) for *_, ranges in files), rows, rows):
            return SmallRows({})  # a few rows of all fields are read at once, see `read_together`
        holds = True
    sizes = np.array([file.size for file, _, _ in files], np.int64)
    data = empty(int(sizes.sum()), np.uint8)
    read_joined([file for file, _, _ in files], data, holds)
    of_files = np.array([own for _, own, _ in files], np.int64)
    are_whole = all(len(ranges) == 1 and ranges[0] == (0, own) for _, own, ranges in files)
    wanted = None if are_whole else [ranges for _, _, ranges in files]
    return decode_small_files(data, sizes, of_files, supported, wanted)


def decode_small_files(
    data: Bytes,
    sizes: Ints,
    rows: Ints,
    supported: Sequence[SupportedField],
    ranges: Sequence[Sequence[RowRange]] | None = None,
) -> SmallRows:
    """Decode rows of small files, of those fields whose pages kernels support.

    Args:
        data: The bytes of the files, one after the other.
        sizes: Bytes of each file.
        rows: Rows that each file should have.
        supported: The fields; see `supported_fields`.
        ranges: Rows to read of each file, ascending and disjoint; None for all.
    """
    ends = np.cumsum(sizes)
    bounds = np.stack((ends - sizes, ends), axis=1)
    files = SmallFiles(data, bounds, rows, ranges)
    pages = find_pages(data, bounds, np.array([one.column for one in supported], np.int64))
    if pages is None:
        return SmallRows({})
    plan = None
    if are_supported(pages.versions):
        plan = plan_small
    elif tuple(pages.versions[0]) == _IS_2_0:
        from lancefs.datafile.v2_0 import small_files

        if small_files.is_supported(files, pages.versions):
            plan = small_files.plan_small
    if plan is None:
        return SmallRows({})
    found = decode_small(files, supported, pages.pages, plan)
    count_bytes(found.size)
    return found


def read_together(
    files: Sequence[tuple[File, FieldReader, Sequence[RowRange]]],
    fields: Sequence[Field],
    refusal: Refusal | None = None,
) -> list[pa.Array]:
    """Read rows of several files, each field as one array.

    Args:
        files: Each file, its reader, and ranges of its rows, ascending and disjoint.
        fields: The fields, pruned to what each of the files holds.
        refusal: The error of another decoder that refused these files, of which it may have read
            all rows; None if none did.

    Raises:
        CorruptFile: A file is damaged.
        UnsupportedFeature: A file uses something that this release does not read.
    """
    joint = _read_joint(files, fields)
    are_read = [
        all(leaf.field.id in joint.leaves for leaf in leaves_below(field)) for field in fields
    ]
    rows = sum(count_rows(ranges) for _, _, ranges in files)
    others = [field for field, is_read in zip(fields, are_read, strict=True) if not is_read]
    left = iter(_read_by_form(files, others, joint.refusal) if others else ())
    arrays = [
        assemble_rows(field, joint.leaves, rows) if is_read else next(left)
        for field, is_read in zip(fields, are_read, strict=True)
    ]
    if refusal is not None and _are_sound(files, fields):
        report_disagreement(refusal.path or files[0][0].url, refusal)
    return arrays


def _are_sound(
    files: Sequence[tuple[File, FieldReader, Sequence[RowRange]]], fields: Sequence[Field]
) -> bool:
    """Whether all rows of the files can be read, of which the given ones were read already."""
    try:
        whole = [(file, reader, [(0, reader.num_rows)]) for file, reader, _ in files]
        if any(list(ranges) != rows for (*_, ranges), (*_, rows) in zip(files, whole, strict=True)):
            _read_others(whole, fields, None)
    except (LanceError, TooLarge):
        return False
    return True


def mapped_fields(
    reader: FieldReader, fields: Sequence[Field], ranges: Sequence[RowRange]
) -> Sequence[Field]:
    """Return those of some fields of a local file whose rows are looked at where it is mapped.

    Args:
        reader: The reader of the file.
        fields: The fields.
        ranges: Rows of the file.

    Raises:
        LanceError: The metadata of the columns cannot be read.
    """
    if not isinstance(reader, StructuralReader):
        return fields
    (mapped,) = run([(reader.container.file, reader.mapped_fields(fields, ranges))])
    return mapped


def _read_joint(
    files: Sequence[tuple[File, FieldReader, Sequence[RowRange]]], fields: Sequence[Field]
) -> FoundLeaves:
    """Read those fields of several local files that a kernel reads at once."""
    known = [(reader, rows) for _, reader, rows in files if isinstance(reader, PointReader)]
    plan = plan_joint(known, leaves_of(fields)) if len(known) == len(files) > 1 else None
    if plan is None:
        return FoundLeaves({})
    opened = [file for file, _, _ in files]
    spans = [SparseRanges([each.span]) for each in plan.files]
    data = [data for (data,) in read_all(list(zip(opened, spans, strict=True)))]
    found = take_leaves([reader for reader, _ in known], plan.files, plan.rows, data)
    if found.leaves:
        for file in opened:
            file.verify()
    return found


def _read_by_form(
    files: Sequence[tuple[File, FieldReader, Sequence[RowRange]]],
    fields: Sequence[Field],
    refusal: Refusal | None,
) -> list[pa.Array]:
    """Read fields that are not stored alike in all files; see `read_together`.

    Writers choose for each page whether its strings have a dictionary. Files that chose the same
    are read together, unless there are few of them.
    """
    known = [(reader, rows) for _, reader, rows in files if isinstance(reader, PointReader)]
    arrays: list[pa.Array | None] = [None] * len(fields)
    if refusal is None and len(known) == len(files) and _are_in_memory(files):
        # Most columns are read before; a new process to its first rows needs none of it.
        from lancefs.datafile.v2_1.constant_columns import read_constant

        for position, field in enumerate(fields):
            arrays[position] = read_constant(known, field)
            if arrays[position] is not None:
                continue
            groups = files_by_form(known, leaves_of([field]))
            if 1 < len(groups) <= len(files) // _MIN_ALIKE:
                arrays[position] = _read_groups(files, field, groups)
    others = [field for field, array in zip(fields, arrays, strict=True) if array is None]
    left = iter(_read_others(files, others, refusal) if others else ())
    return [next(left) if array is None else array for array in arrays]


def _are_in_memory(files: Sequence[tuple[File, FieldReader, Sequence[RowRange]]]) -> bool:
    return all(file.is_in_memory for file, _, _ in files)


def _read_groups(
    files: Sequence[tuple[File, FieldReader, Sequence[RowRange]]],
    field: Field,
    groups: Sequence[Sequence[int]],
) -> pa.Array:
    """Read a field of groups of files, by their positions; return the rows in their order."""
    parts: dict[int, pa.Array] = {}
    for group in groups:
        (array,) = read_together([files[position] for position in group], [field])
        start = 0
        for position in group:
            count = count_rows(files[position][2])
            parts[position] = array[start : start + count]
            start += count
    (joined,) = join_columns([[parts[position]] for position in range(len(files))])
    return joined


def _read_others(
    files: Sequence[tuple[File, FieldReader, Sequence[RowRange]]],
    fields: Sequence[Field],
    refusal: Refusal | None,
) -> list[pa.Array]:
    """Read the fields that need more than one call of a kernel; see `read_together`."""
    leaves = leaves_of(fields)
    fetches = [
        (file, fetch)
        for file, reader, ranges in files
        if (fetch := reader.fetch(leaves, ranges, refusal)) is not None
    ]
    if len(fetches) == len(files):
        first, *others = run(fetches)
        return assemble(fields, [first, *others])
    if refusal is None:
        return join_columns(
            run([(file, reader.read_all(fields, ranges)) for file, reader, ranges in files])
        )
    reads = [
        (file, read_fields(reader.read, file.url, fields, ranges)) for file, reader, ranges in files
    ]
    arrays = join_columns(run(reads))
    report_disagreement(refusal.path or files[0][0].url, refusal)
    return arrays
