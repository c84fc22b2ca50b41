"""A dataset: one version of a table, as Arrow sees it. `lancefs.open` makes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lancefs.arrow_dataset import pads
from lancefs.datafile.fields import Blobs, Field
from lancefs.errors import ColumnNotFound
from lancefs.scan.scanner import Columns, LanceScanner, Positions
from lancefs.storage import Store
from lancefs.table.base_paths import BaseRules, TableFiles
from lancefs.table.dictionary_columns import ENCODED, dictionary_columns, is_encodable
from lancefs.table.flags import ReaderFlags
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import FragmentReaders
from lancefs.table.fragments import Fragment
from lancefs.table.manifest import Manifest, read_auxiliary_data, read_manifest
from lancefs.table.refs import (
    Branch,
    Ref,
    Resolved,
    Tag,
    list_branches,
    list_tags,
    parse_ref,
    resolve,
)
from lancefs.table.row_index import RowIndex
from lancefs.table.row_metadata import ROW_ADDRESS, ROW_ID, ROW_METADATA, RowMetadata
from lancefs.table.schema import shown_field
from lancefs.table.versions import list_versions

if TYPE_CHECKING:
    import fsspec
    import pandas
    import polars

    from lancefs.table.changes import Snapshot
    from lancefs.table.indices import Index
    from lancefs.table.mem_wal import Generation
    from lancefs.table.transactions import Transaction


class LanceDataset(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """One version of a Lance table.

    Whatever takes a `pyarrow.dataset.Dataset` takes this one, and pushes columns and filters into
    it. It never changes; a newer version is another object.

    Args:
        resolved: Where the version was found.
        manifest: What it says.
        base_rules: How far base paths are followed.
        row_metadata: Names of columns that say which row a row is, to be columns like others.
        generations: What is added to the rows of the version; None where nothing is asked for.
    """

    def __init__(
        self,
        resolved: Resolved,
        manifest: Manifest,
        base_rules: BaseRules | None = None,
        row_metadata: Sequence[str] = (),
        generations: Sequence[Generation] | None = None,
    ) -> None:
        self._columns = (*manifest.fields, *(ROW_METADATA[name] for name in row_metadata))
        self._resolved = resolved
        self._manifest = manifest
        self._base_rules = base_rules
        self._files = self._table_files(manifest)
        self._generations = generations
        self._base_readers = FragmentReaders(self._files, manifest.fragments, manifest.fields)

    def __reduce__(self) -> tuple[Any, ...]:
        where = self._resolved
        ref = Ref(version=self.version, branch=where.branch)
        extra = [field.name for field in self._columns[len(self._manifest.fields) :]]
        state = (where.root.fs, where.root.root, ref, self._base_rules, extra, self._generations)
        return _reopen, state

    def __repr__(self) -> str:
        from lancefs.showing import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from lancefs.showing import as_html

        return as_html(self)

    # What the table is

    @property
    def uri(self) -> str:
        """The directory of the table."""
        return self._resolved.root.url()

    @property
    def is_local(self) -> bool:
        """Whether the table is on this machine, so that a read does not wait for a network."""
        return self._resolved.store.is_local

    @property
    def version(self) -> int:
        """The version of the table that this is."""
        return self._manifest.version

    @property
    def branch(self) -> str | None:
        """The branch that the version is on; None for the main one."""
        return self._resolved.branch

    @property
    def manifest(self) -> Manifest:
        """All that the manifest says."""
        return self._manifest

    @property
    def fragments(self) -> Sequence[Fragment]:
        """The fragments, in scan order."""
        return self._manifest.fragments

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, as they come out of a scan.

        One whose type this release does not know is of type null, and refused where it is read.
        """
        fields = [shown_field(field) for field in self._columns]
        return pa.schema(fields, metadata=dict(self._manifest.schema_metadata) or None)

    @cached_property
    def dictionary_columns(self) -> list[str]:
        """The columns of strings whose values the data files store once a page, in a dictionary.

        The first fragment tells, by the metadata of its columns. A scan reads them encoded where
        it is asked to, and consumers that take them so (such as DuckDB) group by them quicker.

        Raises:
            LanceError: The metadata cannot be read.
        """
        readers = self._fragment_readers[:1]
        fields = [field for field in self._columns if is_encodable(field)]
        found = [one for reader in readers for one in dictionary_columns(reader, fields)]
        return [field.name for field in found]

    @property
    def is_fresh(self) -> bool:
        """Whether generations that are not merged yet are added to the rows of the version."""
        return self._generations is not None

    def unmerged_generations(self) -> list[Generation]:
        """List what writers have flushed (MemWAL) and this version does not hold.

        `open(…, fresh=True)` adds their rows; of a dataset opened so, these are the ones added.
        """
        from lancefs.table.mem_wal import fresher_generations

        if self._generations is not None:
            return list(self._generations)
        return fresher_generations(self._resolved.store, self.indices())

    def versions(self) -> list[int]:
        """List the versions of the branch that this version is on, oldest first."""
        return [file.version for file in list_versions(self._resolved.store)]

    def tags(self) -> dict[str, Tag]:
        """List the tags of the table."""
        return list_tags(self._resolved.root)

    def branches(self) -> dict[str, Branch]:
        """List the branches of the table, the main one excepted."""
        return list_branches(self._resolved.root)

    def with_row_metadata(self, *names: str) -> LanceDataset:
        """Return the same version with more columns, for readers that choose among the schema's.

        Args:
            *names: Of `_rowid` (the default), `_rowaddr`, `_rowoffset`, `_row_created_at_version`
                and `_row_last_updated_at_version`.
        """
        unknown = [name for name in names if name not in ROW_METADATA]
        if unknown:
            raise ColumnNotFound(f"{unknown[0]!r} is none of {', '.join(ROW_METADATA)}")
        wanted = names or (ROW_ID.name,)
        self._refuse_if_fresh(wanted[0])
        return LanceDataset(self._resolved, self._manifest, self._base_rules, wanted)

    def history(self, newest: int | None = None) -> pa.Table:
        """Tell what each version of the branch that this version is on did, oldest first.

        A row a version, of the schema `lancefs.table.history.HISTORY`: when, by which operation,
        how many rows came and went, what changed in the schema. What is gone leaves a note.

        Args:
            newest: Only so many of the newest versions.
        """
        from lancefs.table.history import history_table, read_history

        where = self._resolved
        return history_table(read_history(where.store, where.root, where.branch, newest))

    def transaction(self) -> Transaction | None:
        """Read what the commit of this version did; None where the version names nothing.

        Raises:
            MissingFile: The transaction's file is gone.
        """
        from lancefs.table.transactions import read_transaction

        return read_transaction(self._resolved.store, self._resolved.manifest, self._manifest)

    def auxiliary_data(self) -> dict[str, bytes]:
        """Read what the writer left beside the manifest, by key; most versions have nothing."""
        return read_auxiliary_data(self._resolved.manifest, self._manifest)

    def indices(self) -> list[Index]:
        """Read what this version says of its indices."""
        from lancefs.table.indices import read_indices

        return read_indices(self._resolved.manifest, self._manifest, self._files)

    def changes(self, since: Ref | str | int, until: Ref | str | int | None = None) -> pa.Table:
        """Compare two versions: which rows were inserted, deleted and updated.

        Args:
            since: The older version, on the branch of this one: a number, or a ref.
            until: The newer one; this one by default.

        Returns:
            A row a change: the columns of the newer version, then `_rowid`, `_change_type`
            (`insert`, `delete`, `update_preimage`, `update_postimage`), `_commit_version` and
            `_commit_timestamp`. Without stable row ids an update is a delete and an insert.

        Raises:
            RefNotFound: There is no such version.
            ValueError: The versions are on different branches, or not in this order.
            MissingFile: A file of one of the versions is gone.
        """
        from lancefs.table.changes import commits_between, read_changes

        old, new = self._at(since), self if until is None else self._at(until)
        if old.branch != new.branch or old.version > new.version:
            raise ValueError(
                f"{self.uri}: changes from {old._ref} to {new._ref}: an older and a newer version "
                "of the same branch were expected"
            )
        commits = commits_between(new._resolved.store, old.version, new.version)
        return read_changes(old._snapshot, new._snapshot, commits, new._table_files)

    # Reading

    def scanner(
        self,
        columns: Columns | None = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        blobs: Blobs = "descriptors",
        dictionary_columns: Collection[str] = (),
        **_: Any,
    ) -> LanceScanner:
        """Say what to read; nothing is read yet.

        Columns and filter may name `_rowid`, `_rowaddr`, `_rowoffset`, `_row_created_at_version`
        and `_row_last_updated_at_version` too, which say which row a row is.

        Args:
            columns: Names of columns, in the order wanted, or a dict of names and expressions; all
                columns by default.
            filter: Rows to keep: those for which it is true.
            batch_size: At most this many rows a batch.
            limit: At most this many rows.
            offset: Rows, among those that the filter keeps, to pass over first.
            with_row_id: Whether to add the column `_rowid`.
            with_row_address: Whether to add the column `_rowaddr`.
            blobs: What blob columns show: `descriptors` (where their bytes are) or `bytes`. Blobs
                that are no part of the table are read only where `BaseRules` allow it.
            dictionary_columns: Columns of strings that come dictionary-encoded. Where the data
                files store them so (see `dictionary_columns`), no string is written out.
            **_: Hints of pyarrow's own scanner (such as `use_threads`), which have no meaning here.

        Raises:
            ColumnNotFound: A column is not in the table.
        """
        extra = [ROW_ID.name] * with_row_id + [ROW_ADDRESS.name] * with_row_address
        if extra:
            columns = self._with(columns, extra)
        return LanceScanner(
            self, columns, filter, batch_size, limit, offset, blobs, dictionary_columns
        )

    def to_batches(self, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        """Read in batches; arguments as for `scanner`."""
        return self.scanner(*args, **kwargs).to_batches()

    def to_reader(self, *args: Any, **kwargs: Any) -> pa.RecordBatchReader:
        """Read as a stream; arguments as for `scanner`."""
        return self.scanner(*args, **kwargs).to_reader()

    def to_table(self, *args: Any, **kwargs: Any) -> pa.Table:
        """Read into memory; arguments as for `scanner`."""
        return self.scanner(*args, **kwargs).to_table()

    def to_pandas(self, *args: Any, **kwargs: Any) -> pandas.DataFrame:
        """Read into a pandas DataFrame; arguments as for `scanner`."""
        return self.to_table(*args, **kwargs).to_pandas()

    def to_polars(self, *args: Any, **kwargs: Any) -> polars.DataFrame:
        """Read into a polars DataFrame; arguments as for `scanner`."""
        import polars

        frame = polars.from_arrow(self.to_table(*args, **kwargs))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def head(self, num_rows: int, *args: Any, **kwargs: Any) -> pa.Table:
        """Read the first rows, and no more than their chunks; other arguments as for `scanner`."""
        return self.scanner(*args, **kwargs).head(num_rows)

    def take(
        self,
        indices: Sequence[int] | Positions | pa.Array | None = None,
        *args: Any,
        row_ids: Sequence[int] | Positions | pa.Array | None = None,
        **kwargs: Any,
    ) -> pa.Table:
        """Read rows by their positions, or by their ids; other arguments as for `scanner`.

        Args:
            indices: Positions among the rows of the table, in any order, also repeated.
            row_ids: In place of them, values of `_rowid`.

        Raises:
            IndexError: The table has no such row. (A filter on `_rowid` passes over those that it
                has not.)
        """
        scanner = self.scanner(*args, **kwargs)
        if (indices is None) == (row_ids is None):
            raise ValueError("either positions or row_ids are expected")
        return scanner.take(indices) if row_ids is None else scanner.take_ids(row_ids)

    def count_rows(self, filter: pc.Expression | None = None, **_: Any) -> int:
        """Count rows; without a filter the manifest alone tells.

        Args:
            filter: Rows to count: those for which it is true.
            **_: Hints of pyarrow's own scanner.
        """
        if filter is None:
            known = None if self.is_fresh else self._manifest.num_rows
            return sum(r.num_rows for r in self._fragment_readers) if known is None else known
        return self.scanner(columns=[], filter=filter).count_rows()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if requested_schema is None:
            return self.to_reader().__arrow_c_stream__()
        wanted = pa.Schema._import_from_c_capsule(requested_schema)
        encodable = {field.name for field in self._columns if is_encodable(field)}
        encoded = [one.name for one in wanted if one.type == ENCODED and one.name in encodable]
        reader = self.to_reader(dictionary_columns=encoded)
        return reader.__arrow_c_stream__(wanted.__arrow_c_schema__())

    # The rest of pyarrow's interface: a LanceDataset has no C++ dataset behind it, so that none of
    # the inherited methods may be reached.

    @property
    def partition_expression(self) -> pc.Expression:
        """Nothing is known of all rows."""
        return pc.scalar(True)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Fragment]:
        """Yield the fragments; a filter excludes none of them."""
        return iter(self._manifest.fragments)

    def filter(self, expression: pc.Expression) -> pads.Dataset:
        """Return the rows for which an expression is true, read into memory, as a dataset."""
        return pads.InMemoryDataset(self.to_table(filter=expression))

    def replace_schema(self, schema: pa.Schema) -> pads.Dataset:
        """Return the rows with another schema, read into memory, as a dataset."""
        return pads.InMemoryDataset(self.to_table()).replace_schema(schema)

    def sort_by(self, sorting: str | list[tuple[str, str]], **kwargs: Any) -> pads.Dataset:
        """Return the rows in another order, read into memory, as a dataset."""
        return pads.InMemoryDataset(self.to_table()).sort_by(sorting, **kwargs)

    def join(self, *args: Any, **kwargs: Any) -> pads.Dataset:
        """Join, in memory; arguments as for `pyarrow.dataset.Dataset.join`."""
        return pads.InMemoryDataset(self.to_table()).join(*args, **kwargs)

    def join_asof(self, *args: Any, **kwargs: Any) -> pads.Dataset:
        """Join as of, in memory; arguments as for `pyarrow.dataset.Dataset.join_asof`."""
        return pads.InMemoryDataset(self.to_table()).join_asof(*args, **kwargs)

    # Inside

    def _at(self, ref: Ref | str | int) -> LanceDataset:
        """Open another version of the table; a number is on the branch of this one."""
        if isinstance(ref, str):
            ref = parse_ref(ref)
            if ref.version is not None and ref.branch is None:
                ref = ref.version
        if isinstance(ref, int):
            ref = Ref(version=ref, branch=self.branch)
        resolved = resolve(self._resolved.root, ref)
        return LanceDataset(resolved, read_manifest(resolved.manifest), self._base_rules)

    @property
    def _snapshot(self) -> Snapshot:
        from lancefs.table.changes import Snapshot

        return Snapshot(self._manifest, self._base_readers, self._row_index.metadata)

    def _table_files(self, manifest: Manifest) -> TableFiles:
        """Return what finds the files of a version of the branch."""
        where = self._resolved
        return TableFiles(where.store, manifest.base_paths, self._base_rules, root=where.root)

    @property
    def _ref(self) -> Ref:
        return Ref(version=self.version, branch=self.branch)

    def _refuse_if_fresh(self, name: str) -> None:
        """Refuse to say which rows rows are, where some are not in the table yet."""
        if self.is_fresh and name in ROW_METADATA:
            raise ColumnNotFound(
                f"{self.uri}@{self._ref}: fresh rows have no {name} before they are merged into "
                "the table; open it without fresh=True"
            )

    @cached_property
    def _fragment_readers(self) -> Sequence[FragmentReader]:
        """The readers of the fragments that a scan goes through."""
        if not self._generations:
            return self._base_readers
        from lancefs.table.fresh import read_fresh

        where, rules = self._resolved.store, self._base_rules
        return read_fresh(self._base_readers, self._manifest, self._generations, where, rules)

    @cached_property
    def _row_index(self) -> RowIndex:
        readers, fragments = self._base_readers, self._manifest.fragments
        is_stable = ReaderFlags.STABLE_ROW_IDS in self._manifest.reader_flags
        return RowIndex(RowMetadata(self._files, readers, fragments, is_stable), readers, fragments)

    def _with(self, columns: Columns | None, extra: Sequence[str]) -> Columns:
        """Add columns to those that are wanted."""
        if isinstance(columns, Mapping):
            return {**columns, **{name: name for name in extra if name not in columns}}
        names = list(self.schema.names) if columns is None else list(columns)
        return names + [name for name in extra if name not in names]

    @cached_property
    def _named_fields(self) -> Mapping[str, Field]:
        """All columns that can be asked for."""
        extra = {} if self.is_fresh else ROW_METADATA
        return {**extra, **{field.name: field for field in self._manifest.fields}}

    def _field(self, name: str) -> Field:
        if name in self._named_fields:
            return self._named_fields[name]
        self._refuse_if_fresh(name)
        import difflib

        names = [field.name for field in self._manifest.fields]
        near = difflib.get_close_matches(name, names, n=3) or names[:10]
        raise ColumnNotFound(
            f"{self.uri}@{self._ref} has no column {name!r}; did you mean {', '.join(near)}?"
        )


def _reopen(
    fs: fsspec.AbstractFileSystem,
    path: str,
    ref: Ref,
    base_rules: BaseRules | None,
    row_metadata: Sequence[str],
    generations: Sequence[Generation] | None,
) -> LanceDataset:
    """Open the version that a pickled dataset was."""
    resolved = resolve(Store(fs, path), ref)
    manifest = read_manifest(resolved.manifest)
    return LanceDataset(resolved, manifest, base_rules, row_metadata, generations)
