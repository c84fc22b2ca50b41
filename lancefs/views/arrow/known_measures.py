"""What is known of the measures of a view's columns (see `shapes`); `measures` computes the rest.

Measures are recorded for the view, and for the process (see `shared_measures`), so that views and
versions that share a fragment share its measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile
from lancefs.storage.budget_cache import BudgetCache
from lancefs.views.arrow.shapes import Shape
from lancefs.views.arrow.shared_measures import SharedMeasures
from lancefs.views.view_batches import Batches

# The measures of each table, by sharer and table as in `view.Key`. The budget is in bytes.
_SHARED: BudgetCache[tuple[str, str], SharedMeasures] = BudgetCache(64 * 1024 * 1024)


class OtherLayout(CorruptFile):
    """The values of a view are not those that its cached layout was made of."""


class KnownMeasures:
    """The measures of the columns of a view, as far as they are known. Threads may share it.

    Args:
        sharer: Who may share cached measures and values: an identity of store, credentials and
            rules, and the URL of the table.
        batches: The batches of the view.
        fields: The columns of the view.
        shapes: Shape of the type of each column.

    Attributes:
        columns: For each column its measures, of shape (batches, num_measures); -1 if unknown.
        is_loaded: Whether some of them come from a layout cache.
    """

    def __init__(
        self,
        sharer: tuple[str, str],
        batches: Batches,
        fields: Sequence[Field],
        shapes: Sequence[Shape],
    ) -> None:
        self.batches = batches
        self.fields = fields
        self.shapes = shapes
        self._sharer = sharer
        self._shared = _SHARED.get(sharer, SharedMeasures, lambda shared: shared.cost)
        self.is_loaded = False
        ends = np.cumsum([0, *(shape.num_measures for shape in shapes)])
        # The measures of all columns; those of each column are a part of it.
        self._table = np.full((len(batches), int(ends[-1])), -1, np.int64)
        self.columns: list[Ints] = [self._table[:, a:b] for a, b in pairwise(ends.tolist())]
        self._names = [repr(field) for field in fields]  # of the columns among cached measures
        self._is_null_count = np.concatenate(
            [np.empty(0, np.bool_)]
            + [np.arange(shape.num_measures) < len(shape.nodes) for shape in shapes]
        )
        # Places of the batches among the shared measures; -1 for those not looked up there yet.
        self._places = np.full(len(batches), -1, np.int64)

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        return self._table.nbytes + self._places.nbytes + self.batches.cost

    @property
    def rows(self) -> Ints:
        """Number of rows of each batch, of shape (batches,)."""
        rows: Ints = self.batches.rows
        return rows

    def null_counts(self, batches: Sequence[int]) -> Ints:
        """Return the null counts of all nodes, which must be known, of shape (batches, nodes)."""
        counts: Ints = self._table[np.ix_(np.array(batches, np.int64), self._is_null_count)]
        return counts

    @property
    def has_extents(self) -> bool:
        """Whether all extents are known."""
        return not len(self.unknown(range(len(self.batches)), self.first_extents))

    @property
    def is_complete(self) -> bool:
        """Whether all measures of all batches are known."""
        return not len(self.unknown(range(len(self.batches)), [0] * len(self.shapes)))

    def is_known(self, batch: int) -> bool:
        """Return whether all measures of a batch are known."""
        if (self._table[batch] >= 0).all():
            return True
        return not len(self.unknown([batch], [0] * len(self.shapes)))

    def record(self, batch: int, column: int, measures: Ints) -> None:
        """Record measures of a column in a batch, for this view and for others.

        Args:
            batch: Position of the batch.
            column: Position of the column.
            measures: The measures, of shape (num_measures,); -1 if unknown.

        Raises:
            CorruptFile: A measure differs from its known value.
            OtherLayout: It differs from what a layout cache had.
        """
        self.record_all([batch], column, measures[None])

    def load_column(self, column: int, measures: Ints) -> None:
        """Take measures of a column in all batches from a layout cache; keep known measures.

        They count for this view only, as other views may have other values.

        Args:
            column: Position of the column.
            measures: The measures, of shape (batches, num_measures); -1 if unknown.
        """
        self.is_loaded = True
        np.copyto(self.columns[column], measures, where=self.columns[column] < 0)

    @property
    def first_extents(self) -> list[int]:
        """For each column the first extent among its measures."""
        return [len(shape.nodes) for shape in self.shapes]

    def unknown(self, batches: Iterable[int], first: Sequence[int]) -> Ints:
        """Return the batches that lack measures, also after a look at the cached ones.

        Args:
            batches: Positions of the batches, ascending.
            first: For each column the first of its measures that is needed.
        """

        needed = np.concatenate(
            [np.empty(0, np.bool_)]
            + [
                np.arange(shape.num_measures) >= low
                for shape, low in zip(self.shapes, first, strict=True)
            ]
        )

        def lacking(among: Ints) -> Ints:
            unknown: Ints = among[(self._table[np.ix_(among, needed)] < 0).any(axis=1)]
            return unknown

        unknown = lacking(np.array(batches, np.int64))
        self.look_up(unknown)
        return lacking(unknown)

    def look_up(self, batches: Ints) -> Ints:
        """Take the measures of batches that other views found, once; return the batches' places."""
        new = batches[self._places[batches] < 0]
        if len(new):
            places = self._shared.places(self.batches.identities(new.tolist()))
            for name, known in zip(self._names, self.columns, strict=True):
                found = self._shared.known(name, places, known.shape[1])
                known[new] = np.where(known[new] < 0, found, known[new])
            self._places[new] = places
        return self._places[batches]

    def record_all(self, batches: Sequence[int], column: int, measures: Ints) -> None:
        """Record measures of a column in several batches; see `record`.

        Args:
            batches: Positions of the batches.
            column: Position of the column.
            measures: The measures, of shape (batches, num_measures); -1 if unknown.
        """
        numbers = np.array(batches, np.int64)
        places, name = self.look_up(numbers), self._names[column]
        own, shared = self.columns[column], self._shared.known(name, places, measures.shape[1])
        for known, is_loaded in ((shared, False), (own[numbers], self.is_loaded)):
            is_other = ((known != measures) & (known >= 0) & (measures >= 0)).any(axis=1)
            if is_other.any():
                batch = self.batches[batches[int(is_other.argmax())]]
                raise (OtherLayout if is_loaded else CorruptFile)(
                    f"fragment {batch.fragment.fragment.id}, {self.fields[column].name}: the "
                    "values are not those that the file was laid out for; a data file was changed "
                    "while it was read"
                )
        self._shared.record(name, places, measures)
        own[numbers] = np.where(measures >= 0, measures, own[numbers])

    def share(self) -> None:
        """Keep the recorded measures for other views, within the budget."""
        _SHARED.put(self._sharer, self._shared, self._shared.cost)
