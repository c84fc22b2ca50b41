"""`VectorSearch`: the rows whose vectors are nearest to a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.fields import Field
from lancefs.forks import cached_property
from lancefs.index.segments import ColumnIndex
from lancefs.index.vectors.distances import Metric
from lancefs.printable import plural
from lancefs.scan.scanner import Columns, Filter, LanceScanner
from lancefs.search.best_rows import BestRows, Ranked
from lancefs.search.exact import compare_all
from lancefs.search.vector_query import VectorQuery
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID

DISTANCE = pa.field("_distance", pa.float32())
QUERY_INDEX = pa.field("query_index", pa.int32(), nullable=False)


@dataclass(frozen=True)
class WantedRows:
    """Which rows a search may find, and what is returned of them.

    Attributes:
        shown: The columns that the dataset shows.
        own_filters: The rows that the dataset has: those for which all of these are true.
        filter: Rows that are wanted; all where it is None.
        prefilter: Whether the nearest of these rows are wanted, or those of the nearest rows.
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


class _Outcome(NamedTuple):
    """What a search found, for each query vector, and how, a line each."""

    found: Sequence[Ranked]
    notes: Sequence[str]


class VectorSearch:
    """A search for the rows with the nearest vectors; made by `LanceDataset.vector_search`.

    Args:
        version: The version of the table.
        query: What is searched for.
        rows: Which rows may be found, and what is returned of them.

    Raises:
        ColumnNotFound: A column is not in the table, or the table has no row ids.
        InvalidFilter: The text of the filter cannot be parsed.
        TypeError: An argument has another type than described.
        ValueError: An argument makes no sense.
    """

    def __init__(self, version: OpenVersion, query: VectorQuery, rows: WantedRows) -> None:
        version.refuse_if_fresh(ROW_ID.name)
        self._version = version
        self._query = query
        self._rows = rows
        self._returned = self._scanner(self._plain_columns(), ())
        if rows.filter is not None:
            self._scanner([], (rows.filter,))  # raises where the filter cannot be read
        added = [DISTANCE.name] + [QUERY_INDEX.name] * query.is_batch
        clash = set(added).intersection(field.name for field in version.fields)
        if clash:
            raise ValueError(
                f"{version.name} has a column {clash.pop()!r}, the name of a column that a search "
                "adds; it cannot be searched"
            )

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        fields = {field.name: field for field in self._returned.projected_schema}
        fields[DISTANCE.name] = DISTANCE
        names = self._names()
        first = [QUERY_INDEX] if self._query.is_batch else []
        metadata = self._returned.projected_schema.metadata
        return pa.schema([*first, *(fields[name] for name in names)], metadata)

    def to_table(self) -> pa.Table:
        """Search, and read the rows that were found.

        Returns:
            For each query vector the nearest rows, in the order of their distances.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        found = self._outcome.found
        row_ids = np.concatenate([one.row_ids for one in found])
        distances = np.concatenate([one.distances for one in found])
        numbers = np.repeat(np.arange(len(found), dtype=np.int32), [len(one[0]) for one in found])
        taken = self._returned.take_ids(row_ids)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            name: taken.column(name) for name in taken.column_names
        }
        columns[DISTANCE.name] = pa.array(distances)
        columns[QUERY_INDEX.name] = pa.array(numbers) if self._query.is_batch else None
        schema = self.schema
        return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)

    def explain(self) -> str:
        """Tell how the rows are found; the search is done for it, and kept for `to_table`."""
        return "\n".join(self._outcome.notes)

    @cached_property
    def _outcome(self) -> _Outcome:
        """The nearest rows for each query vector."""
        found, notes = self._by_index() if self._rows.use_index else (None, [])
        if found is None:
            found = self._by_comparing_all(notes)
        if self._rows.filter is not None and not self._rows.prefilter:
            found = self._filtered(found, self._rows.filter)
            notes.append(f"filter after the search: {plural(_count(found), 'row')} left")
        return _Outcome(found, notes)

    def _by_index(self) -> tuple[list[Ranked] | None, list[str]]:
        """Return what an index finds, if one can be used, and how."""
        from lancefs.search.indexed import IndexSearch

        query, notes = self._query, list[str]()
        for index in self._indices:
            search = IndexSearch(
                self._version,
                index,
                query,
                self._scanner_of,
                bool(self._rows.filters_before),
            )
            if search.metric is not None and query.metric not in (None, search.metric):
                notes.append(f"index {index.name} is not used, it compares by {search.metric}")
                continue
            found = search.found()
            if found is not None:
                return found, [*notes, *search.notes]
            notes.append(f"index {index.name} cannot be used")
        return None, notes

    @property
    def _indices(self) -> Sequence[ColumnIndex]:
        """The indices over the column, if any may be used."""
        from lancefs.index.vectors.vector_indices import vector_indices_of

        indices = vector_indices_of(self._version) if self._rows.use_index else None
        return () if indices is None else indices.over(self._query.field.id)

    def _by_comparing_all(self, notes: list[str]) -> list[Ranked]:
        """Return what is found without an index; a note is added."""
        query, metric = self._query, self._metric
        best = [BestRows(query.k, query.lowest, query.limit) for _ in query.vectors]
        batches = self._scanner_of([query.field.name, ROW_ID.name], None).to_batches()
        compared = compare_all(batches, metric, query.vectors, best)
        notes.append(f"exact search: {plural(compared, 'vector')} compared by {metric}")
        return [one.ranked() for one in best]

    @property
    def _metric(self) -> Metric:
        """How vectors are compared without an index: as one that cannot be read would do it."""
        recorded = [index.recorded_metric for index in self._indices]
        known = [metric for metric in recorded if metric in self._query.metrics]
        return self._query.metric or (known[0] if known else self._query.metrics[0])

    def _scanner_of(self, columns: Sequence[str], fragments: Sequence[int] | None) -> LanceScanner:
        """Return what reads columns of the rows that are compared."""
        return self._scanner(columns, self._rows.filters_before, fragments)

    def _filtered(self, found: Sequence[Ranked], wanted: Filter) -> list[Ranked]:
        """Return those of the nearest rows that pass a filter."""
        row_ids = pa.array(np.unique(np.concatenate([one.row_ids for one in found])))
        filters = (wanted, pc.field(ROW_ID.name).isin(row_ids))
        passed = np.asarray(self._scanner([ROW_ID.name], filters).to_table().column(0))
        keep = [np.isin(one.row_ids, passed) for one in found]
        return [
            Ranked(one.row_ids[mask], one.distances[mask])
            for one, mask in zip(found, keep, strict=True)
        ]

    def _scanner(
        self,
        columns: Columns | None,
        filters: Sequence[Filter],
        fragments: Sequence[int] | None = None,
    ) -> LanceScanner:
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
        if isinstance(columns, str):
            raise TypeError(f"columns is {columns!r}; a list of names was expected: [{columns!r}]")
        if isinstance(columns, Mapping):
            added = {name: name for name in self._rows.metadata}
            both = {**added, **columns}
            return {name: both[name] for name in self._names() if name != DISTANCE.name}
        return [name for name in self._names() if name != DISTANCE.name]

    def _names(self) -> list[str]:
        """Return the names of the columns that come out, but for the query's."""
        columns, metadata = self._rows.columns, self._rows.metadata
        names = [field.name for field in self._rows.shown] if columns is None else list(columns)
        names += [] if DISTANCE.name in names else [DISTANCE.name]
        return names + [name for name in metadata if name not in names]


def metadata_names(with_row_id: bool, with_row_address: bool) -> tuple[str, ...]:
    """Return the names of the columns of row metadata that are added."""
    return (ROW_ID.name,) * with_row_id + (ROW_ADDRESS.name,) * with_row_address


def _count(found: Sequence[Ranked]) -> int:
    return sum(len(one.row_ids) for one in found)
