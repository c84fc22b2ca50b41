"""The rows of a table as far as one query uses them: the first ones in some order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.pins import Use
from duckdb_adapter.queries.top_n import FirstRows, Order
from duckdb_adapter.sources.partition_rows import (
    find_first_of_each,
    has_numbers,
    makes_partitions,
)
from duckdb_adapter.sources.rows import COUNTER, Rows, fitted, is_text
from duckdb_adapter.sources.top_n_rows import FirstEnd, find_first, is_ordered
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import AND, as_comparison, chain_terms, clear_tree
from lancefs.scan.settings import BATCH_ROWS
from lancefs.scan.value_ranges import has_range
from lancefs.table.row_metadata import ROW_OFFSET

# A shorter table is read once, not twice.
_LEAST_ROWS = 2 * BATCH_ROWS
# Rows at each of some places by which it is told whether the first rows lie together.
_PROBED_ROWS, _PLACES = 16 * 1024, 3


class TopNRows(Rows):
    """Reads the rows that may be the first ones.

    Args:
        dataset: The table.
        first: Which rows are wanted.
        use: How often the statement uses the table, where its text does not tell.
        compares_bytes: Whether DuckDB puts texts in the order of their bytes.
    """

    def __init__(
        self,
        dataset: LanceDataset,
        first: FirstRows,
        use: Use | None = None,
        compares_bytes: bool = False,
    ) -> None:
        super().__init__(dataset)
        self._wanted = replace(first, orders=self._leading(first.orders, compares_bytes))
        self._use = use

    def keeps_most(self, filter: pc.Expression) -> bool:
        """Whether DuckDB leaves rows out: not where the first of those that pass are wanted."""
        return False

    def batches(
        self, names: Sequence[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, in the order wanted, of the rows for which all terms are true."""
        is_all = self._use is None or self._use.read_once()
        if not (is_all and self._are_all(terms) and self._is_worthwhile(names)):
            return super().batches(names, terms)
        schema = pa.schema([self.schema.field(name) for name in names])
        wanted = [name for name in names if name != COUNTER]
        return fitted(self._first(wanted, terms), schema)

    def _leading(self, orders: Sequence[Order], compares_bytes: bool) -> tuple[Order, ...]:
        """Return the columns before the first whose values DuckDB may put in another order."""
        leading = list[Order]()
        for order in orders:
            kind = self.plain_field(order.column).type
            if not is_ordered(kind) or (is_text(kind) and not compares_bytes):
                break
            leading.append(order)
        return tuple(leading)

    def _are_all(self, terms: Sequence[pc.Expression]) -> bool:
        """Whether the rows for which all terms are true are those that pass WHERE."""
        compared = [_compared(term) for term in terms]
        found = Counter(column for columns in compared for column in columns or ())
        return None not in compared and found == Counter(self._wanted.tested)

    def _is_worthwhile(self, names: Sequence[str]) -> bool:
        """Whether the columns that tell the rows are less than what is wanted, and in an order."""
        wanted = self._wanted
        if not wanted.orders or (self.known_count() or 0) < _LEAST_ROWS:
            return False
        kinds = {name: self.plain_field(name).type for name in wanted.columns}
        first = kinds[wanted.orders[0].column]
        if wanted.partitions and not (
            has_numbers(first) and all(makes_partitions(kinds[one]) for one in wanted.partitions)
        ):
            return False
        read = {COUNTER, *wanted.columns, *wanted.tested}
        is_text_read = is_text(first) and wanted.orders[0].column not in self.encoded
        is_wide = is_text_read or any(name not in read for name in names)
        return is_wide and all(map(self.can_filter, read - {COUNTER}))

    def _first(
        self, columns: list[str], terms: Sequence[pc.Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows that may be among the first ones; all that pass where those are many."""
        filter = reduce(and_, terms) if terms else None
        positions = self._positions(filter)
        if positions is None:
            yield from super().batches(columns, terms)
            return
        yield from self._scanner(columns).take(positions).to_batches()

    def _positions(self, filter: pc.Expression | None) -> Ints | None:
        """Return where the rows are that may be among the first ones; None where they are many."""
        wanted = self._wanted
        if wanted.partitions:
            total = self.known_count() or 0
            return find_first_of_each(self._values(filter), wanted.rows, wanted.directions, total)
        bounds = self._bounds() if filter is None else []
        values = chain.from_iterable(map(self._values, bounds)) if bounds else self._values(filter)
        return find_first(values, wanted.rows, wanted.directions)

    def _values(self, filter: pc.Expression | None) -> Iterator[tuple[list[pa.Array], pa.Array]]:
        """Yield the values that tell which rows are the first, with the positions of the rows."""
        columns, partitions = list(self._wanted.columns), self._wanted.partitions
        narrow = self._known_columns.narrowed.narrow.difference(partitions) if partitions else ()
        scanner = self.dataset.scanner(
            columns if filter is None else [*columns, ROW_OFFSET.name],
            filter=filter,
            batch_size=4 * BATCH_ROWS,
            dictionary_columns=[one for one in partitions if one in self.encoded],
            narrow_columns=[one for one in columns if one in narrow],
        )
        start = 0
        for batch in scanner.to_batches():
            if filter is not None:
                *values, offsets = batch.columns
                yield values, offsets.cast(pa.int64())
                continue
            end = start + batch.num_rows
            yield batch.columns, to_arrow_numbers(np.arange(start, end))
            start = end

    def _bounds(self) -> list[pc.Expression]:
        """Return conditions of which the first rows fulfil one, and only one, where few others do.

        That is so of texts, which are compared as they are stored, and of values that lie together,
        as times in a log do: the ranges of zones tell where. A scan for each of the conditions is
        quicker than one for either.

        Returns:
            None of them where all values are as quickly compared here.
        """
        wanted, column = self._wanted, self._wanted.orders[0].column
        kind = self.plain_field(column).type
        if not (self.dataset.is_local and wanted.rows and (is_text(kind) or has_range(kind))):
            return []
        ends = {each[0]: FirstEnd(wanted.rows, each[:1]) for each in wanted.directions}
        places = self._places()
        for place in places:
            probed = self.dataset.scanner([column], limit=_PROBED_ROWS, offset=place).to_table()
            values = probed[column].combine_chunks().drop_null()
            for end in ends.values():
                end.add([values], to_arrow_numbers(np.arange(place, place + len(values))))
        found = [np.searchsorted(places, end.positions, "right") for end in ends.values()]
        are_together = all(len(np.unique(each)) == 1 for each in found)
        if not (is_text(kind) or are_together):
            return []
        field = pc.field(column)
        bounds = [field.is_null()]
        for descending, end in sorted(ends.items()):
            if end.last is None:
                return []
            bound = field >= end.last[0] if descending else field <= end.last[0]
            # A row is compared with others as often as it is read.
            others = [~other for other in bounds[1:]]
            bounds.append(reduce(and_, [bound, *others]))
        return bounds

    def _places(self) -> list[int]:
        """Return where rows are probed: at the beginning, at the end, and between."""
        last = (self.known_count() or 0) - _PROBED_ROWS
        return sorted({max(last * place // (_PLACES - 1), 0) for place in range(_PLACES)})


def _compared(term: pc.Expression) -> list[str] | None:
    """Return the columns that a condition compares, each as often as it does.

    None where it is not made of comparisons that must all be true.
    """
    tree, columns = clear_tree(term), list[str]()
    for each in () if tree is None else chain_terms(tree, AND):
        test = as_comparison(each)
        if test is None:
            return None
        columns.append(test.column)
    return columns or None
