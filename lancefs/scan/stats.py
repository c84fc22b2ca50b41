"""What a scan did: the counts that users see and that tests hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from lancefs.forks import Lock
from lancefs.storage.counters import ReadCounters


@dataclass(slots=True)
class ScanStats:
    """What a scan read and left out; the counts grow while the scan runs.

    Attributes:
        rows: Rows that came out.
        batches: Batches that came out.
        morsels: Times that rows were decoded together.
        rows_decoded: Rows of which columns were decoded, deleted rows included.
        pages: Pages of columns that were decoded, as a whole or in part.
        requests: Requests made to a remote store; 0 for a local table.
        bytes: Bytes of data files that decoders asked for.
        fragments: Fragments of which rows were decoded.
        fragments_skipped: Fragments that were left out without a look at their data, since the row
            ids or addresses of the filter lie in others, or since no value of theirs passes, as
            far as earlier scans have seen.
        rows_skipped: Rows that were left out for what earlier scans have seen, deleted rows
            included.
    """

    rows: int = 0
    batches: int = 0
    morsels: int = 0
    rows_decoded: int = 0
    pages: int = 0
    requests: int = 0
    bytes: int = 0
    fragments: int = 0
    fragments_skipped: int = 0
    rows_skipped: int = 0
    _seen: set[int] = field(default_factory=set, repr=False, compare=False)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add_morsel(self, fragments: list[int], rows: int, counters: ReadCounters) -> None:
        """Count rows that were decoded together; threads may call it at the same time.

        Args:
            fragments: Ids of their fragments.
            rows: Number of rows, deleted ones included.
            counters: What decoding them read.
        """
        with self._lock:
            self.morsels += 1
            self.rows_decoded += rows
            self.pages += counters.pages
            self.requests += counters.requests
            self.bytes += counters.bytes
            self._seen.update(fragments)
            self.fragments = len(self._seen)

    def add_batch(self, rows: int) -> None:
        """Count a batch that came out."""
        self.rows += rows
        self.batches += 1
