"""The rows for a query of the first ones in some order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import and_
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pinned_versions import NameUse
from duckdb_adapter.queries.top_n import SortKey, TopN
from duckdb_adapter.sources.partition_rows import (
    find_first_of_each,
    has_numbers,
    makes_partitions,
)
from duckdb_adapter.sources.row_tests import tests_in
from duckdb_adapter.sources.rows import Names, RecordBatches, Rows, Terms
from duckdb_adapter.sources.top_n_rows import KeyedRows, TopNAccumulator, find_first, is_ordered
from lancefs.datafile.arrays import is_text
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.forks import cached_property
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import bytes_of
from lancefs.scan.intervals import is_float
from lancefs.scan.settings import BATCH_ROWS
from lancefs.scan.value_ranges import has_range
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.per_version import PerVersion
from lancefs.table.row_metadata import ROW_OFFSET

# A shorter table is read once, not twice.
_MIN_ROWS = 2 * BATCH_ROWS
# Bytes of positions that are kept for a version, and what each order takes in addition to them.
_KEPT_BYTES, _FOUND_BYTES = 1024 * 1024, 500
# Rows that are sampled at each of `_PLACES` places, to see whether the first rows lie together.
_PROBED_ROWS, _PLACES = 16 * 1024, 3


class _Found(NamedTuple):
    """What was found of an order.

    Attributes:
        rows: How many rows were looked for.
        positions: The positions of the rows that may be among the first, ascending; None for too
            many.
    """

    rows: int
    positions: Ints | None

    def tells(self, rows: int) -> bool:
        """Whether this answers a search for so many first rows."""
        return rows >= self.rows if self.positions is None else rows <= self.rows

    @property
    def cost(self) -> int:
        """Bytes that this takes."""
        return _FOUND_BYTES + (0 if self.positions is None else self.positions.nbytes)


@dataclass(frozen=True)
class _Probed:
    """Values of the column that orders rows first, at some places.

    Attributes:
        parts: The values, without nulls, by the first row of each place.
        ends: The first ones of them, by whether the order is descending.
    """

    parts: Mapping[int, pa.Array]
    ends: Mapping[bool, TopNAccumulator]

    @cached_property
    def parts_of_first(self) -> dict[bool, list[pa.Array]]:
        """The parts that hold the first values, for each order."""
        starts, parts = list(self.parts), list(self.parts.values())
        found: dict[bool, list[pa.Array]] = {}
        for descending, end in self.ends.items():
            places = np.unique(np.searchsorted(starts, end.positions, "right")) - 1
            found[descending] = [parts[place] for place in places.tolist()]
        return found

    @property
    def are_together(self) -> bool:
        """Whether the first values are at one of the places, whatever the order."""
        return all(len(each) == 1 for each in self.parts_of_first.values())


# What puts rows in order, whether that is all that does, partitions, and the filter.
_FoundKey: TypeAlias = tuple[tuple[SortKey, ...], bool, tuple[str, ...], bytes]
_FOUND = PerVersion[BudgetCache[_FoundKey, _Found]](lambda _: BudgetCache(_KEPT_BYTES))


class TopNRows(Rows):
    """Reads the rows that may be the first ones.

    Args:
        dataset: The table.
        first: Which rows are wanted.
        use: How often the statement uses the table, where its text does not tell.
        compares_bytes: Whether DuckDB puts texts in the order of their bytes.
    """

    takes_conditions = False

    def __init__(
        self,
        dataset: LanceDataset,
        first: TopN,
        use: NameUse | None = None,
        compares_bytes: bool = False,
    ) -> None:
        super().__init__(dataset)
        self._compares_bytes = compares_bytes
        leading = self._leading(first.orders, compares_bytes)
        are_all = first.are_all_orders and len(leading) == len(first.orders)
        self._wanted = first._replace(orders=leading, are_all_orders=are_all)
        self._use = use

    def keeps_most(self, filter: pc.Expression) -> bool:
        """Whether DuckDB leaves rows out: not where the first of those that pass are wanted."""
        return False

    def batches(self, names: Names, terms: Terms) -> RecordBatches:
        if self._use is not None:
            self._use.mark_read()
        is_all = self._use is None or self._use.is_sole
        if not (is_all and self._are_all(terms) and self._is_worthwhile()):
            return super().batches(names, terms)
        return self._first(names, [*terms, *self._wanted.tests.unpushed])

    def _leading(self, orders: Sequence[SortKey], compares_bytes: bool) -> tuple[SortKey, ...]:
        """Return the columns before the first whose values DuckDB may put in another order."""
        leading = list[SortKey]()
        for order in orders:
            kind = self.filter_field(order.column).type
            if not is_ordered(kind) or (is_text(kind) and not compares_bytes):
                break
            leading.append(order)
        return tuple(leading)

    def _are_all(self, terms: Terms) -> bool:
        """Whether the rows for which all terms are true are those that pass WHERE."""
        tests = tests_in(terms)
        return tests is not None and self._wanted.tests.are_pushed(tests)

    def _is_worthwhile(self) -> bool:
        """Whether there are many rows, and their columns tell which ones are first."""
        wanted = self._wanted
        if not wanted.orders or (self.known_count() or 0) < _MIN_ROWS:
            return False
        kinds = {name: self.filter_field(name).type for name in wanted.columns}
        first = kinds[wanted.orders[0].column]
        if wanted.partitions and not (
            has_numbers(first) and all(makes_partitions(kinds[one]) for one in wanted.partitions)
        ):
            return False
        parts = [part.column for part in wanted.tests.parts]
        kinds_of_parts = [self.filter_field(part).type for part in parts]
        if parts and not (self._compares_bytes and all(map(is_text, kinds_of_parts))):
            return False
        times = [time.column for time in wanted.tests.times]
        return all(map(self.can_filter, [*wanted.columns, *parts, *times]))

    def _first(self, names: Names, terms: Terms) -> RecordBatches:
        """Read the rows that may be among the first ones; all that pass where those are many."""
        positions = self._positions(reduce(and_, terms) if terms else None)
        if positions is None:
            yield from super().batches(names, terms)
        else:
            yield from self.at_positions(names, positions)

    def _positions(self, filter: pc.Expression | None) -> Ints | None:
        """Return where the rows are that may be among the first ones; None where they are many."""
        wanted, kept = self._wanted, _FOUND.of(self.dataset.opened)
        condition = b"" if filter is None else bytes_of(filter)
        key = wanted.orders, wanted.are_all_orders, wanted.partitions, condition
        known = kept.peek(key)
        if known is None or not known.tells(wanted.rows):
            known = _Found(wanted.rows, self._find(filter))
            kept.put(key, known, known.cost + len(condition))
        return known.positions

    def _find(self, filter: pc.Expression | None) -> Ints | None:
        """Look for the rows that may be among the first ones."""
        wanted = self._wanted
        if wanted.partitions:
            total = self.known_count() or 0
            return find_first_of_each(self._values(filter), wanted.rows, wanted.directions, total)
        if filter is None:
            bounds = self._bounds()
            return self._find_in(map(self._values, bounds) if bounds else [self._values(None)])
        found = self._find_together(filter)
        return self._find_in([self._values(filter)]) if found is None else found

    def _find_in(self, parts: Iterable[Iterator[KeyedRows]]) -> Ints | None:
        """Look for them in some rows; see `_values`."""
        wanted = self._wanted
        keeps_ties = not wanted.are_all_orders
        return find_first(chain.from_iterable(parts), wanted.rows, wanted.directions, keeps_ties)

    def _find_together(self, filter: pc.Expression) -> Ints | None:
        """Look for the first rows that pass where the first ones of all rows lie together.

        Returns:
            None where they do not, or few of those that lie there pass.
        """
        wanted = self._wanted
        probed = None if is_text(self._first_type) else self._probed()
        if probed is None or not probed.are_together or len(wanted.directions) > 1:
            return None
        ((descending, (part,)),) = probed.parts_of_first.items()
        field, ends = pc.field(wanted.orders[0].column), pc.min_max(part)
        bound = field >= ends["min"] if descending else field <= ends["max"]
        found = self._find_in([self._values(filter & bound)])
        if found is None or len(found) < wanted.rows:
            return None
        is_missing = field.is_null()
        if self.dataset.scanner([], filter=is_missing, limit=1).count_rows() == 0:
            return found
        missing = self._find_in([self._values(is_missing & filter)])
        return None if missing is None else np.union1d(found, missing)

    def _values(self, filter: pc.Expression | None) -> Iterator[KeyedRows]:
        """Yield the values that tell which rows are the first, with the positions of the rows."""
        columns, decimals = list(self._wanted.columns), self._known_columns.for_scan.decimal64
        scanner = self.dataset.scanner(
            columns if filter is None else [*columns, ROW_OFFSET.name],
            filter=filter,
            batch_size=4 * BATCH_ROWS,
            dictionary_columns=[one for one in columns if one in self.encoded],
            decimal64_columns=[one for one in columns if one in decimals],
        ).for_engine()
        start = 0
        for batch in scanner.to_batches():
            values, end = batch.columns, start + batch.num_rows
            if filter is None:
                positions = to_arrow_numbers(np.arange(start, end))
            else:
                *values, offsets = values
                positions = offsets.cast(pa.int64())
            yield values, positions
            start = end

    def _bounds(self) -> list[pc.Expression]:
        """Return conditions of which the first rows fulfil one, and only one, where few others do.

        That is so of texts, which are compared as they are stored, and of values that lie together,
        as times in a log do: the ranges of zones tell where. A scan for each of the conditions is
        quicker than one for either.

        Returns:
            An empty list if all values are as quickly compared here.
        """
        probed = self._probed()
        if probed is None or not (is_text(self._first_type) or probed.are_together):
            return []
        field = pc.field(self._wanted.orders[0].column)
        bounds = [field.is_null()]
        for descending, end in sorted(probed.ends.items()):
            if end.last is None:
                return []
            bound = field >= end.last[0] if descending else field <= end.last[0]
            # Each row is wanted once: later bounds leave out what an earlier one keeps.
            others = [~other for other in bounds[1:]]
            bounds.append(reduce(and_, [bound, *others]))
        return bounds

    def _probed(self) -> _Probed | None:
        """Read values of the first column at some places.

        Returns:
            None where nothing tells quickly which other rows have such values.
        """
        wanted, kind = self._wanted, self._first_type
        column = wanted.orders[0].column
        is_clear = self.dataset.is_local and wanted.rows and column not in self.encoded
        if not is_clear or is_float(kind) or not has_range(kind):  # NaN passes no comparison
            return None
        ends = {each[0]: TopNAccumulator(wanted.rows, each[:1]) for each in wanted.directions}
        parts: dict[int, pa.Array] = {}
        for place in self._places():
            probed = self.dataset.scanner([column], limit=_PROBED_ROWS, offset=place).to_table()
            values = parts[place] = probed[column].combine_chunks().drop_null()
            for end in ends.values():
                end.add([values], to_arrow_numbers(np.arange(place, place + len(values))))
        return _Probed(parts, ends)

    @property
    def _first_type(self) -> pa.DataType:
        """The type of the column that orders rows first."""
        return self.filter_field(self._wanted.orders[0].column).type

    def _places(self) -> list[int]:
        """Return where rows are probed: at the beginning, at the end, and between."""
        last = (self.known_count() or 0) - _PROBED_ROWS
        return sorted({max(last * place // (_PLACES - 1), 0) for place in range(_PLACES)})
