"""Running a scan: fragments become morsels, morsels are decoded ahead, batches come out in order.

The loop is `Scan.batches`. It plans morsels (`planning`), has them decoded (`morsel_reader`), in
threads where that pays (`scheduling`), and cuts decoded morsels into batches. A slow consumer stops
the threads: only as many morsels are decoded ahead as fit into the memory budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import batch_bytes
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.row_ranges import as_ranges, rows_of
from lancefs.errors import LanceError, MemoryLimitExceeded
from lancefs.forks import cached_property
from lancefs.scan.index_proof import IndexProof, WrongIndex
from lancefs.scan.mapped_memory import MappedMemory
from lancefs.scan.morsel_reader import MorselReader
from lancefs.scan.morsels import DecodedMorsel, Morsel
from lancefs.scan.named_rows import are_zones, fits, narrowed, read_named, take
from lancefs.scan.pace import GROWTH, SHORT_GROWTH, Pace
from lancefs.scan.planning import ScanPlan, WantedPart
from lancefs.scan.request import ScanRequest
from lancefs.scan.scheduling import decode_ahead, do_each
from lancefs.storage import counting
from lancefs.table.file_prefetch import open_together
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import by_fragment, positions_of
from lancefs.table.fragment_run import runs_with
from lancefs.table.row_metadata import is_row_metadata

if TYPE_CHECKING:
    from lancefs.datafile.buffers import Ints
    from lancefs.index.claims import IndexClaim


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Scan:
    """Reads what is requested.

    Args:
        request: What is to be read.
    """

    def __init__(self, request: ScanRequest) -> None:
        self._request = request
        self._plan = ScanPlan(request)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order; batches are not empty.

        Raises:
            MissingFile: A file of the table is gone.
            CorruptFile: A file of the table is damaged.
            UnsupportedFeature: A file uses something that this release does not read.
        """
        batches = self._read_by_sound_indices(self._read_limited)
        return self._within_memory(batches, self._request.is_collected)

    def rows_at(self, positions: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the rows at given positions; of all others, only columns of the filter are decoded.

        Args:
            positions: Positions among the rows of the scan, ascending, each once.
        """
        wanted = positions + self._request.offset
        if self._request.filter is None:
            batches = self._take_positions(wanted)
        else:
            batches = self._read_by_sound_indices(lambda: self._take_passing(wanted))
        return self._within_memory(batches, is_collected=True)

    def rows_of(self, wanted: Iterable[tuple[FragmentReader, Ints]]) -> Iterator[pa.RecordBatch]:
        """Yield rows of fragments, whatever filter, offset and limit say.

        Args:
            wanted: Fragments, each with the offsets of live rows, ascending, each once.
        """
        return self._within_memory(self._take_offsets(wanted), is_collected=True)

    def candidates(self, most_tested: int) -> Mapping[int, Sequence[RowRange] | None] | None:
        """Return which rows may pass the filter, for a planner; see `IndexProof.candidates`."""
        return self._proof().candidates(most_tested)

    def _within_memory(
        self, batches: Iterable[pa.RecordBatch], is_collected: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches, counted in the statistics, if those that are kept are not too many.

        Args:
            batches: The batches.
            is_collected: Whether the consumer keeps all batches.

        Raises:
            MemoryLimitExceeded: The batches that are kept take more than `max_memory`.
        """
        most, kept = self._request.settings.max_memory, 0
        for batch in batches:
            self._request.stats.add_batch(batch.num_rows)
            if is_collected and most is not None:
                kept += batch_bytes(batch)
                if kept > most:
                    raise MemoryLimitExceeded(
                        f"the rows take more than max_memory, {most:,} bytes; read batch by batch "
                        "(to_batches), or fewer columns or rows, or pass a larger max_memory"
                    )
            yield batch

    def _read_by_sound_indices(
        self, read: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; begin anew without an index that turns out to be wrong."""
        while True:
            try:
                yield from read()
            except WrongIndex as error:  # before the first batch: see `IndexProof`
                assert self._request.index_use is not None
                self._request.index_use.give_up(error)
            else:
                return

    def _read_limited(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the rows within offset and limit."""
        request = self._request
        left = request.limit
        if left is not None and request.filter is None and request.is_short:
            yield from self._take_positions(np.arange(request.offset, request.offset + left))
            return
        if left == 0:
            return
        found = self._read_few()
        if found is not None:
            yield from _skip_and_limit(found, request.offset, left)
            return
        if left is not None and request.passes_over_most:
            yield from self._take_passing(np.arange(request.offset, request.offset + left))
            return
        part = self._plan.wanted_part()
        decoded = self._decode_part(part)
        batches = self._cut(decoded if request.is_collected else self._give_back_memory(decoded))
        with self._keep_ranges():
            yield from _skip_and_limit(batches, part.skip, left)

    def _decode_part(self, part: WantedPart) -> Iterator[DecodedMorsel]:
        """Decode the morsels of a part of the rows."""
        request = self._request
        columns, budget = request.column_count, request.morsel_bytes
        growth = SHORT_GROWTH if request.is_short else GROWTH
        first_rows = self._first_rows()
        pace = Pace(request.batch_rows, budget, columns, request.settings, first_rows, growth)
        morsels = self._plan.morsels(part, pace)
        decoded = self._decode_ahead(morsels, pace, self._reader)
        if request.index_use is not None:
            wanted = None if request.limit is None else part.skip + request.limit
            decoded = self._proof().hold_back(part.fragments, decoded, wanted)
        return decoded

    def _first_rows(self) -> int:
        """Return how many rows the first morsel may have; 0 for those of a batch."""
        request, settings = self._request, self._request.settings
        # With a filter, decoding takes longer than what the engine does with the rows that pass.
        is_long = settings.starts_in_threads and request.filter is not None
        if request.is_remote_bulk or is_long:
            return settings.longest_morsel_rows
        if not (request.is_collected and request.is_bounded and request.fragments):
            return 0
        first = request.fragments[0]
        if self._is_remote or first.physical_rows <= request.batch_rows:
            return 0
        # The consumer takes all rows at once: the first morsel has those that decode in a moment.
        fields = [one for one in request.all_fields() if not is_row_metadata(one)]
        try:
            sizes = first.row_sizes(fields)
        except LanceError:  # decoding the rows reports it, if they are decoded
            return 0
        if sizes is None:
            return 0
        rows = first.physical_rows
        fitting = int(settings.first_bytes * rows / max(sizes.bytes_of(0, rows), 1))
        return min(fitting, settings.longest_morsel_rows)

    @contextmanager
    def _keep_ranges(self) -> Iterator[None]:
        """Keep on disk what a scan sees of the values of its filter, where that is wanted."""
        root = self._plan.local_root if self._plan.ranged_fields else None
        if root is None:
            yield
            return
        from lancefs.scan import range_files, value_ranges

        before = value_ranges.count_changes()
        yield
        if value_ranges.count_changes() != before:
            range_files.save(root)

    def _read_few(self) -> Sequence[pa.RecordBatch] | None:
        """Return the rows that pass, if few local rows may; None if morsels have to be decoded."""
        request, candidates = self._request, self._plan.candidates()
        if candidates is None or request.filter is None or request.reads_blobs:
            return None
        if request.index_use is not None and request.index_use.is_part:
            return None  # rows of other fragments are tested as well
        most = min(request.settings.few_candidates, request.batch_rows)
        if request.limit is not None:
            most = min(most, request.offset + request.limit)
        answer = self._plan.answer
        are_few = fits(candidates, most)
        are_tested = not are_few and request.limit is None and answer and not answer.claims
        if not (are_few or (are_tested and are_zones(candidates))):
            return None
        positions = positions_of(request.fragments, candidates.keys())
        fragments = [request.fragments[position] for position in positions]
        named = [(each, candidates[each.fragment.id] or ()) for each in fragments]
        if named and not named[0][0].is_local:
            return None  # their requests have to be under way together
        if not are_few:
            passing = narrowed(request, self._mapped, request.filter, named, most)
            if passing is None:
                return None
            named = passing
        claims_in = _no_claims if answer is None else answer.claims_in
        found = read_named(request, self._mapped, request.filter, named, claims_in)
        if found is not None:
            request.stats.fragments_skipped += len(request.fragments) - len(named)
        return found

    @cached_property
    def _reader(self) -> MorselReader:
        ranged = self._plan.ranged_fields
        if self._plan.passing_whole is not None:  # all value ranges are known
            ranged = ()
        return MorselReader(self._request, self._mapped, ranged)

    @cached_property
    def _mapped(self) -> MappedMemory:
        """Gives mapped bytes of files back after morsels."""
        request, settings = self._request, self._request.settings
        return MappedMemory(
            settings.table_mapped_bytes if request.is_collected else settings.stream_mapped_bytes
        )

    def _proof(self) -> IndexProof:
        """Return what holds rows back until indices are proved; kept, it would keep the scan."""
        return IndexProof(self._request, self._plan, self._test)

    # Decoding

    def _test(self, morsels: Iterator[Morsel], pace: Pace) -> Iterator[DecodedMorsel]:
        """Decode the columns of the filter alone, and test them."""
        reader = replace(self._reader, request=replace(self._request, fields=()))
        return self._decode_ahead(morsels, pace, reader)

    def _decode_ahead(
        self, morsels: Iterator[Morsel], pace: Pace, reader: MorselReader
    ) -> Iterator[DecodedMorsel]:
        """Decode morsels in threads where that pays."""
        request = self._request
        begins_here = not (
            request.settings.starts_in_threads or request.is_remote_bulk or self._are_few_remote
        )
        return decode_ahead(morsels, reader, pace, begins_here, self._uses_system_allocator())

    def _take_positions(self, positions: Ints) -> Iterator[pa.RecordBatch]:
        """Decode rows by their positions among the live rows of the scan."""
        do = self._open_and_find if self._is_remote else _to_offsets
        return self._take_offsets(self._do_each(do, self._split_positions(positions)))

    def _take_passing(self, positions: Ints) -> Iterator[pa.RecordBatch]:
        """Decode rows by their positions among those that pass the filter."""
        if not len(positions):
            return
        tested = Scan(
            replace(
                self._request, fields=(), offset=0, limit=int(positions[-1]) + 1, is_collected=False
            )
        )
        with tested._keep_ranges():
            yield from self._take_offsets(tested._find_passing(positions))

    def _find_passing(self, positions: Ints) -> Iterator[tuple[FragmentReader, Ints]]:
        """Yield fragments with the offsets of rows at ascending positions among those that pass."""
        first = start = 0
        for each in self._decode_part(self._plan.wanted_part()):
            end = int(positions.searchsorted(first + len(each.batch)))
            if start < end:
                mask, morsel = each.mask, each.morsel
                passing = np.arange(morsel.rows) if mask is None else np.flatnonzero(mask)
                offsets = passing[positions[start:end] - first] + morsel.start
                for reader, ranges in morsel.fragment.parts(as_ranges(offsets)):
                    yield reader, rows_of(ranges)
            first, start = first + len(each.batch), end
            if start == len(positions):
                return

    def _take_offsets(
        self, wanted: Iterable[tuple[FragmentReader, Ints]]
    ) -> Iterator[pa.RecordBatch]:
        """Decode rows of fragments by their offsets; fragments that are alike are read as one."""
        runs = runs_with(wanted, self._request.batch_rows)
        return chain.from_iterable(self._do_each(lambda part: take(self._request, *part), runs))

    def _do_each(self, do: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Call a function for items of fragments, with a bounded prefetch; see `do_each`.

        The requests of a remote table's fragments are under way together.
        """
        return do_each(do, items, self._request.settings.remote_prefetch if self._is_remote else 1)

    @cached_property
    def _is_remote(self) -> bool:
        fragments = self._request.fragments
        return bool(fragments) and not fragments[0].is_local

    @cached_property
    def _are_few_remote(self) -> bool:
        """Whether few rows of a remote table may pass: their requests are under way together.

        Those that indices name are tested before the first batch goes out, see `IndexProof`.
        """
        candidates = self._plan.candidates() if self._is_remote else None
        return candidates is not None and fits(candidates, self._request.settings.few_candidates)

    def _open_and_find(self, part: tuple[FragmentReader, Ints]) -> tuple[FragmentReader, Ints]:
        """Do as `_to_offsets`; open the files that the rows are read from in the same round."""
        with counting() as counters:
            open_together([part[0]], self._request.fields)
        self._request.stats.add_reads(counters)
        return _to_offsets(part)

    def _split_positions(self, rows: Ints) -> Iterator[tuple[FragmentReader, Ints]]:
        """Yield the fragments with rows at given positions, and the positions in each of them."""
        for position, own_rows in by_fragment(self._request.fragments, rows):
            yield self._request.fragments[position], own_rows

    # Handing out

    def _cut(self, decoded: Iterable[DecodedMorsel]) -> Iterator[pa.RecordBatch]:
        """Cut morsels into batches, which are the same however long morsels are.

        Rows of a morsel that pass a filter stay together where they are no more than a batch.
        """
        request, rows = self._request, self._request.batch_rows
        for each in decoded:
            batch = each.batch
            is_filtered = request.filter is not None
            is_small = each.morsel.rows <= rows or (is_filtered and len(batch) <= rows)
            if not batch.num_rows:
                continue
            if is_small or request.is_collected:
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

    def _uses_system_allocator(self) -> bool:
        """Tell whether decoding threads allocate from the system; see `use_system_allocator`."""
        request, settings = self._request, self._request.settings
        has_few_columns = len(request.fields) <= settings.reusing_columns
        is_even = request.filter is None or settings.reusing_filtered
        is_flat = not any(one.children for one in request.fields)
        return not (request.is_collected or (has_few_columns and is_even and is_flat))

    def _give_back_memory(self, decoded: Iterable[DecodedMorsel]) -> Iterator[DecodedMorsel]:
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
            is_uneven = self._request.settings.uneven_ratio * each.size < largest
            largest = max(0 if is_uneven else largest, each.size)
        if gave_back:
            pool.release_unused()


def _skip_and_limit(
    batches: Iterable[pa.RecordBatch], skip: int, left: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of batches after the first ones, as many as are wanted.

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
            batch = batch.slice(0, min(left, batch.num_rows))
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
