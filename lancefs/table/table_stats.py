"""`TableStats`: counts of rows, fragments, files and bytes of a version, from its manifest."""

from typing import NamedTuple

from lancefs.table.fragments import sum_known
from lancefs.table.manifest import Manifest


class TableStats(NamedTuple):
    """Counts of rows, fragments, files and bytes of a version.

    Attributes:
        rows: Number of rows; None if the manifest does not record it.
        deleted_rows: Number of deleted rows that are still in data files; None if the manifest does
            not record it.
        columns: Number of columns.
        fragments: Number of fragments.
        data_files: Number of data files.
        deletion_files: Number of deletion files.
        bytes: Bytes of all data files; None if the manifest does not record the size of each.
    """

    rows: int | None
    deleted_rows: int | None
    columns: int
    fragments: int
    data_files: int
    deletion_files: int
    bytes: int | None


def table_stats(manifest: Manifest) -> TableStats:
    """Return the counts of a version."""
    fragments = list(manifest.fragments)
    return TableStats(
        rows=manifest.num_rows,
        deleted_rows=sum_known(fragment.num_deleted for fragment in fragments),
        columns=len(manifest.fields),
        fragments=len(fragments),
        data_files=sum(len(fragment.files) for fragment in fragments),
        deletion_files=sum(fragment.deletion_file is not None for fragment in fragments),
        bytes=sum_known(fragment.size for fragment in fragments),
    )
