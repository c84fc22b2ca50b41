"""`ScanStats`: counts of what a scan did, for users and for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from lancefs.forks import Lock
from lancefs.storage.counters import ReadCounters


@dataclass(slots=True)
class ScanStats:
    """What a scan read and skipped; the counts grow while the scan runs.

    Attributes:
        rows: Rows returned.
        batches: Batches returned.
        morsels: Morsels decoded: groups of rows that are decoded together.
        rows_decoded: Rows in these morsels, deleted rows included.
        pages: Column pages decoded, in whole or in part.
        requests: Requests to a remote store; 0 for a local table.
        bytes: Bytes of data files that decoders requested.
        fragments: Fragments of which rows were decoded.
        fragments_skipped: Fragments skipped without reading their data, because the row ids or
            addresses of the filter lie in others, or because the ranges of values that earlier
            scans saw rule out all of their rows.
        rows_skipped: Rows skipped because of the ranges of values that earlier scans saw, deleted
            rows included.
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
        """Count a morsel; threads may call this at the same time.

        Args:
            fragments: Ids of their fragments.
            rows: Number of rows, deleted ones included.
            counters: What decoding them read.
        """
        with self._lock:
            self.morsels += 1
            self.rows_decoded += rows
            self._add(counters)
            self._seen.update(fragments)
            self.fragments = len(self._seen)

    def add_reads(self, counters: ReadCounters) -> None:
        """Count what was read before rows were decoded; threads may call this at the same time."""
        with self._lock:
            self._add(counters)

    def _add(self, counters: ReadCounters) -> None:
        self.pages += counters.pages
        self.requests += counters.requests
        self.bytes += counters.bytes

    def add_batch(self, rows: int) -> None:
        """Count a batch that is returned."""
        self.rows += rows
        self.batches += 1
