"""Row metadata: columns that no data file holds, since they identify the rows.

    _rowid                         stable row id; in tables without stable ids the row address
    _rowaddr                       row address: the fragment's id and the offset in the fragment
    _rowoffset                     position among the live rows of the version
    _row_created_at_version        version that inserted the row
    _row_last_updated_at_version   version that last changed the row

Row metadata are fields with ids below zero. Their values are computed for physical rows, before
deletions are applied, so deletions and filters treat them like any other column.

Format page: row ids and lineage (`docs/src/format/table/row_id_lineage.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import Ints, UInts, to_arrow_numbers
from lancefs.datafile.data_file import open_data_file
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import rows_of
from lancefs.errors import CorruptFile, locating
from lancefs.forks import cached_property
from lancefs.storage import run
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_table import Fragments
from lancefs.table.fragments import External, Fragment, HiddenColumn, Lineage

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.table.row_ids import RowIdSequence, VersionSequence

# Ids -3 to -5 are those of the format, for hidden columns of data files; -6 and -7 are ours.
ROW_ID = Field(-3, "_rowid", "uint64")
ROW_ADDRESS = Field(-6, "_rowaddr", "uint64")
CREATED_AT = Field(-4, "_row_created_at_version", "uint64")
LAST_UPDATED_AT = Field(-5, "_row_last_updated_at_version", "uint64")
ROW_OFFSET = Field(-7, "_rowoffset", "uint64")

ROW_METADATA: Mapping[str, Field] = {
    field.name: field for field in (ROW_ID, ROW_ADDRESS, CREATED_AT, LAST_UPDATED_AT, ROW_OFFSET)
}

# Version of the rows of fragments that record none.
DEFAULT_VERSION = 1
# Low bits of an address, which are the offset in the fragment.
OFFSET_BITS = 32
# Most decoded sequences in the cache.
_MAX_CACHED = 1024

_Sequence: TypeAlias = "RowIdSequence | VersionSequence"
_S = TypeVar("_S", "RowIdSequence", "VersionSequence")


def is_row_metadata(field: Field) -> bool:
    """Return whether a field is row metadata."""
    return field.id < 0


def addresses(fragment_id: int, offsets: Ints) -> UInts:
    """Return the addresses of rows of a fragment."""
    return offsets.astype(np.uint64) + np.uint64(fragment_id << OFFSET_BITS)


class RowMetadata:
    """Computes the row metadata of one version.

    Args:
        files: Finds the files of the table.
        readers: Readers of the version's fragments, in scan order.
        fragments: The fragments, in the same order.
        is_stable: Whether the table has stable row ids.
    """

    def __init__(
        self,
        files: TableFiles,
        readers: Sequence[FragmentReader],
        fragments: Fragments,
        is_stable: bool,
    ) -> None:
        self.is_stable = is_stable
        self._files = files
        self._readers = readers
        self._fragments = fragments
        self._decoded: BudgetCache[tuple[int, int], _Sequence] = BudgetCache(_MAX_CACHED)

    def read(self, field: Field, reader: FragmentReader, ranges: Sequence[RowRange]) -> pa.Array:
        """Return a column of row metadata for rows of a fragment, deleted rows included.

        Args:
            field: One of `ROW_METADATA`.
            reader: Reader of the fragment.
            ranges: Ranges of offsets, ascending and disjoint.

        Raises:
            MissingFile: The file that holds a sequence is gone.
            CorruptFile: A sequence is damaged, or is not as long as the fragment.
        """
        return to_arrow_numbers(self.at(field, reader, rows_of(ranges)))

    def at(self, field: Field, reader: FragmentReader, offsets: Ints) -> UInts:
        """Return a column of row metadata for rows by their offsets, ascending; see `read`."""
        if field.id == ROW_OFFSET.id:
            return self._positions(reader, offsets)
        if field.id == ROW_ID.id and self.is_stable:
            return self.row_ids(reader).at(offsets)
        if field.id in (ROW_ID.id, ROW_ADDRESS.id):
            return addresses(reader.fragment.id, offsets)
        sequence = self.versions(field, reader)
        if sequence is not None:
            return sequence.at(offsets)
        return np.full(len(offsets), DEFAULT_VERSION, np.uint64)

    def row_ids(self, reader: FragmentReader) -> RowIdSequence:
        """Return the stable row ids of a fragment; raises as `read` does."""
        lineage = reader.fragment.row_ids
        if lineage is None:
            error = CorruptFile(
                f"fragment {reader.fragment.id} has no row ids, in a table with stable ones"
            )
            error.path = self._files.store.url()
            raise error
        from lancefs.table.row_ids import decode_row_ids

        return self._cached_sequence(ROW_ID, reader, lineage, decode_row_ids, _row_id_sequence)

    def versions(self, field: Field, reader: FragmentReader) -> VersionSequence | None:
        """Return the versions of the rows of a fragment; None if the fragment records none.

        Args:
            field: `CREATED_AT` or `LAST_UPDATED_AT`.
            reader: Reader of the fragment.
        """
        fragment = reader.fragment
        is_created = field.id == CREATED_AT.id
        lineage = fragment.created_at_versions if is_created else fragment.last_updated_at_versions
        if lineage is None:
            return None
        from lancefs.table.row_ids import decode_versions

        return self._cached_sequence(field, reader, lineage, decode_versions, _version_sequence)

    @cached_property
    def _first_positions(self) -> Ints:
        """Number of live rows before each fragment."""
        ends = self._fragments.live_ends
        if ends is None:
            ends = np.cumsum([reader.num_rows for reader in self._readers])
        return np.concatenate((np.zeros(1, np.int64), ends))

    def _positions(self, reader: FragmentReader, offsets: Ints) -> UInts:
        first = self._first_positions[self._fragments.positions[reader.fragment.id]]
        positions: UInts = (offsets + first).view(np.uint64)
        if len(reader.deleted):
            positions -= _count_below(reader.deleted, offsets).view(np.uint64)
        return positions

    def _cached_sequence(
        self,
        field: Field,
        reader: FragmentReader,
        lineage: Lineage,
        decode: Callable[[bytes, int], _S],
        from_values: Callable[[UInts], _S],
    ) -> _S:
        """Return the sequence of a field for the rows of a fragment, from the cache if it is there.

        Args:
            field: The field of row metadata.
            reader: Reader of the fragment.
            lineage: Place of the sequence, from the manifest.
            decode: Decodes a serialized sequence of a number of rows.
            from_values: Makes a sequence of the values of a hidden column.
        """

        def read() -> _S:
            place, rows = f"fragment {reader.fragment.id}, {field.name}", reader.physical_rows
            if isinstance(lineage, HiddenColumn):
                return from_values(self._read_hidden_column(field, reader.fragment, rows))
            if isinstance(lineage, External):
                return self._read_external(lineage, place, rows, decode)
            with locating(self._files.store.url(), place):
                return decode(lineage.data, rows)

        sequence = self._decoded.get((reader.fragment.id, field.id), read, lambda _: 1)
        return sequence  # type: ignore[return-value]  # the field of the key decides the kind

    def _read_external(
        self, lineage: External, place: str, rows: int, decode: Callable[[bytes, int], _S]
    ) -> _S:
        file = self._files.file("", lineage.path)
        with locating(file.url, place):
            data = file.read([(lineage.offset, lineage.offset + lineage.size)])[0]
            return decode(data.tobytes(), rows)

    def _read_hidden_column(self, field: Field, fragment: Fragment, rows: int) -> UInts:
        """Read a sequence that a hidden column of a data file holds."""
        for data_file in fragment.files:
            columns = dict(zip(data_file.fields, data_file.column_indices, strict=False))
            if columns.get(field.id, -1) >= 0:
                file = self._files.data_file(data_file)
                with locating(file.url, field.name):
                    reader = open_data_file(file, columns, data_file.is_legacy)
                    (values,) = run([(file, reader.read(field, [(0, rows)]))])
                    if values.null_count:
                        raise CorruptFile(f"the column has {values.null_count} nulls, expected 0")
                    ids: UInts = values.to_numpy()
                    return ids
        error = CorruptFile(
            f"fragment {fragment.id}: {field.name} (field {field.id}) is in none of its data "
            "files; the manifest says that one of them holds it"
        )
        error.path = self._files.store.url()
        raise error


def _row_id_sequence(ids: UInts) -> RowIdSequence:
    from lancefs.table.row_ids import RowIdSequence, Segment

    return RowIdSequence((Segment(None, ids, len(ids)),) if len(ids) else ())


def _version_sequence(versions: UInts) -> VersionSequence:
    from lancefs.table.row_ids import VersionSequence

    changes = np.flatnonzero(np.diff(versions)) + 1
    ends = np.append(changes, len(versions)) if len(versions) else changes
    return VersionSequence(ends.astype(np.int64), versions[ends - 1])


def _count_below(values: Ints, limits: Ints) -> Ints:
    """Return how many of some ascending values are below each of some ascending limits."""
    if len(limits) < len(values):
        return np.searchsorted(values, limits).astype(np.int64, copy=False)
    ends = np.searchsorted(limits, values, "right")
    return np.repeat(np.arange(len(values) + 1), np.diff(ends, prepend=0, append=len(limits)))
