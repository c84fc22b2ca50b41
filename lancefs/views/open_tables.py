"""Tables as the filesystem sees them: their versions, each opened once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, MissingFile, NotALanceTable, ReadFailed, cause
from lancefs.forks import cached_property
from lancefs.storage import Store
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import BaseRules
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import Fragment
from lancefs.table.manifest import Manifest
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, Resolved, again_if_cleaned_up, resolve
from lancefs.table.tags_and_branches import Branch, Tag, list_branches, list_tags
from lancefs.table.versions import VersionFile, list_versions, look_again, pick, unlisted
from lancefs.views.arrow import lazy_file, measures
from lancefs.views.arrow.layout_cache import LayoutCache
from lancefs.views.arrow.measures import Measures
from lancefs.views.arrow.shapes import Shape, shape_of
from lancefs.views.read_ahead import read_batches
from lancefs.views.view_batches import BATCH_ROWS, Batches, batches_of

if TYPE_CHECKING:
    from lancefs.lance_dataset import LanceDataset

# Budget of open versions, in bytes, about. A version takes several times the bytes of its manifest,
# and counts as at least `_LEAST` bytes.
OPEN_BUDGET = 64 * 1024 * 1024
_OBJECTS = 16
_LEAST = 256 * 1024
# Seconds for which a listing of an object store tells where a version is. Later, its table may have
# been deleted, and another one made in its place.
LISTED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of a version a view shows.

    Attributes:
        fragment: The id of one fragment; None for all.
        columns: Names of columns, in order; None for all.
    """

    fragment: int | None = None
    columns: tuple[str, ...] | None = None


