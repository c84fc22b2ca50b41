"""Running a scan: fragments become morsels, morsels are decoded ahead, batches come out in order.

The loop is `Scan.batches`. It plans morsels (`pace`), has them decoded (`morsel_reader`), in
threads where that pays, and cuts decoded morsels into batches. A slow consumer stops the threads:
only as many morsels are decoded ahead as fit into the memory budget.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, islice
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import batch_bytes
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.buffers import spare_memory
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.row_ranges import count_rows
from lancefs.errors import MemoryLimitExceeded
from lancefs.forks import cached_property
from lancefs.scan.index_claims import WrongIndex
from lancefs.scan.mapped_memory import Mapped
from lancefs.scan.morsel_reader import MorselReader, schema_of
from lancefs.scan.morsels import DecodedMorsel, Morsel
from lancefs.scan.named_rows import fits, read_named
from lancefs.scan.pace import Pace
from lancefs.scan.settings import BATCH_ROWS, ScanSettings, default_settings
from lancefs.scan.stats import ScanStats
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import (
    FragmentReaders,
    are_several_local,
    by_fragment,
    positions_of,
)
from lancefs.table.fragment_run import FragmentRun, in_runs, many_in_runs, runs_with
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID
from lancefs.threads import THREADS, Threads, prefetch, submit

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.index.claims import IndexClaim
    from lancefs.index.lookup import Answer
    from lancefs.scan.conditions import Condition
    from lancefs.scan.index_use import IndexUse
    from lancefs.scan.intervals import ValueInterval
    from lancefs.table.row_index import RowIndex

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Scan:
    """What to read, and the loop that reads it.

    Attributes:
        fragments: Readers of the fragments, in scan order.
        fields: The columns to return, in order.
        filter: Rows to return; all where it is None.
        filter_fields: The columns that the filter reads.
        batch_rows: At most this many rows a batch.
        limit: At most this many rows in all; None for no limit.
        offset: Rows to pass over first, among those that the filter keeps.
        index: Finds row ids and addresses; without it there are no columns of row metadata.
        index_use: Asks the indices of the table for the rows of the filter; None to ask none.
        blobs: Whether blob columns show where their bytes are, or the bytes.
        is_kept: Whether the consumer keeps all batches; they are as long as is quickest then.
        encoded: Field ids of string columns that come dictionary-encoded.
        validity: Field ids of columns that come as their validity.
        narrow: Field ids of columns of decimals that come in 64 bits.
        settings: What the scan is tuned by.
        stats: Counts what the scan does.
    """

    fragments: Sequence[FragmentReader]
    fields: tuple[Field, ...]
    filter: Condition | None = None
    filter_fields: tuple[Field, ...] = ()
    batch_rows: int = BATCH_ROWS
    limit: int | None = None
    offset: int = 0
    index: RowIndex | None = None
    index_use: IndexUse | None = None
    blobs: Blobs = "descriptors"
    is_kept: bool = False
    encoded: frozenset[int] = frozenset()
    validity: frozenset[int] = frozenset()
    narrow: frozenset[int] = frozenset()
    settings: ScanSettings = field(default_factory=default_settings)
    stats: ScanStats = field(default_factory=ScanStats, compare=False)

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return schema_of(self.fields, self.blobs, self.encoded, self.validity, self.narrow)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order; batches are not empty.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        return self._counted(self._by_sound_indices(), self.is_kept)

    def rows_at(self, positions: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the rows at given positions, of a scan without filter, offset and limit.

        Args:
            positions: Positions among the rows of the scan, ascending, each once.
        """
        return self._counted(self._take_positions(positions), is_kept=True)

    def rows_of(self, wanted: Iterable[tuple[FragmentReader, Ints]]) -> Iterator[pa.RecordBatch]:
        """Yield rows of fragments, whatever filter, offset and limit say.

        Args:
            wanted: Fragments, each with the offsets of live rows, ascending, each once.
        """
        return self._counted(self._take_offsets(wanted), is_kept=True)

    def candidates(self, most_tested: int) -> Mapping[int, Sequence[RowRange] | None] | None:
        """Return which rows may pass the filter, for a planner that leaves the others out.

        Rows that indices name are tested first: what a wrong index lacks would never be read.

        Args:
            most_tested: All rows may pass where indices name more rows than these.

        Returns:
            By fragment id, ranges of rows; None for all rows, of the fragment or of the scan.
        """
        while (found := self._candidates()) is not None:
            claimed = positions_of(self.fragments, self._claimed(self.fragments).keys())
            fragments = [self.fragments[position] for position in claimed]
            ranges = [found[one.fragment.id] or () for one in fragments]
            if sum(map(count_rows, ranges)) > most_tested:
                return None
            try:
                self._test_claims(fragments)
            except WrongIndex as error:
                assert self.index_use is not None
                self.index_use.give_up(error)
            else:
                return found
        return None

    def _counted(
        self, batches: Iterable[pa.RecordBatch], is_kept: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches, counted; refuse more than may be kept, where all are."""
        most, kept = self.settings.max_memory, 0
        for batch in batches:
            self.stats.add_batch(batch.num_rows)
            if is_kept and most is not None:
                kept += batch_bytes(batch)
                if kept > most:
                    raise MemoryLimitExceeded(
                        f"the rows take more than max_memory, {most:,} bytes; read batch by batch "
                        "(to_batches), or fewer columns or rows, or pass a larger max_memory"
                    )
            yield batch

    def _by_sound_indices(self) -> Iterator[pa.RecordBatch]:
        """Yield batches; from the beginning again where an index turns out to be wrong."""
        while True:
            try:
                yield from self._limited()
            except WrongIndex as error:  # before the first batch: see `_proved`
                assert self.index_use is not None
                self.index_use.give_up(error)
            else:
                return

    def _limited(self) -> Iterator[pa.RecordBatch]:
        """Yield batches, offset and limit applied."""
        left = self.limit
        if left is not None and self.filter is None and self._is_short():
            yield from self._take_positions(np.arange(self.offset, self.offset + left))
            return
        if left == 0:
            return
        found = self._found()
        if found is not None:
            yield from _passing_over(found, self.offset, left)
            return
        fragments, first, skip = self._skip_offset()
        budget = self.settings.table_bytes if self.is_kept else self.settings.stream_bytes
        columns = len(self.fields) + len(self.filter_fields)
        pace = Pace(self.batch_rows, budget, columns, self.settings, self._is_remote_bulk)
        morsels = self._plan(fragments, first, pace)
        decoded = (
            self._one_by_one(morsels, pace) if self._is_short() else self._ahead(morsels, pace)
        )
        if self.index_use is not None:
            wanted = None if left is None else skip + left
            decoded = self._proved(fragments, decoded, wanted)
        batches = self._cut(decoded if self.is_kept else self._giving_back(decoded))
        with self._keeping_ranges():
            yield from _passing_over(batches, skip, left)

    @contextmanager
    def _keeping_ranges(self) -> Iterator[None]:
        """Keep on disk what a scan sees of the values of its filter, where that is wanted."""
        root = _local_root(self.fragments) if self._ranged_fields else None
        if root is None:
            yield
            return
        from lancefs.scan import kept_ranges, value_ranges

        before = value_ranges.count_changes()
        yield
        if value_ranges.count_changes() != before:
            kept_ranges.save(root)

    def _found(self) -> Sequence[pa.RecordBatch] | None:
        """Return the rows that pass, where few local rows may; None where morsels are decoded."""
        candidates = self._candidates()
        if candidates is None or self.filter is None or self.blobs == "bytes":
            return None
        if self.index_use is not None and self.index_use.is_part:
            return None  # rows of other fragments are tested as well
        most = min(self.settings.few_candidates, self.batch_rows)
        if self.limit is not None:
            most = min(most, self.offset + self.limit)
        if not fits(candidates, most):
            return None
        named = [
            (self.fragments[position], candidates[self.fragments[position].fragment.id] or ())
            for position in positions_of(self.fragments, candidates.keys())
        ]
        if named and not named[0][0].is_local:
            return None  # their requests have to be under way together
        answer = self._answer
        claims_in = _no_claims if answer is None else answer.claims_in
        found = read_named(self._plain_reader, self.filter, named, claims_in, self.batch_rows)
        if found is not None:
            self.stats.fragments_skipped += len(self.fragments) - len(named)
        return found

    @cached_property
    def _reader(self) -> MorselReader:
        if not self._ranged_fields or self._passing_whole is not None:  # and all ranges are known
            return self._plain_reader
        return replace(self._plain_reader, ranged_fields=self._ranged_fields)

    @cached_property
    def _ranged_fields(self) -> tuple[Field, ...]:
        """The columns of the filter whose ranges of values are kept in mind."""
        fields = tuple(
            field
            for field in self.filter_fields
            if field.name in self._intervals and field.id not in self._filter_validity
        )
        root = _local_root(self.fragments) if fields else None
        if root is not None:
            from lancefs.scan.kept_ranges import load

            load(root)
        return fields

    @cached_property
    def _filter_validity(self) -> frozenset[int]:
        """The columns of which the filter needs the validity only, and nothing else more."""
        if self.filter is None:
            return frozenset()
        returned = ({field.id for field in self.fields} - self.validity) | self.encoded
        tested = self.filter.tested_for_nulls([field.name for field in self.filter_fields])
        return frozenset(
            field.id
            for field in self.filter_fields
            if field.name in tested and field.id not in returned
        )

    @cached_property
    def _filter_narrow(self) -> frozenset[int]:
        """The columns that the filter compares in 64 bits, where it compares stored numbers."""
        narrow = frozenset(field.id for field in self.filter_fields) & self.narrow
        if self.filter is None or not narrow:
            return frozenset()
        schema = schema_of(self.filter_fields, self.blobs, (), (), narrow)
        return narrow if self.filter.tests_columns_alone(schema) else frozenset()

    @cached_property
    def _plain_reader(self) -> MorselReader:
        """Decodes rows without keeping their ranges of values in mind."""
        settings = self.settings
        mapped = settings.kept_mapped_bytes if self.is_kept else settings.stream_mapped_bytes
        return MorselReader(
            self.fields,
            self.filter,
            self.filter_fields,
            self._filter_validity,
            self._filter_narrow,
            (),
            self.index,
            self.blobs,
            self.encoded,
            self.validity,
            self.narrow,
            is_kept=self.is_kept,
            gives_back=not (self.is_kept or self._is_short()),
            mapped=Mapped(mapped),
            settings=settings,
            stats=self.stats,
        )

    def _is_short(self) -> bool:
        """Tell whether so few rows are wanted that decoding ahead would be wasted."""
        passed_over = 0 if self.filter is None else self.offset
        return self.limit is not None and passed_over + self.limit <= self.batch_rows

    @cached_property
    def _is_remote_bulk(self) -> bool:
        """Whether all rows of a remote table are read before anyone looks at the first ones.

        Then every morsel that waits for another one costs a round of requests.
        """
        is_bulk = self.limit is None and (self.is_kept or not self.fields)
        return is_bulk and bool(self.fragments) and not self.fragments[0].is_local

    # Planning

    def _skip_offset(self) -> tuple[Sequence[FragmentReader], int, int]:
        """Leave out the rows that `offset` passes over; a filter must see them all.

        Returns:
            The fragments that are left, the offset of the first row in the first of them, and the
            number of rows that are still to be passed over.
        """
        skip = self.offset
        if self.filter is not None or not skip:
            return self.fragments, 0, skip
        holders = by_fragment(self.fragments, np.array([skip]))
        for position, rows in holders:
            # From its beginning, batches are cut where they are without `offset`, also where the
            # first rows are deleted.
            first = int(self.fragments[position].offsets(rows)[0]) if rows[0] else 0
            return self.fragments[position:], first, 0
        return (), 0, 0

    def _plan(
        self, fragments: Sequence[FragmentReader], first: int, pace: Pace
    ) -> Iterator[Morsel]:
        """Yield morsels, from an offset in the first of the fragments on."""
        for fragment, candidates in self._sources(fragments):
            total = fragment.physical_rows
            if candidates is None:
                yield from pace.split(Morsel(fragment, min(first, total), total))
            else:
                yield from pace.split(self._morsel_of(fragment, candidates))
            first = 0

    def _morsel_of(
        self, fragment: FragmentReader | FragmentRun, candidates: Sequence[RowRange]
    ) -> Morsel:
        """Return the rows of a fragment from its first candidate to its last one."""
        total = fragment.physical_rows
        start = min(candidates[0][0], total) if candidates else total
        end = min(candidates[-1][1], total) if candidates else total
        is_picked = count_rows(candidates) <= self.settings.few_candidates
        is_picked &= self._candidates() is not None  # others pass for what was seen of their zone
        answer = self._answer
        claims = () if answer is None else answer.claims_in(fragment.fragment_ids[0])
        return Morsel(fragment, start, end, candidates, is_picked=is_picked, claims=claims)

    def _sources(
        self, fragments: Sequence[FragmentReader]
    ) -> Iterator[tuple[FragmentReader | FragmentRun, Sequence[RowRange] | None]]:
        """Yield fragments and runs, with the ranges of rows that may pass; None for all rows.

        Small fragments are joined to runs. The first one may be all that is wanted: a run begins
        with it where there are many, which become longer; otherwise it is read alone.
        """
        candidates = self._candidates()
        if candidates is None:
            most_rows = max(self.batch_rows, self.settings.batch_rows)
            if self.is_kept:
                most_rows = max(most_rows, self.settings.table_run_rows)
            alone = 0 if self._is_remote_bulk else 1
            whole = self._many_whole(fragments)
            if whole is not None:
                first = most_rows if self.is_kept else self.settings.first_run_rows
                runs = many_in_runs(whole, most_rows, first)
                yield from ((source, None) for source in runs)
                return
            for is_whole, group in groupby(self._passing(fragments), lambda each: each[1] is None):
                if is_whole:
                    left = (fragment for fragment, _ in group)
                    runs = in_runs(left, most_rows)
                    yield from ((source, None) for source in chain(islice(left, alone), runs))
                else:
                    yield from group
                alone = 0
            return
        done = 0
        for position in positions_of(fragments, candidates.keys()):
            self.stats.fragments_skipped += position - done
            done = position + 1
            fragment = fragments[position]
            yield fragment, candidates[fragment.fragment.id]
        self.stats.fragments_skipped += len(fragments) - done

    def _many_whole(self, fragments: Sequence[FragmentReader]) -> FragmentReaders | None:
        """Return many local fragments to read as they are; None where each is looked at before."""
        if self._ranged_fields:
            return self._passing_whole
        return fragments if are_several_local(fragments) else None

    @cached_property
    def _passing_whole(self) -> FragmentReaders | None:
        """Those of many local fragments that may hold rows that pass, if all ranges are known."""
        if not self._ranged_fields or not are_several_local(self.fragments):
            return None
        if self._candidates() is not None:
            return None
        from lancefs.scan.fragment_ranges import passing_readers

        return passing_readers(self.fragments, self._ranged_fields, self._intervals, self.stats)

    @cached_property
    def _intervals(self) -> Mapping[str, ValueInterval]:
        """The intervals in the filter of columns whose ranges of values are kept in mind."""
        if self.filter is None:
            return {}
        from lancefs.scan.intervals import TextInterval
        from lancefs.scan.value_ranges import has_range

        schema = pa.schema([field.to_arrow() for field in self.filter_fields])
        intervals = self.filter.intervals(schema)
        # Texts of many small fragments stay in memory, and are tested in less time than compared.
        no_texts = are_several_local(self.fragments)
        return {
            name: each
            for name, each in intervals.items()
            if has_range(schema.field(name).type)
            and not (no_texts and isinstance(each, TextInterval))
        }

    def _passing(
        self, fragments: Sequence[FragmentReader]
    ) -> Iterator[tuple[FragmentReader, Sequence[RowRange] | None]]:
        """Yield fragments that may hold rows that pass, as far as earlier scans have seen.

        With the ranges of these rows; None for all.
        """
        fields = self._ranged_fields
        if not fields:
            return ((fragment, None) for fragment in fragments if self._may_pass(fragment))
        from lancefs.scan.fragment_ranges import passing_fragments

        return passing_fragments(fragments, fields, self._intervals, self.stats)

    def _may_pass(self, fragment: FragmentReader) -> bool:
        """Return whether a fragment may hold rows that pass, as far as its metadata tells.

        Those of small fragments, and of remote ones, take as long to be asked as rows to be read.
        """
        missing = set() if self.filter is None else self.filter.missing_columns
        if not missing or not fragment.is_local or fragment.is_small:
            return True
        from lancefs.table.null_free import none_missing

        needed = [column for column in self.filter_fields if column.name in missing]
        if not any(none_missing(fragment, [column]) for column in needed):
            return True
        self.stats.fragments_skipped += 1
        return False

    def _candidates(self) -> Mapping[int, Sequence[RowRange] | None] | None:
        """Return ranges of rows that may pass, by fragment id; None where all rows may.

        A filter that names row ids or addresses tells these ranges without reading a column. If it
        does not, the indices of the table are asked.
        """
        if self._named is not None:
            return self._named
        answer = self._answer
        return None if answer is None else answer.candidates

    @property
    def _answer(self) -> Answer | None:
        """What the indices of the table say of the filter, if they are asked."""
        if self.index_use is None or self._named is not None:
            return None
        return self.index_use.answer

    @cached_property
    def _named(self) -> Mapping[int, Sequence[RowRange]] | None:
        """The ranges of the rows whose ids or addresses the filter names; None for all."""
        return None if self.filter is None else self._named_rows(self.filter)

    def _named_rows(self, condition: Condition) -> Mapping[int, Sequence[RowRange]] | None:
        """Return the ranges of the rows whose ids or addresses a filter names; None for all."""
        if self.index is None:
            return None
        from lancefs.scan import expressions

        filter_ids = {field.id for field in self.filter_fields}
        for row_field, find in (
            (ROW_ID, self.index.ranges_of_ids),
            (ROW_ADDRESS, self.index.ranges_of_addresses),
        ):
            if row_field.id in filter_ids:
                values = expressions.values_of(condition.expression, row_field.name)
                if values is not None:
                    return find(values)
        return None

    # Holding indices to what they say

    def _proved(
        self,
        fragments: Sequence[FragmentReader],
        decoded: Iterator[DecodedMorsel],
        wanted: int | None,
    ) -> Iterator[DecodedMorsel]:
        """Hold morsels back until all rows that indices name are tested.

        Args:
            fragments: The fragments that are read.
            decoded: The morsels.
            wanted: Rows that are wanted; None for all.

        Raises:
            WrongIndex: An index named a row that does not pass; no morsel was handed out.
        """
        assert self.index_use is not None
        tested = self.index_use.fragments_to_test(fragments) if self._answer else ()
        left = self._claimed(tested)
        held: list[DecodedMorsel] = []
        rows = size = 0
        while left and (each := next(decoded, None)) is not None:
            (fragment_id,) = each.morsel.fragment.fragment_ids[:1]
            if left.get(fragment_id, each.morsel.end + 1) <= each.morsel.end:
                del left[fragment_id]
            held.append(each._replace(mask=None) if self.is_kept else each)
            rows, size = rows + len(each.batch), size + each.held_bytes
            is_enough = wanted is not None and rows >= wanted
            if is_enough or (size > self.settings.stream_bytes and not self.is_kept):
                break
        self._test_claims([tested[position] for position in positions_of(tested, left.keys())])
        self.index_use.note_tested(tested)
        yield from held
        yield from decoded

    def _claimed(self, fragments: Sequence[FragmentReader]) -> dict[int, int]:
        """Return the ends of the rows that indices name in each fragment, by its id."""
        answer = self._answer
        if answer is None or not answer.claims or answer.candidates is None:
            return {}
        ends = {}
        for position in positions_of(fragments, answer.candidates.keys()):
            number = fragments[position].fragment.id
            candidates = answer.candidates[number]
            if candidates and answer.claims_in(number):
                ends[number] = min(candidates[-1][1], fragments[position].physical_rows)
        return ends

    def _test_claims(self, fragments: Sequence[FragmentReader]) -> None:
        """Test the rows that indices name in some fragments, of which nothing else is decoded."""
        answer = self._answer
        if not fragments or answer is None or answer.candidates is None:
            return
        candidates, settings = answer.candidates, self.settings
        pace = Pace(self.batch_rows, settings.stream_bytes, len(self.filter_fields), settings)
        morsels = (
            morsel
            for fragment in fragments
            for morsel in pace.split(
                self._morsel_of(fragment, candidates[fragment.fragment.id] or [])
            )
        )
        for _ in self._ahead(morsels, pace, replace(self._reader, fields=())):
            pass

    # Decoding

    def _one_by_one(self, morsels: Iterable[Morsel], pace: Pace) -> Iterator[DecodedMorsel]:
        """Decode morsels in this thread."""
        for morsel in morsels:
            rest: Morsel | None = morsel
            while rest is not None and rest.rows:
                yield (decoded := self._reader.read(rest, pace))
                rest = rest.after(decoded.morsel)

    def _ahead(
        self, morsels: Iterator[Morsel], pace: Pace, reader: MorselReader | None = None
    ) -> Iterator[DecodedMorsel]:
        """Decode morsels in threads, and choose the length of the next ones."""
        for decoded in self._in_threads(morsels, pace, reader or self._reader):
            pace.learn(decoded)
            yield decoded

    def _in_threads(
        self, morsels: Iterator[Morsel], pace: Pace, reader: MorselReader
    ) -> Iterator[DecodedMorsel]:
        """Decode morsels in threads, in order; closing the generator stops the threads."""
        left = morsels if self._is_remote_bulk else (yield from self._inline(morsels, pace, reader))
        first = next(left, None)
        if first is None:
            return
        is_local = first.fragment.is_local
        most = THREADS if is_local else self.settings.remote_prefetch
        read = partial(reader.read, pace=pace)

        def start(morsel: Morsel) -> Callable[[], DecodedMorsel]:
            is_tiny = pace.is_tiny(morsel) or isinstance(morsel.fragment, FragmentRun)
            return partial(read, morsel) if is_tiny and is_local else submit(pool, read, morsel)

        def is_full(under_way: Sequence[Morsel]) -> bool:
            if len(under_way) <= THREADS:
                return False
            if is_local or len(under_way) >= most:
                return True
            return sum(morsel.rows for morsel in under_way) > THREADS * pace.rows

        pool = Threads(
            most, "lancefs-scan", initializer=spare_memory if self._spares_memory() else None
        )
        try:
            yield from prefetch(
                chain([first], left),
                start,
                is_full,
                lambda morsel, decoded: morsel.after(decoded.morsel),
            )
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _inline(
        self, morsels: Iterator[Morsel], pace: Pace, reader: MorselReader
    ) -> Generator[DecodedMorsel, None, Iterator[Morsel]]:
        """Decode morsels in this thread, as long as that is done before threads would pay.

        The first morsel is decoded here in any case: it may be all that is wanted.

        Returns:
            The morsels that are left.
        """
        spent = per_row = 0.0
        while (morsel := next(morsels, None)) is not None:
            if spent + per_row * morsel.rows > self.settings.inline_seconds:
                return chain([morsel], morsels)
            started = perf_counter()
            decoded = reader.read(morsel, pace)
            seconds = perf_counter() - started
            yield decoded
            rest = morsel.after(decoded.morsel)
            if rest is not None:
                morsels = chain(pace.split(rest), morsels)
            if not morsel.fragment.is_local:
                break
            spent, per_row = spent + seconds, seconds / decoded.morsel.rows
        return morsels

    def _take_positions(self, positions: Ints) -> Iterator[pa.RecordBatch]:
        """Decode rows by their positions among the live rows of the scan."""
        return self._take_offsets(
            self._prefetch_each(_to_offsets, self._split_positions(positions))
        )

    def _take_offsets(
        self, wanted: Iterable[tuple[FragmentReader, Ints]]
    ) -> Iterator[pa.RecordBatch]:
        """Decode rows of fragments by their offsets; fragments that are alike are read as one."""
        runs = runs_with(wanted, self.batch_rows)
        return chain.from_iterable(self._prefetch_each(lambda part: self._reader.take(*part), runs))

    def _prefetch_each(
        self, do: Callable[[_Item], _Result], items: Iterable[_Item]
    ) -> Iterator[_Result]:
        """Yield what is done with each of some fragments, of which few are open at a time.

        The requests of a remote table's fragments are under way together.
        """
        left = iter(items)
        first = list(islice(left, 2))
        if len(first) < 2 or self.fragments[0].is_local:
            yield from map(do, chain(first, left))
            return
        most = self.settings.remote_prefetch
        with Threads(most, "lancefs-take") as pool:
            yield from prefetch(
                chain(first, left), partial(submit, pool, do), lambda waiting: len(waiting) >= most
            )

    def _split_positions(self, rows: Ints) -> Iterator[tuple[FragmentReader, Ints]]:
        """Yield the fragments with rows at given positions, and the positions in each of them."""
        for position, own_rows in by_fragment(self.fragments, rows):
            yield self.fragments[position], own_rows

    # Handing out

    def _cut(self, decoded: Iterable[DecodedMorsel]) -> Iterator[pa.RecordBatch]:
        """Cut morsels into batches, which are the same however long morsels are.

        Rows of a morsel that pass a filter stay together where they are no more than a batch.
        """
        for each in decoded:
            batch, rows = each.batch, self.batch_rows
            is_small = each.morsel.rows <= rows or (self.filter is not None and len(batch) <= rows)
            if not batch.num_rows:
                continue
            if is_small or self.is_kept:
                yield batch
                continue
            done = 0
            for start in range(0, each.morsel.rows, rows):
                length = min(rows, each.morsel.rows - start)
                if each.mask is not None:
                    length = int(np.count_nonzero(each.mask[start : start + rows]))
                if length:
                    yield batch.slice(done, length)
                done += length

    def _spares_memory(self) -> bool:
        """Tell whether threads allocate memory that is given back at once; see `spare_memory`."""
        settings = self.settings
        is_narrow = len(self.fields) <= settings.reusing_columns
        is_even = self.filter is None or settings.reusing_filtered
        is_flat = not any(one.children for one in self.fields)
        return not (self.is_kept or (is_narrow and is_even and is_flat))

    def _giving_back(self, decoded: Iterable[DecodedMorsel]) -> Iterator[DecodedMorsel]:
        """Give free memory back to the system after morsels of uneven size.

        Morsels of even size reuse the memory of those before them. Otherwise Arrow's allocator
        would keep more and more blocks that fit no next morsel.
        """
        pool, largest, is_uneven, gave_back = pa.default_memory_pool(), 0, False, False
        for each in decoded:
            if is_uneven:  # and not the last one, which is shorter than the others for most tables
                pool.release_unused()
                gave_back = True
            yield each
            is_uneven = self.settings.uneven_ratio * each.size < largest
            largest = max(0 if is_uneven else largest, each.size)
        if gave_back:
            pool.release_unused()


def _local_root(fragments: Sequence[FragmentReader]) -> str | None:
    """Return the directory of the table of some fragments; None if it is remote."""
    if isinstance(fragments, FragmentReaders) and fragments.are_local:
        return fragments.root
    return None


def _passing_over(
    batches: Iterable[pa.RecordBatch], skip: int, left: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches behind some of them, as many as are wanted.

    Args:
        batches: The batches.
        skip: Rows to pass over.
        left: Rows that are wanted, at least one; None for all.
    """
    for batch in batches:
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        batch, skip = batch.slice(skip), 0
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        yield batch
        if left == 0:
            return


def _no_claims(fragment_id: int) -> tuple[IndexClaim, ...]:
    return ()


def _to_offsets(part: tuple[FragmentReader, Ints]) -> tuple[FragmentReader, Ints]:
    """Return a fragment, and positions among its live rows as offsets in the data files."""
    fragment, rows = part
    return fragment, fragment.offsets(rows)
