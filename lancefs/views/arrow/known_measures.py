"""What is known of the measures of a view's columns (see `shapes`); `measures` computes the rest.

Measures are recorded for the view, and for the process (see `SharedMeasures`), so that views and
versions that share a fragment share its measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from lancefs.datafile.buffers import Ints
from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile
from lancefs.forks import Lock
from lancefs.storage.budget_cache import BudgetCache
from lancefs.views.arrow.shapes import Shape
from lancefs.views.view_batches import Batches

# Estimated memory of what identifies a batch.
_BATCH_BYTES = 200


class SharedMeasures:
    """The measures of batches of one table, as all its views and versions share them.

    A table with a hundred thousand fragments has as many batches: their measures are columns of
    numbers, which are looked up and recorded for many batches at once. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._places: dict[bytes, int] = {}
        self._columns: dict[str, Ints] = {}  # may have fewer rows than there are places

    @property
    def cost(self) -> int:
        """Memory in bytes, about."""
        with self._lock:
            columns = sum(column.nbytes for column in self._columns.values())
            return _BATCH_BYTES * len(self._places) + columns

    def places(self, identities: Sequence[bytes]) -> Ints:
        """Return the place of each batch among all batches, which is a new one for new batches.

        Args:
            identities: What identifies each batch: see `Batches.identities`.

        Returns:
            The places, of shape (batches,).
        """
        with self._lock:
            places = self._places
            return np.array([places.setdefault(one, len(places)) for one in identities], np.int64)

    def known(self, column: str, places: Ints, num_measures: int) -> Ints:
        """Return the measures of a column in some batches.

        Args:
            column: The column as text.
            places: Places of the batches.
            num_measures: Number of measures of the column.

        Returns:
            The measures, of shape (batches, num_measures); -1 if unknown.
        """
        found = np.full((len(places), num_measures), -1, np.int64)
        with self._lock:
            known = self._columns.get(column)
            if known is not None:
                is_held = places < len(known)
                found[is_held] = known[places[is_held]]
        return found

    def record(self, column: str, places: Ints, measures: Ints) -> None:
        """Record measures of a column in some batches.

        Args:
            column: The column as text.
            places: Places of the batches.
            measures: The measures, of shape (batches, num_measures); -1 if unknown.
        """
        with self._lock:
            held = self._columns.get(column)
            if held is None or len(held) <= places.max(initial=-1):
                held = self._columns[column] = self._grown(held, measures.shape[1])
            held[places] = np.where(measures >= 0, measures, held[places])

    def _grown(self, held: Ints | None, num_measures: int) -> Ints:
        """Return a column with a row for each batch, and with room for some more."""
        size = len(self._places) if held is None else len(self._places) * 5 // 4
        grown = np.full((size, num_measures), -1, np.int64)
        if held is not None:
            grown[: len(held)] = held
        return grown


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
        """Record measures of a column in several batches, for this view and for others.

        Args:
            batches: Positions of the batches.
            column: Position of the column.
            measures: The measures, of shape (batches, num_measures); -1 if unknown.

        Raises:
            CorruptFile: A measure differs from its known value.
            OtherLayout: It differs from what a layout cache had.
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
