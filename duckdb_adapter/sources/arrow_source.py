"""Rows as DuckDB's Arrow scan takes them: a pyarrow dataset, or a source of DuckDB 2.0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from duckdb_adapter.interrupts import passed_on
from duckdb_adapter.planned_scans import note_scan
from duckdb_adapter.sources.rows import RowSource, is_text
from lancefs.arrow_dataset import pads

if TYPE_CHECKING:
    from duckdb._sources import ArrowScanSource


class CountedDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """Rows as a pyarrow dataset, which DuckDB has always been able to scan.

    Args:
        rows: Of a table, or of several.
    """

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows

    @property
    @passed_on
    def schema(self) -> pa.Schema:
        """The columns, the counting one first."""
        return self._rows.schema

    @passed_on
    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> _Scanner:
        """Say what to read: columns by name, and the rows for which a filter is true."""
        return _Scanner(self._rows, columns, filter)


class _Scanner:
    """What DuckDB wants of a pyarrow scanner."""

    def __init__(
        self, rows: RowSource, columns: Sequence[str] | None, filter: pc.Expression | None
    ) -> None:
        self._arguments = rows, columns, filter

    @property
    @passed_on
    def projected_schema(self) -> pa.Schema:
        rows, columns, _ = self._arguments
        return pa.schema([rows.schema.field(name) for name in columns or rows.schema.names])

    def to_reader(self) -> pa.RecordBatchReader:
        rows, columns, filter = self._arguments
        return rows.read(columns, () if filter is None else (filter,))


def make_source(
    rows: RowSource, on_bind: Callable[[], None], is_alone: Callable[[], bool]
) -> ArrowScanSource:
    """Return rows as DuckDB 2.0's scan reads them best: with row counts and exact filters.

    Args:
        rows: Of a table, or of several; see `RowSource.for_scan`.
        on_bind: Called when DuckDB has the source, before it reads anything.
        is_alone: Returns whether the query reads nothing else, and more than what filters need.
    """
    source: ArrowScanSource = _source_classes()[0](rows, on_bind, is_alone)
    return source


def make_table_source(table: pa.Table, on_bind: Callable[[], None]) -> ArrowScanSource:
    """Return rows that are in memory, as `make_source` does for a table."""
    source: ArrowScanSource = _source_classes()[1](table, on_bind)
    return source


@cache
def _source_classes() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Define the classes when DuckDB is there; their base is no public part of its package."""
    from duckdb._sources import ArrowScanSource
    from duckdb._sources.nodes import Binary, Col, In, Lit, Untranslatable
    from duckdb._sources.pyarrow import PyArrowTableSource
    from duckdb._sources.to_arrow import to_arrow

    def _columns_of(predicate: Any) -> list[str]:
        found: dict[str, None] = {}
        pending = [predicate]
        while pending:
            node = pending.pop()
            if isinstance(node, Col):
                found[node.parts[0]] = None
            pending.extend([node.operand] if isinstance(node, In) else node._children())
        return list(found)

    def is_narrow(predicate: Any, rows: RowSource) -> bool:
        """Whether a predicate asks for single numbers, or for what lies between two ends.

        Few rows pass mostly, which indices and ranges of values tell sooner than an estimate.
        """
        if isinstance(predicate, In) or (isinstance(predicate, Binary) and predicate.op == "="):
            kinds = [rows.plain_field(column).type for column in _columns_of(predicate)]
            return not any(map(is_text, kinds))
        if not isinstance(predicate, Binary) or predicate.op != "AND":
            return False
        ends = {getattr(side, "op", "")[:1] for side in (predicate.left, predicate.right)}
        return ends == {"<", ">"} and len(_columns_of(predicate)) == 1

    def translated(predicate: Any, schema: pa.Schema) -> pc.Expression:
        """Translate a predicate; one of many whole numbers or texts in one step.

        DuckDB's own translation takes 20 µs for each value.
        """
        if not isinstance(predicate, In) or len(predicate.values) < 2:
            return to_arrow(predicate, schema)
        kind = schema.field(0).type
        exact = int if pa.types.is_integer(kind) else str if pa.types.is_string(kind) else None
        values = [one for one in predicate.values if isinstance(one, Lit)]
        operand, types = predicate.operand, {(one.type, type(one.value)) for one in values}
        is_one_kind = len(values) == len(predicate.values) and len(types) == 1
        if not (is_one_kind and isinstance(operand, Col) and len(operand.parts) == 1):
            return to_arrow(predicate, schema)
        if exact is None or type(values[0].value) is not exact:
            return to_arrow(predicate, schema)
        to_arrow(In(operand, [values[0]]), schema)  # refuses a type that is not the column's
        field = pc.field(*operand.parts)
        member = field.isin(pa.array([one.value for one in values], kind))
        return pc.if_else(field.is_valid(), member, pa.scalar(None, pa.bool_()))

    class LanceSource(ArrowScanSource):
        """Rows as a source of DuckDB's Arrow scan."""

        schema_is_stable = True

        def __init__(
            self, rows: RowSource, on_bind: Callable[[], None], is_alone: Callable[[], bool]
        ) -> None:
            super().__init__(rows)
            self._rows = rows
            self._on_bind = on_bind
            self._is_alone = is_alone
            self._planned = None if rows.table is None else note_scan(rows.table)
            # DuckDB asks whether a filter is accepted, and then for the rows that it keeps.
            self._filters: WeakKeyDictionary[Any, pc.Expression] = WeakKeyDictionary()

        @property
        def __arrow_c_stream__(self) -> Callable[..., object]:
            """Makes DuckDB take the object for Arrow data, and tells that it looks at it."""
            self._on_bind()
            return lambda *_: self._rows.read(None).__arrow_c_stream__()

        @passed_on
        def __arrow_c_schema__(self) -> object:
            self._on_bind()
            return self._rows.schema.__arrow_c_schema__()

        @passed_on
        def rows(self) -> int | None:
            self._on_bind()
            return self._rows.known_count()

        @passed_on
        def accepts(self, predicate: Any) -> bool:
            try:
                filter = self._filter(predicate)
            except Untranslatable:
                return False
            # DuckDB takes what it tests itself for a fifth of the rows, and would put joins in an
            # order that is good for so few.
            is_wide = not is_narrow(predicate, self._rows)
            is_left = is_wide and self._rows.keeps_most(filter) and self._is_alone()
            if self._planned is not None:
                self._planned.add(filter, is_left)
            return not is_left

        def stream(self, columns: Any, filters: Any) -> tuple[object, bool]:
            terms = [self._filter(predicate) for predicate in filters]
            names = self._rows.schema.names
            chosen = names if columns is None else [names[index] for index in columns]
            return self._rows.read(chosen, terms).__arrow_c_stream__(), True

        def _filter(self, predicate: Any) -> pc.Expression:
            """Translate a predicate, given only the columns that it speaks of."""
            known = self._filters.get(predicate)
            if known is not None:
                return known
            columns = _columns_of(predicate)
            if not all(self._rows.can_filter(column) for column in columns):
                raise Untranslatable(predicate)
            fields = [self._rows.plain_field(column) for column in columns]
            self._filters[predicate] = found = translated(predicate, pa.schema(fields))
            return found

    class TableSource(PyArrowTableSource):
        """An Arrow table as a source."""

        def __init__(self, table: pa.Table, on_bind: Callable[[], None]) -> None:
            super().__init__(table)
            self._on_bind = on_bind

        @property
        def __arrow_c_stream__(self) -> Callable[..., object]:
            self._on_bind()
            stream: Callable[..., object] = self.obj.__arrow_c_stream__
            return stream

        def rows(self) -> int | None:
            self._on_bind()
            return super().rows()

    return LanceSource, TableSource
