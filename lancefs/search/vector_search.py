"""`VectorSearch`: the rows whose vectors are nearest to a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import to_arrow_numbers
from lancefs.forks import cached_property
from lancefs.index.vectors.distances import Metric
from lancefs.printable import plural, printable
from lancefs.scan.scanner import Filter
from lancefs.search.exact_search import compare_all
from lancefs.search.found_rows import FoundRows, WantedRows
from lancefs.search.nearest_rows import BestRows, Ranked
from lancefs.search.vector_query import VectorQuery
from lancefs.table.file_prefetch import opening_files
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_ID

if TYPE_CHECKING:
    from lancefs.index.vectors.vector_indices import VectorIndices

DISTANCE = pa.field("_distance", pa.float32())
QUERY_INDEX = pa.field("query_index", pa.int32(), nullable=False)


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
        self._version = version
        self._query = query
        self._rows = rows
        self._found = FoundRows(version, rows, [DISTANCE], [QUERY_INDEX] if query.is_batch else [])

    def __repr__(self) -> str:
        table, column = printable(self._version.name), printable(self._query.field.name)
        return f"<VectorSearch of {table}: {plural(self._query.k, 'row')} by {column}>"

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._found.schema

    def to_table(self) -> pa.Table:
        """Search, and read the rows that were found.

        Returns:
            For each query vector the nearest rows, in the order of their distances.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        found = self.found
        row_ids = np.concatenate([one.row_ids for one in found])
        distances = np.concatenate([one.distances for one in found])
        numbers = np.repeat(np.arange(len(found), dtype=np.int32), [len(one[0]) for one in found])
        columns = {DISTANCE.name: to_arrow_numbers(distances)}
        if self._query.is_batch:
            columns[QUERY_INDEX.name] = to_arrow_numbers(numbers)
        return self._found.table(row_ids, columns)

    @property
    def is_batch(self) -> bool:
        """Whether it has several query vectors."""
        return self._query.is_batch

    @property
    def found(self) -> Sequence[Ranked]:
        """The nearest rows for each query vector; the search is done for it."""
        return self._outcome.found

    def explain(self) -> str:
        """Tell how the rows are found; the search is done for it, and kept for `to_table`."""
        return "\n".join(self._outcome.notes)

    @cached_property
    def _outcome(self) -> _Outcome:
        """The nearest rows for each query vector."""
        if self._indices is not None and self._indices.over(self._query.field.id):
            with opening_files(self._version):
                found, notes = self._by_index(self._indices)
        else:
            found, notes = None, []
        if found is None:
            found = self._by_comparing_all(notes)
        if self._rows.filter is not None and not self._rows.prefilter:
            found = self._filtered(found, self._rows.filter)
            notes.append(f"filter after the search: {plural(_count(found), 'row')} left")
        return _Outcome(found, notes)

    def _by_index(self, indices: VectorIndices) -> tuple[list[Ranked] | None, list[str]]:
        """Return what an index finds, if one can be used, and how."""
        from lancefs.search.index_search import IndexSearch

        query, notes = self._query, list[str]()
        for index in indices.over(query.field.id):
            if query.is_multivector:
                notes.append(f"index {index.name} is not used, rows have several vectors")
                continue
            search = IndexSearch(
                self._version,
                indices,
                index,
                query,
                self._found,
                bool(self._rows.filters_before),
            )
            if search.metric is not None and query.metric not in (None, search.metric):
                notes.append(f"index {index.name} is not used, it compares by {search.metric}")
                continue
            if not any(len(segment.covered) for segment in index.segments):
                notes.append(f"index {index.name} covers no rows of this version")
                continue
            found = search.found()
            if found is not None:
                return found, [*notes, *search.notes]
            notes.append(f"index {index.name} cannot be used")
        return None, notes

    @cached_property
    def _indices(self) -> VectorIndices | None:
        """The vector indices of the version, if any may be used."""
        from lancefs.index.vectors.vector_indices import vector_indices_of

        return vector_indices_of(self._version) if self._rows.use_index else None

    def _by_comparing_all(self, notes: list[str]) -> list[Ranked]:
        """Return the nearest rows by a comparison of all vectors; a note for `explain` is added."""
        query, metric = self._query, self._metric
        best = [BestRows(query.k, query.lowest, query.limit) for _ in range(query.num_queries)]
        batches = self._found.scanner_of([query.field.name, ROW_ID.name]).to_batches()
        compared = compare_all(batches, metric, query.vectors, best)
        notes.append(f"exact search: {plural(compared, 'vector')} compared by {metric}")
        return [one.ranked() for one in best]

    @property
    def _metric(self) -> Metric:
        """How vectors are compared without an index: as one that cannot be read would do it."""
        query, known = self._query, list[Metric | None]()
        if self._indices is not None and query.metric is None:
            known = [self._indices.metric(one) for one in self._indices.over(query.field.id)]
        of_index = next((metric for metric in known if metric in query.metrics), None)
        return query.metric or of_index or query.metrics[0]

    def _filtered(self, found: Sequence[Ranked], wanted: Filter) -> list[Ranked]:
        """Return those of the nearest rows that pass a filter."""
        keep = self._found.passing(np.concatenate([one.row_ids for one in found]), wanted)
        parts = np.split(keep, np.cumsum([len(one.row_ids) for one in found])[:-1])
        return [
            Ranked(one.row_ids[mask], one.distances[mask])
            for one, mask in zip(found, parts, strict=True)
        ]


def _count(found: Sequence[Ranked]) -> int:
    return sum(len(one.row_ids) for one in found)
