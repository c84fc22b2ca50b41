"""Reading which values of columns are missing, without the values where data files allow it."""

from __future__ import annotations

from collections.abc import Sequence, Set

from lancefs.datafile.fields import Field
from lancefs.datafile.validity import validity_of
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun


def reduced(
    reader: FragmentReader | FragmentRun, fields: Sequence[Field], ids: Set[int]
) -> Sequence[Field]:
    """Return the fields to read in place of columns, of some of which only the validity is wanted.

    The values themselves are read of small fragments, whose files few calls of kernels decode
    together; of overlays, which replace parts of values; and of data files 0.1, in which the values
    of strings tell which are missing.

    Args:
        reader: The reader of the fragment, or of several.
        fields: Columns of the table, or members of structs as columns.
        ids: The ids of those whose validity is wanted; see `validity_array`.
    """
    if not ids or isinstance(reader, FragmentRun) or reader.fragment.overlays:
        return fields
    if any(file.is_legacy for file in reader.fragment.files):
        return fields
    return [validity_of(field) or field if field.id in ids else field for field in fields]
