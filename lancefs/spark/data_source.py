"""The data source: `spark.read.format("lancefs")`.

Spark makes the data source and plans the read in Python processes of the driver, and reads in those
of the workers. The version is pinned when the data source is made; from then on only the pin
travels, and every task opens that version again. Each of these processes imports what it runs,
where it runs it: to import all takes longer than to plan a read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from lancefs.datafile.fields import Field
from lancefs.errors import ColumnNotFound, LanceError, NotALanceTable
from lancefs.spark import catalogue
from lancefs.spark.brief_errors import brief, brief_about_options, briefly
from lancefs.spark.partitions import Span, plan, restrict_spans
from lancefs.spark.pinned_version import Pinned, open_table, pin
from lancefs.spark.shipping import Shipped, ship
from lancefs.spark.spark_types import (
    arrow_schema,
    denied_nulls,
    nullable,
    read_schema,
    spark_schema,
)
from lancefs.spark.table_options import (
    TASK_ROW_METADATA,
    Options,
    ReadOptions,
    names_table,
    parse_options,
)
from lancefs.spark.worker_garbage import freeze_modules
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import ROW_METADATA

if TYPE_CHECKING:
    import pyarrow.compute as pc

NAME = "lancefs"

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class LanceDataSource(DataSource):  # type: ignore[misc]  # pyspark may not be there to check
    """A version of a Lance table, or the versions that it gets.

    Args:
        options: Those of docs/spark.md.

    Raises:
        ValueError: An option makes no sense.
        LanceError: The table cannot be opened, as `lancefs.open` says; `schema` and the readers
            raise it for a filter that cannot be parsed.
    """

    @brief_about_options
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        freeze_modules()
        # Pinned here, and not when rows are first read: all that is done with one DataFrame
        # concerns one version. Of a table in its catalogue Spark tells only the schema, later.
        self.pinned: Pinned | None = None
        if names_table(options):
            parsed = parse_options(options)
            # Writing to a new place is refused later; reading raises this error from `schema`.
            with suppress(NotALanceTable):
                self.pinned = pin(parsed.table, open_table(parsed.table, parsed.ref))

    def __reduce__(self) -> Shipped:
        return ship(_unship_source, dict(self.options), self.pinned)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    @brief_about_options
    def schema(self) -> StructType:
        """The columns, as Spark sees them."""
        options, pinned = self._resolved(None)
        read = options.read
        chosen = read_schema(pinned.open(), read.columns, read.with_row_id)
        # As in Spark's own formats: the versions of a stream may lack a column that is never null.
        schema = nullable(spark_schema(chosen, read.nanoseconds, read.unsupported))
        if options.stream.change_feed:
            from lancefs.spark.change_feed import with_feed  # not for processes that read batches

            schema = with_feed(schema)
        return catalogue.noted(schema, self.options)

    @brief_about_options
    def reader(self, schema: StructType) -> LanceReader:
        """A reader of the pinned version, for columns that `.schema(…)` may have chosen."""
        options, pinned = self._resolved(schema)
        for name in options.stream.row_options:
            raise ValueError(
                f"{name} is for streams: spark.readStream.format('lancefs'); a batch has the rows "
                "of one version, which version, tag, branch and asOf name"
            )
        self._check(pinned, schema, options.read)
        # Up to PySpark 4.3 the DataFrame keeps what was planned with the filters of one read, and
        # any other read of it finds only those rows. So they are taken where that is asked for.
        is_taken = options.read.push_filters and _pushes_filters()
        kind = FilteringReader if is_taken else LanceReader
        return kind(pinned, options.read, schema)

    @brief_about_options
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of the versions that come."""
        from lancefs.spark.change_feed import without_feed
        from lancefs.spark.stream import stream_reader

        options, pinned = self._resolved(schema)
        self._check(pinned, without_feed(schema), options.read)
        return stream_reader(options, pinned.open(), schema)

    @brief
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Refused: nothing is ever written to a Lance table."""
        raise self._refusal()

    @brief
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Refused as well."""
        raise self._refusal()

    def _refusal(self) -> LanceError:
        given = {name.lower(): value for name, value in self.options.items()}
        where = given.get("path") or given.get("location") or "a table of the catalogue"
        return LanceError(f"{where}: lancefs only reads Lance tables; write them with pylance")

    def _check(self, pinned: Pinned, schema: StructType, read: ReadOptions) -> None:
        try:
            _check_schema(pinned.open(), schema, read)
        except (ColumnNotFound, ValueError) as error:
            if names_table(self.options):
                raise
            raise catalogue.outdated(error) from error

    def _resolved(self, schema: StructType | None) -> tuple[Options, Pinned]:
        given = dict(self.options)
        if schema is not None and not names_table(given):
            given = catalogue.options(schema, given)
        options = parse_options(given)
        pinned = self.pinned or pin(options.table, open_table(options.table, options.ref))
        if options.read.filter is not None:  # an error in the text shows before any task runs
            from lancefs.spark import filters

            filters.parse(options.read.filter, pinned.open().manifest.fields)
        return options, pinned


