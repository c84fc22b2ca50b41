"""Decoding the rows of a morsel: filter columns first, the other columns for the rows that pass.

Late materialization has two forms here. Columns that the filter does not read are decoded only for
rows that pass, where these are few. String columns that pages store with dictionaries are tested by
their dictionary items, and their values are looked up only for rows that are returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.blocks import Mask, RowRange
from lancefs.datafile.buffers import Ints, TooLarge, limited
from lancefs.datafile.fields import Field
from lancefs.datafile.masks import is_of_bytes
from lancefs.datafile.row_ranges import RowRanges, as_ranges, count_rows
from lancefs.scan.decoded_columns import (
    columns_at_once,
    empty_columns,
    filter_batch,
    look_up_values,
    mask_columns,
    open_files,
    output_batch,
    read_columns,
)
from lancefs.scan.index_proof import check_claims
from lancefs.scan.mapped_memory import MappedMemory
from lancefs.scan.materialization import (
    are_few_of_long,
    is_chosen_first,
    is_sparse_selection,
    long_texts,
)
from lancefs.scan.morsels import DecodedMorsel, Morsel, decoded_bytes
from lancefs.scan.named_rows import decode_passing
from lancefs.scan.output_forms import OutputForms
from lancefs.scan.pace import Pace
from lancefs.scan.request import ScanRequest
from lancefs.storage import counting
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.stored_dictionaries import fields_with_dictionaries, zipped_fields

if TYPE_CHECKING:
    from lancefs.scan.conditions import Condition
    from lancefs.scan.value_ranges import RangeRecorder


@dataclass(frozen=True)
class MorselReader:
    """Decodes morsels; threads may share it.

    Attributes:
        request: What the scan is to read.
        mapped: Gives mapped bytes of files back after morsels.
        ranged_fields: The columns of the filter whose value ranges are recorded.
    """

    request: ScanRequest
    mapped: MappedMemory
    ranged_fields: tuple[Field, ...] = ()

    def read(self, morsel: Morsel, pace: Pace) -> DecodedMorsel:
        """Decode the rows to return of a morsel, or of its beginning where its rows are long.

        Args:
            morsel: The morsel, of at least one row.
            pace: Says how many of its rows are decoded.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        with counting() as counters:
            open_files(morsel.fragment, self._first_fields(morsel))
            decoded = self._read_fitting(morsel, pace)
        self.request.stats.add_morsel(morsel.fragment.fragment_ids, decoded.morsel.rows, counters)
        self.mapped.watch(morsel.fragment)
        return decoded

    def _first_fields(self, morsel: Morsel) -> Sequence[Field]:
        """Return the columns that are read of a morsel before it is known which rows pass."""
        if morsel.has_few_candidates and not self.request.reads_blobs:
            return self.request.all_fields()
        return self.request.filter_fields or self.request.fields

    def fit(self, morsel: Morsel, pace: Pace) -> Morsel:
        """Return as many rows of a morsel as are decoded together, by the estimate.

        Args:
            morsel: The morsel, of a local table.
            pace: Says how many bytes that may take.
        """
        return self._fit(morsel, pace, self._fields_tested_by_item(morsel))

    def _fit(self, morsel: Morsel, pace: Pace, by_item: frozenset[int]) -> Morsel:
        request = self.request
        fields, small = request.fields, by_item | request.forms.validity
        if request.filter is not None:
            fields = request.filter_fields
            small = by_item | self._filter_forms(morsel).validity
        return pace.fit(morsel, [field for field in fields if field.id not in small])

    def _read_fitting(self, morsel: Morsel, pace: Pace) -> DecodedMorsel:
        """Decode as many rows of a morsel as the budget allows, by the estimate and by trial."""
        by_item = self._fields_tested_by_item(morsel)
        morsel = self._fit(morsel, pace, by_item)
        while morsel.rows > 1:
            try:
                with limited(pace.largest), self.request.memory_budget():
                    return self._decode(morsel, by_item, pace)
            except TooLarge:
                fewer = -(-morsel.rows // self.request.settings.retry_divisor)
                morsel = morsel.head(fewer).limit(fewer)
        with self.request.memory_budget():
            return self._decode(morsel, by_item, pace)

    def _decode(self, morsel: Morsel, by_item: frozenset[int], pace: Pace) -> DecodedMorsel:
        request, condition = self.request, self.request.filter
        if morsel.has_few_candidates and condition is not None and not request.reads_blobs:
            offsets = morsel.candidate_rows()
            settings, tested = request.settings, request.filter_fields
            are_rare = len(as_ranges(offsets)) * settings.rows_per_range < morsel.rows
            if are_rare or are_few_of_long(morsel, tested, len(offsets), settings):
                return self._decode_candidates(morsel, condition, offsets)
        mask = morsel.live_candidates()
        columns: dict[int, pa.Array] = {}
        size = 0
        if condition is not None:
            columns, mask, size = self._apply_filter(morsel, condition, mask, by_item)
            columns, mask = self._within_limit(columns, mask)
        rows = morsel.rows if mask is None else int(np.count_nonzero(mask))
        if condition is not None:
            if rows:
                open_files(morsel.fragment, request.fields)
            others = [field for field in request.fields if field.id not in request.forms.validity]
            fitted = pace.fit(morsel, others, rows / morsel.rows)
            if fitted.rows < morsel.rows:
                return self._read_fitting(fitted, pace)
            morsel, columns = fitted, self._look_up(columns, by_item)
        if mask is None or rows == morsel.rows:
            columns |= self._read_others(morsel, columns, morsel.ranges)
            mask = None
        elif len(columns) == len(request.fields):
            pass  # the filter read all that is returned, or nothing is
        elif self._are_read_alone(morsel, columns, mask, rows):
            columns |= self._read_others(morsel, columns, _mask_ranges(mask, morsel.start))
        else:
            chosen, dropped_bytes = self._read_others_masked(morsel, columns, mask, rows)
            columns |= chosen
            size += dropped_bytes
        size += decoded_bytes(columns)
        batch = output_batch(request, morsel.fragment, columns, rows)
        return DecodedMorsel(morsel, batch, mask, size)

    def _are_read_alone(
        self, morsel: Morsel, known: Mapping[int, pa.Array], mask: Mask, rows: int
    ) -> bool:
        """Tell whether the other columns are decoded for the rows that pass alone."""
        request, settings = self.request, self.request.settings
        if is_sparse_selection(mask, rows, settings) or request.reads_blobs:
            return True
        others = [field for field in request.fields if field.id not in known]
        return are_few_of_long(morsel, others, rows, settings)

    def _decode_candidates(
        self, morsel: Morsel, condition: Condition, offsets: Ints
    ) -> DecodedMorsel:
        """Decode all columns of few candidates, and keep those that pass.

        The time does not depend on the number of rows between the candidates.
        """
        request, mask = self.request, np.zeros(morsel.rows, np.bool_)
        if not len(offsets):
            none = output_batch(request, morsel.fragment, empty_columns(request, {}), 0)
            return DecodedMorsel(morsel, none, mask, 0)
        batch, passed, size = decode_passing(
            request, morsel.fragment, condition, offsets, lambda _: morsel.claims
        )
        mask[offsets[passed] - morsel.start] = True
        return DecodedMorsel(morsel, batch, mask, size)

    def _apply_filter(
        self, morsel: Morsel, condition: Condition, mask: Mask | None, by_item: frozenset[int]
    ) -> tuple[dict[int, pa.Array], Mask, int]:
        """Decode the filter columns of candidate rows, and test them.

        Returns:
            The returned columns of those that were read, of the rows that pass; the mask of these
            rows in the morsel; and the bytes that are counted for columns that are dropped at once.
        """
        request = self.request
        is_sparse = mask is not None and (
            request.reads_blobs
            or is_sparse_selection(mask, int(np.count_nonzero(mask)), request.settings)
        )
        ranges = (
            _mask_ranges(mask, morsel.start) if mask is not None and is_sparse else morsel.ranges
        )
        if not ranges:
            assert mask is not None
            return {}, mask, 0
        fields = self._fields_of_candidates(morsel, count_rows(ranges))
        is_recorded = bool(self.ranged_fields) and not (is_sparse or morsel.has_few_candidates)
        recorder = self._range_recorder(morsel) if is_recorded else None
        forms = self._filter_forms(morsel).with_dictionaries(by_item)
        columns = read_columns(request, morsel.fragment, fields, ranges, forms)
        if recorder is not None:
            recorder.record(columns)
        rows, size = count_rows(ranges), decoded_bytes(columns) // 2
        if (
            mask is not None
            and not is_sparse
            and is_chosen_first(mask, request.filter_fields, request.settings)
        ):
            columns, is_sparse = mask_columns(columns, mask), True
            rows = int(np.count_nonzero(mask))
        tested = self._as_tested(columns, by_item)
        counted = None if is_sparse else mask
        passed = condition.evaluate(filter_batch(request, tested, rows), counted)
        if morsel.claims and morsel.candidates is not None:
            of_candidates = passed if mask is None or is_sparse else passed | ~mask
            self._check_candidates(morsel, columns, of_candidates)
        if mask is None:
            mask = passed
        elif is_sparse:
            mask[mask] = passed
        else:
            mask = passed = passed & mask
        returned = self._only_returned(columns)
        return returned if passed.all() else mask_columns(returned, passed), mask, size

    def _within_limit(
        self, columns: dict[int, pa.Array], mask: Mask
    ) -> tuple[dict[int, pa.Array], Mask]:
        """Drop what passes behind the last row that any limit leaves: it is not decoded further.

        Args:
            columns: Columns of the rows that pass.
            mask: Which rows of the morsel these are.
        """
        if self.request.limit is None:
            return columns, mask
        most = self.request.offset + self.request.limit
        if np.count_nonzero(mask) <= most:
            return columns, mask
        kept = np.zeros_like(mask)
        kept[np.flatnonzero(mask)[:most]] = True
        return {id: column.slice(0, most) for id, column in columns.items()}, kept

    def _range_recorder(self, morsel: Morsel) -> RangeRecorder:
        """Return what records the value ranges of a morsel that is about to be read."""
        from lancefs.scan.value_ranges import RangeRecorder

        return RangeRecorder(morsel.fragment, self.ranged_fields, morsel.start, morsel.end)

    def _check_candidates(
        self, morsel: Morsel, columns: Mapping[int, pa.Array], passed: Mask
    ) -> None:
        """Check that rejected candidates pass what indices say of them; see `check_claims`."""
        if not passed.all():
            (fragment_id,) = morsel.fragment.fragment_ids
            check_claims(morsel.claims, fragment_id, columns, passed)

    def _fields_of_candidates(self, morsel: Morsel, rows: int) -> Sequence[Field]:
        """Return the columns to decode of rows that may pass: those of the filter, or all."""
        is_few = rows <= self.request.settings.few_candidates
        if not (morsel.has_few_candidates and is_few) or self.request.reads_blobs:
            return self.request.filter_fields
        return self.request.all_fields()

    def _only_returned(self, columns: Mapping[int, pa.Array]) -> dict[int, pa.Array]:
        """Return the columns that the scan returns, without those that only the filter reads."""
        fields = self.request.fields
        return {field.id: columns[field.id] for field in fields if field.id in columns}

    def _look_up(
        self, columns: dict[int, pa.Array], by_item: frozenset[int]
    ) -> dict[int, pa.Array]:
        """Return columns with values in place of dictionary indices that only the filter used."""
        forms = self.request.forms
        return look_up_values(columns, by_item - forms.dictionary, forms.decimal64)

    def _filter_forms(self, morsel: Morsel) -> OutputForms:
        """Return the forms in which the filter columns of a morsel are read.

        Few candidates are decoded with all columns, and those that an index named are compared with
        what it says of their values, as they are stored.
        """
        forms = self.request.filter_forms
        return forms.only_dictionaries() if morsel.has_few_candidates or morsel.claims else forms

    def _fields_tested_by_item(self, morsel: Morsel) -> frozenset[int]:
        """Return the ids of filter columns that are tested by the items of their dictionaries."""
        request = self.request
        if request.filter is None or not request.filter.takes_items(request.filter_schema):
            return frozenset()
        validity = self._filter_forms(morsel).validity
        fields = [field for field in request.filter_fields if field.id not in validity]
        encoded = frozenset(field.id for field in fields) & request.forms.dictionary
        return encoded | self._fields_with_dictionaries(morsel, fields)

    def _fields_with_dictionaries(self, morsel: Morsel, fields: Sequence[Field]) -> frozenset[int]:
        """Return the ids of columns whose values are looked up after rows are selected."""
        reader = morsel.fragment
        is_short = morsel.has_few_candidates or morsel.rows < self.request.settings.dictionary_rows
        if is_short or not reader.is_local:
            return frozenset()
        if not isinstance(reader, FragmentReader):
            return frozenset()
        kept = self.request.string_cache
        in_memory = {field.id for field in fields if field.id in kept and kept[field.id].is_kept}
        return fields_with_dictionaries(reader, fields) | in_memory

    def _as_tested(
        self, columns: dict[int, pa.Array], by_item: frozenset[int]
    ) -> dict[int, pa.Array]:
        """Return the columns in the form that the filter takes: values, unless it takes items."""
        forms = self.request.forms
        return columns if by_item else look_up_values(columns, forms.dictionary, forms.decimal64)

    def _read_others(
        self, morsel: Morsel, known: dict[int, pa.Array], ranges: Sequence[RowRange]
    ) -> dict[int, pa.Array]:
        """Decode the returned columns that the filter did not need."""
        request = self.request
        if not ranges:
            return empty_columns(request, known)
        fields = [field for field in request.fields if field.id not in known]
        return read_columns(request, morsel.fragment, fields, ranges, request.forms)

    def _read_others_masked(
        self, morsel: Morsel, known: dict[int, pa.Array], mask: Mask, rows: int
    ) -> tuple[dict[int, pa.Array], int]:
        """Decode the other columns for all rows, some columns at a time, and choose masked rows.

        Returns:
            The columns, and the bytes that are counted for columns that are dropped at once.
        """
        request, forms, fragment = self.request, self.request.forms, morsel.fragment
        fields = [field for field in request.fields if field.id not in known]
        columns = self._read_texts_alone(morsel, fields, mask, rows)
        fields = [field for field in fields if field.id not in columns]
        is_few = rows < request.settings.by_item_share * len(mask)
        looked_up = (
            fields if is_few else [one for one in fields if not is_of_bytes(one.storage_type)]
        )
        by_item = self._fields_with_dictionaries(morsel, looked_up) - forms.validity
        read_forms = forms.with_dictionaries(by_item)
        at_once = columns_at_once(request, fragment, fields)
        most = 0
        for start in range(0, len(fields), at_once):
            if start or columns:
                fragment.release()
            group = fields[start : start + at_once]
            decoded = read_columns(request, fragment, group, morsel.ranges, read_forms)
            most = max(most, decoded_bytes(decoded))
            columns |= self._look_up(mask_columns(decoded, mask), by_item)
        return columns, most // 2

    def _read_texts_alone(
        self, morsel: Morsel, fields: Sequence[Field], mask: Mask, rows: int
    ) -> dict[int, pa.Array]:
        """Read masked rows of those columns of strings of which all rows would take longer.

        That is so in full-zip pages, where each row is found without others, and where so few rows
        are wanted that it is only the ranges that are too many to read numbers of them alone.
        """
        source, request = morsel.fragment, self.request
        if rows >= request.settings.zipped_share * len(mask):
            return {}
        if not isinstance(source, FragmentReader) or not source.is_local:
            return {}
        others, found = request.forms.validity, zipped_fields(source, fields)
        if rows < request.settings.sparse_share * len(mask):
            others |= request.forms.dictionary | self._fields_with_dictionaries(morsel, fields)
            found = long_texts(morsel, source, fields, request.settings)
        chosen = [field for field in fields if field.id in found - others]
        if not chosen:
            return {}
        ranges = _mask_ranges(mask, morsel.start)
        return read_columns(request, source, chosen, ranges, request.forms)


def _mask_ranges(mask: Mask, start: int) -> RowRanges:
    """Return the ranges of rows that a mask keeps, whose first slot is row `start`."""
    return as_ranges(np.flatnonzero(mask) + start)
