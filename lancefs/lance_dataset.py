"""`LanceDataset`: one version of a table as a `pyarrow.dataset.Dataset`; see `lancefs.open`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Never, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from lancefs import other_names
from lancefs.arguments import check_number
from lancefs.arrow_guard import GuardedDataset
from lancefs.datafile.fields import Blobs
from lancefs.errors import ColumnNotFound
from lancefs.forks import cached_property
from lancefs.other_names import OtherNames
from lancefs.scan.projection import Columns
from lancefs.scan.reading_methods import ReadingMethods
from lancefs.scan.row_numbers import RowNumbers
from lancefs.scan.scanner import Filter, LanceScanner, ScanOptions
from lancefs.search.search_methods import SearchMethods
from lancefs.table.dictionary_columns import ENCODED
from lancefs.table.fragments import Fragment
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref
from lancefs.table.row_metadata import ROW_ID, ROW_METADATA, ROW_OFFSET
from lancefs.table.schema import UNSUPPORTED, shown_schema
from lancefs.table.stored_dictionaries import is_encodable
from lancefs.table.version_methods import VersionMethods

if TYPE_CHECKING:
    from lancefs.profile.profiles import TableProfile
    from lancefs.scan.shards import Shards


class LanceDataset(OtherNames, ReadingMethods, SearchMethods, VersionMethods, GuardedDataset):
    """One version of a Lance table.

    It works wherever the methods of a `pyarrow.dataset.Dataset` are called, with projections and
    filters pushed down. A dataset never changes; a newer version is another object.

    pyarrow functions that scan a dataset in C++ (`Scanner.from_dataset`, acero's scan node,
    `UnionDataset`) cannot read it: they raise a `TypeError` that says what to call instead. To
    pyarrow's C++ the object is a union with one child, which refuses to be read.

    Args:
        version: The open version.
        more: Names of row metadata columns and of struct members to append to the columns of the
            table.
        filters: The dataset consists of the rows for which all of these filters are true.
        use_index: Whether filters may be looked up in the indices of the table.
    """

    _MEANT = other_names.DATASET

    def __init__(
        self,
        version: OpenVersion,
        more: Sequence[str] = (),
        filters: Sequence[Filter] = (),
        use_index: bool = True,
    ) -> None:
        given: object = version
        if not isinstance(given, OpenVersion):
            raise TypeError("LanceDataset is what lancefs.open(url) returns; call that")
        super().__init__()
        self._version = version
        self._columns = (*version.fields, *map(version.column, more))
        # Kept as given, for pickling: the expression parsed from a text may call functions that are
        # registered in this process only.
        self._filters = tuple(filters)
        self._use_index = use_index

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceDataset, (self._version, self._more, self._filters, self._use_index)

    def __repr__(self) -> str:
        from lancefs.showing import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from lancefs.showing import as_html

        return as_html(self)

    def _meant(self, name: str) -> str | None:
        is_column = any(one.name == name for one in vars(self).get("_columns", ()))
        if is_column and not hasattr(type(self), name):  # else a property raised
            return f"to_table(columns=[{name!r}]) reads the column"
        return super()._meant(name)

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same version of a table with the same columns and filters."""
        if not isinstance(other, LanceDataset):
            return NotImplemented
        return self is other or (
            self._identity == other._identity
            and (self.is_local or self._version.resolved.root.fs == other._version.resolved.root.fs)
            and len(self._filters) == len(other._filters)
            and all(map(_same_filter, self._filters, other._filters))
        )

    def __hash__(self) -> int:
        return hash(self._identity)

    def __len__(self) -> int:
        """Return the number of rows; without a filter only the manifest is read."""
        return self.count_rows()

    def __bool__(self) -> bool:
        """Return True, also for a dataset without rows."""
        return True

    def _derived(
        self,
        *,
        version: OpenVersion | None = None,
        more: Sequence[str] | None = None,
        filters: Sequence[Filter] | None = None,
    ) -> LanceDataset:
        """Return a copy of this dataset in which the given parts are replaced."""
        return LanceDataset(
            self._version if version is None else version,
            self._more if more is None else more,
            self._filters if filters is None else filters,
            self._use_index,
        )

    # What the table is

    @property
    def _identity(self) -> tuple[Any, ...]:
        """What datasets are compared by; a table that was recreated has another commit time."""
        manifest, columns = self._version.manifest, tuple(field.name for field in self._columns)
        unmerged = tuple(self.unmerged_generations()) if self.is_fresh else ()
        place = self._version.resolved.root.url(), self.is_local, self.branch
        return *place, manifest.version, manifest.timestamp, columns, unmerged

    @property
    def _more(self) -> list[str]:
        """The names of the columns that are appended to those of the table."""
        return [field.name for field in self._columns[len(self._version.fields) :]]

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return len(self), len(self._columns)

    @property
    def is_filtered(self) -> bool:
        """Whether the dataset has only those rows of the version that `filter` kept."""
        return bool(self._filters)

    @property
    def opened(self) -> OpenVersion:
        """The open version behind the dataset: its files, and the readers of its fragments."""
        return self._version

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the rows, as scans return them.

        A column whose type this release does not know has type null, and cannot be read.
        """
        if len(self._columns) == len(self._version.fields):
            return self._version.shown_schema
        return shown_schema(self._columns, self._version.manifest.schema_metadata)

    def checkout(self, ref: Ref | str | int) -> LanceDataset:
        """Return another version of the table as a dataset, with the same filters and columns.

        Args:
            ref: The version: a number on the same branch, or a ref such as `prod`, `exp:3` or
                `main:3`.

        Raises:
            RefNotFound: There is no such version.
            ValueError: `ref` is not a ref.
        """
        return self._derived(version=self._version.at(ref))

    def with_row_metadata(self, *names: str) -> LanceDataset:
        """Return the same version with row metadata as further columns of its schema.

        This is for engines that can name the columns of the schema only; `scanner` takes the names
        of row metadata without it.

        Args:
            *names: Any of `_rowid` (the default), `_rowaddr`, `_rowoffset`,
                `_row_created_at_version` and `_row_last_updated_at_version`.

        Raises:
            ColumnNotFound: There is no row metadata of this name.
        """
        unknown = [name for name in names if name not in ROW_METADATA]
        if unknown:
            raise ColumnNotFound(f"{unknown[0]!r} is none of {', '.join(ROW_METADATA)}")
        wanted = names or (ROW_ID.name,)
        self._version.refuse_if_fresh(wanted[0])
        members = [name for name in self._more if name not in ROW_METADATA]
        return self._derived(more=[*wanted, *members])

    def with_members(self, *names: str) -> LanceDataset:
        """Return the same version with members of structs as further columns of its schema.

        This is for engines that can name the columns of the schema only, and would read whole
        structs: such a column reads the pages of the member alone. `columns=["user.age"]` of
        `scanner` does so without it.

        Args:
            *names: The path of each member, which becomes the name of the column: `user.age`.

        Raises:
            ColumnNotFound: There is no such member.
            ValueError: The table has a column of this name.
        """
        taken = [name for name in names if name in self._version.named_fields]
        if taken:
            raise ValueError(f"{taken[0]!r} is a column of {self._version.name}, not a member")
        more = dict.fromkeys([*self._more, *names])
        return self._derived(more=[*more])

    def without_indices(self) -> LanceDataset:
        """Return a dataset of the same version that looks up no filter in the table's indices."""
        return LanceDataset(self._version, self._more, self._filters, use_index=False)

    def describe(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        sample: int | None = None,
        seed: int | None = None,
        on_rows: Callable[[int], None] | None = None,
    ) -> TableProfile:
        """Profile the values of each column in one pass over the rows.

        The profile has nulls, distinct values, minimum and maximum, mean, standard deviation,
        quantiles, a histogram, frequent values, lengths of strings and lists, and norms of vectors.
        Members of structs are profiled as columns. Memory is bounded, whatever the number of rows:
        for more than 131,072 rows, quantiles and histograms come from a sample of that size; more
        than 16,384 distinct values are estimated, with an error of about 1 %; the frequencies of
        more than 10,000 distinct values are estimated from the sample. Tables of more than a
        hundred columns have lower limits. The profile says which numbers are exact.

        Args:
            columns: As for `scanner`; all columns of known types by default.
            filter: As for `scanner`.
            sample: Read only this many rows, drawn at random.
            seed: For `sample`: the same seed draws the same rows of a version.
            on_rows: Called after each batch with the number of its rows; not for a `sample`.

        Raises:
            ColumnNotFound: A column is not in the table.
            LanceError: The rows cannot be read.
            TypeError: `sample` or `seed` is no whole number.
            ValueError: `sample` is not positive, or `seed` is negative.
        """
        from lancefs.profile.describing import ROWS_AT_ONCE, describe

        if sample is not None:
            check_number("sample", sample, least=1)
        if seed is not None:
            check_number("seed", seed)
        unread: list[pa.Field] = []
        if columns is None:
            unread = [one for one in self.schema if UNSUPPORTED in (one.metadata or {})]
            columns = [one.name for one in self.schema if one not in unread]
        scanner = self.scanner(columns=columns, filter=filter)
        name = self._version.name
        if sample is not None:
            total, drawn = scanner.count_rows(), scanner.sample(sample, seed)
            batches = drawn.to_batches(max_chunksize=ROWS_AT_ONCE)
            return describe(drawn.schema, batches, name, total, unread)
        return describe(scanner.projected_schema, scanner.to_batches(), name, None, unread, on_rows)

    # Reading

    def scanner(
        self,
        columns: Columns | None = None,
        filter: Filter | None = None,
        *,
        batch_size: int | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blobs: Blobs = "descriptors",
        dictionary_columns: Collection[str] = (),
        validity_columns: Collection[str] = (),
        decimal64_columns: Collection[str] = (),
        fragments: Iterable[Any] | None = None,
        max_memory: int | None = None,
        use_index: bool = True,
        batch_readahead: int | None = None,
        fragment_readahead: int | None = None,
        fragment_scan_options: Any = None,
        use_threads: bool = True,
        cache_metadata: bool = True,
        memory_pool: Any = None,
        **unknown: Never,
    ) -> LanceScanner:
        """Return a scanner for some columns and rows; nothing is read yet.

        Columns and filters may also name the row metadata `_rowid`, `_rowaddr`, `_rowoffset`,
        `_row_created_at_version` and `_row_last_updated_at_version`.

        Args:
            columns: Names of columns, in the order wanted, or a dict of new names and expressions;
                all columns by default. `user.age` is a member of a struct, read without the other
                members; the result has a column `user.age`.
            filter: Keep the rows for which it is true: SQL text, such as
                `"price > 3 AND city IN ('Lyon', 'Oslo')"`, or an expression of `pyarrow.compute`.
            batch_size: Maximal number of rows of a batch.
            limit: Maximal number of rows.
            offset: Number of rows to skip, counted after the filter.
            with_row_id: Whether to add the column `_rowid`.
            with_row_address: Whether to add the column `_rowaddr`.
            blobs: What blob columns contain: `descriptors` (where the bytes are) or `bytes`. Blobs
                outside of the table are read only where `BaseRules.external_blobs` allows it.
            dictionary_columns: Columns of strings, or of lists of strings, to return with their
                strings dictionary-encoded; members of structs by their paths. If the data files
                store dictionaries (see the property `dictionary_columns`), no strings are
                materialized.
            validity_columns: Columns to return as booleans, true for a value and null for a missing
                one. Most values are not decoded, and pages without nulls are not read.
            decimal64_columns: Decimal columns of up to 18 digits to return as `decimal64`; needs
                pyarrow 19.
            fragments: Fragments to read, in this order: ids, or objects of `get_fragments`.
            max_memory: Bytes of memory that a read may take: for decoding, and for what `to_table`
                and `take` return. The default is that of `lancefs.open`; if there is none either,
                only data that expands to many times its size in the file is limited.
            use_index: Whether the filter may be looked up in the indices of the table. The rows
                are the same either way; see `LanceScanner.explain`.
            batch_readahead: Without effect, like all that follow: hints for pyarrow's own scanner.
            fragment_readahead: As above.
            fragment_scan_options: As above.
            use_threads: As above.
            cache_metadata: As above.
            memory_pool: As above.
            **unknown: There are no others.

        Raises:
            ColumnNotFound: A column is not in the table.
            InvalidFilter: The text of the filter cannot be parsed.
            TypeError: An argument is of another type than described here.
            ValueError: A number is negative, or a fragment is not in the version.
        """
        for name in unknown:
            known = ("columns", "filter", *ScanOptions.__annotations__)
            other_names.refuse_argument("LanceDataset.scanner", name, other_names.READING, known)
        return LanceScanner(
            self._version,
            self._columns,
            columns,
            self._filters if filter is None else (*self._filters, filter),
            batch_size=batch_size,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            blobs=blobs,
            dictionary_columns=dictionary_columns,
            validity_columns=validity_columns,
            decimal64_columns=decimal64_columns,
            fragments=fragments,
            max_memory=max_memory,
            use_index=use_index if self._use_index else False,
        )

    def shards(
        self,
        count: int,
        columns: Columns | None = None,
        filter: Filter | None = None,
        *,
        seed: int | None = None,
        batch_size: int = 1024,
        buffer_size: int = 16 * 1024,
        blobs: Blobs = "descriptors",
    ) -> Shards:
        """Divide the rows into parts of equal size, one for each process, for instance in training.

        A shard is an iterable of record batches, and can be pickled. Processes that call this with
        the same arguments on the same version get the same shards: each row is in exactly one, and
        the numbers of rows differ by at most one. With a filter, its columns are read once, in this
        call, to find the rows.

        Args:
            count: Number of shards.
            columns: As for `scanner`.
            filter: As for `scanner`.
            seed: Seed of a reproducible shuffle: blocks of consecutive rows are distributed among
                the shards, and rows are shuffled within `buffer_size` in memory. None keeps the
                order of the table. `Shards.shuffled` shuffles again for the next epoch.
            batch_size: Number of rows of a batch; the last batch of a shard may have fewer.
            buffer_size: Number of rows that a shard reads at a time. A larger buffer shuffles
                better, and takes more memory.
            blobs: As for `scanner`.

        Raises:
            ColumnNotFound: A column is not in the table.
            InvalidFilter: The text of the filter cannot be parsed.
            TypeError: A number is not whole.
            ValueError: A number is too small.
        """
        from lancefs.scan.shards import make_shards

        every = LanceDataset(self._version, self._more)
        passing = None
        if filter is not None or self._filters:
            passing = self.scanner([ROW_OFFSET.name], filter)
        scanner = every.scanner(columns, blobs=blobs)
        return make_shards(count, scanner, passing, batch_size, buffer_size, seed)

    def take(
        self,
        indices: RowNumbers | None = None,
        columns: Columns | None = None,
        filter: Filter | None = None,
        *,
        row_ids: RowNumbers | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read rows by position, or by row id; other arguments as for `scanner`.

        Args:
            indices: Positions of rows in the dataset, in any order; repetition is allowed.
            columns: As for `scanner`.
            filter: As for `scanner`.
            row_ids: Values of `_rowid`, in place of positions.
            **options: As for `scanner`.

        Raises:
            IndexError: The table has no such row. (A filter on `_rowid` ignores such ids.)
            ValueError: Neither positions nor row ids are given, or both.
        """
        scanner = self.scanner(columns=columns, filter=filter, **options)
        if (indices is None) == (row_ids is None):
            raise ValueError("either indices (positions) or row_ids are expected")
        return scanner.take(indices) if row_ids is None else scanner.take_ids(row_ids)

    def count_rows(self, filter: Filter | None = None, **options: Unpack[ScanOptions]) -> int:
        """Count rows; without a filter only the manifest is read.

        Args:
            filter: Count only the rows for which it is true.
            **options: As for `scanner`.
        """
        if filter is None and not self._filters and not options:
            return self._version.num_rows
        return self.scanner(columns=[], filter=filter, **options).count_rows()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if requested_schema is None:
            return self.to_reader().__arrow_c_stream__()
        wanted = pa.Schema._import_from_c_capsule(requested_schema)
        encodable = {field.name for field in self._columns if is_encodable(field)}
        encoded = [one.name for one in wanted if one.type == ENCODED and one.name in encodable]
        reader = self.to_reader(dictionary_columns=encoded)
        return reader.__arrow_c_stream__(wanted.__arrow_c_schema__())

    def get_fragments(self, filter: Filter | None = None) -> Iterator[LanceFragment]:
        """Yield the fragments as objects to read from.

        Args:
            filter: Accepted for compatibility with pyarrow; excludes no fragment.
        """
        for position in range(len(self._version.manifest.fragments)):
            yield LanceFragment(self, position)

    def get_fragment(self, fragment_id: int) -> LanceFragment:
        """Return one fragment as an object to read from.

        Raises:
            TypeError: `fragment_id` is no whole number.
            ValueError: The version has no fragment of this id.
        """
        check_number("fragment_id", fragment_id)
        return LanceFragment(self, self._version.position_of(fragment_id))

    def filter(self, expression: Filter) -> LanceDataset:
        """Return a dataset of those rows for which a filter is true; nothing is read yet.

        Args:
            expression: An expression of `pyarrow.compute`, or SQL text.

        Raises:
            InvalidFilter: The text cannot be parsed.
        """
        from lancefs.scan.parsed_filters import as_expression

        as_expression(expression, self._version)  # raises where the filter cannot be read
        filters = (*self._filters, expression)
        return self._derived(filters=filters)


class LanceFragment(OtherNames, ReadingMethods):
    """One fragment of a dataset; `LanceDataset.get_fragments` yields them.

    Args:
        dataset: The dataset.
        position: The position of the fragment in the manifest.
    """

    _MEANT = other_names.FRAGMENT

    def __init__(self, dataset: LanceDataset, position: int) -> None:
        self._dataset = dataset
        self._position = position

    def __reduce__(self) -> tuple[Any, ...]:
        return LanceDataset.get_fragment, (self._dataset, self.fragment_id)

    def __repr__(self) -> str:
        return f"<LanceFragment {self.fragment_id} of {self._dataset!r}>"

    @property
    def fragment_id(self) -> int:
        """The id of the fragment in the table."""
        return int(self._dataset.manifest.fragments.ids[self._position])

    @cached_property
    def metadata(self) -> Fragment:
        """The metadata of the fragment in the manifest, decoded when it is first asked for.

        Raises:
            CorruptFile: The metadata contradict themselves.
        """
        return self._dataset.manifest.fragments[self._position]

    @property
    def schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._dataset.schema

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the dataset; columns that no data file of the fragment holds are null."""
        return self._dataset.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """An expression that is true for all rows: `true`, since nothing else is known."""
        return pc.scalar(True)

    def scanner(  # type: ignore[override]  # mypy sees no columns by position in the union
        self,
        schema: pa.Schema | Columns | None = None,
        filter: Filter | None = None,
        *,
        columns: Columns | None = None,
        **options: Unpack[ScanOptions],
    ) -> LanceScanner:
        """Return a scanner for the fragment.

        Args:
            schema: The columns; or the schema of the dataset, as engines pass it to fragments of
                pyarrow (DataFusion): it says nothing new.
            filter: As for `LanceDataset.scanner`.
            columns: The columns, by name.
            **options: As for `LanceDataset.scanner`.

        Raises:
            TypeError: Columns are given twice.
            ValueError: The schema is another one.
        """
        if isinstance(schema, pa.Schema):
            if not schema.equals(self.schema):
                raise ValueError("fragments are read with the schema of their dataset only")
        elif schema is not None:
            if columns is not None:
                raise TypeError("columns are given by position, and by name")
            columns = schema
        options["fragments"] = [self.metadata]
        return self._dataset.scanner(columns=columns, filter=filter, **options)

    def take(
        self,
        indices: RowNumbers,
        columns: Columns | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read rows by position in the fragment; other arguments as for `scanner`."""
        return self.scanner(columns, **options).take(indices)

    def count_rows(self, filter: Filter | None = None, **options: Unpack[ScanOptions]) -> int:
        """Count the rows of the fragment that are not deleted, or those that a filter keeps."""
        is_whole = filter is None and not self._dataset._filters and not options
        if is_whole and self.metadata.num_rows is not None:
            return self.metadata.num_rows
        return self.scanner(columns=[], filter=filter, **options).count_rows()


def _same_filter(one: Filter, other: Filter) -> bool:
    if isinstance(one, pc.Expression) and isinstance(other, pc.Expression):
        return bool(one.equals(other))
    return isinstance(one, str) and one == other
