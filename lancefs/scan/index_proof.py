"""Proving indices: all rows that they name are tested before a scan returns its first batch.

A row that does not pass proves that the index has a wrong row number or a wrong value, and then it
may lack other rows that do pass. So a scan holds its first batches back until the named rows are
tested, and begins anew without an index that is wrong (`WrongIndex`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import spelled_out, to_arrow
from lancefs.datafile.blocks import FixedWidth, RowRange
from lancefs.datafile.buffers import Mask
from lancefs.datafile.row_ranges import count_rows
from lancefs.scan.morsels import DecodedMorsel, Morsel
from lancefs.scan.pace import Pace
from lancefs.scan.planning import ScanPlan
from lancefs.scan.request import ScanRequest
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import positions_of

if TYPE_CHECKING:
    from lancefs.index.claims import IndexClaim

# Decodes the columns of the filter, and tests them.
_Test: TypeAlias = Callable[[Iterator[Morsel], Pace], Iterable[DecodedMorsel]]


class WrongIndex(Exception):
    """An index names a row that does not pass; the scan begins anew without the index.

    Args:
        claim: What the index says.
        fragment_id: The fragment of the row.
    """

    def __init__(self, claim: IndexClaim, fragment_id: int) -> None:
        super().__init__(f"it names rows of fragment {fragment_id} that have other values")
        self.claim = claim


def check_claims(
    claims: Sequence[IndexClaim],
    fragment_id: int,
    columns: Mapping[int, pa.Array],
    passed: Mask,
) -> None:
    """Check that rows that a filter rejected pass what indices say of them.

    Args:
        claims: What indices say of all rows that they name in a fragment.
        fragment_id: The fragment.
        columns: Columns of the named rows, by field id; they may be dictionary-encoded.
        passed: Which of the named rows the filter did not reject.

    Raises:
        WrongIndex: A row does not pass.
    """
    from lancefs.index.predicates import ColumnTest, UnfitTest, evaluate

    rejected = to_arrow(FixedWidth(1, ~passed), pa.bool_(), None)

    def passing(test: ColumnTest) -> Mask:
        column = columns[test.field_id]
        values = spelled_out(column) if pa.types.is_dictionary(column.type) else column
        return test.passes(values.filter(rejected))

    for claim in claims:
        with suppress(UnfitTest):  # for a row that another part of the filter rejected
            if not np.all(evaluate(claim.predicate, passing)):
                raise WrongIndex(claim, fragment_id)


class IndexProof:
    """Tests the rows that indices name.

    Args:
        request: What the scan is to read.
        plan: Tells which rows indices name.
        test: Decodes the columns of the filter in morsels, and evaluates it.
    """

    def __init__(self, request: ScanRequest, plan: ScanPlan, test: _Test) -> None:
        self._request = request
        self._plan = plan
        self._test = test

    def candidates(self, most_tested: int) -> Mapping[int, Sequence[RowRange] | None] | None:
        """Return which rows may pass the filter, after the rows that indices name were tested.

        This is for a planner, which leaves other rows out: what a wrong index lacks would never be
        read.

        Args:
            most_tested: All rows may pass where indices name more rows than these.

        Returns:
            By fragment id, ranges of rows; None for all rows, of the fragment or of the scan.
        """
        readers = self._request.fragments
        while (found := self._plan.candidates()) is not None:
            claimed = positions_of(readers, self._plan.claimed_ends(readers).keys())
            fragments = [readers[position] for position in claimed]
            ranges = [found[one.fragment.id] or () for one in fragments]
            if sum(map(count_rows, ranges)) > most_tested:
                return None
            try:
                self._test_claims(fragments)
            except WrongIndex as error:
                assert self._request.index_use is not None
                self._request.index_use.give_up(error)
            else:
                return found
        return None

    def hold_back(
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
        request = self._request
        assert request.index_use is not None
        tested = request.index_use.fragments_to_test(fragments) if self._plan.answer else ()
        left = self._plan.claimed_ends(tested)
        held: list[DecodedMorsel] = []
        rows = size = 0
        while left and (each := next(decoded, None)) is not None:
            (fragment_id,) = each.morsel.fragment.fragment_ids[:1]
            if left.get(fragment_id, each.morsel.end + 1) <= each.morsel.end:
                del left[fragment_id]
            held.append(each._replace(mask=None) if request.is_collected else each)
            rows, size = rows + len(each.batch), size + each.held_bytes
            is_enough = wanted is not None and rows >= wanted
            if is_enough or (size > request.settings.stream_bytes and not request.is_collected):
                break
        self._test_claims([tested[position] for position in positions_of(tested, left.keys())])
        request.index_use.note_tested(tested)
        yield from held
        yield from decoded

    def _test_claims(self, fragments: Sequence[FragmentReader]) -> None:
        """Test the rows that indices name in some fragments, of which nothing else is decoded."""
        answer = self._plan.answer
        if not fragments or answer is None or answer.candidates is None:
            return
        candidates, request = answer.candidates, self._request
        settings, columns = request.settings, len(request.filter_fields)
        pace = Pace(request.batch_rows, settings.stream_bytes, columns, settings)
        morsels = (
            morsel
            for fragment in fragments
            for morsel in pace.split(
                self._plan.morsel_of(fragment, candidates[fragment.fragment.id] or [])
            )
        )
        for _ in self._test(morsels, pace):
            pass
