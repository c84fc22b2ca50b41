"""Finding the files that a manifest names.

Most files lie below the table's own directory. A file with a base id lies below one of the
manifest's base paths: the directory of the table that a shallow clone or a branch was made from, or
a plain directory of files. A base path is absolute and may point anywhere, so `BaseRules` decide
whether it is followed; a path below a base may never climb out of it.

Format page: storage layout, section "Base Path System" (`docs/src/format/table/layout.md`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lancefs.errors import CorruptFile, ReadFailed, UnsupportedFeature
from lancefs.storage import TAIL, File, Store
from lancefs.table.fragments import DataFile, Fragment
from lancefs.table.manifest import BasePath

if TYPE_CHECKING:
    import fsspec

logger = logging.getLogger(__name__)

Follow: TypeAlias = Literal["table", "store", "any"]

DATA = "data"
_VERSIONS = "_versions"
DELETIONS = "_deletions"

# Estimated bytes of metadata at the end of a data file, for each column.
_BYTES_PER_COLUMN = 160
# Stamp of files that a manifest names: their names are never reused for other bytes.
_UNIQUE = "unique"


@dataclass(frozen=True, slots=True)
class BaseRules:
    """Rules for files outside of the table's directory: which ones are read, and from where.

    Attributes:
        follow: Base paths that are followed. `table`: those below the table's own directory.
            `store` (the default): those on the table's filesystem. `any`: those in all stores.
        moved: New directories by old ones, for base paths whose directories were moved or copied.
        storage_options: Options for the filesystems of other stores, by protocol.
        external_blobs: Directories with external blobs that may be read, for instance
            `s3://bucket/videos`. By default none, whatever `follow` says: an external blob may name
            any file.
    """

    follow: Follow = "store"
    moved: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    external_blobs: Sequence[str] = ()

    def moving(self, moved: Mapping[str, str]) -> BaseRules:
        """Return the rules with further moved directories.

        Args:
            moved: New directories by old ones, as the attribute.
        """
        return replace(self, moved={**self.moved, **moved})


class TableFiles:
    """Finds the files of one version of a table.

    Args:
        store: The directory of the table, or of the branch.
        base_paths: Base paths of the manifest.
        rules: Rules for files outside of the table's directory.
        root: The directory of the table, if `store` is that of a branch.
    """

    def __init__(
        self,
        store: Store,
        base_paths: Sequence[BasePath] = (),
        rules: BaseRules | None = None,
        root: Store | None = None,
    ) -> None:
        self.store = store
        self.rules = rules or BaseRules()
        self._root = root or store
        self._bases = {base.id: base for base in base_paths}
        self._stores: dict[int, Store] = {}
        self._external: dict[str, Store] = {}
        if len(self._bases) != len(base_paths):
            raise CorruptFile("two base paths of the manifest have the same id")

    def data_file(self, file: DataFile) -> File:
        """Return a data file of a fragment; raises as `file` does."""
        opened = self.file(DATA, file.path, file.base_id, file.size)
        opened.tail = TAIL + _BYTES_PER_COLUMN * len(file.fields)
        return opened

    def deletion_file(self, fragment: Fragment) -> File:
        """Return the deletion file of a fragment with deletions; raises as `file` does."""
        deletion = fragment.deletion_file
        assert deletion is not None
        return self.file(DELETIONS, deletion.path(fragment.id), deletion.base_id)

    def file(
        self, directory: str, path: str, base_id: int | None = None, size: int | None = None
    ) -> File:
        """Return a file that the manifest names.

        Makes no request, unless the directory of a base path must be looked for.

        Args:
            directory: Directory of the kind of file in a table, for instance `data`; empty for the
                directory of the table.
            path: Path relative to that directory.
            base_id: Id of the file's base path; None for the table's own directory.
            size: Size in bytes, if it is known.

        Raises:
            CorruptFile: The path climbs out of its directory, or the manifest lacks the base path.
            UnsupportedFeature: The rules do not allow the base path.
        """
        _check_relative(path)
        if base_id is None:
            return self.store.file(_join(directory, path), size, _UNIQUE)
        base = self._base(base_id)
        if base_id not in self._stores:
            self._stores[base_id] = self._open_base(base)
        # A plain directory holds files of all kinds directly.
        below = _join(directory, path) if base.is_dataset_root else path
        return self._stores[base_id].file(below, size, _UNIQUE)

    def external(self, uri: str, base_id: int | None = None) -> File:
        """Return the object of an external blob; makes no request.

        Args:
            uri: URI of the object, or its path below a base path.
            base_id: Id of the base path; None if `uri` is a URI.

        Raises:
            CorruptFile: The path climbs out of its base path, or the manifest lacks the base path.
            UnsupportedFeature: The rules do not allow to read the object.
        """
        if "\0" in uri:
            raise CorruptFile(f"the blob {uri!r} has a NUL in its address")
        if base_id is not None:
            _check_relative(uri)
            uri = f"{self._base(base_id).path.rstrip('/')}/{uri}"
        protocol, path = self._split_uri(self._apply_moves(uri))
        for allowed in self.rules.external_blobs:
            allowed_protocol, directory = self._split_uri(allowed)
            climbs = ".." in path.replace("\\", "/").split("/")
            if protocol == allowed_protocol and _is_below(path, directory) and not climbs:
                if allowed not in self._external:
                    self._external[allowed] = self._store_at(protocol, directory)
                return self._external[allowed].file(path[len(directory.rstrip("/")) :].lstrip("/"))
        raise UnsupportedFeature(
            f"the blob {uri!r} is no part of the table; it is read only when asked for, with "
            "BaseRules(external_blobs=[…]), which lists the directories that may be read"
        )

    def _split_uri(self, uri: str) -> tuple[str, str]:
        """Split a URI into protocol and path; the protocol of the table's filesystem is empty."""
        protocol, separator, path = uri.partition("://")
        if separator and protocol not in _protocols(self.store.fs):
            return protocol, path
        return "", str(self.store.fs._strip_protocol(uri))

    def _store_at(self, protocol: str, path: str) -> Store:
        if not protocol:
            return Store(self.store.fs, path)
        import fsspec

        options = self.rules.storage_options.get(protocol, {})
        fs, root = fsspec.core.url_to_fs(f"{protocol}://{path}", **options)
        return Store(fs, root)

    def _base(self, base_id: int) -> BasePath:
        try:
            return self._bases[base_id]
        except KeyError:
            raise CorruptFile(
                f"a file lies below base path {base_id}, the manifest has {sorted(self._bases)}"
            ) from None

    def _open_base(self, base: BasePath) -> Store:
        path = self._apply_moves(base.path)
        is_moved = path != base.path
        if not path or "\0" in path or ".." in path.replace("\\", "/").split("/"):
            raise CorruptFile(f"base path {base.id} is {base.path!r}, not an absolute path")
        protocol, path = self._split_uri(path)
        if protocol and self.rules.follow != "any":
            raise _refusal(base, "in another store", "any")
        opened = self._store_at(protocol, path)
        if base.is_dataset_root and not protocol and not is_moved:
            opened = self._find_moved(opened)
        is_outside = not protocol and not _is_below(opened.root, self._root.root)
        if self.rules.follow == "table" and is_outside:
            raise _refusal(base, "outside of the table's directory", "store")
        return opened

    def _find_moved(self, recorded: Store) -> Store:
        """Return the directory of a base path's table, also if the table was moved with this one.

        Only a directory that is gone is looked for: this table itself, if it has the same name or
        is read as a branch; and a table of the same name beside this one.
        """
        root = self._root.root
        if recorded.root == root or _is_table(recorded):
            return recorded
        for candidate in _candidates(recorded.root, root, is_branch=root != self.store.root):
            moved = Store(self.store.fs, candidate)
            if _is_table(moved):
                logger.warning(
                    "%s: the manifest names files of %s, which is gone; they are read from %s. "
                    "BaseRules(moved={…}) says where such a table is now",
                    self.store.url(),
                    recorded.url(),
                    moved.url(),
                )
                return moved
        return recorded  # a read of its files raises MissingFile

    def _apply_moves(self, path: str) -> str:
        """Return the path with its directory replaced by the one that `rules.moved` gives."""
        for old, new in self.rules.moved.items():
            if _is_below(path, old):
                return new.rstrip("/") + path[len(old.rstrip("/")) :]
        return path


