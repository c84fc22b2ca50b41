"""Finding the rows whose values come first in an order, as DuckDB may sort them.

Nulls and NaN come first or last, depending on DuckDB's settings, and other columns may order rows
with equal values. So more rows than the wanted ones are found: also the first rows with null and
with NaN, and all rows whose values equal those of the last wanted row if other columns may order
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.sources.column_values import stored_type
from lancefs.datafile.arrays import numbers_of
from lancefs.datafile.buffers import Ints
from lancefs.datafile.constants import scalar_of

# More rows than these are read as quickly with all others.
_MAX_ROWS = 16 * 1024
# Rows that are ordered first, to find a bound that most others come after.
_HEAD_ROWS = 4096

# The columns that order rows, and the positions of these.
KeyedRows: TypeAlias = tuple[Sequence[pa.Array], pa.Array]


def is_ordered(kind: pa.DataType) -> bool:
    """Whether Arrow and DuckDB order values of a type alike, whatever DuckDB's settings are.

    Texts they do where DuckDB compares them by their bytes, which is a setting.
    """
    tests = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_float32,
        pa.types.is_float64,
        pa.types.is_decimal128,
        pa.types.is_date32,
        pa.types.is_timestamp,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(test(kind) for test in tests)


def find_first(
    batches: Iterable[KeyedRows],
    rows: int,
    directions: Sequence[tuple[bool, ...]],
    keeps_ties: bool = True,
) -> Ints | None:
    """Find the rows that may be among the first ones.

    Args:
        batches: All values of the columns that order rows, of types that `is_ordered` or
            dictionaries of such texts, with the position of each row, ascending.
        rows: How many rows are wanted.
        directions: Whether the greatest value of each column comes first; several where that is
            unknown.
        keeps_ties: Whether something else may order rows with the same values, so that all of them
            may be first; otherwise the first of them are as good as others.

    Returns:
        Positions, ascending; None where they are too many.
    """
    found = _FirstRows(rows, directions, keeps_ties)
    for columns, positions in batches:
        found.add(_to_stored(columns), positions)
        if found.most > _MAX_ROWS:
            return None
    return np.unique(np.concatenate(list(found.positions())))


class _FirstRows:
    """Collects rows that may be among the first ones.

    Rows whose first column has no value, or NaN, come before or after all others: which of them are
    first, the other columns tell. Rows of which another column has no value, or NaN, may come
    anywhere among those with the same value of the first column.

    Args:
        rows: How many rows are wanted.
        directions: As of `find_first`.
        keeps_ties: As of `find_first`.
    """

    def __init__(self, rows: int, directions: Sequence[tuple[bool, ...]], keeps_ties: bool) -> None:
        self._rows, self._directions, self._keeps_ties = rows, directions, keeps_ties
        has_ends = rows and directions[0]
        self._ends = [TopNAccumulator(rows, each, keeps_ties) for each in directions if has_ends]
        self._same: Ints = np.empty(0, np.int64)  # rows that no column orders
        self._apart: dict[str, _FirstRows] = {}  # by why the first column does not order them
        self._anywhere: list[KeyedRows] = []  # with the first column alone

    @property
    def most(self) -> int:
        """The most rows of a kind that are kept."""
        anywhere = sum(len(positions) for _, positions in self._anywhere)
        apart = (each.most for each in self._apart.values())
        return max(len(self._same), anywhere, *map(len, self._ends), *apart, 0)

    def positions(self) -> Iterator[Ints]:
        """Yield the positions of the rows."""
        yield self._same
        for _, positions in self._anywhere:
            yield numbers_of(positions)
        for end in self._ends:
            yield end.positions
        for apart in self._apart.values():
            yield from apart.positions()

    def add(self, keys: Sequence[pa.Array], positions: pa.Array) -> None:
        """Add rows.

        Args:
            keys: The columns that order them.
            positions: Those of the rows, ascending; those added before come first.
        """
        if not keys:
            same = np.concatenate([self._same, numbers_of(positions)])
            self._same = same if self._keeps_ties else same[: self._rows]
            return
        unordered = _unordered(keys[:1])
        for kind, mask in unordered.items():
            if kind not in self._apart:
                directions = list(dict.fromkeys(each[1:] for each in self._directions))
                self._apart[kind] = _FirstRows(self._rows, directions, self._keeps_ties)
            self._apart[kind].add(*_filtered(keys[1:], positions, mask))
        keys, positions = _without(keys, positions, unordered)
        unordered = _unordered(keys[1:])
        anywhere = [_filtered(keys[:1], positions, mask) for mask in unordered.values()]
        keys, positions = _without(keys, positions, unordered)
        for end in self._ends:
            end.add(keys, positions)
        if anywhere:
            self._anywhere = list(map(self._not_late, [*self._anywhere, *anywhere]))

    def _not_late(self, rows: KeyedRows) -> KeyedRows:
        """Return rows whose first column does not put them behind the wanted ones."""
        masks = [end.is_not_after(rows[0][0]) for end in self._ends]
        return _filtered(*rows, reduce(pc.or_, masks)) if masks else rows


def _to_stored(keys: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """Return columns as Arrow compares them sooner: decimals as they are stored, flags as bytes."""
    return [
        key
        if _is_coded(key)
        else key.cast(pa.uint8())
        if pa.types.is_boolean(key.type)
        else key.view(stored_type(key.type))
        for key in keys
    ]


def _unordered(keys: Sequence[pa.Array]) -> dict[str, pa.Array]:
    """Return which rows have no place in an order of values: a mask for each kind of them."""
    masks: dict[str, pa.Array] = {}
    nulls = [key.is_null() for key in keys if key.null_count]
    if nulls:
        masks["null"] = reduce(pc.or_, nulls)
    numbers = [key for key in keys if pa.types.is_floating(key.type) and _may_have_nan(key)]
    if numbers:
        is_nan = reduce(pc.or_, map(pc.is_nan, numbers))
        masks["nan"] = pc.fill_null(is_nan, scalar_of(False, pa.bool_()))
    return masks


def _may_have_nan(numbers: pa.Array) -> bool:
    """Whether there may be NaN, which a sum tells in a quarter of the time."""
    total = pc.sum(numbers).as_py()
    return total is not None and math.isnan(total)


class TopNAccumulator:
    """The rows that come first of those so far, in one order.

    Args:
        rows: How many are wanted.
        descending: Whether the greatest value of each column comes first.
        keeps_ties: Whether all rows with the values of the last one are kept, or the first of them.

    Attributes:
        last: The values of the last of the wanted rows; None as long as there are fewer.
    """

    def __init__(self, rows: int, descending: Sequence[bool], keeps_ties: bool = True) -> None:
        self._rows = rows
        self._descending = descending
        self._keeps_ties = keeps_ties
        self._kept: pa.Table | None = None
        self.last: tuple[pa.Scalar, ...] | None = None

    def __len__(self) -> int:
        """Return how many rows are kept."""
        return 0 if self._kept is None else len(self._kept)

    @property
    def positions(self) -> Ints:
        """The positions of the rows that are kept."""
        found: Ints = np.empty(0, np.int64)
        return found if self._kept is None else numbers_of(self._kept["positions"].combine_chunks())

    def add(self, keys: Sequence[pa.Array], positions: pa.Array) -> None:
        """Keep those of some rows that may be among the first ones.

        Args:
            keys: The columns that order them, without nulls and NaN.
            positions: The positions of the rows, ascending, and behind those of rows added before.
        """
        head = max(_HEAD_ROWS, self._rows)
        if self.last is None and len(positions) > head:  # of others, a look at a column tells most
            self._add([key[:head] for key in keys], positions[:head])
            keys, positions = [key[head:] for key in keys], positions[head:]
        self._add(keys, positions)

    def is_not_after(self, values: pa.Array) -> pa.Array:
        """Return a mask of the values of the first column that may be those of wanted rows."""
        if self.last is None:
            return pc.invert(_none(len(values)))
        return self._comes_first(values, self.last[0])

    def _add(self, keys: Sequence[pa.Array], positions: pa.Array) -> None:
        if self.last is not None:
            keys, positions = self._without_late(keys, positions, self.last)
            if len(positions) == 0:
                return
        keys = [key.dictionary_decode() if _is_coded(key) else key for key in keys]
        if len(positions) > self._rows:  # quicker than among the rows of a table
            last = self._nth(keys[0])
            keys, positions = _filtered(keys, positions, self._comes_first(keys[0], last))
        names = [str(number) for number in range(len(keys))]
        added = pa.table([*keys, positions], [*names, "positions"])
        kept = added if self._kept is None else pa.concat_tables([self._kept, added])
        if len(kept) >= self._rows:
            directions = ["descending" if each else "ascending" for each in self._descending]
            order = [*zip(names, directions, strict=True), ("positions", "ascending")]
            first = pc.select_k_unstable(kept, k=self._rows, sort_keys=order)
            self.last = tuple(kept[name][first[-1].as_py()] for name in names)
            if self._keeps_ties:
                kept = kept.filter(self._is_within([kept[name] for name in names], self.last))
            else:
                kept = kept.take(first)
        self._kept = kept.combine_chunks()

    def _without_late(
        self, keys: Sequence[pa.Array], positions: pa.Array, last: Sequence[pa.Scalar]
    ) -> KeyedRows:
        """Leave out rows that come after the last one that is kept."""
        for count in sorted({1, len(keys)}):
            is_kept = self._is_within(keys[:count], last, count == len(keys))
            if not is_kept.true_count:
                return [key[:0] for key in keys], positions[:0]
            keys, positions = _filtered(keys, positions, is_kept)
        return keys, positions

    def _nth(self, values: pa.Array) -> pa.Scalar:
        """Return the value of the last row that is wanted, by the first column alone."""
        order = [("values", "descending" if self._descending[0] else "ascending")]
        first = pc.select_k_unstable(values, k=self._rows, sort_keys=order)
        return values[first[-1].as_py()]

    def _is_within(
        self, keys: Sequence[pa.Array], last: Sequence[pa.Scalar], are_all: bool = True
    ) -> pa.Array:
        """Return a mask of later rows that sort before one, or tie with it if ties are kept."""
        *others, final = range(len(keys))
        is_before = are_all and not self._keeps_ties
        found = self._comes_first(keys[final], last[final], final, is_before)
        for column in reversed(others):
            is_before = self._comes_first(keys[column], last[column], column, is_before=True)
            is_not_after = self._comes_first(keys[column], last[column], column)
            found = pc.or_(is_before, pc.and_(is_not_after, found))
        return found

    def _comes_first(
        self, values: pa.Array, last: pa.Scalar, column: int = 0, is_before: bool = False
    ) -> pa.Array:
        """Whether values of a column come before one, or are the same."""
        if _is_coded(values):
            of_items = self._comes_first(values.dictionary, last, column, is_before)
            return of_items.take(values.indices) if of_items.true_count else _none(len(values))
        if is_before:
            return (pc.greater if self._descending[column] else pc.less)(values, last)
        return (pc.greater_equal if self._descending[column] else pc.less_equal)(values, last)


def _is_coded(values: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(values.type))


def _none(rows: int) -> pa.Array:
    return pa.repeat(scalar_of(False, pa.bool_()), rows)


def _without(
    keys: Sequence[pa.Array], positions: pa.Array, masks: Mapping[str, pa.Array]
) -> KeyedRows:
    """Leave out the rows that one of some masks has."""
    return (
        _filtered(keys, positions, pc.invert(reduce(pc.or_, masks.values())))
        if masks
        else (keys, positions)
    )


def _filtered(keys: Sequence[pa.Array], positions: pa.Array, mask: pa.Array) -> KeyedRows:
    return [key.filter(mask) for key in keys], positions.filter(mask)
