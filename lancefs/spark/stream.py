"""Streaming: `spark.readStream.format("lancefs")`, the rows that versions append.

An offset is a version: all of its appended rows have been read, and those of the versions before.
Versions never change, so a micro-batch that is done again after a crash is the same again. When the
version was committed tells whether the table was written anew in the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lancefs.datafile.fields import Field
from lancefs.errors import MissingFile, RefNotFound
from lancefs.lance_dataset import LanceDataset
from lancefs.scan import expressions
from lancefs.scan.settings import BATCH_ROWS
from lancefs.spark import filters
from lancefs.spark.appends import appended, begins, new_fragments, require_same_fields
from lancefs.spark.brief_errors import brief, briefly
from lancefs.spark.change_feed import (
    cannot_be_told,
    changes,
    inserted,
    require_columns,
    require_stable_row_ids,
    shares,
    without_feed,
)
from lancefs.spark.partitions import Span, plan
from lancefs.spark.pinned_version import Pinned
from lancefs.spark.shipping import Shipped, ship
from lancefs.spark.spark_types import arrow_schema
from lancefs.spark.spark_values import convert
from lancefs.spark.table_options import Options, TableOptions
from lancefs.spark.task_rows import scan
from lancefs.storage import Store
from lancefs.table.changes import IdShare
from lancefs.table.manifest import Manifest, read_manifest
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, resolve
from lancefs.table.row_metadata import ROW_OFFSET
from lancefs.table.versions import VersionFile, list_versions

try:  # PySpark 4.2 and later
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    ReadAllAvailable = ReadMaxFiles = ReadMaxRows = SupportsTriggerAvailableNow = None

_VERSION = "version"
_COMMITTED = "committed"
_FIRST_TIME = datetime.min.replace(tzinfo=UTC)
# Manifests that are kept: of two versions to compare, and of the one that a micro-batch ends with.
_KEPT = 3
# Spark hands offsets back as it got them. Of a version that nothing was read of, and in checkpoints
# of earlier checkouts, there is no commit time.
_Offset: TypeAlias = dict[str, Any]

# What a task reads of a version: some fragments (`Span`), or its share of the changes (`IdShare`);
# of the changes all, where both are None.
_Part: TypeAlias = tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]


class LanceStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads the rows that the versions of a table append.

    Args:
        table: How the table is opened.
        branch: The branch whose versions are read.
        options: All options.
        fields: The columns that are read, which are found by their ids in every version.
        schema: The columns, as Spark sees them.
        store: The directory of the table or branch; workers do without.
    """

    def __init__(
        self,
        table: TableOptions,
        branch: str | None,
        options: Options,
        fields: tuple[Field, ...],
        schema: StructType,
        store: Store | None,
    ) -> None:
        self.table = table
        self.branch = branch
        self.options = options
        self.fields = fields
        self.columns = schema
        self.store = store
        self.target: int | None = None  # where a run over what is available now ends
        self._manifests: dict[VersionFile, Manifest] = {}

    def __reduce__(self) -> Shipped:
        of_tasks = self.table, self.branch, self.options, self.fields, self.columns, None
        return ship(StreamReader, *of_tasks)

    @brief
    def initialOffset(self) -> _Offset:
        """The version before the first one whose rows are wanted."""
        versions = self._versions()
        newest = versions[-1].version
        start, time = self.options.stream.starting_version, self.options.stream.starting_time
        if time is not None:
            self._require_past(time, versions[-1])
            return {_VERSION: self._last_before(time, versions)}
        if start is None:
            return self._offset(versions[-1])
        if start > newest + 1:
            raise RefNotFound(
                f"{self.table.url}: startingVersion is {start}, the newest version is {newest}"
            )
        if start <= newest and all(file.version != start for file in versions):
            raise self._cleaned_up(start, versions)
        return {_VERSION: start - 1}

    @brief
    def partitions(self, start: _Offset, end: _Offset) -> list[InputPartition]:
        """Cut the rows that are appended after one version, up to another, into tasks."""
        files = {file.version: file for file in self._versions()}
        self._require_same_table(start, files)
        found: list[tuple[object, ...]] = []
        for version in range(start[_VERSION] + 1, end[_VERSION] + 1):
            if version not in files:
                raise self._cleaned_up(version, list(files.values()))
            manifest = self._manifest(files[version])
            is_feed = self.options.stream.change_feed
            parts = self._changed(files, version) if is_feed else self._new(files, version)
            if parts:
                require_same_fields(self.table.url, manifest, self.fields)
            committed = manifest.timestamp.isoformat()
            found += [(version, committed, *part) for part in parts]
        return [InputPartition(value) for value in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of a task."""
        return briefly(self._batches(partition))

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        number, committed, span, share = partition.value
        version = Pinned(self.table, number, self.branch, committed).open()
        target, read = arrow_schema(self.columns), self.options.read
        names = self.columns.fieldNames()
        filter = None if read.filter is None else filters.parse(read.filter, self.fields)
        if span is None:
            table = changes(version, names, None if share is None else IdShare(*share))
            table = table if filter is None else table.filter(filter)
            batches = iter(table.to_batches(read.batch_rows or BATCH_ROWS))
        else:
            own = without_feed(self.columns).fieldNames()
            rows = read.batch_rows
            batches = scan(version, Span(*span), own, filter, rows, self.fields, read.use_index)
            if len(own) < len(names):
                batches = inserted(batches, number, version.manifest.timestamp, names)
        for batch in batches:
            yield convert(batch, target, read.nanoseconds)

    def _new(self, files: Mapping[int, VersionFile], version: int) -> list[_Part]:
        """Cut the rows that a version appended into tasks."""
        return self._spans(self._manifest(files[version]), self._appended(files, version))

    def _changed(self, files: Mapping[int, VersionFile], version: int) -> list[_Part]:
        """Cut what a version changed into tasks."""
        manifest, read = self._manifest(files[version]), self.options.read
        before = self._manifest(files[version - 1]) if version - 1 in files else None
        if before is None and not begins(self._store, files[version], manifest):
            raise cannot_be_told(self.table.url, version, f"there is no version {version - 1}")
        added, _, is_append = new_fragments(manifest, before)
        if not is_append:
            assert before is not None, "the first version only adds rows"
            found = shares(manifest, before, read.rows_per_partition, read.bytes_per_partition)
            parts: list[_Part] = [(None, None if one is None else astuple(one)) for one in found]
        else:
            parts = self._spans(manifest, added)
        if parts:
            require_columns(self.table.url, manifest, self.columns.fieldNames())
        return parts

    def _spans(self, manifest: Manifest, positions: Sequence[int]) -> list[_Part]:
        read = self.options.read
        most, most_bytes = read.rows_per_partition, read.bytes_per_partition
        spans = plan(manifest.fragments, most, positions, most_bytes)
        return [(span.astuple(), None) for span in spans]

    def _appended(self, files: Mapping[int, VersionFile], version: int) -> list[int]:
        """Return the positions of the fragments whose rows a version appended."""
        before = files.get(version - 1)
        return appended(
            self._store,
            files[version],
            self._manifest(files[version]),
            None if before is None else self._manifest(before),
            self.options.stream.skip_changes,
        )

    def _latest(self, start: _Offset, is_limited: bool) -> _Offset:
        files = {file.version: file for file in self._versions()}
        newest = max(files)
        if newest < start[_VERSION]:
            raise self._made_anew(start, f"its newest version is {newest} now")
        if self.target is not None:
            newest = min(newest, self.target)
        limits = self.options.stream
        if is_limited and limits.max_versions is not None:
            newest = min(newest, start[_VERSION] + limits.max_versions)
        if is_limited and limits.max_rows is not None:
            newest = self._until_enough_rows(start[_VERSION], newest, limits.max_rows)
        if newest <= start[_VERSION]:
            return start
        if newest not in files:
            raise self._cleaned_up(newest, list(files.values()))
        return self._offset(files[newest])

    def _offset(self, file: VersionFile) -> _Offset:
        return {
            _VERSION: file.version,
            _COMMITTED: self._manifest(file).timestamp.isoformat(),
        }

    def _require_same_table(self, start: _Offset, files: Mapping[int, VersionFile]) -> None:
        """See that the version up to which rows were read is the one that is there.

        Raises:
            MissingFile: Another table stands in its place.
        """
        file, committed = files.get(start[_VERSION]), start.get(_COMMITTED)
        if file is None or committed is None:
            return
        now = self._manifest(file).timestamp.isoformat()
        if now != committed:
            raise self._made_anew(
                start, f"that version is from {now} now, and was from {committed}"
            )

    def _until_enough_rows(self, start: int, newest: int, most: int) -> int:
        """Return the last version up to which no more than so many rows were appended."""
        files = {file.version: file for file in self._versions()}
        rows = 0
        for version in range(start + 1, newest + 1):
            if version not in files:
                raise self._cleaned_up(version, list(files.values()))
            fragments = self._manifest(files[version]).fragments
            new = self._appended(files, version)
            rows += sum(fragments[position].physical_rows or 0 for position in new)
            if rows > most:
                return max(version - 1, start + 1)
        return newest

    def _last_before(self, time: datetime, versions: Sequence[VersionFile]) -> int:
        """Return the newest version that was committed before a time; the one before all others."""
        if time <= _FIRST_TIME:
            return versions[0].version - 1
        earlier = Ref(as_of=time - timedelta(microseconds=1))
        try:  # the store is the directory of the branch
            return resolve(self._store, earlier).file.version
        except RefNotFound:
            return versions[0].version - 1

    def _require_past(self, time: datetime, newest: VersionFile) -> None:
        """Refuse a time that is to come: versions of until then would be read, too.

        Raises:
            ValueError: It is to come.
        """
        now = datetime.now(UTC)
        if time > max(now, self._manifest(newest).timestamp):
            raise ValueError(
                f"startingTimestamp is {time.isoformat()}, and it is {now.isoformat()} now: name a "
                "time that has come, with its zone unless it is in UTC; without startingTimestamp "
                "the stream starts with the next version"
            )

    @property
    def _store(self) -> Store:
        assert self.store is not None, "only the driver looks for versions"
        return self.store

    def _versions(self) -> Sequence[VersionFile]:
        return list_versions(self._store)

    def _manifest(self, file: VersionFile) -> Manifest:
        """Read a manifest; the last ones are kept, as each is needed twice."""
        known = self._manifests.get(file)
        if known is None:
            known = read_manifest(self._store.uncached.file(file.path, file.size))
            self._manifests[file] = known
            for old in sorted(self._manifests, key=lambda one: one.version)[:-_KEPT]:
                del self._manifests[old]
        return known

    def _made_anew(self, start: _Offset, what: str) -> MissingFile:
        return MissingFile(
            f"{self.table.url}: the stream has read up to version {start[_VERSION]}, but {what}: "
            "the table was written anew. Start a new stream with a new checkpoint"
        )

    def _cleaned_up(
        self, version: int, versions: Sequence[VersionFile]
    ) -> MissingFile | RefNotFound:
        oldest, newest = versions[0], versions[-1]
        if version < oldest.version and begins(self._store, oldest, self._manifest(oldest)):
            return RefNotFound(
                f"{self._store.url()}: there never was a version {version}; the branch or clone "
                f"begins with version {oldest.version}, where a stream finds the rows that it had "
                f"then (startingVersion = {oldest.version})"
            )
        return MissingFile(
            f"{self.table.url}: version {version}, where the stream goes on, was cleaned up; the "
            f"table has {oldest.version} to {newest.version}. Read a whole version "
            "in a batch and start a new stream (with a new checkpoint) at the version after it, "
            "and let clean-ups keep what streams have not read yet"
        )


if ReadMaxFiles is None:

    class StreamReader(LanceStreamReader):
        """For PySpark 4.1, which does not say where a micro-batch begins when it asks for its end.

        It begins where the last one ended, for which Spark has asked for the tasks. After a restart
        Spark asks for those from the last offset of the checkpoint up to itself, before all else
        (`setLatestSeenOffset` of its `PythonMicroBatchStream`).
        """

        first: _Offset | None = None  # where the stream begins
        reached: _Offset | None = None  # where the last micro-batch ended

        @brief
        def initialOffset(self) -> _Offset:
            """The version before the first one whose rows are wanted; the same at each call."""
            if self.first is None:
                self.first = super().initialOffset()
            return self.first

        @brief
        def latestOffset(self) -> _Offset:
            """The last version of the next micro-batch."""
            return self._latest(self.reached or self.initialOffset(), is_limited=True)

        @brief
        def partitions(self, start: _Offset, end: _Offset) -> list[InputPartition]:
            """Cut a micro-batch into tasks; the next one begins at its end."""
            self.reached = end
            return super().partitions(start, end)

else:

    class StreamReader(LanceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc,no-redef]
        """For PySpark 4.2 and later."""

        def getDefaultReadLimit(self) -> Any:
            """The limit of a micro-batch; among Spark's kinds, files come closest to versions."""
            limits = self.options.stream
            if limits.max_versions is not None:
                return ReadMaxFiles(limits.max_versions)
            if limits.max_rows is not None:
                return ReadMaxRows(limits.max_rows)
            return super().getDefaultReadLimit()

        @brief
        def latestOffset(self, start: _Offset, limit: Any) -> _Offset:
            """The last version of the next micro-batch."""
            return self._latest(start, not isinstance(limit, ReadAllAvailable))

        @brief
        def reportLatestOffset(self) -> _Offset:
            """The newest version."""
            return {_VERSION: self._versions()[-1].version}

        @brief
        def prepareForTriggerAvailableNow(self) -> None:
            """Remember the newest version, at which this run ends."""
            self.target = self._versions()[-1].version


def stream_reader(options: Options, newest: OpenVersion, schema: StructType) -> StreamReader:
    """Return a reader of the versions of a table.

    Args:
        options: All options.
        newest: The newest version, whose columns the stream has.
        schema: The columns, as Spark sees them.

    Raises:
        ValueError: An option makes no sense for a stream.
        UnsupportedFeature: The change feed is asked for, and the table has no stable row ids.
    """
    ref, wanted = options.ref, options.stream
    if ref.version is not None or ref.tag is not None or ref.as_of is not None:
        raise ValueError(
            "a stream reads the versions that come: it takes branch, but not version, tag or asOf; "
            "startingVersion says where it starts"
        )
    if wanted.max_rows is not None and wanted.change_feed:
        raise ValueError(
            "maxRowsPerTrigger cannot be told of a change feed before it is read; limit it by "
            "maxVersionsPerTrigger"
        )
    if wanted.change_feed:
        require_stable_row_ids(LanceDataset(newest))
    names = without_feed(schema).fieldNames()
    if ROW_OFFSET.name in names:
        raise ValueError(f"{ROW_OFFSET.name} differs between the versions that a stream reads")
    if options.read.filter is not None:
        known = LanceDataset(newest).schema.names
        filter = filters.parse(options.read.filter, newest.manifest.fields)
        names += expressions.columns_of(filter, known)
    fields = tuple(field for field in newest.manifest.fields if field.name in names)
    where = newest.resolved
    return StreamReader(options.table, where.branch, options, fields, schema, where.store)
