"""Small tables that stay decoded in memory for the next statements.

Starting a scan, handing it filters and reading some pages costs a millisecond of Python. In that
time DuckDB can filter, join and group all rows of a small table. So the columns of a small table
that is used repeatedly are kept in the form that DuckDB reads, and DuckDB treats them as a table of
its own: it pushes no filters down, and no rewrite applies. A version never changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

import pyarrow as pa

from duckdb_adapter.interrupts import reraise_interrupts
from duckdb_adapter.releases import is_new
from duckdb_adapter.sources.rows import DuckDBColumns, Noting, Rows, Terms
from lancefs.errors import LanceError
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.expressions import columns_of
from lancefs.scan.settings import BATCH_ROWS
from lancefs.storage import SharedBudget
from lancefs.table.fragments import sum_known
from lancefs.table.open_version import OpenVersion
from lancefs.table.per_version import PerVersion

# Rows and fragments of a small table; the bytes of its files, and of the columns that are kept.
MAX_ROWS, _MAX_FRAGMENTS, _MAX_BYTES = 2 * BATCH_ROWS, 64, 4 * 1024 * 1024
# How often a version was named before: many are asked one question only.
_MIN_NAMED = 2
# Bytes of columns that a process keeps.
_SHARED = SharedBudget(lambda: 1 << 30, 32 * 1024 * 1024)
# What an array takes besides its values, about.
_ARRAY = 512


class _Kept:
    """The columns of a version that are kept.

    Attributes:
        named: How often the version was named.
        is_small: Whether its columns are kept.
        columns: How DuckDB sees the columns; None before it was asked.
        last_use: See `SharedBudget`.
    """

    __slots__ = ("__weakref__", "_arrays", "columns", "is_small", "last_use", "named")

    def __init__(self, version: OpenVersion) -> None:
        self.named = 0
        self.is_small = _is_small(version)
        self.columns: DuckDBColumns | None = None
        self.last_use = 0
        self._arrays: Mapping[str, pa.Array] = {}

    @property
    def cost(self) -> int:
        """Bytes that the columns take."""
        return sum(array.nbytes + _ARRAY for array in self._arrays.values())

    def let_go(self) -> None:
        """Keep no column."""
        self._arrays = {}

    def table(self, rows: KeptRows, names: Sequence[str]) -> pa.Table | None:
        """Return columns, of which those are read that are not kept.

        Args:
            rows: Reads them.
            names: The columns, in the order wanted.

        Returns:
            None if they are too large to be kept.
        """
        arrays = self._arrays  # which other threads replace, and do not change
        missing = [name for name in names if name not in arrays]
        if missing:
            read = _read(rows, missing)
            if not read:
                self.is_small = False
                self.let_go()
                return None
            arrays = {**arrays, **read}
            self._arrays = arrays
            _SHARED.hold(self)
        else:
            _SHARED.use(self)
        fields = [rows.schema.field(name) for name in names]
        return pa.Table.from_arrays([arrays[name] for name in names], schema=pa.schema(fields))


_KEPT = PerVersion(_Kept)


class KeptRows(Rows):
    """All rows of a small table, which DuckDB tests itself.

    Args:
        dataset: The table.
    """

    takes_conditions = False

    def __init__(self, dataset: LanceDataset) -> None:
        super().__init__(dataset, encodes=False)
        self._takes_filters = False
        self._kept = _KEPT.of(dataset.opened)

    def _described(self) -> DuckDBColumns:
        if self._kept.columns is None:
            self._kept.columns = super()._described()
        return self._kept.columns

    def can_filter(self, column: str) -> bool:
        """Whether filters may speak of a column: DuckDB tests all rows."""
        is_tested = not self._is_for_scan or self._takes_filters
        return is_tested and super().can_filter(column)

    def take_filters(self) -> None:
        """Have filters pushed down, so that what is read is what a larger table is joined with."""
        self._takes_filters = True

    @reraise_interrupts
    def read(
        self,
        columns: Sequence[str] | None,
        terms: Terms = (),
        noting: Noting | None = None,
    ) -> pa.RecordBatchReader:
        """Read some columns of the rows that are kept; see `RowSource.read`."""
        names = self.schema.names if columns is None else list(columns)
        filter = reduce(and_, terms) if terms else None
        tested = [] if filter is None else columns_of(filter, self.schema.names)
        table = None
        if self._is_for_scan and names:
            table = self._kept.table(self, list(dict.fromkeys([*names, *tested])))
        if table is None:
            return super().read(columns, terms, noting)
        if filter is not None:
            passed = [self.filtered(batch, filter) for batch in table.to_batches()]
            table = pa.Table.from_batches(passed, table.schema)
        shown = table.select(names)
        if noting is not None:
            deque(noting(names, iter(shown.to_batches())), maxlen=0)
        return shown.to_reader()


def kept_rows(rows: Rows) -> KeptRows | None:
    """Return the rows of a table as they are kept; None unless it is small, and named often.

    Args:
        rows: The rows of the table.
    """
    dataset, count = rows.dataset, rows.known_count()
    if not count or count > MAX_ROWS or not (dataset.is_local and is_new()):
        return None
    kept = _KEPT.of(dataset.opened)
    kept.named += 1
    is_whole = dataset.schema is dataset.opened.shown_schema
    return KeptRows(dataset) if kept.named > _MIN_NAMED and kept.is_small and is_whole else None


def _is_small(version: OpenVersion) -> bool:
    """Whether all of a version's columns can be read at once, as the manifest tells.

    Of a table with indices, scans read the rows that these name.
    """
    fragments, indices = version.manifest.fragments, version.manifest.index_section
    if version.is_fresh or indices is not None or len(fragments) > _MAX_FRAGMENTS:
        return False
    size = sum_known(fragment.size for fragment in fragments)
    return size is not None and size <= _MAX_BYTES


def _read(rows: KeptRows, names: Sequence[str]) -> Mapping[str, pa.Array] | None:
    """Return columns in memory of their own; None if they are large, or cannot be read."""
    found, size = list[pa.RecordBatch](), 0
    try:
        for batch in rows.batches(names, ()):
            size += batch.nbytes
            if size > _MAX_BYTES:
                return None
            found.append(batch)
    except LanceError:  # the scan says so
        return None
    # The batches may be parts of mapped files. Arrow copies what it joins, also to nothing; into
    # memory of the system, since a user may set a pool and drop it.
    found += [batch.slice(0, 0) for batch in found[:1]]
    pool = pa.system_memory_pool()
    columns = zip(*(batch.columns for batch in found), strict=True)
    joined = [pa.concat_arrays(parts, memory_pool=pool) for parts in columns]
    return dict(zip(names, joined, strict=False))
