"""The answer of a version's indices to the filter of one scan, looked up at most once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from lancefs.datafile.row_ranges import count_rows
from lancefs.errors import CorruptFile
from lancefs.forks import cached_property
from lancefs.table.file_prefetch import opening_files
from lancefs.table.open_version import OpenVersion

if TYPE_CHECKING:
    from lancefs.index.counting import Count
    from lancefs.index.lookup import Answer, TableIndices
    from lancefs.index.predicates import Predicate
    from lancefs.scan.index_proof import WrongIndex
    from lancefs.scan.parsed_filters import ParsedFilter
    from lancefs.table.fragment_reader import FragmentReader

# Most rows named by indices that are tested on behalf of others: for a reader of some fragments,
# and for a planner. It is no tuning of how rows are decoded, as `ScanSettings.few_candidates` is.
MAX_TESTED_ROWS = 4096


class IndexUse:
    """Asks the indices of a version for the rows of a filter.

    Args:
        version: The version.
        parsed: The filter.
        is_part: Whether only some fragments are read, so that others may ask for the same filter.
        wanted: How many of the first rows that pass are read; None for all.

    Attributes:
        is_part: As the argument.
    """

    def __init__(
        self, version: OpenVersion, parsed: ParsedFilter, is_part: bool, wanted: int | None
    ) -> None:
        self._version = version
        self._parsed = parsed
        self.is_part = is_part
        self._wanted = wanted
        self._answer: tuple[Answer | None] | None = None  # None before it is asked for

    def for_first(self, wanted: int) -> IndexUse:
        """Return the same for a scan that reads only the first rows that pass.

        Args:
            wanted: How many.
        """
        return IndexUse(self._version, self._parsed, self.is_part, wanted)

    @property
    def answer(self) -> Answer | None:
        """What the indices say of the filter; None if they cannot be asked."""
        if self._answer is None:
            asks = not self.is_part and None not in self._indices_and_predicate
            with opening_files(self._version) if asks else nullcontext():
                self._answer = (self._ask(),)
        return self._answer[0]

    def give_up(self, error: WrongIndex) -> None:
        """Stop asking the segments that named a row that does not pass.

        Args:
            error: Says which segments did.
        """
        indices, _ = self._indices_and_predicate
        assert indices is not None
        for segment in error.claim.segments:
            indices.give_up(segment, CorruptFile(str(error)))
        self._answer = None

    def fragments_to_test(self, own: Sequence[FragmentReader]) -> Sequence[FragmentReader]:
        """Return the fragments whose named rows are tested before the first batch goes out.

        A wrong row number may name a row of a fragment that another process reads. So, where only
        some fragments are read and few rows are named, the named rows of all fragments are tested,
        once.

        Args:
            own: The fragments that are read.
        """
        indices, _ = self._indices_and_predicate
        answer = self.answer
        if not self.is_part or indices is None or answer is None or answer.candidates is None:
            return own
        if indices.is_tested(answer):
            return ()
        rows = sum(count_rows(ranges) for ranges in answer.candidates.values() if ranges)
        return self._version.readers if rows <= MAX_TESTED_ROWS else own

    def note_tested(self, fragments: Sequence[FragmentReader]) -> None:
        """Remember that the rows named in these fragments pass."""
        indices, _ = self._indices_and_predicate
        answer = self.answer
        if fragments is self._version.readers and indices is not None and answer is not None:
            indices.note_tested(answer)

    def _ask(self) -> Answer | None:
        indices, predicate = self._indices_and_predicate
        if indices is None or predicate is None:
            return None
        if not self.is_part:
            return indices.look_up(predicate, self._wanted)
        from lancefs.scan.expressions import bytes_of

        return indices.look_up_once(predicate, bytes_of(self._parsed.condition.expression))

    def count(self) -> Count | None:
        """Count the rows of the filter in the fragments that an index covers; None without one.

        Raises:
            MissingFile: A deletion file is gone.
            CorruptFile: A deletion file is damaged.
        """
        indices, predicate = self._indices_and_predicate
        if indices is None or predicate is None or self.is_part:
            return None
        from lancefs.index.counting import count_rows

        readers, positions = self._version.readers, self._version.positions
        return count_rows(indices, predicate, lambda number: readers[positions[number]])

    @cached_property
    def _indices_and_predicate(self) -> tuple[TableIndices | None, Predicate | None]:
        """The indices of the version and what they can be asked; None for what there is not."""
        if self._version.manifest.index_section is None:
            return None, None
        from lancefs.index.lookup import scalar_indices_of

        indices = scalar_indices_of(self._version)
        return (None, None) if indices is None else (indices, self._parsed.predicate)
