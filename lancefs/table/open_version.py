"""One open version of a table: what the dataset, views, Spark, the command line and SQL share.

A version is found once (`refs.resolve`), its manifest is read once, and its fragments are opened
once, however many readers there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancefs.arguments import similar_names
from lancefs.datafile.fields import Field
from lancefs.errors import ColumnNotFound, CorruptFile, locating
from lancefs.forks import cached_property
from lancefs.masking import mask_secrets
from lancefs.printable import plural
from lancefs.storage import Store
from lancefs.table.base_paths import BaseRules, TableFiles, confine
from lancefs.table.flags import ReaderFlags
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_readers import FragmentReaders
from lancefs.table.manifest import Manifest, made_anew, read_manifest
from lancefs.table.members import as_column, walk_down
from lancefs.table.refs import Ref, Resolved, again_if_cleaned_up, ref_from, resolve
from lancefs.table.row_index import RowIndex
from lancefs.table.row_metadata import ROW_METADATA, RowMetadata
from lancefs.table.schema import find_column, listed, no_members, shown_schema

if TYPE_CHECKING:
    import fsspec

# Characters of expressions, which names of columns mostly lack; and how expressions are given.
_SIGNS = frozenset("+-*/%()[]<>=|")
_EXPRESSION = "an expression is one of pyarrow.compute: columns={'x': pc.field('a') + 1}"


class OpenVersion:
    """One version of a table, open. It never changes; threads may share it.

    Args:
        resolved: Where the version is.
        rules: How far base paths of the manifest are followed.
        manifest: The manifest of the version; read from its file by default.
        max_memory: Bytes that one read may expand to; None for the default limit.

    Raises:
        MissingFile: The manifest is gone.
        CorruptFile: The manifest is damaged.
        UnsupportedFeature: The version needs a feature that this release does not read.
    """

    is_fresh = False

    def __init__(
        self,
        resolved: Resolved,
        rules: BaseRules | None = None,
        manifest: Manifest | None = None,
        max_memory: int | None = None,
    ) -> None:
        self.resolved = resolved
        self.rules = rules
        self.max_memory = max_memory
        self.manifest = _read_manifest(resolved) if manifest is None else manifest
        self.files = self.files_of(self.manifest)
        self.base_readers = FragmentReaders(
            self.files, self.manifest.fragments, self.manifest.fields
        )

    def __reduce__(self) -> tuple[Any, ...]:
        root, committed = self.resolved.root, self.manifest.timestamp
        return _reopen, (root.fs, root.root, self.ref, self.rules, self.max_memory, committed)

    @property
    def uri(self) -> str:
        """The directory of the table, with any secrets of its URL."""
        return self.resolved.root.url()

    @property
    def ref(self) -> Ref:
        """The version number, with its branch."""
        return self.resolved.ref

    @cached_property
    def name(self) -> str:
        """The table and the version, as error messages name them: `dir/t.lance@7`."""
        return f"{mask_secrets(self.uri)}@{self.ref}"

    @property
    def fields(self) -> Sequence[Field]:
        """The columns of the table."""
        return self.manifest.fields

    @property
    def readers(self) -> Sequence[FragmentReader]:
        """A reader for each fragment, in scan order."""
        return self.base_readers

    @cached_property
    def shown_schema(self) -> pa.Schema:
        """The columns of the table as a dataset shows them; see `schema.shown_schema`.

        Raises:
            CorruptFile: The manifest names a type that makes no sense.
        """
        with locating(self.resolved.manifest.url):
            return shown_schema(self.fields, self.manifest.schema_metadata)

    @property
    def num_rows(self) -> int:
        """Number of live rows; the manifest mostly records it, old deletion files are read."""
        known = self.manifest.num_rows
        return sum(reader.num_rows for reader in self.readers) if known is None else known

    @cached_property
    def row_metadata(self) -> RowMetadata:
        """Ids, addresses and versions of the rows."""
        manifest = self.manifest
        is_stable = ReaderFlags.STABLE_ROW_IDS in manifest.reader_flags
        return RowMetadata(self.files, self.base_readers, manifest.fragments, is_stable)

    @cached_property
    def row_index(self) -> RowIndex:
        """Finds rows by their ids and addresses."""
        return RowIndex(self.row_metadata, self.base_readers, self.manifest.fragments)

    @cached_property
    def dictionary_columns(self) -> tuple[str, ...]:
        """The columns of strings whose pages have dictionaries in the first fragment, or flags.

        Flags are strings of a byte each, of which there are few different ones.

        Raises:
            LanceError: The metadata of the columns cannot be read.
        """
        texts = [field for field in self.fields if not field.children]
        return tuple(field.name for field in self.with_dictionaries(texts))

    def with_dictionaries(self, fields: Iterable[Field]) -> list[Field]:
        """Return those of some columns that are as `dictionary_columns` has them.

        Args:
            fields: Columns, and members of structs as columns.

        Raises:
            LanceError: The metadata of the columns cannot be read.
        """
        from lancefs.table.stored_dictionaries import (
            fields_with_dictionaries,
            is_encodable,
            text_field,
        )

        texts = {text_field(field): field for field in fields if is_encodable(field)}
        if not (texts and len(self.readers)):
            return []
        found = fields_with_dictionaries(self.readers[0], list(texts))
        return [field for text, field in texts.items() if text.id in found]

    @property
    def positions(self) -> Mapping[int, int]:
        """The position of each fragment in scan order, by fragment id."""
        return self.manifest.fragments.positions

    def position_of(self, fragment_id: int) -> int:
        """Return the position of a fragment in scan order.

        Raises:
            ValueError: The version has no fragment of this id.
        """
        position = self.positions.get(fragment_id)
        if position is None:
            ids = self.manifest.fragments.ids
            own = f"it has {plural(len(ids), 'fragment')}"
            own += f", of the ids {ids.min()} to {ids.max()}" if len(ids) else ""
            raise ValueError(f"{self.name} has no fragment {fragment_id}; {own}")
        return position

    @cached_property
    def named_fields(self) -> Mapping[str, Field]:
        """All columns that a scan can name: those of the table, then the row metadata."""
        fields = {field.name: field for field in self.fields}
        return {**({} if self.is_fresh else ROW_METADATA), **fields}

    def field(self, name: str) -> Field:
        """Return a column by its name.

        Raises:
            ColumnNotFound: There is no such column; the message names the nearest ones.
        """
        found = self.named_fields.get(name)
        if found is not None:
            return found
        self.refuse_if_fresh(name)
        near = similar_names(name, [field.name for field in self.fields])
        hint = f"did you mean {' or '.join(near)}?" if near else listed(self.fields)
        raise ColumnNotFound(f"{self.name} has no column {name!r}; {hint}")

    def column(self, name: str) -> Field:
        """Return a column, or a member of a struct as a column, by name: `user.age`.

        Raises:
            ColumnNotFound: There is no such column or member; the message names the nearest ones,
                or says how expressions are given.
        """
        if not isinstance(name, str):
            raise TypeError(f"a column is named by {name!r}; its name was expected")
        found = self.named_fields.get(name)
        if found is not None:
            return found
        try:
            return self._look_up(name)
        except ColumnNotFound as error:
            if _SIGNS.isdisjoint(name):
                raise
            raise ColumnNotFound(f"{str(error).partition(';')[0]}; {_EXPRESSION}") from None

    def _look_up(self, name: str) -> Field:
        if "." not in name and "`" not in name:
            return self.field(name)
        try:
            return as_column(find_column(self.fields, name))
        except ColumnNotFound as error:
            raise ColumnNotFound(f"{self.name}: {error}") from None

    def member(self, path: Sequence[str]) -> Field:
        """Return the column of a path into it; of a member that can be read alone, the member.

        Args:
            path: The name of the column, and the names of the members below it.

        Raises:
            ColumnNotFound: There is no such column, or it has no such member.
        """
        column = self.field(path[0])
        way = walk_down(column, path[1:])
        left = path[len(way) :]
        if left and not pa.types.is_struct(way[-1].to_arrow().type):
            shown = ".".join(path)
            raise ColumnNotFound(f"{self.name} has no column {shown!r}; {no_members(way)}")
        if left and not way[-1].is_blob:
            return self.column(".".join(path))  # raises: the struct lacks the member
        return as_column(way)

    def is_of_descriptor(self, name: str) -> bool:
        """Whether a name is that of a member of a blob's descriptor: `image.size`."""
        if "." not in name or name in self.named_fields:
            return False
        way = self.column(name).way
        return len(way) > 1 and way[-2].is_blob

    def refuse_if_fresh(self, name: str) -> None:
        """Refuse a row metadata column of a fresh table, whose new rows have no ids yet.

        Raises:
            ColumnNotFound: The table is fresh and the name is one of row metadata.
        """
        if self.is_fresh and name in ROW_METADATA:
            raise ColumnNotFound(
                f"{self.name}: fresh rows have no {name} before they are merged into the table; "
                "open it without fresh=True"
            )

    def close(self) -> None:
        """Let go of the files and of what was read of them; a later read opens them again."""
        self.base_readers.close()

    def files_of(self, manifest: Manifest) -> TableFiles:
        """Return what finds the files of a version of the same branch.

        Args:
            manifest: The manifest of that version.
        """
        where = self.resolved
        ref = Ref(version=manifest.version, branch=where.branch)
        store = where.store.of_version(str(ref))
        return TableFiles(store, manifest.base_paths, self.rules, where.root, self.max_memory)

    def at(self, ref: Ref | str | int) -> OpenVersion:
        """Open another version of the table.

        Args:
            ref: The version; a plain number (3, or v3) is a version of the same branch, which
                main:3 is not.

        Raises:
            RefNotFound: There is no such version.
            ValueError: It is no ref.
        """
        wanted = ref_from(self.resolved.branch, ref)
        return open_version(self.resolved.root, wanted, self.rules, self.max_memory)

    def part(self, first: int, last: int, fields: Sequence[Field] | None = None) -> OpenVersion:
        """Return consecutive fragments as a version of their own, whose `_rowoffset` starts at 0.

        Args:
            first: Position of the first fragment.
            last: Position of the last fragment.
            fields: Columns in place of the version's own, for instance those of another version;
                columns are found by field id, and a column that no data file holds is null.
        """
        manifest = self.manifest._replace(fragments=self.manifest.fragments[first : last + 1])
        if fields is not None:
            manifest = manifest._replace(fields=tuple(fields))
        return OpenVersion(self.resolved, self.rules, manifest, self.max_memory)


