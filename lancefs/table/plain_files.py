"""Reading small fragments with one data file of the same structure, without an object for each.

Small appends leave a hundred thousand fragments. They are all read in the same way, so that the
table of the manifest's data files (`Fragments.data_files`) is enough to read them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile import kernels
from lancefs.datafile.arrays import nulls
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import empty, to_arrow_numbers
from lancefs.datafile.data_file import decode_small_files
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import filled, rows_of
from lancefs.datafile.v2_1.small_files import SmallRows, SupportedField, supported_fields
from lancefs.errors import Refusal
from lancefs.storage import SMALL_FILE, Bytes
from lancefs.table.base_paths import TableFiles
from lancefs.table.column_cache import ColumnCache, ColumnForm
from lancefs.table.fragment_messages import ADDRESS_LIMIT

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.datafile.kernels.manifests import FileColumns
    from lancefs.table.fragment_table import Fragments


class _FoundColumns(NamedTuple):
    """Columns of some files.

    Attributes:
        arrays: All rows of the files, by field id.
        refusal: See `SmallRows`.
        identities: What tells the files from others, of shape (files, 4); None if that is unknown.
        size: Bytes that the arrays take.
    """

    arrays: dict[int, pa.Array]
    refusal: Refusal | None
    identities: Ints | None
    size: int


class PlainFiles(NamedTuple):
    """The only data file of each of some fragments: small, of the same kind, in a local table.

    Attributes:
        table: Finds the files of the table.
        data: Bytes that hold the names of the files.
        files: Where these are, and the sizes of the files.
        rows: Rows of each fragment, deleted ones included.
        deleted: Number of deleted rows of each fragment.
        ids: Id of each fragment.
        columns: Column index of each field that the files have, by field id.
        unknown: Ids of the fields that were met with pages that kernels do not know, in any file of
            the version. Whoever reads them without a reader would read the files twice.
        kept: What the version keeps of such files.
    """

    table: TableFiles
    data: Bytes
    files: FileColumns
    rows: Ints
    deleted: Ints
    ids: Ints
    columns: Mapping[int, int]
    unknown: set[int]
    kept: ColumnCache

    def have_at_most(self, rows: int, size: int) -> bool:
        """Whether no fragment has more rows than these, and no file more bytes."""
        return int(self.rows.max()) <= rows and int(self.files.sizes.max()) <= size

    def read(
        self,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        encoded: Collection[int] = (),
    ) -> SmallRows | None:
        """Read rows of those fields whose pages kernels know.

        Args:
            fields: Columns of the table, or parts of them.
            ranges: Rows among those of all files, ascending and disjoint.
            encoded: Ids of the fields of strings that come dictionary-encoded.

        Returns:
            None, without reading a file, if a field is of a kind that they do not know, or was met
            with such pages.

        Raises:
            LanceError: A file cannot be read.
        """
        missing = [field for field in fields if field.prune(self.columns) is None]
        known = supported_fields(self.columns, fields)
        wanted = filled(ranges)
        if not known or len(known) + len(missing) < len(fields) or not wanted:
            return None
        if not self.unknown.isdisjoint(field.id for field in fields):
            return None
        ends = np.cumsum(self.rows)
        first = int(np.searchsorted(ends, wanted[0][0], side="right"))
        last = int(np.searchsorted(ends, wanted[-1][1])) + 1
        if first == 0 and last == len(self.rows):
            found = self._read_all(known, encoded)
        else:
            found = self._cached_columns(known, encoded)
            if len(found.arrays) < len(known):
                found = self._read_files(known, encoded, slice(first, last))
            else:
                first, last = 0, len(self.rows)
        before, count = int(ends[first] - self.rows[first]), int(self.rows[first:last].sum())
        arrays = {**found.arrays}
        arrays.update((field.id, nulls(count, field.storage_type)) for field in missing)
        if len(wanted) == 1:
            start, end = wanted[0]
            arrays = {id: array.slice(start - before, end - start) for id, array in arrays.items()}
        else:
            at = to_arrow_numbers(rows_of(wanted) - before)
            arrays = {id: array.take(at) for id, array in arrays.items()}
        return SmallRows(arrays, found.refusal)

    def _read_all(self, known: Sequence[SupportedField], encoded: Collection[int]) -> _FoundColumns:
        """Read all rows, but for columns that are kept, and keep what was read."""
        kept = self._cached_columns(known, encoded)
        left = [one for one in known if one.field.id not in kept.arrays]
        if not left:
            return kept
        found = self._read_files(left, encoded, slice(None))
        identities = found.identities
        if kept.identities is not None and not _are_same(identities, kept.identities):
            return self._read_files(known, encoded, slice(None))  # they were replaced meanwhile
        if identities is not None:
            own = {
                _key(one, encoded): found.arrays[one.field.id]
                for one in left
                if one.field.id in found.arrays
            }
            self.kept.put(self._run, identities, own, found.size)
        return found._replace(arrays=found.arrays | kept.arrays)

    @property
    def _run(self) -> bytes:
        """What tells the files from other ones of the version."""
        return self.ids.tobytes()

    def _cached_columns(
        self, known: Sequence[SupportedField], encoded: Collection[int]
    ) -> _FoundColumns:
        """Return those columns that are kept; none if a file is not the one that was read."""
        nothing = _FoundColumns({}, None, None, 0)
        run = self.kept.get(self._run)
        if run is None:
            return nothing
        keys = {one.field.id: _key(one, encoded) for one in known}
        arrays = {id: run.arrays[key] for id, key in keys.items() if key in run.arrays}
        if not arrays:
            return nothing
        with self.table.opened_data() as folder:
            names = self.data, self.files.starts, self.files.ends
            identities = kernels.identify_files(folder, *names) if folder >= 0 else None
        if not _are_same(identities, run.identities):
            run.let_go()
            return nothing
        return _FoundColumns(arrays, None, identities, 0)

    def _read_files(
        self, known: Sequence[SupportedField], encoded: Collection[int], which: slice
    ) -> _FoundColumns:
        """Read columns of some of the files, all rows of these."""
        data, identities = self._bytes_of(which)
        found = decode_small_files(data, self.files.sizes[which], self.rows[which], known)
        if found.refusal is None:
            self.unknown.update({one.field.id for one in known} - found.arrays.keys())
        size = sum(array.get_total_buffer_size() for array in found.arrays.values())
        arrays = dict(found.arrays)
        for id in arrays.keys() & set(encoded):
            arrays[id] = arrays[id].dictionary_encode()
            size += arrays[id].get_total_buffer_size()
        return _FoundColumns(arrays, found.refusal, identities, size)

    def _bytes_of(self, which: slice) -> tuple[Bytes, Ints | None]:
        """Return the bytes of some files, one after the other, and what tells them from others."""
        starts, ends, sizes = (column[which] for column in self.files[:3])
        with self.table.opened_data() as folder:
            if folder >= 0:
                found = kernels.read_files(folder, self.data, starts, ends, sizes)
                if found is not None:
                    return found
        names = [
            self.data[start:end].tobytes().decode("ascii")
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        memory = empty(int(sizes.sum()), np.uint8)
        self.table.read_plain(names, sizes.tolist(), memory)
        return memory, None


def _are_same(found: Ints | None, known: Ints) -> bool:
    """Return whether files are the ones that were read, unchanged since."""
    return found is not None and np.array_equal(found, known)


def _key(known: SupportedField, encoded: Collection[int]) -> ColumnForm:
    field = known.field
    return ColumnForm(field.id, field.storage_type, field.id in encoded)


def plain_files(
    table: TableFiles,
    fragments: Fragments,
    most_bytes: int,
    unknown: set[int],
    kept: ColumnCache,
) -> PlainFiles | None:
    """Return the data files of fragments; None if one is not small or plain, or unlike others.

    Args:
        table: Finds the files of the table.
        fragments: The fragments.
        most_bytes: Most bytes of all files together.
        unknown: See `PlainFiles`; of the version.
        kept: See `PlainFiles`; of the version.
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
    # What lists a field without a column of it is left to who tells damage from a struct.
    if sample.is_legacy or min(sample.column_indices, default=0) < 0:
        return None
    return PlainFiles(table, fragments.data, files, *counts, ids, sample.columns, unknown, kept)
