"""`ScanSettings`: the tuning parameters of a scan, each with its trade-off."""

from __future__ import annotations

from typing import NamedTuple

from lancefs.arguments import check_number
from lancefs.datafile.fields import Blobs

# Rows of a batch, unless the caller says otherwise.
BATCH_ROWS = 64 * 1024
# Mapped bytes of files that a stream leaves in memory. To give them back, and to bring them in
# again, takes time.
STREAM_MAPPED_BYTES = 8 * 1024 * 1024
# Morsels that fit into the memory of a scan: see `stream_bytes`. Their values may turn out to have
# twice the bytes of a morsel.
MORSELS = 8
# For an engine, see `for_engine`: bytes of a morsel for each column, and at most.
_ENGINE_COLUMN_BYTES, _ENGINE_BYTES = 8 * 1024 * 1024, 48 * 1024 * 1024
_ENGINE_COLUMNS = 64
# An engine runs many queries: what one of them mapped and allocated is used by the next.
_ENGINE_UNEVEN_RATIO = 16
_ENGINE_MAPPED_BYTES = 256 * 1024 * 1024
# It computes with one batch while threads decode the next ones.
_ENGINE_INLINE_SECONDS = 0.002


class ScanSettings(NamedTuple):
    """What a scan trades: memory against speed, threads against their overhead.

    Attributes:
        batch_rows: Rows of a batch: longer ones cost less Python each, shorter ones less memory.
        blob_batch_rows: Rows of a batch with the bytes of blobs, each of which may be megabytes.
        stream_bytes: Decoded bytes of a morsel of a stream. With two threads five morsels are in
            memory: two being decoded, what decoding them takes, and the one being consumed.
        table_bytes: Decoded bytes of a morsel where all rows are kept anyway, as in `to_table`.
        first_bytes: Decoded bytes of the first morsel where all rows are kept, if these are more
            rows than a batch: it is decoded before threads start.
        table_run_rows: Rows of small fragments that are decoded as one where all rows are kept; a
            stream decodes a batch of them.
        first_run_rows: Rows of the first of these that a stream decodes, which may be all that is
            wanted.
        longest_morsel_rows: Rows of a morsel at most, however short they are.
        inline_seconds: A scan decodes in the consumer's thread for this long. Threads slow down
            scans that are shorter.
        short_inline_seconds: The same for a scan that ends at the first rows that pass a filter.
            When these are found, threads still decode others, which are waited for.
        starts_in_threads: Whether threads decode the first morsel as well: the consumer needs all
            rows, and they are many.
        thread_batches: A morsel that is the last one is shared by threads if each gets so many
            batches of a column, or more.
        remote_prefetch: Morsels, or fragments that rows are taken from, of a remote table whose
            requests are under way at once. More hide more latency and hold more memory.
        tiny_rows: A morsel of no more rows is decoded without a thread where its bytes are few too:
            it takes mostly Python's time, which threads only slow down.
        tiny_bytes: Decoded bytes of such a morsel, at most.
        tiny_column_bytes: Decoded bytes for each column of such a morsel, where there are many.
        short_morsel_rows: Morsels that long rows make shorter than this spend most of their time in
            Python, so that they may have more bytes than the budget.
        short_column_bytes: Bytes for each column below which a morsel spends most of its time so.
        estimate_tolerance: An estimate is corrected once a morsel has this many times fewer bytes.
        retry_divisor: A morsel whose values turn out too large is cut to this fraction of its rows.
        mapped_columns: Columns that a stream decodes before it gives mapped bytes of files back: to
            read a little of a column may map a megabyte.
        filtered_columns: Columns that a filtered stream decodes at a time, at least; otherwise a
            quarter of all columns.
        sparse_share: Late materialization (see `materialization`): if a filter selects a smaller
            share of rows, the other columns are decoded for these rows alone, unless they are
            scattered.
        few_share: The same share where strings or lists are read, and at most `few_candidates` rows
            of each local fragment are selected: kernels find such rows, however scattered, faster
            than they copy all values.
        together_share: The same share where selected rows lie in ranges of more than
            `together_rows` on average.
        together_rows: See `together_share`; pages are decoded in chunks of some thousand rows.
        by_item_share: If a filter selects a smaller share of rows, numbers with dictionaries are
            looked up for these alone. The kernel that reads all of them looks them up at once.
        zipped_share: If a filter selects a smaller share of rows, strings in full-zip pages are
            read for these alone, since each is found without the others.
        rows_per_range: Decoding a separate range of rows costs about as much as this many rows.
        long_text_bytes: Strings of so many bytes or more on average, by the estimate, take so long
            that below `sparse_share` they are decoded alone though they are scattered.
        few_candidates: Up to this many candidates of a fragment are one morsel, whose columns are
            all decoded in one round: most candidates pass.
        dictionary_rows: Morsels with fewer rows look up all values of dictionary pages: that is
            faster than to find the pages without selected rows.
        reusing_columns: A stream of so few flat columns allocates few sizes of blocks, which
            Arrow's allocator uses again quicker than the system's allocator does.
        reusing_filtered: Whether it uses them again where a filter makes blocks uneven, too: that
            takes up to 40 MB more.
        uneven_ratio: After a morsel with this many times fewer bytes than an earlier one, the
            allocator gives free memory back to the system.
        table_mapped_bytes: Mapped bytes of files that `to_table` leaves in memory.
        stream_mapped_bytes: Mapped bytes of files that a stream leaves in memory.
        max_memory: Bytes that a read may expand to, and that `to_table` may keep. More is refused
            with `MemoryLimitExceeded`. None for the default: only data that expands to many times
            its size in the file is limited, and what `to_table` keeps is not.
    """

    batch_rows: int = BATCH_ROWS
    blob_batch_rows: int = 256
    stream_bytes: int = 64 * 1024 * 1024 // 5
    table_bytes: int = 192 * 1024 * 1024
    first_bytes: int = 8 * 1024 * 1024
    table_run_rows: int = 256 * 1024
    first_run_rows: int = 2 * 1024
    longest_morsel_rows: int = 1024 * 1024
    inline_seconds: float = 0.005
    short_inline_seconds: float = 0.02
    starts_in_threads: bool = False
    thread_batches: int = 4
    remote_prefetch: int = 32
    tiny_rows: int = 32 * 1024
    tiny_bytes: int = 1024 * 1024
    tiny_column_bytes: int = 384 * 1024
    short_morsel_rows: int = 16 * 1024
    short_column_bytes: int = 128 * 1024
    estimate_tolerance: int = 2
    retry_divisor: int = 4
    mapped_columns: int = 32
    filtered_columns: int = 8
    sparse_share: float = 1 / 16
    few_share: float = 1 / 5
    together_share: float = 1 / 2
    together_rows: int = 8192
    by_item_share: float = 1 / 8
    zipped_share: float = 3 / 5
    rows_per_range: int = 32
    long_text_bytes: int = 24
    few_candidates: int = 4096
    dictionary_rows: int = 32 * 1024
    reusing_columns: int = 2
    reusing_filtered: bool = False
    uneven_ratio: int = 2
    table_mapped_bytes: int = 192 * 1024 * 1024
    stream_mapped_bytes: int = STREAM_MAPPED_BYTES
    max_memory: int | None = None

    def rows_of_batches(self, blobs: Blobs) -> int:
        """Return how many rows a batch has, unless the caller says otherwise.

        Args:
            blobs: What blob columns contain.
        """
        return self.batch_rows if blobs == "descriptors" else self.blob_batch_rows

    def with_max_memory(self, max_memory: int | None) -> ScanSettings:
        """Return the settings of a scan that takes about so much memory at most.

        Args:
            max_memory: Bytes; None for no other limit than these settings have.

        Raises:
            TypeError: It is no whole number.
            ValueError: It is not positive.
        """
        if max_memory is None:
            return self
        check_number("max_memory", max_memory, least=1)
        part = max(max_memory // MORSELS, 1)
        return self._replace(
            max_memory=max_memory,
            stream_bytes=min(self.stream_bytes, part),
            table_bytes=min(self.table_bytes, part),
        )

    def for_engine(self, columns: int, is_long: bool) -> ScanSettings:
        """Return the settings of a scan for an engine that has its own, larger budget of memory.

        Longer morsels of several columns cost less Python each; those of few columns are long
        enough, and would leave the caches of processors. Arrow's allocator and mapped files are
        used again.

        Args:
            columns: How many columns are read.
            is_long: Whether the engine is likely to read so many rows that threads pay from the
                first one on.
        """
        if self.max_memory is not None:
            return self
        return self._replace(
            stream_bytes=max(self.stream_bytes, min(_ENGINE_COLUMN_BYTES * columns, _ENGINE_BYTES)),
            reusing_columns=_ENGINE_COLUMNS,
            reusing_filtered=True,
            stream_mapped_bytes=_ENGINE_MAPPED_BYTES,
            uneven_ratio=_ENGINE_UNEVEN_RATIO,
            inline_seconds=_ENGINE_INLINE_SECONDS,
            starts_in_threads=is_long,
        )


# What scans use unless they are given other settings.
DEFAULT = ScanSettings()


def default_settings() -> ScanSettings:
    """Return the settings of scans that are given none."""
    return DEFAULT