class LanceReader(DataSourceReader):  # type: ignore[misc]
    """Reads a version of a table.

    Args:
        pinned: The version.
        options: How rows come out.
        schema: The columns, as Spark sees them.
        pushed: Filters that Spark leaves to this reader, serialised.
    """

    def __init__(
        self, pinned: Pinned, options: ReadOptions, schema: StructType, pushed: tuple[str, ...] = ()
    ) -> None:
        self.pinned = pinned
        self.options = options
        self.columns = schema
        self.pushed = pushed

    def __reduce__(self) -> Shipped:
        return ship(LanceReader, self.pinned, self.options, self.columns, self.pushed)

    @brief
    def partitions(self) -> list[InputPartition]:
        """Cut the version into tasks: by its manifest, and by what its indices say of a filter."""
        version, read = self.pinned.open(), self.options
        filter = self._filter(version.manifest.fields)
        types = read_schema(version, self.columns.fieldNames()).types
        most, most_bytes = read.rows_per_partition, read.bytes_per_partition
        spans = plan(version.manifest.fragments, most, None, most_bytes, types)
        if filter is not None and read.use_index:
            from lancefs.lance_dataset import LanceDataset

            candidates = LanceDataset(version).scanner([], filter=filter).candidates()
            spans = restrict_spans(spans, version.manifest.fragments, candidates)
        return [InputPartition(span.astuple()) for span in spans]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a task."""
        # Of a table without rows Spark makes one partition; in 4.1 it is None itself.
        if partition is None or partition.value is None:
            return iter(())
        return briefly(self._batches(Span(*partition.value)))

    def _batches(self, span: Span) -> Iterator[pa.RecordBatch]:
        from lancefs.spark.spark_values import convert
        from lancefs.spark.task_rows import scan

        version, target = self.pinned.open(), arrow_schema(self.columns)
        names, rows = self.columns.fieldNames(), self.options.batch_rows
        filter, use_index = self._filter(version.manifest.fields), self.options.use_index
        for batch in scan(version, span, names, filter, rows, use_index=use_index):
            yield convert(batch, target, self.options.nanoseconds)

    def _filter(self, fields: Sequence[Field]) -> pc.Expression | None:
        text = self.options.filter
        if text is None and not self.pushed:
            return None
        from lancefs.spark import filters

        parts = [] if text is None else [filters.parse(text, fields)]
        return reduce(and_, parts + [filters.deserialize(pushed) for pushed in self.pushed])


class FilteringReader(LanceReader):
    """A reader that takes filters, for sessions where Spark pushes them.

    Spark refuses a reader that could take filters where it does not push them.
    """

    def pushFilters(self, filters_: list[Filter]) -> Iterable[Filter]:
        """Take the filters that can be said exactly, and return the others."""
        from lancefs.spark import filters

        schema = self.pinned.open().shown_schema
        for name in TASK_ROW_METADATA:
            schema = schema.append(ROW_METADATA[name].to_arrow())
        for one in filters_:
            said = filters.expression(one, schema)
            if said is None:
                yield one
            else:
                self.pushed = (*self.pushed, filters.serialize(said))


def _pushes_filters() -> bool:
    """Whether Spark asks for filters now: it does so in a process of a module of its own."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or getattr(main, "name", None) == _PUSHDOWN_WORKER


def _check_schema(version: OpenVersion, schema: StructType, read: ReadOptions) -> None:
    """See that `.schema(…)` says of each column what it is.

    Raises:
        ColumnNotFound: The table has no such column.
        ValueError: A column is of another type, or may be null though the schema says not.
    """
    names = schema.fieldNames()
    if not names:
        raise ValueError("no column is asked for; name at least one in the option columns")
    own = spark_schema(read_schema(version, names), read.nanoseconds, read.unsupported)
    for field, wanted in zip(own, schema, strict=True):
        is_, said = field.dataType.simpleString(), wanted.dataType.simpleString()
        if is_ != said:
            raise ValueError(
                f"column {field.name} is {is_}, the schema that was given says {said}; read it as "
                "it is and cast it in Spark"
            )
        place = denied_nulls(field, wanted)
        if place is not None:  # Spark would not look for nulls any more
            raise ValueError(
                f"column {place} may be null, the schema that was given says NOT NULL; leave that "
                "out"
            )


def _unship_source(options: dict[str, str], pinned: Pinned | None) -> LanceDataSource:
    source = LanceDataSource.__new__(LanceDataSource)
    DataSource.__init__(source, options)
    source.pinned = pinned
    return source
