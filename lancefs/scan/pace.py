"""Choosing how many rows a scan decodes together, so that they fill a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lancefs.datafile.fields import Field
from lancefs.scan.morsels import DecodedMorsel, Morsel
from lancefs.scan.settings import ScanSettings

_CHUNK = 1024  # rows that are mostly stored together
# How many times as many rows as the last morsel the next one may have; and where few rows are
# wanted that pass a filter: what is decoded behind the last of them is wasted.
GROWTH, SHORT_GROWTH = 4, 2


class Pace:
    """Chooses the length of morsels.

    Before a morsel is decoded its bytes are estimated from the descriptions of its pages; after it
    was decoded its real bytes correct the estimate and the length of the next morsels.

    Args:
        batch_rows: Rows of the first morsel, if nothing else is said. Others have a multiple of it,
            half of it, or fewer rows where half of it has clearly more bytes than the budget.
        budget: Decoded bytes of a morsel.
        columns: Number of columns that are read.
        settings: What the scan is tuned by.
        first_rows: Rows of the first morsel, if it has more than `batch_rows`.
        growth: How many times as many rows as the last morsel the next one may have.
    """

    def __init__(
        self,
        batch_rows: int,
        budget: int,
        columns: int,
        settings: ScanSettings,
        first_rows: int = 0,
        growth: int = GROWTH,
    ) -> None:
        self._unit = batch_rows
        self._budget = budget
        self._columns = columns
        self._settings = settings
        self._growth = growth
        self.rows = max(self._round(first_rows), batch_rows) if first_rows else batch_rows
        self._last_bytes = 0  # of the last morsel
        # The factor by which dictionary values have fewer bytes than estimated. Pages
        # do not record how often a value occurs; the estimate assumes that all occur equally often.
        self._correction = 1.0

    @property
    def largest(self) -> int:
        """Bytes that a morsel may have where the sizes of values are only known while decoding."""
        return 2 * self._budget

    def learn(self, decoded: DecodedMorsel) -> None:
        """Choose the length of the next morsels by the bytes that a morsel really had."""
        morsel, size = decoded.morsel, max(decoded.size, 1)
        self._last_bytes = decoded.size
        if morsel.estimated_bytes:
            excess = morsel.estimated_bytes / (self._settings.estimate_tolerance * size)
            self._correction = max(1, min(excess, 4 * self._correction))
        if morsel.rows:
            fitting = int(self._budget * morsel.rows / size)
            longest = min(self._settings.longest_morsel_rows, self._growth * self.rows)
            self.rows = self._round(min(fitting, longest))
            if morsel.max_rows is not None:
                # A morsel that is planned longer than it can be is decoded piece by piece.
                self.rows = min(self.rows, morsel.max_rows)

    def split(self, morsel: Morsel) -> Iterator[Morsel]:
        """Yield the parts of a morsel that are decoded one by one and hold candidates."""
        return _parts(morsel, self._even_length)

    def _even_length(self, rows: int) -> int:
        """Return the length of morsels that share rows about equally."""
        return min(_length(rows, -(-rows // self.rows), self._unit), self.rows)

    def share(self, morsel: Morsel, threads: int) -> Iterator[Morsel]:
        """Yield the parts of the last morsel of a scan, which threads decode together."""
        settings = self._settings
        values = morsel.count_candidates() * self._columns
        worth = values // (settings.thread_batches * settings.batch_rows)
        length = _length(morsel.rows, max(min(threads, worth), 1), settings.batch_rows)
        return _parts(morsel, lambda rows: length)

    def is_tiny(self, morsel: Morsel) -> bool:
        """Tell whether a morsel is decoded quicker without a thread, as far as is known."""
        settings = self._settings
        # The rest of a morsel that was cut is cut as well.
        rows = min(morsel.count_candidates(), self.rows)
        most = max(settings.tiny_bytes, settings.tiny_column_bytes * self._columns)
        return rows <= settings.tiny_rows and self._last_bytes <= most

    def fit(self, morsel: Morsel, fields: Sequence[Field], share: float = 1) -> Morsel:
        """Return a morsel, or its beginning where the whole has too many bytes.

        Args:
            morsel: The morsel.
            fields: The columns that are read of its rows.
            share: Share of the rows that are read.
        """
        if morsel.has_few_candidates:
            return morsel
        if morsel.rows > self.rows + self.rows // 8:  # a few rows are no morsel of their own
            morsel = morsel.head(self.rows)
        sizes = morsel.fragment.row_sizes(fields) if share else None
        if sizes is None:
            return morsel
        fitting = sizes.rows_within(morsel.start, self._budget / share, self._correction)
        if fitting < morsel.fragment.physical_rows - morsel.start:
            rows = self._round(fitting)
            if fitting < morsel.rows:
                morsel = morsel.head(rows)
            morsel = morsel.limit(rows)
        estimate = share * sizes.bytes_of(morsel.start, morsel.end)
        return morsel._replace(estimated_bytes=estimate)

    def _round(self, rows: int) -> int:
        """Return whole batches, half a batch, or fewer rows where a half batch is too long."""
        # A little more than the budget is better than morsels of another length.
        for unit in (self._unit, max(self._unit // 2, 1)):
            if 8 * rows >= 5 * unit:
                return max((rows + rows // 16) // unit, 1) * unit
        # Decoding long values takes more memory than the values have. Where many columns make rows
        # long, one morsel is decoded at a time, which may have more bytes.
        settings = self._settings
        longer = self._columns * settings.short_column_bytes / self._budget
        longest = int(rows * min(max(longer, 0.5), 2))
        rows = min(longest, max(rows, settings.short_morsel_rows))
        return rows // _CHUNK * _CHUNK if rows > _CHUNK else max(rows, 1)


def _parts(morsel: Morsel, length_for: Callable[[int], int]) -> Iterator[Morsel]:
    """Yield the parts of a morsel that hold candidates; their length is asked for one by one."""
    if morsel.has_few_candidates:
        if morsel.rows:
            yield morsel
        return
    while morsel.rows:
        part = morsel.head(length_for(morsel.rows))
        morsel = morsel._replace(start=part.end)
        part = part.trim()
        if part.rows:
            yield part


def _length(rows: int, parts: int, unit: int) -> int:
    """Return the number of rows of the longest of equal parts, a multiple of a unit of rows."""
    return -(-rows // (parts * unit)) * unit
