"""Columns that no data file holds, because they say which row a row is.

    _rowid                         its id: stable where the table has stable ids, else its address
    _rowaddr                       its address: the fragment's id and the row's offset in it
    _rowoffset                     its position among the rows that a reader sees
    _row_created_at_version        the version that it appeared in
    _row_last_updated_at_version   the version that it last changed in

They are fields like others, with ids below zero, and are worked out for rows of the data files,
before deletions are applied: what then happens to columns happens to them too.

Format page: row ids and lineage (`docs/src/format/table/row_id_lineage.md`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.datafile.data_file import open_data_file
from lancefs.datafile.fields import Field
from lancefs.datafile.row_ranges import rows_of
from lancefs.errors import CorruptFile, locating
from lancefs.storage import run
from lancefs.table.base_paths import TableFiles
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import External, Fragment, HiddenColumn, Inline, Lineage

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.table.row_ids import Ids, RowIdSequence, VersionSequence

# The first, third and fourth have the ids by which the format knows them in data files.
ROW_ID = Field(-3, "_rowid", "uint64")
ROW_ADDRESS = Field(-6, "_rowaddr", "uint64")
CREATED_AT = Field(-4, "_row_created_at_version", "uint64")
LAST_UPDATED_AT = Field(-5, "_row_last_updated_at_version", "uint64")
ROW_OFFSET = Field(-7, "_rowoffset", "uint64")

ROW_METADATA: Mapping[str, Field] = {
    field.name: field for field in (ROW_ID, ROW_ADDRESS, CREATED_AT, LAST_UPDATED_AT, ROW_OFFSET)
}

# The version of rows of fragments that do not say it.
DEFAULT_VERSION = 1
# Bits of an address that are the offset in the fragment.
OFFSET_BITS = 32
# Sequences that are kept decoded.
_KEPT = 1024

_Sequence: TypeAlias = "RowIdSequence | VersionSequence"
_S = TypeVar("_S", "RowIdSequence", "VersionSequence")


def is_row_metadata(field: Field) -> bool:
    """Tell whether a field is one of those that no data file holds."""
    return field.id < 0


def addresses(fragment_id: int, offsets: Ints) -> Ids:
    """Return the addresses of rows of a fragment."""
    return offsets.astype(np.uint64) + np.uint64(fragment_id << OFFSET_BITS)


class RowMetadata:
    """Works out which rows the rows of one version are.

    Args:
        files: Finds the files of the table.
        readers: Of all fragments of the version, in scan order.
        fragments: Those fragments.
        is_stable: Whether the table has stable row ids.
    """

    def __init__(
        self,
        files: TableFiles,
        readers: Sequence[FragmentReader],
        fragments: Sequence[Fragment],
        is_stable: bool,
    ) -> None:
        self.is_stable = is_stable
        self._files = files
        self._readers = readers
        self._fragments = fragments
        self._decoded: OrderedDict[tuple[int, int], _Sequence] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, field: Field, reader: FragmentReader, ranges: Sequence[RowRange]) -> pa.Array:
        """Return a column of row metadata for rows of a fragment, deleted rows included.

        Args:
            field: One of `ROW_METADATA`.
            reader: Of the fragment.
            ranges: Offsets of rows, ascending and disjoint.

        Raises:
            MissingFile: The file with a sequence is gone.
            CorruptFile: A sequence is damaged, or is not as long as the fragment.
        """
        return to_arrow_numbers(self.at(field, reader, rows_of(ranges)))

    def at(self, field: Field, reader: FragmentReader, offsets: Ints) -> Ids:
        """Return the same as `read` for rows by their offsets, which are ascending."""
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

        return self._sequence(ROW_ID, reader, lineage, decode_row_ids, _listed_ids)

    def versions(self, field: Field, reader: FragmentReader) -> VersionSequence | None:
        """Return the versions that the rows of a fragment are of, None where it does not say.

        Args:
            field: `CREATED_AT` or `LAST_UPDATED_AT`.
            reader: Of the fragment.
        """
        fragment = reader.fragment
        is_created = field.id == CREATED_AT.id
        lineage = fragment.created_at_versions if is_created else fragment.last_updated_at_versions
        if lineage is None:
            return None
        from lancefs.table.row_ids import decode_versions

        return self._sequence(field, reader, lineage, decode_versions, _listed_versions)

    @cached_property
    def _first_positions(self) -> dict[int, int]:
        """The position of the first row of each fragment."""
        first, total = {}, 0
        for position, fragment in enumerate(self._fragments):
            first[fragment.id] = total
            known = fragment.num_rows
            total += self._readers[position].num_rows if known is None else known
        return first

    def _positions(self, reader: FragmentReader, offsets: Ints) -> Ids:
        before = np.searchsorted(reader.deleted, offsets)
        first = self._first_positions[reader.fragment.id]
        return (offsets - before + first).astype(np.uint64)

    def _sequence(
        self,
        field: Field,
        reader: FragmentReader,
        lineage: Lineage,
        decode: Callable[[bytes, int], _S],
        listed: Callable[[Ids], _S],
    ) -> _S:
        key = (reader.fragment.id, field.id)
        with self._lock:
            known = self._decoded.get(key)
        if known is None:
            place = f"fragment {reader.fragment.id}, {field.name}"
            rows = reader.physical_rows
            if isinstance(lineage, HiddenColumn):
                known = listed(self._hidden(field, reader.fragment, rows))
            elif isinstance(lineage, Inline):
                with locating(self._files.store.url(), place):
                    known = decode(lineage.data, rows)
            else:
                known = self._external(lineage, place, rows, decode)
            with self._lock:
                self._decoded[key] = known
                if len(self._decoded) > _KEPT:
                    self._decoded.popitem(last=False)
        return known  # type: ignore[return-value]  # a key has sequences of one kind

    def _external(
        self, lineage: External, place: str, rows: int, decode: Callable[[bytes, int], _S]
    ) -> _S:
        file = self._files.file("", lineage.path)
        with locating(file.url, place):
            data = file.read([(lineage.offset, lineage.offset + lineage.size)])[0]
            return decode(data.tobytes(), rows)

    def _hidden(self, field: Field, fragment: Fragment, rows: int) -> Ids:
        """Read a sequence that is a column of a data file."""
        for data_file in fragment.files:
            columns = dict(zip(data_file.fields, data_file.column_indices, strict=False))
            if columns.get(field.id, -1) >= 0:
                file = self._files.data_file(data_file)
                with locating(file.url, field.name):
                    reader = open_data_file(file, columns, data_file.is_legacy)
                    (values,) = run([(file, reader.read(field, [(0, rows)]))])
                    if values.null_count:
                        raise CorruptFile("values without nulls were expected")
                    ids: Ids = values.to_numpy()
                    return ids
        raise CorruptFile(
            f"fragment {fragment.id}: {field.name} is said to be a column of one of its data "
            f"files (field {field.id}), but is in none"
        )


def _listed_ids(ids: Ids) -> RowIdSequence:
    from lancefs.table.row_ids import RowIdSequence, Segment

    return RowIdSequence((Segment(None, ids, len(ids)),) if len(ids) else ())


def _listed_versions(versions: Ids) -> VersionSequence:
    from lancefs.table.row_ids import VersionSequence

    changes = np.flatnonzero(np.diff(versions)) + 1
    ends = np.append(changes, len(versions)) if len(versions) else changes
    return VersionSequence(ends.astype(np.int64), versions[ends - 1])
