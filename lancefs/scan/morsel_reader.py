"""Decoding the rows of a morsel: filter columns first, the other columns for the rows that pass.

Late materialization has two forms here. Columns that the filter does not read are decoded only for
rows that pass, where these are few. String columns that pages store with dictionaries are tested by
their dictionary items, and their values are looked up only for rows that are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import spelled_out, without_columns
from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.buffers import SCAN_MEMORY, Ints, TooLarge, expanding, limited
from lancefs.datafile.decimals import decimal64_items
from lancefs.datafile.extensions import is_shown_as_stored, present
from lancefs.datafile.fields import Blobs, CacheByFields, Field
from lancefs.datafile.logical_types import decimal64_type
from lancefs.datafile.masks import filtered, is_of_bytes
from lancefs.datafile.page_ranges import join_arrays
from lancefs.datafile.row_ranges import RowRanges, as_ranges, count_rows
from lancefs.datafile.validity import VALIDITY, validity_array
from lancefs.scan.index_claims import check_claims
from lancefs.scan.mapped_memory import Mapped
from lancefs.scan.morsels import DecodedMorsel, Morsel, decoded_bytes
from lancefs.scan.pace import Pace
from lancefs.scan.settings import ScanSettings
from lancefs.scan.stats import ScanStats
from lancefs.storage import counting
from lancefs.table import decimal64_columns, dictionary_columns, validity_columns
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun
from lancefs.table.row_metadata import is_row_metadata

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.index.claims import IndexClaim
    from lancefs.scan.conditions import Condition
    from lancefs.scan.value_ranges import Seen
    from lancefs.table.row_index import RowIndex


def schema_of(
    fields: Iterable[Field],
    blobs: Blobs,
    encoded: Collection[int],
    validity: Collection[int] = (),
    decimal64: Collection[int] = (),
) -> pa.Schema:
    """Return the schema of batches.

    Args:
        fields: The columns, in order.
        blobs: Whether blob columns show where their bytes are, or the bytes.
        encoded: Field ids of string columns that come dictionary-encoded.
        validity: Field ids of columns that come as their validity.
        decimal64: Field ids of columns of decimals that come in 64 bits.
    """
    columns = tuple(fields)
    known = _lasting(columns)
    if known is None:
        return _schema(columns, blobs, encoded, validity, decimal64)
    key = blobs, frozenset(encoded), frozenset(validity), frozenset(decimal64)
    schema = known.get(key)
    if schema is None:
        schema = known[key] = _schema(columns, blobs, encoded, validity, decimal64)
    return schema


_Schemas: TypeAlias = dict[tuple[Blobs, frozenset[int], frozenset[int], frozenset[int]], pa.Schema]
_LASTING = CacheByFields[_Schemas]()


def _lasting(fields: Sequence[Field]) -> _Schemas | None:
    """Return the schemas of batches of columns; of few rows, they take longer than to decode them.

    None for columns of which some may have another type than the stored one, which depends on what
    the application registers.
    """
    found = _LASTING.find(fields) if fields else (fields, {})
    if found is not None:
        return found[1]
    if not all(map(is_shown_as_stored, fields)):
        return None
    schemas: _Schemas = {}
    _LASTING.put(fields, schemas)
    return schemas


def _schema(
    fields: Sequence[Field],
    blobs: Blobs,
    encoded: Collection[int],
    validity: Collection[int],
    decimal64: Collection[int],
) -> pa.Schema:
    columns = []
    for field in fields:
        shown = field.to_arrow(blobs)
        if field.id in validity:
            shown = pa.field(shown.name, VALIDITY)
        elif field.id in encoded:
            shown = shown.with_type(dictionary_columns.ENCODED)
        elif field.id in decimal64:
            shown = shown.with_type(decimal64_type(shown.type) or shown.type)
        columns.append(shown)
    return pa.schema(columns)


@dataclass(frozen=True, slots=True)
class MorselReader:
    """Decodes morsels; threads may share it.

    Attributes:
        fields: The columns to return, in order.
        filter: Rows to return; all where it is None.
        filter_fields: The columns that the filter reads.
        filter_validity: The ids of those of them of which it needs the validity only.
        filter_decimal64: The ids of those of them that it takes in 64 bits.
        ranged_fields: Those of them whose ranges of values are kept in mind.
        index: Finds row ids and addresses; without it there are no columns of row metadata.
        blobs: Whether blob columns show where their bytes are, or the bytes.
        encoded: Field ids of string columns that come dictionary-encoded.
        validity: Field ids of columns that come as their validity.
        decimal64: Field ids of columns of decimals that come in 64 bits.
        is_collected: Whether the consumer keeps all batches; memory is not spared then.
        gives_back: Whether mapped bytes of files are given back between columns.
        mapped: Gives mapped bytes of files back after morsels.
        settings: What the scan is tuned by.
        stats: Counts what is decoded.
    """

    fields: tuple[Field, ...]
    filter: Condition | None
    filter_fields: tuple[Field, ...]
    filter_validity: frozenset[int]
    filter_decimal64: frozenset[int]
    ranged_fields: tuple[Field, ...]
    index: RowIndex | None
    blobs: Blobs
    encoded: frozenset[int]
    validity: frozenset[int]
    decimal64: frozenset[int]
    is_collected: bool
    gives_back: bool
    mapped: Mapped
    settings: ScanSettings
    stats: ScanStats
    _schemas: dict[tuple[int | bool, ...], pa.Schema] = attribute(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def take(self, fragment: FragmentReader | FragmentRun, offsets: Ints) -> list[pa.RecordBatch]:
        """Return rows of a fragment, or of a run of fragments, whatever the filter says.

        Args:
            fragment: The fragment or the run.
            offsets: Offsets of live rows, ascending, each once.

        Returns:
            One batch; several where the rows turn out to be large.
        """
        with counting() as counters:
            batches = self._take(fragment, offsets)
        self.stats.add_morsel(fragment.fragment_ids, len(offsets), counters)
        return batches

    def _take(self, fragment: FragmentReader | FragmentRun, offsets: Ints) -> list[pa.RecordBatch]:
        most = 2 * self.settings.table_bytes if len(offsets) > 1 else None
        try:
            with limited(most), self._budget():
                ranges = as_ranges(offsets)
                columns = self._read_returned(fragment, self.fields, ranges)
        except TooLarge:
            half = len(offsets) // 2
            return self._take(fragment, offsets[:half]) + self._take(fragment, offsets[half:])
        return [self._batch(fragment, columns, len(offsets))]

    def _budget(self) -> expanding:
        """Return the budget of memory of one decoding."""
        columns = len(self.fields) + len(self.filter_fields)
        return expanding(self.settings.max_memory, columns, SCAN_MEMORY)

    def read(self, morsel: Morsel, pace: Pace) -> DecodedMorsel:
        """Decode a morsel, or its beginning where its rows are long; only rows to return.

        Args:
            morsel: The morsel, of at least one row.
            pace: Says how many of its rows are decoded.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        with counting() as counters:
            decoded = self._read_fitting(morsel, pace)
        self.stats.add_morsel(morsel.fragment.fragment_ids, decoded.morsel.rows, counters)
        self.mapped.watch(morsel.fragment)
        return decoded

    def fit(self, morsel: Morsel, pace: Pace) -> Morsel:
        """Return as many rows of a morsel as are decoded together, by the estimate.

        Args:
            morsel: The morsel, of a local table.
            pace: Says how many bytes that may take.
        """
        return self._fit(morsel, pace, self._fields_tested_by_item(morsel))

    def _fit(self, morsel: Morsel, pace: Pace, by_item: frozenset[int]) -> Morsel:
        fields, small = self.fields, by_item | self.validity
        if self.filter is not None:
            fields, small = self.filter_fields, by_item | self._tested_by_validity(morsel)
        return pace.fit(morsel, [field for field in fields if field.id not in small])

    def _read_fitting(self, morsel: Morsel, pace: Pace) -> DecodedMorsel:
        """Decode as many rows of a morsel as the budget allows, by the estimate and by trial."""
        by_item = self._fields_tested_by_item(morsel)
        morsel = self._fit(morsel, pace, by_item)
        while morsel.rows > 1:
            with suppress(TooLarge), limited(pace.largest), self._budget():
                return self._decode(morsel, by_item, pace)
            morsel = morsel.head(-(-morsel.rows // self.settings.retry_divisor))
        with self._budget():
            return self._decode(morsel, by_item, pace)

    def _decode(self, morsel: Morsel, by_item: frozenset[int], pace: Pace) -> DecodedMorsel:
        if morsel.is_picked and self.filter is not None and self.blobs != "bytes":
            offsets = morsel.picked_rows()
            ranges = as_ranges(offsets)
            if len(ranges) * self.settings.rows_per_range < morsel.rows:
                return self._decode_picked(morsel, self.filter, offsets, ranges, by_item)
        mask = morsel.live_candidates()
        columns: dict[int, pa.Array] = {}
        size = 0
        if self.filter is not None:
            columns, mask, size = self._apply_filter(morsel, self.filter, mask, by_item)
        rows = morsel.rows if mask is None else int(np.count_nonzero(mask))
        if self.filter is not None:
            others = [field for field in self.fields if field.id not in self.validity]
            fitted = pace.fit(morsel, others, rows / morsel.rows)
            if fitted.rows < morsel.rows:
                return self._read_fitting(fitted, pace)
            morsel, columns = fitted, self._with_values(columns, by_item - self.encoded)
        if mask is None or rows == morsel.rows:
            columns |= self._read_others(morsel, columns, morsel.ranges)
            mask = None
        elif self._is_sparse(mask, rows) or self.blobs == "bytes":
            columns |= self._read_others(morsel, columns, _mask_ranges(mask, morsel.start))
        else:
            masked, dropped_bytes = self._read_others_masked(morsel, columns, mask, rows)
            columns |= masked
            size += dropped_bytes
        size += decoded_bytes(columns)
        return DecodedMorsel(morsel, self._batch(morsel.fragment, columns, rows), mask, size)

    def _decode_picked(
        self,
        morsel: Morsel,
        condition: Condition,
        offsets: Ints,
        ranges: RowRanges,
        by_item: frozenset[int],
    ) -> DecodedMorsel:
        """Decode all columns of few candidates, which most often pass, and keep those that do.

        Nothing here takes as long as the rows between the candidates are many.
        """
        mask = np.zeros(morsel.rows, np.bool_)
        if not len(offsets):
            none = self._batch(morsel.fragment, self._empty_columns(self.fields), 0)
            return DecodedMorsel(morsel, none, mask, 0)
        fields = {field.id: field for field in (*self.filter_fields, *self.fields)}
        columns = self._read_columns(morsel.fragment, list(fields.values()), ranges, by_item)
        tested = columns if by_item else self._with_values(columns, self.encoded)
        passed = condition.passed(self._filter_batch(tested, len(offsets)))
        if morsel.claims:
            self._check_candidates(morsel, columns, passed)
        size = decoded_bytes(columns)
        if not passed.all():
            columns, offsets = _masked(columns, passed), offsets[passed]
        mask[offsets - morsel.start] = True
        returned = self._returned_columns(columns, by_item)
        batch = self._batch(morsel.fragment, returned, len(offsets))
        return DecodedMorsel(morsel, batch, mask, size)

    def find(
        self,
        source: FragmentReader | FragmentRun,
        condition: Condition,
        offsets: Ints,
        claims_in: Callable[[int], Sequence[IndexClaim]],
    ) -> pa.RecordBatch:
        """Return those of few rows that pass, all of them decoded at once.

        Args:
            source: A fragment, or a run of fragments.
            condition: The filter.
            offsets: Offsets of live rows, ascending, each once, at least one.
            claims_in: Returns what is true for the rows in a fragment, by its id, unless an index
                is wrong.

        Raises:
            TooLarge: The rows have more bytes than a morsel may have.
            WrongIndex: A row is not what an index says of it.
            LanceError: As `read` does.
        """
        settings, ranges = self.settings, as_ranges(offsets)
        fields = {field.id: field for field in (*self.filter_fields, *self.fields)}
        most = settings.table_bytes if self.is_collected else settings.stream_bytes
        with counting() as counters, limited(most), self._budget():
            columns = self._read_columns(source, list(fields.values()), ranges, encoded=frozenset())
            passed = condition.passed(self._filter_batch(columns, len(offsets)))
        if not passed.all():
            start = 0
            for reader, local in source.parts(ranges):
                part = slice(start, start := start + count_rows(local))
                own = {id: column[part] for id, column in columns.items()}
                number = reader.fragment.id
                self._check_rejected(claims_in(number), number, own, passed[part])
            columns = _masked(columns, passed)
        self.stats.add_morsel(source.fragment_ids, len(offsets), counters)
        self.mapped.watch(source)
        for id in columns.keys() & self.encoded:  # of few rows, quicker than by stored dictionaries
            columns[id] = columns[id].dictionary_encode()
        return self._batch(source, columns, int(np.count_nonzero(passed)))

    def _apply_filter(
        self, morsel: Morsel, condition: Condition, mask: Mask | None, by_item: frozenset[int]
    ) -> tuple[dict[int, pa.Array], Mask, int]:
        """Decode the filter columns of candidate rows, and test them.

        Returns:
            The returned columns of those that were read, of the rows that pass; the mask of these
            rows in the morsel; and the bytes that count for what is dropped at once.
        """
        is_sparse = mask is not None and (
            self.blobs == "bytes" or self._is_sparse(mask, int(np.count_nonzero(mask)))
        )
        ranges = (
            _mask_ranges(mask, morsel.start) if mask is not None and is_sparse else morsel.ranges
        )
        if not ranges:
            assert mask is not None
            return {}, mask, 0
        fields = self._fields_of_candidates(morsel, count_rows(ranges))
        is_noted = bool(self.ranged_fields) and not (is_sparse or morsel.is_picked)
        seen = self._seen(morsel) if is_noted else None
        validity = self._tested_by_validity(morsel)
        decimal64 = self._tested_in_64_bits(morsel)
        columns = self._read_columns(
            morsel.fragment, fields, ranges, by_item, validity=validity, decimal64=decimal64
        )
        if seen is not None:
            seen.keep(columns)
        tested = columns if by_item else self._with_values(columns, self.encoded)
        passed = condition.passed(self._filter_batch(tested, count_rows(ranges)))
        if morsel.claims and morsel.candidates is not None:
            of_candidates = passed if mask is None or is_sparse else passed | ~mask
            self._check_candidates(morsel, columns, of_candidates)
        if mask is None:
            mask = passed
        elif is_sparse:
            mask[mask] = passed
        else:
            mask = passed = passed & mask
        size = decoded_bytes(columns) // 2
        returned = {field.id: columns[field.id] for field in self.fields if field.id in columns}
        return returned if passed.all() else _masked(returned, passed), mask, size

    def _seen(self, morsel: Morsel) -> Seen:
        """Return what keeps the ranges of the values of a morsel that is about to be read."""
        from lancefs.scan.value_ranges import Seen

        return Seen(morsel.fragment, self.ranged_fields, morsel.start, morsel.end)

    def _check_candidates(
        self, morsel: Morsel, columns: Mapping[int, pa.Array], passed: Mask
    ) -> None:
        """Check that rejected candidates pass what indices say of them; see `check_claims`."""
        if not passed.all():
            (fragment_id,) = morsel.fragment.fragment_ids
            self._check_rejected(morsel.claims, fragment_id, columns, passed)

    def _check_rejected(
        self,
        claims: Sequence[IndexClaim],
        fragment_id: int,
        columns: Mapping[int, pa.Array],
        passed: Mask,
    ) -> None:
        """Check that rows of a fragment that did not pass the filter pass what indices say."""

        def values_of(field_id: int) -> pa.Array:
            column = columns[field_id]
            return spelled_out(column) if field_id in coded else column

        coded = {id for id, column in columns.items() if pa.types.is_dictionary(column.type)}
        check_claims(claims, fragment_id, ~passed, values_of)

    def _fields_of_candidates(self, morsel: Morsel, rows: int) -> Sequence[Field]:
        """Return the columns to decode of rows that may pass: those of the filter, or all."""
        is_few = rows <= self.settings.few_candidates
        if not (morsel.is_picked and is_few) or self.blobs == "bytes":
            return self.filter_fields
        return list({field.id: field for field in (*self.filter_fields, *self.fields)}.values())

    def _returned_columns(
        self, columns: Mapping[int, pa.Array], by_item: frozenset[int]
    ) -> dict[int, pa.Array]:
        """Return those filter columns that are returned as well, with their values."""
        returned = {field.id: columns[field.id] for field in self.fields if field.id in columns}
        return self._with_values(returned, by_item - self.encoded)

    def _with_values(
        self, columns: dict[int, pa.Array], encoded: Collection[int]
    ) -> dict[int, pa.Array]:
        """Return columns with values in place of the dictionary codes of some of them."""
        spelled = {}
        for id in columns.keys() & encoded:
            array = columns[id]
            spelled[id] = spelled_out(decimal64_items(array) if id in self.decimal64 else array)
        return columns | spelled

    def _tested_in_64_bits(self, morsel: Morsel) -> frozenset[int]:
        """Return the ids of filter columns that are read in 64 bits.

        What indices say of values is compared with the values as they are stored.
        """
        return frozenset() if morsel.is_picked or morsel.claims else self.filter_decimal64

    def _tested_by_validity(self, morsel: Morsel) -> frozenset[int]:
        """Return the ids of filter columns of which only the validity is read.

        Few candidates are decoded with all columns, and those that an index named are compared with
        what it says of their values.
        """
        return frozenset() if morsel.is_picked or morsel.claims else self.filter_validity

    def _fields_tested_by_item(self, morsel: Morsel) -> frozenset[int]:
        """Return the ids of filter columns that are tested by the items of their dictionaries."""
        if self.filter is None or not self.filter.takes_items(
            self._schema(self.filter_fields, encoded=False)
        ):
            return frozenset()
        validity = self._tested_by_validity(morsel)
        fields = [field for field in self.filter_fields if field.id not in validity]
        encoded = frozenset(field.id for field in fields) & self.encoded
        return encoded | self._fields_with_dictionaries(morsel, fields)

    def _fields_with_dictionaries(self, morsel: Morsel, fields: Sequence[Field]) -> frozenset[int]:
        """Return the ids of columns whose rows are chosen before their values are looked up."""
        reader = morsel.fragment
        is_short = morsel.is_picked or morsel.rows < self.settings.dictionary_rows
        if is_short or not reader.is_local:
            return frozenset()
        if not isinstance(reader, FragmentReader):
            return frozenset()
        return reader.with_dictionaries(fields)

    def _filter_batch(self, columns: Mapping[int, pa.Array], rows: int) -> pa.RecordBatch:
        """Return the filter columns as a batch."""
        if not self.filter_fields:
            return without_columns(rows)
        arrays = [columns[field.id] for field in self.filter_fields]
        return pa.RecordBatch.from_arrays(arrays, [field.name for field in self.filter_fields])

    def _read_others(
        self, morsel: Morsel, known: dict[int, pa.Array], ranges: Sequence[RowRange]
    ) -> dict[int, pa.Array]:
        """Decode the returned columns that the filter did not need."""
        fields = [field for field in self.fields if field.id not in known]
        if not ranges:
            return self._empty_columns(fields)
        return self._read_returned(morsel.fragment, fields, ranges)

    def _read_others_masked(
        self, morsel: Morsel, known: dict[int, pa.Array], mask: Mask, kept: int
    ) -> tuple[dict[int, pa.Array], int]:
        """Decode the other columns for all rows, some columns at a time, and keep masked rows.

        Returns:
            The columns, and the bytes that count for what is dropped at once.
        """
        fields = [field for field in self.fields if field.id not in known]
        is_few = kept < self.settings.by_item_share * len(mask)
        looked_up = (
            fields if is_few else [one for one in fields if not is_of_bytes(one.storage_type)]
        )
        by_item = self._fields_with_dictionaries(morsel, looked_up) - self.validity
        at_once = self._columns_at_once(morsel.fragment, fields)
        if not self.is_collected:
            at_once = min(at_once, max(len(fields) // 4, self.settings.filtered_columns))
        columns: dict[int, pa.Array] = {}
        most = 0
        for start in range(0, len(fields), at_once):
            if start:
                morsel.fragment.release()
            group = fields[start : start + at_once]
            decoded = self._read_returned(morsel.fragment, group, morsel.ranges, by_item)
            most = max(most, decoded_bytes(decoded))
            columns |= self._with_values(_masked(decoded, mask), by_item - self.encoded)
        return columns, most // 2

    def _read_returned(
        self,
        fragment: FragmentReader | FragmentRun,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        by_item: frozenset[int] = frozenset(),
    ) -> dict[int, pa.Array]:
        """Decode columns that are returned and are not tested; see `_read_columns`."""
        return self._read_columns(
            fragment, fields, ranges, by_item, validity=self.validity, decimal64=self.decimal64
        )

    def _read_columns(
        self,
        fragment: FragmentReader | FragmentRun,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
        by_item: frozenset[int] = frozenset(),
        encoded: frozenset[int] | None = None,
        validity: frozenset[int] = frozenset(),
        decimal64: frozenset[int] = frozenset(),
    ) -> dict[int, pa.Array]:
        """Decode columns, by field id.

        Those in `by_item` and `encoded` come as dictionary arrays, those in `validity` as validity,
        and those in `decimal64` in 64 bits where that is quicker.
        """
        computed = [field for field in fields if is_row_metadata(field)]
        stored = [field for field in fields if not is_row_metadata(field)] if computed else fields
        encoded = (self.encoded if encoded is None else encoded) | by_item
        read, arrays = list[Field](), list[pa.Array]()
        for number, group in enumerate(self._groups(fragment, stored, ranges)):
            if number:
                fragment.release()
            read += group
            asked = group
            if validity and self.blobs == "descriptors":
                asked = validity_columns.reduced(fragment, group, validity)
            if decimal64:
                asked = decimal64_columns.reduced(
                    fragment, asked, ranges, decimal64 - encoded - validity
                )
            if encoded:
                arrays += dictionary_columns.read(fragment, asked, ranges, self.blobs, encoded)
            else:
                arrays += fragment.read(asked, ranges, self.blobs)
        ids = [field.id for field in read]
        if validity:
            arrays = [
                validity_array(array) if id in validity else array
                for id, array in zip(ids, arrays, strict=True)
            ]
        if _lasting(read) is None:
            kept = encoded | validity
            arrays = [
                array if field.id in kept else present(array, field, self.blobs)
                for field, array in zip(read, arrays, strict=True)
            ]
        columns = dict(zip(ids, arrays, strict=True))
        for field in computed:
            assert self.index is not None
            metadata = self.index.metadata
            parts = [metadata.read(field, *part) for part in fragment.parts(ranges)]
            columns[field.id] = join_arrays(parts, field.storage_type)
        return columns

    def _groups(
        self,
        fragment: FragmentReader | FragmentRun,
        fields: Sequence[Field],
        ranges: Sequence[RowRange],
    ) -> Sequence[Sequence[Field]]:
        """Return columns in groups, between which mapped bytes are given back."""
        if not (self.gives_back and fragment.is_local and fields):
            return [fields]
        return fragment.groups(fields, ranges, self.settings.mapped_columns)

    def _columns_at_once(
        self, fragment: FragmentReader | FragmentRun, fields: Sequence[Field]
    ) -> int:
        """Return how many columns are decoded before mapped bytes are given back."""
        gives_back = self.gives_back and fragment.is_local
        return self.settings.mapped_columns if gives_back else max(len(fields), 1)

    def _is_sparse(self, mask: Mask, rows: int) -> bool:
        """Tell whether rows pass so rarely, or so many together, that decoding these is cheaper."""
        settings = self.settings
        if rows >= settings.together_share * len(mask):
            return False
        ranges = int(np.count_nonzero(mask[1:] & ~mask[:-1]))
        if rows < settings.sparse_share * len(mask):
            return ranges * settings.rows_per_range < len(mask)
        return ranges * settings.together_rows < rows

    def _schema(self, fields: Sequence[Field], encoded: bool = True) -> pa.Schema:
        key = (encoded, *(field.id for field in fields))
        if key not in self._schemas:
            some = (self.encoded, self.validity, self.decimal64) if encoded else ((),)
            self._schemas[key] = schema_of(fields, self.blobs, *some)
        return self._schemas[key]

    def _empty_columns(self, fields: Sequence[Field]) -> dict[int, pa.Array]:
        # Unlike `pa.array([], …)`, `pa.nulls` takes types with extension types inside.
        types = self._schema(fields).types
        return {field.id: pa.nulls(0, type_) for field, type_ in zip(fields, types, strict=True)}

    def _batch(
        self,
        source: FragmentReader | FragmentRun,
        columns: Mapping[int, pa.Array],
        rows: int,
    ) -> pa.RecordBatch:
        """Return rows of a fragment, or of several, as they come out."""
        fields = self.fields
        if not fields:
            return without_columns(rows)
        arrays = [columns[field.id] for field in fields]
        if self.validity:  # of few rows, and of columns that a filter compares, there are values
            arrays = [
                validity_array(array) if field.id in self.validity else array
                for field, array in zip(fields, arrays, strict=True)
            ]
        if self.decimal64:
            arrays = [
                decimal64_columns.as_decimal64(source, field, array)
                if field.id in self.decimal64
                else array
                for field, array in zip(fields, arrays, strict=True)
            ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema(fields))


def _mask_ranges(mask: Mask, start: int) -> RowRanges:
    """Return the ranges of rows that a mask keeps, whose first slot is row `start`."""
    return as_ranges(np.flatnonzero(mask) + start)


def _masked(columns: dict[int, pa.Array], mask: Mask) -> dict[int, pa.Array]:
    """Return the rows of columns that a mask keeps."""
    return dict(zip(columns, filtered(columns.values(), mask), strict=True))
