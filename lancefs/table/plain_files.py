"""The data files of small fragments that have one each, alike, read without an object for each.

Small appends leave a hundred thousand fragments. What is read of them is the same for all, so the
table of the manifest's data files (`Fragments.data_files`) says all that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import nulls
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import empty
from lancefs.datafile.data_file import decode_whole
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import filled, rows_of
from lancefs.datafile.v2_1.small_files import SmallRows, known_fields
from lancefs.storage import SMALL_FILE
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragment_messages import ADDRESS_LIMIT

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.table.fragment_table import Fragments


class PlainFiles(NamedTuple):
    """The only data file of each of some fragments: small, of the same kind, in a local table.

    Attributes:
        table: Finds the files of the table.
        names: Name of each file in the directory of data files.
        sizes: Bytes of each file.
        rows: Rows of each fragment, deleted ones included.
        deleted: Number of deleted rows of each fragment.
        ids: Id of each fragment.
        columns: Column index of each field that the files have, by field id.
        unknown: Ids of the fields that were met with pages that kernels do not know, in any file of
            the version. Whoever reads them without a reader would read the files twice.
    """

    table: TableFiles
    names: list[str]
    sizes: Ints
    rows: Ints
    deleted: Ints
    ids: Ints
    columns: Mapping[int, int]
    unknown: set[int]

    def have_at_most(self, rows: int, size: int) -> bool:
        """Whether no fragment has more rows than these, and no file more bytes."""
        return int(self.rows.max()) <= rows and int(self.sizes.max()) <= size

    def read(self, fields: Sequence[Field], ranges: Sequence[RowRange]) -> SmallRows | None:
        """Read rows of those fields whose pages kernels know.

        Args:
            fields: Columns of the table, or parts of them.
            ranges: Rows among those of all files, ascending and disjoint.

        Returns:
            None, without reading a file, if a field is of a kind that they do not know, or was met
            with such pages.

        Raises:
            LanceError: A file cannot be read.
        """
        missing = [field for field in fields if field.prune(self.columns) is None]
        known = known_fields(self.columns, fields)
        wanted = filled(ranges)
        if not known or len(known) + len(missing) < len(fields) or not wanted:
            return None
        if not self.unknown.isdisjoint(field.id for field in fields):
            return None
        ends = np.cumsum(self.rows)
        first = int(np.searchsorted(ends, wanted[0][0], side="right"))
        last = int(np.searchsorted(ends, wanted[-1][1])) + 1
        sizes, rows = self.sizes[first:last], self.rows[first:last]
        data = empty(int(sizes.sum()), np.uint8)
        self.table.read_plain(self.names[first:last], sizes.tolist(), data)
        found = decode_whole(data, sizes, rows, known)
        if found.refusal is None:
            self.unknown.update({one.field.id for one in known} - found.arrays.keys())
        count, before = int(rows.sum()), int(ends[first] - self.rows[first])
        found.arrays.update((field.id, nulls(count, field.storage_type)) for field in missing)
        if len(wanted) == 1 and wanted[0] == (before, before + count):
            return found
        at = pa.array(rows_of(wanted) - before)
        return found._replace(arrays={id: array.take(at) for id, array in found.arrays.items()})


def plain_files(
    table: TableFiles, fragments: Fragments, most_bytes: int, unknown: set[int]
) -> PlainFiles | None:
    """Return the data files of fragments; None if one is not small or plain, or unlike others.

    Args:
        table: Finds the files of the table.
        fragments: The fragments.
        most_bytes: Most bytes of all files together.
        unknown: See `PlainFiles`; of the version.
    """
    counts = fragments.row_counts if table.store.is_local else None
    if counts is None:
        return None
    files, ids = fragments.data_files, fragments.ids
    sizes, kinds = files.sizes, files.kinds
    is_known = (kinds == 0) & (sizes > 0) & (sizes <= SMALL_FILE) & (ids >= 0)
    if not (is_known & (ids < ADDRESS_LIMIT)).all() or sizes.sum() > most_bytes:
        return None
    (sample,) = fragments[0].files
    if sample.is_legacy:
        return None
    names = fragments.file_names()
    return PlainFiles(table, names, sizes, *counts, ids, sample.columns, unknown)
