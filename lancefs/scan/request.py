"""`ScanRequest`: everything that a scan needs to know before it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lancefs.datafile.buffers import SCAN_MEMORY, expanding
from lancefs.datafile.fields import Blobs, Field
from lancefs.forks import cached_property
from lancefs.scan.output_forms import OutputForms, schema_of
from lancefs.scan.settings import ScanSettings
from lancefs.scan.stats import ScanStats
from lancefs.table.fragment_reader import FragmentReader

if TYPE_CHECKING:
    from lancefs.scan.conditions import Condition
    from lancefs.scan.index_use import IndexUse
    from lancefs.table.row_index import RowIndex
    from lancefs.table.string_cache import CachedStrings


@dataclass(frozen=True)
class ScanRequest:
    """What a scan is to read.

    Attributes:
        fragments: Readers of the fragments, in scan order.
        fields: The columns to return, in order.
        filter: Rows to return; all where it is None.
        filter_fields: The columns that the filter reads.
        batch_rows: At most this many rows a batch.
        limit: At most this many rows in all; None for no limit.
        offset: Rows to pass over first, among those that pass the filter.
        index: Finds row ids and addresses, and computes row metadata.
        index_use: Asks the indices of the table for the rows of the filter; None to ask none.
        blobs: Whether blob columns show where their bytes are, or the bytes.
        forms: Which columns come in another form than their values.
        settings: What the scan is tuned by.
        string_cache: Columns of strings that stay in memory, by field id.
        is_collected: Whether the consumer keeps all batches; they are as long as is quickest then.
        stats: Counts what the scan does.
    """

    fragments: Sequence[FragmentReader]
    fields: tuple[Field, ...]
    filter: Condition | None
    filter_fields: tuple[Field, ...]
    batch_rows: int
    limit: int | None
    offset: int
    index: RowIndex
    index_use: IndexUse | None
    blobs: Blobs
    forms: OutputForms
    settings: ScanSettings
    string_cache: Mapping[int, CachedStrings]
    is_collected: bool = False
    stats: ScanStats = field(default_factory=ScanStats, compare=False)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return schema_of(self.fields, self.blobs, self.forms)

    @cached_property
    def filter_schema(self) -> pa.Schema:
        """The columns that the filter reads, with the types of their values."""
        return schema_of(self.filter_fields, self.blobs)

    def all_fields(self) -> Sequence[Field]:
        """Return the columns of the filter and those to return, each once."""
        both = (*self.filter_fields, *self.fields)
        return list({field.id: field for field in both}.values())

    def memory_budget(self) -> expanding:
        """Return the budget of memory of one decoding."""
        return expanding(self.settings.max_memory, self.column_count, SCAN_MEMORY)

    @property
    def is_short(self) -> bool:
        """Whether so few rows are wanted that decoding ahead would be wasted."""
        passed_over = 0 if self.filter is None else self.offset
        return self.limit is not None and passed_over + self.limit <= self.batch_rows

    @property
    def passes_over_most(self) -> bool:
        """Whether most rows that a filter finds are passed over: other columns need not be read."""
        if self.filter is None or self.limit is None:
            return False
        tested = {field.id for field in self.filter_fields}
        has_others = any(one.id not in tested for one in self.fields)
        return has_others and self.limit <= min(self.offset, self.batch_rows)

    @property
    def is_bounded(self) -> bool:
        """Whether all rows that a plan leaves are wanted, unless the consumer stops."""
        return self.limit is None or (self.filter is None and not self.is_short)

    @cached_property
    def is_remote_bulk(self) -> bool:
        """Whether all rows of a remote table are read before anyone looks at the first ones.

        Then every morsel that waits for another one costs a round of requests.
        """
        is_bulk = self.is_bounded and (self.is_collected or not self.fields)
        return is_bulk and bool(self.fragments) and not self.fragments[0].is_local

    @property
    def reads_blobs(self) -> bool:
        """Whether blob columns come as bytes, which may be megabytes in each row."""
        return self.blobs == "bytes"

    @property
    def column_count(self) -> int:
        """How many columns are decoded, those that filter and result share counted twice."""
        return len(self.fields) + len(self.filter_fields)

    @property
    def morsel_bytes(self) -> int:
        """Decoded bytes of a morsel."""
        return self.settings.table_bytes if self.is_collected else self.settings.stream_bytes

    @property
    def gives_back(self) -> bool:
        """Whether mapped bytes of files are given back between columns."""
        return not (self.is_collected or self.is_short)

    @cached_property
    def filter_forms(self) -> OutputForms:
        """The forms in which the filter takes its columns, where it reads columns of many rows."""
        return OutputForms(self.forms.dictionary, self._filter_validity(), self._filter_decimal64())

    def _filter_validity(self) -> frozenset[int]:
        """Return the columns of which the filter, and nothing else, needs the validity only."""
        if self.filter is None:
            return frozenset()
        forms = self.forms
        returned = ({field.id for field in self.fields} - forms.validity) | forms.dictionary
        tested = self.filter.tested_for_nulls([field.name for field in self.filter_fields])
        return frozenset(
            field.id
            for field in self.filter_fields
            if field.name in tested and field.id not in returned
        )

    def _filter_decimal64(self) -> frozenset[int]:
        """Return the columns that the filter compares in 64 bits, as it compares stored numbers."""
        decimal64 = frozenset(field.id for field in self.filter_fields) & self.forms.decimal64
        if self.filter is None or not decimal64:
            return frozenset()
        schema = schema_of(self.filter_fields, self.blobs, OutputForms(decimal64=decimal64))
        return decimal64 if self.filter.tests_columns_alone(schema) else frozenset()