def _is_table(store: Store) -> bool:
    try:
        return bool(store.names(_VERSIONS))
    except ReadFailed:
        return False


def _candidates(recorded: str, root: str, is_branch: bool) -> Iterator[str]:
    """Yield directories where a moved table may be.

    Args:
        recorded: Recorded directory of the table, or of a branch of it.
        root: Directory of the table that is read.
        is_branch: Whether a branch of the latter is read.
    """
    old, tree, branch = recorded.partition("/tree/")
    name = old.rpartition("/")[2]
    home, _, own_name = root.rpartition("/")
    if is_branch or name == own_name:
        yield root + tree + branch
    if name != own_name:
        yield f"{home}/{name}{tree}{branch}"


def _check_relative(path: str) -> None:
    parts = path.replace("\\", "/").split("/")
    if not path or path.startswith("/") or ".." in parts or "\0" in path:
        raise CorruptFile(
            f"the manifest names the file {path!r}; a path that stays below its base was expected"
        )


def _join(directory: str, path: str) -> str:
    return f"{directory}/{path}" if directory else path


def _is_below(path: str, directory: str) -> bool:
    directory = directory.rstrip("/")
    return path.rstrip("/") == directory or path.startswith(directory + "/")


def _protocols(fs: fsspec.AbstractFileSystem) -> set[str]:
    """Return the protocols of a filesystem, and of the filesystem that it wraps, if any."""
    import fsspec
    from fsspec.implementations.dirfs import DirFileSystem

    own = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    inner = getattr(fs, "fs", None)
    if isinstance(inner, fsspec.AbstractFileSystem) and not isinstance(fs, DirFileSystem):
        own |= _protocols(inner)
    return own


def _refusal(base: BasePath, where: str, rule: Follow) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"base path {base.id} ({base.path}) lies {where}; it is followed only when asked for, "
        f"with BaseRules(follow={rule!r})"
    )