class ViewedVersion:
    """One version of a table, open, as its views see it.

    Args:
        resolved: Where it was found.
        rules: How far base paths are followed.
        max_memory: Bytes that one read may expand to; None for the default limit.

    Raises:
        MissingFile: The manifest is gone.
        CorruptFile: The manifest is damaged.
        UnsupportedFeature: The version needs a feature that this release does not read.
    """

    def __init__(self, resolved: Resolved, rules: BaseRules | None, max_memory: int | None) -> None:
        self.opened = OpenVersion(resolved, rules, max_memory=max_memory)

    @cached_property
    def dataset(self) -> LanceDataset:
        """The rows of the version; files that are laid out are read without it."""
        from lancefs.lance_dataset import LanceDataset  # imports pyarrow.dataset

        return LanceDataset(self.opened)

    @property
    def resolved(self) -> Resolved:
        """Where the version was found."""
        return self.opened.resolved

    @property
    def manifest(self) -> Manifest:
        """The manifest of the version."""
        return self.opened.manifest

    @cached_property
    def identity(self) -> str:
        """A digest that differs between versions and is the same for copies of one version.

        A number alone does not do: a table may be deleted and another one made in its place.
        """
        manifest = self.manifest
        ends = [manifest.fragments[0], manifest.fragments[-1]] if manifest.fragments else []
        parts = (
            manifest.version,
            self.resolved.branch,
            manifest.timestamp.isoformat(),
            manifest.transaction_file,
            len(manifest.fragments),
            [file.path for fragment in ends for file in fragment.files],
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @cached_property
    def fragments(self) -> dict[int, Fragment]:
        """The fragments by their ids, in scan order."""
        return {fragment.id: fragment for fragment in self.manifest.fragments}

    def measures(self, sharer: tuple[str, str], selection: Selection) -> Measures:
        """Return the measures that a file of a part of the version is laid out by, none known yet.

        Args:
            sharer: Identifies the readers that may share the measures.
            selection: Which part; `can_be_laid_out` says whether this can be had.

        Raises:
            LanceError: A deletion file cannot be read.
        """
        batches = Batches(self._readers(selection))
        fields = self._fields(selection)
        shapes = [self._shapes[field.id] for field in fields]
        return Measures(sharer, batches, fields, [shape for shape in shapes if shape is not None])

    def can_be_laid_out(self, selection: Selection) -> bool:
        """Tell whether the types of all columns have a shape."""
        if self._has_row_metadata(selection):
            return False
        return all(self._shapes[field.id] is not None for field in self._fields(selection))

    def schema(self, selection: Selection) -> pa.Schema:
        """Return the schema of a part of the version that can be laid out."""
        whole = self.opened.shown_schema
        if selection.columns is None:
            return whole
        positions = self._positions
        fields = [whole.field(positions[field.id]) for field in self._fields(selection)]
        return pa.schema(fields, whole.metadata)

    def rows(self, selection: Selection) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema of a part of the version, and its rows in batches; nothing is read yet.

        Args:
            selection: Which part; its fragment, and its columns, are those of the version.
        """
        if self._has_row_metadata(selection):
            scanner = self.dataset.scanner(list(selection.columns or ()), batch_size=BATCH_ROWS)
            return scanner.projected_schema, scanner.to_batches()
        schema = self.schema(selection)
        batches = batches_of(self._readers(selection))
        return schema, read_batches(batches, self._fields(selection), schema)

    def _readers(self, selection: Selection) -> Sequence[FragmentReader]:
        readers = self.opened.readers
        if selection.fragment is None:
            return readers
        return [readers[self.opened.positions[selection.fragment]]]

    def _has_row_metadata(self, selection: Selection) -> bool:
        """Tell whether the part has columns of row metadata."""
        return any(name not in self._by_name for name in selection.columns or ())

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.manifest.fields}

    @cached_property
    def _positions(self) -> dict[int, int]:
        """The position of each column by the id of its field."""
        return {field.id: position for position, field in enumerate(self.manifest.fields)}

    @cached_property
    def _shapes(self) -> dict[int, Shape | None]:
        """The shape of each column by the id of its field; None for a type that has none."""
        types = self.opened.shown_schema.types
        ids = [field.id for field in self.manifest.fields]
        return {one: shape_of(data_type) for one, data_type in zip(ids, types, strict=True)}

    def _fields(self, selection: Selection) -> Sequence[Field]:
        if selection.columns is None:
            return self.manifest.fields
        return [self._by_name[name] for name in selection.columns]


class _FoundVersion(NamedTuple):
    """Where a version was found, and when, by a monotonic clock."""

    resolved: Resolved
    at: float


class OpenTables:
    """The tables and versions that a filesystem keeps open.

    Args:
        sharer: Identifies the readers that may share bytes: same store, credentials and rules.
        layouts: The directory that keeps layouts for other processes; None for none.
        max_memory: Bytes that one read may expand to; None for the default limit.
    """

    def __init__(self, sharer: str, layouts: LayoutCache | None, max_memory: int | None) -> None:
        self.sharer = sharer
        self.layouts = layouts
        self.max_memory = max_memory
        self.tables: set[str] = set()  # directories that are tables
        self.found: dict[tuple[str, str | None, int], _FoundVersion] = {}
        self.versions: BudgetCache[tuple[str, str | None, int, str], ViewedVersion] = BudgetCache(
            OPEN_BUDGET
        )

    def clear(self) -> None:
        """Forget everything, and let go of all files."""
        self.tables.clear()
        self.found.clear()
        for version in self.versions.values():
            version.opened.close()
        self.versions.clear()
        lazy_file.forget(self.sharer)
        measures.forget(self.sharer)


class TableSession:
    """A table during one call of the filesystem, in which each listing is made once.

    Tags, branches and manifests are looked up once, too.

    Args:
        store: The directory of the table.
        rules: How far base paths are followed.
        opened: What is kept from call to call.
    """

    def __init__(self, store: Store, rules: BaseRules | None, opened: OpenTables) -> None:
        self.store = store
        self._rules = rules
        self._opened = opened
        self._listed: dict[str | None, Sequence[VersionFile]] = {}
        self._resolved: dict[Ref, Resolved] = {}  # of tags and branches
        self._identities: dict[tuple[str, str | None, int], tuple[Resolved, str | None]] = {}

    @property
    def url(self) -> str:
        """The address of the table, as a user would write it."""
        return self.store.url()

    @property
    def sharer(self) -> str:
        """Identifies the readers that may share the bytes of the table."""
        return self._opened.sharer

    @property
    def layouts(self) -> LayoutCache | None:
        """The directory that keeps layouts of the table's files for other processes."""
        return self._opened.layouts

    def versions(self, branch: str | None = None, explained: bool = True) -> Sequence[VersionFile]:
        """List the versions of a branch, oldest first.

        Args:
            branch: None for the main one.
            explained: Whether the error for no table says what is there, which takes requests.

        Raises:
            NotALanceTable: There is no table.
            RefNotFound: There is no such branch.
            CorruptFile: The names of the manifests contradict each other.
            ReadFailed: The store refused or failed.
        """
        if branch not in self._listed:
            where = self.store
            if branch is not None:
                where = resolve(self.store, Ref(branch=branch)).store
            self._listed[branch] = list_versions(where, explained=explained)
            for file in self._listed[branch]:
                self._remember(Resolved(where, file, branch, self.store))
        return self._listed[branch]

    @cached_property
    def tags(self) -> dict[str, Tag]:
        """The tags of the table, by name."""
        return list_tags(self.store)

    @cached_property
    def branches(self) -> dict[str, Branch]:
        """The branches of the table but the main one, by name."""
        return list_branches(self.store)

    def has_unlisted(self, version: int) -> bool:
        """Tell whether a version of the main branch exists, on a store that cannot list."""
        file = unlisted(self.store, version)
        if file is not None:
            self._remember(Resolved(self.store, file, None, self.store))
        return file is not None

    def require(self, ref: Ref) -> None:
        """Check that a version exists, without reading its manifest; raises as `open` does."""
        known = self._known(ref)
        if known is not None:
            try:
                self._identified(known)
                return
            except MissingFile:
                self._forget(known)
        self._find(ref)

    def open(self, ref: Ref) -> ViewedVersion:
        """Open a version, or return it where it is open and its manifest is unchanged.

        Args:
            ref: The version. A number is looked up among known versions first; a tag, `latest` or
                a time, which may come to mean another version, is always resolved in the store.

        Raises:
            NotALanceTable: There is no table.
            RefNotFound: There is no such version.
            CorruptFile: A file is damaged.
            UnsupportedFeature: The version needs a feature that this release does not read.
            ReadFailed: The store refused or failed.
        """
        known = self._known(ref)
        if known is not None:
            try:
                return self._read(known)
            except (MissingFile, CorruptFile):
                # The version was cleaned up or rewritten since it was listed.
                self._forget(known)
        return again_if_cleaned_up(lambda: self._found_and_read(ref))

    def _found_and_read(self, ref: Ref) -> ViewedVersion:
        try:
            return self._read(self._find(ref))
        except MissingFile:  # the version was cleaned up since it was listed
            self._listed.clear()
            self._resolved.clear()
            self._identities.clear()
            raise

    def _known(self, ref: Ref) -> Resolved | None:
        if ref.version is None or ref.as_of is not None:
            return None
        found = self._opened.found.get((self.store.root, ref.branch, ref.version))
        if found is None:
            return None
        # Local files and web servers are asked for the manifest itself, see `_identified`.
        is_asked = self.store.is_local or self.store.is_web
        is_new = time.monotonic() - found.at < LISTED_SECONDS
        return found.resolved if is_asked or is_new else None

    def _find(self, ref: Ref) -> Resolved:
        if ref.branch is None and ref.tag is None:
            try:
                files = self.versions()  # not by `resolve`: the listing may be at hand already
            except (NotALanceTable, ReadFailed):
                if ref.version is None or not self.has_unlisted(ref.version):
                    raise
                return self._opened.found[self.store.root, None, ref.version].resolved
            file = files[-1] if ref.version is None else pick(self.store, files, ref.version)
            return Resolved(self.store, file, None, self.store)
        if ref not in self._resolved:
            self._resolved[ref] = self._remember(resolve(self.store, ref))
        return self._resolved[ref]

    def _read(self, resolved: Resolved) -> ViewedVersion:
        resolved, stamp = self._identified(resolved)
        size = max(_LEAST, _OBJECTS * (resolved.file.size or 0))
        version = None
        if stamp is None:  # only what the manifest says tells it from that of a table made anew
            version = self._view(resolved)
            stamp = version.identity
        return self._opened.versions.get(
            (*self._key(resolved), stamp),
            lambda: version or self._view(resolved),
            lambda _: size,
        )

    def _view(self, resolved: Resolved) -> ViewedVersion:
        return ViewedVersion(resolved, self._rules, self._opened.max_memory)

    def _identified(self, resolved: Resolved) -> tuple[Resolved, str | None]:
        """Return where a version is, and the store's identity of its manifest, if there is one.

        Mostly from a listing; stores that are asked for the manifest itself may have another one by
        now, whose size and digest go with its identity: what is kept by it is what it identifies.
        """
        key = self._key(resolved)
        if key not in self._identities:
            self._identities[key] = self._identity_of(resolved)
        return self._identities[key]

    def _identity_of(self, resolved: Resolved) -> tuple[Resolved, str | None]:
        store, path = resolved.store, resolved.file.path
        if not store.is_local:
            resolved = resolved._replace(file=look_again(store, resolved.file))
            # Of web servers, `ukey` tells addresses apart, not bytes.
            if store.is_web or resolved.file.stamp is not None:
                return resolved, resolved.file.stamp
        try:
            return resolved, str(store.ask(lambda: store.fs.ukey(store.full(path)), path))
        except FileNotFoundError as error:
            raise MissingFile.of(store.url(path), str(resolved.ref)) from cause(error)

    def _key(self, resolved: Resolved) -> tuple[str, str | None, int]:
        return self.store.root, resolved.branch, resolved.file.version

    def _forget(self, resolved: Resolved) -> None:
        self._opened.found.pop(self._key(resolved), None)
        self._identities.pop(self._key(resolved), None)

    def _remember(self, resolved: Resolved) -> Resolved:
        self._opened.found[self._key(resolved)] = _FoundVersion(resolved, time.monotonic())
        return resolved
