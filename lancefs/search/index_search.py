"""Vector search by an index: candidates by stored vectors or codes, optionally refined exactly.

Rows that no segment covers are compared one by one. Distances of an index are not exact, so that
all candidates are compared exactly then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import call

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import mask_of
from lancefs.datafile.buffers import UInts, to_arrow_numbers
from lancefs.datafile.row_ranges import is_among
from lancefs.index.column_indices import BrokenSegment, reading
from lancefs.index.segments import ColumnIndex, IndexSegment
from lancefs.index.vectors.distances import Metric, distances
from lancefs.index.vectors.partitions import VectorPartitions
from lancefs.index.vectors.vector_indices import VectorIndices
from lancefs.printable import plural
from lancefs.search.candidates import OpenVectors
from lancefs.search.exact_search import compare_all, matrix
from lancefs.search.found_rows import FoundRows
from lancefs.search.nearest_rows import BestRows, Ranked, nearest_of
from lancefs.search.row_bits import RowBits
from lancefs.search.vector_query import VectorQuery
from lancefs.table.open_version import OpenVersion

# If a filter leaves at most this many rows, they are compared exactly, without the index.
_FEW_ROWS = 4096
# Rows whose vectors are read at a time.
_TAKEN_ROWS = 16 * 1024


class IndexSearch:
    """A search by an index.

    Args:
        version: The version.
        indices: Its vector indices.
        index: The index.
        query: What is searched for.
        rows: Reads columns of the rows that may be found.
        is_filtered: Whether these are not all rows.
    """

    def __init__(
        self,
        version: OpenVersion,
        indices: VectorIndices,
        index: ColumnIndex,
        query: VectorQuery,
        rows: FoundRows,
        is_filtered: bool,
    ) -> None:
        self.notes: list[str] = []
        self._indices = indices
        self._index = index
        self._query = query
        self._fragments: list[int] = version.manifest.fragments.ids.tolist()
        self._rows = rows
        self._is_filtered = is_filtered
        self._allowed_in: dict[tuple[int, ...], RowBits] = {}  # by the fragments
        self._opened = self._open()

    @property
    def metric(self) -> Metric | None:
        """How the index compares vectors; None if no segment of it can be used for the query."""
        return self._opened[0].partitions.metric if self._opened else None

    def _open(self) -> list[OpenVectors]:
        """The segments that can be searched: those that compare as the first one does."""
        found: list[OpenVectors] = []
        segments = self._index.segments
        work: list[Callable[[], VectorPartitions | None]] = []
        if self._is_filtered and not self._indices.is_local and self._may_fit:
            # Requests of the filter are under way together with those of the index.
            work += [partial(self._filter, one) for one in segments if len(one.covered)]
        work += [partial(self._indices.open, one) for one in segments]
        opened = self._indices.do_each(call, work)[-len(segments) :]
        for segment, partitions in zip(segments, opened, strict=True):
            if partitions is None or partitions.dimension != self._query.dimension:
                continue
            if not found or found[0].partitions.metric == partitions.metric:
                found.append(OpenVectors(segment, partitions, self._indices.coverage))
        return found

    @property
    def _may_fit(self) -> bool:
        """Whether the index compares as the query wants it, as far as the manifest tells."""
        wanted, recorded = self._query.metric, self._index.metric
        return wanted is None or recorded is None or wanted == recorded

    def _filter(self, segment: IndexSegment) -> None:
        """Find the rows that may be found, in the fragments of a segment."""
        covered = tuple(segment.covered.tolist())
        if covered not in self._allowed_in:
            is_all = len(covered) == len(self._fragments)
            self._allowed_in[covered] = self._rows.allowed(None if is_all else covered)

    def found(self) -> list[Ranked] | None:
        """Return the nearest rows for each query vector; None where the index cannot tell.

        Raises:
            LanceError: The table cannot be read.
        """
        while self._opened:
            try:
                return self._search()
            except BrokenSegment as error:
                self._indices.give_up(error.segment, error.cause)
                self._opened = self._open()
                self.notes.clear()
        return None

    def _search(self) -> list[Ranked] | None:
        """Return what `found` does.

        Raises:
            BrokenSegment: A segment turned out to be damaged.
        """
        if self._is_filtered:
            rows = self._find_allowed()
            if rows <= max(_FEW_ROWS, self._wanted):
                self.notes.append(f"filter first: {plural(rows, 'row')} to compare")
                return self._exact([self._allowed()] * len(self._query.vectors))
        if self._is_exact and self._query.lowest is not None:
            return None  # the nearest candidates may all be below the least distance
        candidates = self._candidates()
        self._note_use()
        return self._exact(candidates) if self._is_exact else candidates

    @property
    def _wanted(self) -> int:
        """Rows that the index is asked for."""
        return self._query.k * (self._query.refine_factor or 1)

    @property
    def _is_exact(self) -> bool:
        """Whether candidates are compared exactly."""
        return self._query.refine_factor is not None or bool(self._uncovered)

    @property
    def _uncovered(self) -> list[int]:
        """The fragments that no open segment covers."""
        covered = set[int]().union(*(one.segment.covered.tolist() for one in self._opened))
        return [number for number in self._fragments if number not in covered]

    def _find_allowed(self) -> int:
        """Find the rows that may be found, in the fragments of each segment; return how many."""
        for one in self._opened:
            self._filter(one.segment)
            one.allowed = self._allowed_in[tuple(one.segment.covered.tolist())]
        return sum(one.allowed.num_rows for one in self._opened if one.allowed is not None)

    def _allowed(self) -> Ranked:
        """Return all rows that may be found, without their distances."""
        sets = [one.allowed.row_ids() for one in self._opened if one.allowed is not None]
        row_ids = np.concatenate(sets)
        return Ranked(row_ids, np.zeros(len(row_ids), np.float32))

    def _candidates(self) -> list[Ranked]:
        """Return, for each query, the nearest rows by what the segments store."""
        query = self._query
        bounds = (None, None) if self._is_exact else (query.lowest, query.limit)

        def nearest(one: OpenVectors) -> list[Ranked]:
            with reading(one.segment):
                factor = query.refine_factor or 1
                return one.nearest(query.vectors, query.k, factor, query.nprobes, bounds)

        found = self._indices.do_each(nearest, self._opened)
        return [nearest_of(parts, self._wanted) for parts in zip(*found, strict=True)]

    def _exact(self, candidates: Sequence[Ranked]) -> list[Ranked]:
        """Compare candidates exactly, and the rows of fragments that no segment covers."""
        query, metric = self._query, self.metric
        assert metric is not None
        best = [BestRows(query.k, query.lowest, query.limit) for _ in query.vectors]
        wanted = np.unique(np.concatenate([one.row_ids for one in candidates]))
        for start in range(0, len(wanted), _TAKEN_ROWS):
            ids = wanted[start : start + _TAKEN_ROWS]
            vectors = self._vectors_of(ids)
            for one, candidate, vector in zip(best, candidates, query.vectors, strict=True):
                own, some = ids, vectors
                if len(candidates) > 1:
                    which = np.flatnonzero(is_among(ids, np.sort(candidate.row_ids)))
                    own, some = ids[which], vectors.take(to_arrow_numbers(which))
                found = distances(metric, matrix(some), vector[None, :])[0]
                if some.null_count:
                    found[~mask_of(some.is_valid())] = np.nan
                one.add(own, found)
        if query.refine_factor is not None or self._uncovered:
            self.notes.append(f"refined: {plural(len(wanted), 'vector')} compared by {metric}")
        if self._uncovered:
            scanner = self._rows.scanner_of([query.field.name, "_rowid"], self._uncovered)
            compared = compare_all(scanner.to_batches(), metric, query.vectors, best)
            self.notes.append(
                f"exact search of {plural(len(self._uncovered), 'fragment')} that no index covers: "
                f"{plural(compared, 'vector')}"
            )
        return [one.ranked() for one in best]

    def _vectors_of(self, row_ids: UInts) -> pa.Array:
        """Return the vectors of rows."""
        taken = self._rows.candidates(row_ids, [self._query.field.name])
        return taken.column(0).combine_chunks()

    def _note_use(self) -> None:
        probed = sum(one.probed for one in self._opened)
        partitions = sum(one.partitions.num_partitions for one in self._opened)
        compared = sum(one.compared for one in self._opened)
        queries = len(self._query.vectors)
        self.notes.append(
            f"index {self._index.name} ({self._opened[0].partitions.kind}, {self.metric}): "
            f"{probed:,} of {plural(queries * partitions, 'partition')}, "
            f"{plural(compared, 'vector')} compared, {len(self._opened)} of "
            f"{plural(len(self._index.segments), 'segment')} used"
        )