def open_version(
    store: Store,
    ref: Ref | None = None,
    rules: BaseRules | None = None,
    max_memory: int | None = None,
) -> OpenVersion:
    """Find the version that a ref names, and open it.

    Args:
        store: The directory of the table.
        ref: The ref; the newest version of the main branch by default.
        rules: As for `OpenVersion`.
        max_memory: As for `OpenVersion`.

    Raises:
        LanceError: As `refs.resolve` and `OpenVersion` do.
    """
    return again_if_cleaned_up(
        lambda: OpenVersion(resolve(store, ref), rules, max_memory=max_memory)
    )


def _reopen(
    fs: fsspec.AbstractFileSystem,
    path: str,
    ref: Ref,
    rules: BaseRules | None,
    max_memory: int | None,
    committed: datetime,
) -> OpenVersion:
    """Open the version that was pickled."""
    version = open_version(confine(Store(fs, path), rules), ref, rules, max_memory)
    check_committed(version, committed)
    return version


def check_committed(version: OpenVersion, committed: datetime) -> None:
    """Check that a version is the one that was opened before, and not one of a table made anew.

    Args:
        version: The version, opened again.
        committed: When the version that was opened before was committed.

    Raises:
        MissingFile: It is another one.
    """
    if version.manifest.timestamp != committed:
        raise made_anew(version.name)


def _read_manifest(resolved: Resolved) -> Manifest:
    """Read the manifest of a version, which says the same version as the name of its file."""
    manifest, expected = read_manifest(resolved.manifest), resolved.file.version
    if manifest.version != expected:
        with locating(resolved.manifest.url):
            raise CorruptFile(f"the manifest of version {expected} is that of {manifest.version}")
    return manifest
