"""Restricting which rows a search may find, and reading the columns of those that it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Mask, UInts
from lancefs.datafile.fields import Field
from lancefs.scan.parsed_filters import key_of, parsed_filter
from lancefs.scan.projection import Columns
from lancefs.scan.row_numbers import take_rows
from lancefs.scan.scanner import Filter, LanceScanner
from lancefs.scan.settings import BATCH_ROWS
from lancefs.search.row_bits import RowBits
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.open_version import OpenVersion
from lancefs.table.per_version import PerVersion
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID

# Bytes of the rows that filters leave, which are kept for each version: many searches have the same
# filter.
_ALLOWED_BYTES = 8 * 1024 * 1024
# Values, and their bytes by the sizes of data files, that are read of candidates in a remote table
# before it is known which of these are returned: a store answers so many requests side by side.
_AHEAD_VALUES, _AHEAD_BYTES = 256, 1024 * 1024
# Fragments whose rows stand for all.
_SOME_FRAGMENTS = 64
_ALLOWED = PerVersion[BudgetCache[tuple[object, ...], RowBits]](
    lambda _: BudgetCache(_ALLOWED_BYTES)
)


@dataclass(frozen=True)
class WantedRows:
    """The rows that a search may find, and the columns that it returns of them.

    Attributes:
        shown: The columns that the dataset shows.
        own_filters: The rows that the dataset has: those for which all of these are true.
        filter: Rows that are wanted; all where it is None.
        prefilter: Whether the best of these rows are wanted, or those of the best rows.
        columns: Names of columns, or names for expressions; None for all that are shown.
        metadata: Names of columns of row metadata that are added.
        use_index: Whether indices of the table may be used.
    """

    shown: Sequence[Field]
    own_filters: tuple[Filter, ...]
    filter: Filter | None
    prefilter: bool
    columns: Columns | None
    metadata: tuple[str, ...]
    use_index: bool

    @property
    def filters_before(self) -> tuple[Filter, ...]:
        """What is true for all rows that are compared."""
        is_before = self.prefilter and self.filter is not None
        return (*self.own_filters, self.filter) if is_before else self.own_filters


class _Ahead(NamedTuple):
    """Rows that were read before it is known which of them are returned.

    Attributes:
        row_ids: Their ids, in order.
        names: Names of the columns.
        rows: The columns.
    """

    row_ids: UInts
    names: Sequence[str]
    rows: pa.Table


class FoundRows:
    """Reads the wanted columns of the rows that a search found.

    Args:
        version: The version of the table.
        rows: Which rows may be found, and what is returned of them.
        rankings: The columns that the search adds, which say how well rows answer it.
        first: Columns that the search puts before all others.

    Raises:
        ColumnNotFound: A column is not in the table, or the table has no row ids.
        InvalidFilter: The text of the filter cannot be parsed.
        ValueError: A column of the table has the name of one that the search adds.
    """

    def __init__(
        self,
        version: OpenVersion,
        rows: WantedRows,
        rankings: Sequence[pa.Field],
        first: Sequence[pa.Field] = (),
    ) -> None:
        version.refuse_if_fresh(ROW_ID.name)
        self._version = version
        self._rows = rows
        self._rankings = {field.name: field for field in rankings}
        self._first = first
        self._ahead: _Ahead | None = None
        self._returned = self.scanner(self._plain_columns(), ())
        if rows.filter is not None:
            self.scanner([], (rows.filter,))  # raises where the filter cannot be read
        added = {field.name for field in (*rankings, *first)}
        clash = added.intersection(field.name for field in version.fields)
        if clash:
            raise ValueError(
                f"{version.name} has a column {clash.pop()!r}, the name of a column that a search "
                "adds; it cannot be searched"
            )

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        fields = {field.name: field for field in self._returned.projected_schema}
        fields.update(self._rankings)
        metadata = self._returned.projected_schema.metadata
        return pa.schema([*self._first, *(fields[name] for name in self._names())], metadata)

    def table(self, row_ids: UInts, added: Mapping[str, pa.Array]) -> pa.Table:
        """Read rows.

        Args:
            row_ids: The rows.
            added: The columns that the search adds, by their names.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        returned, taken = self._plain_columns(), None
        if not isinstance(returned, Mapping):
            taken = self._taken_ahead(row_ids, returned)
        if taken is None:
            taken = self._returned.take_ids(row_ids)
        # By position: a column that is wanted twice is there twice.
        columns = dict(zip(taken.column_names, taken.columns, strict=True))
        columns.update(added)
        schema = self.schema
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def candidates(self, row_ids: UInts, names: Sequence[str]) -> pa.Table:
        """Read columns that decide which rows are returned.

        Of few rows of a remote table, what else the search reads of them is read with these, and
        kept: a round of requests less.

        Args:
            row_ids: The rows, by their ids in order.
            names: Names of the columns.

        Raises:
            LanceError: As `table` does.
        """
        returned = self._plain_columns()
        # An expression may fail on rows that are not returned.
        if isinstance(returned, Mapping) or not self._are_few(len(row_ids), len(returned)):
            return self.scanner(names, ()).take_ids(row_ids)
        kept = self._taken_ahead(row_ids, names)
        if kept is None:
            both = list(dict.fromkeys([*returned, *names, *self._tested_after()]))
            self._ahead = _Ahead(row_ids, both, self.scanner(both, ()).take_ids(row_ids))
            kept = self._taken_ahead(row_ids, names)
            assert kept is not None
        return kept

    def _tested_after(self) -> list[str]:
        """Return the columns of the filter of the rows that were found."""
        if self._rows.prefilter or self._rows.filter is None:
            return []
        known = parsed_filter((self._rows.filter,), self._version)
        return [field.name for field in known.fields]

    def _are_few(self, rows: int, columns: int) -> bool:
        """Tell whether values are so few that to read them takes no longer than one of them."""
        if self._version.files.store.is_local or rows * columns > _AHEAD_VALUES:
            return False
        some = self._version.readers[:_SOME_FRAGMENTS]
        sizes = [file.size for reader in some for file in reader.fragment.files]
        known = sum(size for size in sizes if size is not None)
        total = sum(reader.physical_rows for reader in some)
        return None not in sizes and known * rows <= _AHEAD_BYTES * total

    def _taken_ahead(self, row_ids: UInts, names: Sequence[str]) -> pa.Table | None:
        """Return rows that `candidates` has kept; None where it has not all of them."""
        if self._ahead is None or not set(names) <= set(self._ahead.names):
            return None
        ids, kept, rows = self._ahead
        places = np.searchsorted(ids, row_ids)
        if not len(ids) or not np.array_equal(ids[np.minimum(places, len(ids) - 1)], row_ids):
            return None
        return take_rows(rows.select([kept.index(name) for name in names]), places)

    def passing(self, row_ids: UInts, wanted: Filter) -> Mask:
        """Tell which rows pass a filter.

        Args:
            row_ids: Rows of the version, shape (rows,).
            wanted: The filter.
        """
        known = parsed_filter((wanted,), self._version)
        names = [field.name for field in known.fields]
        ids, places = np.unique(row_ids, return_inverse=True)
        passed = np.zeros(len(ids), np.bool_)
        for start in range(0, len(ids), BATCH_ROWS):
            part = slice(start, start + BATCH_ROWS)
            # In one batch, which has rows where the filter reads no column, too.
            (batch,) = self.candidates(ids[part], names).combine_chunks().to_batches()
            passed[part] = known.condition.evaluate(batch)
        return passed[places]

    def allowed(self, fragments: Sequence[int] | None) -> RowBits:
        """Return the rows that may be found.

        Args:
            fragments: Ids of the fragments of which they are returned; None for all.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        filters = self._rows.filters_before
        own = None if fragments is None else tuple(fragments)
        key = (key_of(filters), own, self._rows.use_index)

        def read() -> RowBits:
            rows = RowBits()
            for batch in self.scanner([ROW_ID.name], filters, fragments).to_batches():
                rows.add(numbers_of(batch.column(0)))
            return rows

        return _ALLOWED.of(self._version).get(key, read, lambda rows: rows.cost)

    def scanner_of(
        self, columns: Sequence[str], fragments: Sequence[int] | None = None
    ) -> LanceScanner:
        """Return a scanner of the rows that may be found.

        Args:
            columns: Names of the columns.
            fragments: Ids of the fragments to read; None for all.
        """
        return self.scanner(columns, self._rows.filters_before, fragments)

    def scanner(
        self,
        columns: Columns | None,
        filters: Sequence[Filter],
        fragments: Sequence[int] | None = None,
    ) -> LanceScanner:
        """Return a scanner of the rows that pass filters.

        Args:
            columns: As `LanceDataset.scanner` takes them.
            filters: All of them must be true.
            fragments: Ids of the fragments to read; None for all.
        """
        return LanceScanner(
            self._version,
            self._rows.shown,
            columns,
            filters,
            fragments=fragments,
            use_index=self._rows.use_index,
        )

    def _plain_columns(self) -> Columns:
        """Return the columns that are read of the rows that were found."""
        columns = self._rows.columns
        if isinstance(columns, Mapping):
            added = {name: name for name in self._rows.metadata}
            both = {**added, **columns}
            return {name: both[name] for name in self._names() if name not in self._rankings}
        return [name for name in self._names() if name not in self._rankings]

    def _names(self) -> list[str]:
        """Return the names of the columns that come out, but for the first ones."""
        columns, metadata = self._rows.columns, self._rows.metadata
        names = [field.name for field in self._rows.shown] if columns is None else list(columns)
        names += [name for name in self._rankings if name not in names]
        return names + [name for name in metadata if name not in names]


def metadata_names(with_row_id: bool, with_row_address: bool) -> tuple[str, ...]:
    """Return the names of the columns of row metadata that are added."""
    return (ROW_ID.name,) * with_row_id + (ROW_ADDRESS.name,) * with_row_address
