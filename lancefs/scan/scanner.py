"""`LanceScanner`: which columns and rows to read of a version, and in which form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arguments import check_flags, check_number
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.row_ranges import count_rows
from lancefs.errors import CorruptFile, UnsupportedFeature, locating
from lancefs.forks import cached_property
from lancefs.other_names import SCANNER, OtherNames
from lancefs.printable import plural, printable
from lancefs.scan.execution import Scan
from lancefs.scan.index_use import MAX_TESTED_ROWS, IndexUse
from lancefs.scan.output_forms import forms_of
from lancefs.scan.projection import Columns, Projection
from lancefs.scan.request import ScanRequest
from lancefs.scan.row_numbers import (
    RowNumbers,
    checked_positions,
    checked_row_ids,
    sort_numbers,
    take_rows,
)
from lancefs.scan.settings import default_settings
from lancefs.scan.stats import ScanStats
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import Fragment
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_ID
from lancefs.table.schema import shown_schema
from lancefs.table.string_cache import STRING_CACHE

if TYPE_CHECKING:
    from lancefs.index.counting import Count
    from lancefs.scan.parsed_filters import ParsedFilter

# Rows to keep: an Arrow expression, or SQL text such as `price > 3 AND city IN ('Lyon', 'Oslo')`.
Filter: TypeAlias = pc.Expression | str
# Characters of a filter that `explain` shows.
_SHOWN = 200


class ScanOptions(TypedDict, total=False):
    """The arguments of reading methods of a dataset, except `columns` and `filter`.

    `LanceDataset.scanner` says what each option does. The last six are hints of pyarrow's own
    scanner: they are accepted, so that code written for pyarrow works, and have no effect.
    """

    batch_size: int | None
    limit: int | None
    offset: int | None
    with_row_id: bool
    with_row_address: bool
    blobs: Blobs
    dictionary_columns: Collection[str]
    validity_columns: Collection[str]
    decimal64_columns: Collection[str]
    fragments: Iterable[Any] | None
    max_memory: int | None
    use_index: bool
    batch_readahead: int
    fragment_readahead: int
    fragment_scan_options: Any
    use_threads: bool
    cache_metadata: bool
    memory_pool: Any


class LanceScanner(OtherNames):
    """Reads some columns and rows of a version; `LanceDataset.scanner` makes it.

    Args:
        version: The version of the table.
        shown: The columns of the dataset, with row metadata that was added to them.
        columns: Names of columns, in the order wanted, or a dict of new names and expressions; all
            columns of the dataset by default.
        filters: Keep the rows for which all of these are true.
        batch_size: This and the following ones are as `LanceDataset.scanner` describes them.

    Raises:
        ColumnNotFound: A column is not in the table.
        InvalidFilter: The text of the filter cannot be parsed.
        TypeError: An argument has another type than described here.
        ValueError: A number is negative, or a fragment is not in the version.
    """

    _MEANT = SCANNER

    def __init__(
        self,
        version: OpenVersion,
        shown: Sequence[Field],
        columns: Columns | None = None,
        filters: Sequence[Filter] = (),
        *,
        batch_size: int | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blobs: Blobs = "descriptors",
        dictionary_columns: Collection[str] = (),
        validity_columns: Collection[str] = (),
        decimal64_columns: Collection[str] = (),
        fragments: Iterable[Any] | None = None,
        max_memory: int | None = None,
        use_index: bool = True,
    ) -> None:
        numbers = {"batch_size": batch_size, "limit": limit, "offset": offset}
        _check_numbers(**numbers)
        check_flags(with_row_id=with_row_id, with_row_address=with_row_address, use_index=use_index)
        self._version, self._shown = version, tuple(shown)
        chosen = None if fragments is None else self._choose_readers(fragments)
        added = {"with_row_id": with_row_id, "with_row_address": with_row_address}
        forms = {
            "dictionary_columns": dictionary_columns,
            "validity_columns": validity_columns,
            "decimal64_columns": decimal64_columns,
        }
        self._options: dict[str, Any] = {
            **numbers,
            **added,
            **forms,
            "blobs": blobs,
            "fragments": None if chosen is None else [reader.fragment.id for reader in chosen],
            "max_memory": max_memory,
            "use_index": use_index,
        }
        self._projection = Projection(version, self._shown, columns, blobs=blobs, **added)
        self._arguments = (version, self._shown, self._projection.given, tuple(filters))
        parsed = self._parse(filters) if filters else None
        most = version.max_memory if max_memory is None else max_memory
        settings = default_settings().with_max_memory(most)
        self._request = ScanRequest(
            fragments=version.readers if chosen is None else chosen,
            fields=self._projection.fields,
            filter=None if parsed is None else parsed.condition,
            filter_fields=() if parsed is None else parsed.fields,
            batch_rows=batch_size or settings.rows_of_batches(blobs),
            limit=limit,
            offset=offset or 0,
            index=version.row_index,
            index_use=self._index_use(parsed, fragments is not None) if use_index else None,
            blobs=blobs,
            forms=forms_of(version, self._projection.expressions is not None, **forms),
            settings=settings,
            string_cache=STRING_CACHE.of(version),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(LanceScanner, **self._options), self._arguments

    def __repr__(self) -> str:
        request = self._request
        parts = [plural(len(self._projection), "column")]
        parts += ["filtered"] * (request.filter is not None)
        limits = {"limit": request.limit, "offset": request.offset or None}
        parts += [f"{name} {value:,}" for name, value in limits.items() if value is not None]
        return f"<LanceScanner of {printable(self._version.name)}: {', '.join(parts)}>"

    def for_engine(self, is_long: bool = False) -> LanceScanner:
        """Tune the scan for an engine such as DuckDB; see `ScanSettings.for_engine`."""
        request = self._request
        columns = {field.id for field in (*request.fields, *request.filter_fields)}
        settings = request.settings.for_engine(len(columns), is_long)
        self._request = replace(request, settings=settings)
        return self

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return shown_schema(self._shown, self._version.manifest.schema_metadata)

    @cached_property
    def projected_schema(self) -> pa.Schema:
        """The schema of the result."""
        return self._projection.schema(self._request.schema)

    @property
    def stats(self) -> ScanStats:
        """What this scanner has read so far, summed over all of its calls."""
        return self._request.stats

    def explain(self) -> str:
        """Describe how the filter is answered: which indices are used, and which rows are scanned.

        This reads the indices; their answer is kept for the read that follows.
        """
        from lancefs.scan import expressions

        condition = self._request.filter
        fragments = plural(len(self._request.fragments), "fragment")
        if condition is None:
            return f"scan of {fragments}; there is no filter"
        text = expressions.to_text(condition.expression)
        lines = [f"filter {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}"]
        if self._request.index_use is None:
            return "\n".join([*lines, f"scan of {fragments}; use_index is False"])
        answer = self._request.index_use.answer
        lines += [] if answer is None else answer.notes
        if answer is None or answer.candidates is None:
            return "\n".join([*lines, f"scan of {fragments}; no index limits the rows"])
        known = [ranges for ranges in answer.candidates.values() if ranges is not None]
        whole = len(answer.candidates) - len(known)
        lines.append(
            f"scan of {plural(sum(map(count_rows, known)), 'row')} in "
            + plural(len(known), "fragment")
            + (f", and of {plural(whole, 'fragment')} that no index covers" if whole else "")
        )
        return "\n".join(lines)

    def candidates(self) -> Mapping[int, Sequence[tuple[int, int]] | None] | None:
        """Return which rows may pass the filter, according to the indices of the table.

        This is for planners that distribute parts of a table to other processes. If the indices
        name few rows, their values are tested here; otherwise, the processes have to test them.

        Returns:
            By fragment id, ranges of rows, deleted ones counted. None for all rows, of the fragment
            or of the table.
        """
        return Scan(self._request).candidates(MAX_TESTED_ROWS)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches, in the order of the table."""
        return self._finish(Scan(self._request).batches())

    def _finish(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of a scan as the projection has them."""
        try:
            yield from self._projection.apply(batches)
        except (CorruptFile, UnsupportedFeature):  # of the schema, if it names no file
            with locating(self._version.resolved.manifest.url):
                raise

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a stream of the rows."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Read the rows into memory."""
        return self._to_table(self._request)

    def _to_table(self, request: ScanRequest) -> pa.Table:
        return self._join(Scan(replace(request, is_collected=True)).batches())

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows, decoding little more than these."""
        _check_numbers(num_rows=num_rows)
        request, asked = self._request, self._request.index_use
        limit = num_rows if request.limit is None else min(num_rows, request.limit)
        first = None if asked is None else asked.for_first(request.offset + limit)
        return self._to_table(replace(request, limit=limit, index_use=first))

    def tail(self, num_rows: int) -> pa.Table:
        """Read the last rows, in the order of the table; with a filter, rows are counted first.

        Args:
            num_rows: Number of rows; all rows if there are fewer.
        """
        _check_numbers(num_rows=num_rows)
        total = self.count_rows()
        rows = min(num_rows, total)
        offset = self._request.offset + total - rows
        return self._to_table(replace(self._request, offset=offset, limit=rows))

    def sample(self, num_rows: int, seed: int | None = None) -> pa.Table:
        """Read a random sample of rows without replacement, in the order of the table.

        With a filter, it is tested twice: to count the rows, and to find those that are drawn.

        Args:
            num_rows: Number of rows; all rows if there are fewer.
            seed: The same seed draws the same rows of a version; None draws new ones each time.

        Raises:
            TypeError: A number is not whole.
            ValueError: A number is negative.
        """
        _check_numbers(num_rows=num_rows, seed=seed)
        total = self.count_rows()
        random = np.random.default_rng(seed)
        drawn = np.sort(random.choice(total, min(num_rows, total), replace=False, shuffle=False))
        return self._take(drawn, total)

    def count_rows(self) -> int:
        """Return the number of rows of the result; without a filter, no column is read."""
        request = self._request
        if request.filter is None:
            rows = max(0, self._total - request.offset)
            return rows if request.limit is None else min(rows, request.limit)
        counted = replace(request, fields=(), is_collected=True)
        rows, known = 0, self._count_of_indices()
        if known is not None:
            rows = known.rows
            left = self._uncounted(known)
            counted = replace(counted, fragments=left, index_use=None)
        for batch in Scan(counted).batches():
            rows += batch.num_rows
        return rows

    def _uncounted(self, known: Count) -> Sequence[FragmentReader]:
        """Return the fragments that indices did not count; no reader is made where they did."""
        fragments = self._request.fragments
        if len(known.counted) >= len(fragments):
            return ()
        return [one for one in fragments if one.fragment.id not in known.counted]

    def indexed_row_count(self) -> int | None:
        """Return the number of rows if the indices tell it without a scan, else None."""
        known = self._count_of_indices()
        return None if known is None or self._uncounted(known) else known.rows

    def _count_of_indices(self) -> Count | None:
        """Count the rows of the filter in the fragments that an index covers; None without one."""
        request = self._request
        is_whole = request.limit is None and not request.offset
        return request.index_use.count() if request.index_use is not None and is_whole else None

    def take(self, indices: RowNumbers) -> pa.Table:
        """Read rows by their positions among those that come out.

        Args:
            indices: Positions, in any order, also repeated.

        Raises:
            IndexError: There is no such row.
            TypeError: They are no list of whole numbers.
        """
        return self._take(indices, self.count_rows())

    def _take(self, indices: RowNumbers, total: int) -> pa.Table:
        """Do as `take`, of `total` rows that come out."""
        checked = checked_positions(indices, total, self._version.name)
        rows, position = sort_numbers(checked)
        return take_rows(self._join(self._collecting_scan.rows_at(rows)), position)

    def take_ids(self, row_ids: RowNumbers) -> pa.Table:
        """Read rows by their ids; filter, limit, offset and fragments have no meaning here.

        Args:
            row_ids: Values of `_rowid`, in any order, also repeated.

        Raises:
            IndexError: The table has no such row.
            TypeError: They are no list of whole numbers.
        """
        self._version.refuse_if_fresh(ROW_ID.name)
        wanted, position = sort_numbers(checked_row_ids(row_ids))
        found = self._version.row_index.find_ids(wanted)
        which = np.concatenate([np.empty(0, np.int64), *(rows.which for rows in found)])
        order = which.argsort()
        if len(which) < len(wanted):
            missing = np.delete(wanted, which)
            raise IndexError(
                f"{self._version.name} has no row with the row id {missing[0]}"
                + (f" (nor with {len(missing) - 1} others)" if len(missing) > 1 else "")
            )
        batches = self._collecting_scan.rows_of((rows.reader, rows.offsets) for rows in found)
        return take_rows(self._join(batches), order[position])

    @cached_property
    def _collecting_scan(self) -> Scan:
        """A scan of which all batches are kept."""
        return Scan(replace(self._request, is_collected=True))

    @property
    def _total(self) -> int:
        """Number of live rows of the fragments that are read."""
        if self._request.fragments is self._version.readers:
            return self._version.num_rows
        return sum(reader.num_rows for reader in self._request.fragments)

    def _join(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        """Return batches of a scan as a table."""
        found = list(self._finish(batches))
        return pa.Table.from_batches(found, found[0].schema if found else self.projected_schema)

    def _choose_readers(self, fragments: Iterable[Any]) -> list[FragmentReader]:
        """Return the readers of fragments, which are named by their ids or objects.

        The rows that generations add to a fresh table belong to no fragment of it.
        """
        if isinstance(fragments, Fragment) or not isinstance(fragments, Iterable):
            raise TypeError(f"fragments is {fragments!r}; a list was expected: [{fragments!r}]")
        version, ids = self._version, [_fragment_id(fragment) for fragment in fragments]
        return [version.readers[version.position_of(number)] for number in ids]

    def _parse(self, filters: Sequence[Filter]) -> ParsedFilter:
        from lancefs.scan.parsed_filters import parsed_filter

        try:
            return parsed_filter(filters, self._version)
        except (CorruptFile, UnsupportedFeature):  # of the schema
            with locating(self._version.resolved.manifest.url):
                raise

    def _index_use(self, parsed: ParsedFilter | None, is_part: bool) -> IndexUse | None:
        """Return what asks the indices for the rows of a filter; of a part of the table or all."""
        limit, offset = self._options["limit"], self._options["offset"]
        wanted = None if limit is None else limit + (offset or 0)
        return None if parsed is None else IndexUse(self._version, parsed, is_part, wanted)


def _check_numbers(**numbers: int | None) -> None:
    """Check the numbers of rows that are given; None is none."""
    for name, value in numbers.items():
        if value is not None:
            check_number(name, value, least=int(name == "batch_size"))


def _fragment_id(fragment: Any) -> int:
    if isinstance(fragment, int | np.integer):
        return int(fragment)
    if isinstance(fragment, Fragment):
        return fragment.id
    number = getattr(fragment, "fragment_id", None)
    if isinstance(number, int):
        return number
    raise TypeError(f"fragments has {fragment!r}; fragments of the dataset, or ids, were expected")
