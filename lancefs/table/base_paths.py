"""Where the files lie that a manifest names.

Most lie below the table's own directory. A file with a base id lies below one of the manifest's
base paths instead: the table that a shallow clone or a branch came from, or a directory of files.
A base path is absolute and may point anywhere, so it is followed only as `BaseRules` allow; a name
below a base may never climb out of it.

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

# What the footer of a data file has for each column, about: its pages, and where that stands.
_PER_COLUMN = 160
# The stamp of files that a manifest names: writers never use a name again.
_UNIQUE = "unique"


@dataclass(frozen=True, slots=True)
class BaseRules:
    """Which base paths are followed, and where to.

    Attributes:
        follow: `table`: only those below the table's own directory. `store` (the default): those on
            the filesystem that the table is read from. `any`: those in other stores too.
        moved: Old beginnings of base paths and what stands in their place, for tables whose
            parents were moved or copied.
        storage_options: For the filesystems of other stores, by protocol.
        external_blobs: Beginnings of the addresses at which blobs may be read that are no part of
            the table, for instance `s3://bucket/videos`; none by default, whatever `follow` says:
            such a blob may be any file.
    """

    follow: Follow = "store"
    moved: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    external_blobs: Sequence[str] = ()

    def moving(self, moved: Mapping[str, str]) -> BaseRules:
        """Return the rules for tables of which more have moved.

        Args:
            moved: As the attribute.
        """
        return replace(self, moved={**self.moved, **moved})


class TableFiles:
    """Finds the files of one version of a table.

    Args:
        store: The directory of the table, or of the branch.
        base_paths: Those of the manifest.
        rules: Which of them are followed.
        root: The directory of the table, where `store` is that of a branch.
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
        found = self.file(DATA, file.path, file.base_id, file.size)
        found.tail = TAIL + _PER_COLUMN * len(file.fields)
        return found

    def deletion_file(self, fragment: Fragment) -> File:
        """Return the deletion file of a fragment that has one; raises as `file` does."""
        deletion = fragment.deletion_file
        assert deletion is not None
        return self.file(DELETIONS, deletion.path(fragment.id), deletion.base_id)

    def file(
        self, directory: str, path: str, base_id: int | None = None, size: int | None = None
    ) -> File:
        """Return a file that the manifest names; the store is at most asked where a base path is.

        Args:
            directory: Where its kind lies in a table, for instance `data`; nothing for the table
                itself.
            path: Relative to that.
            base_id: The base path that it lies below, or None for the table's own directory.
            size: In bytes, where it is known.

        Raises:
            CorruptFile: The path climbs out of its directory, or the base path is not there.
            UnsupportedFeature: The rules do not allow to follow the base path.
        """
        _check_relative(path)
        if base_id is None:
            return self.store.file(_join(directory, path), size, _UNIQUE)
        base = self._base(base_id)
        if base_id not in self._stores:
            self._stores[base_id] = self._open(base)
        # A plain directory holds the files themselves, whatever their kind.
        below = _join(directory, path) if base.is_dataset_root else path
        return self._stores[base_id].file(below, size, _UNIQUE)

    def external(self, uri: str, base_id: int | None = None) -> File:
        """Return the object that an external blob is in, without touching its store.

        Args:
            uri: An address, or a path below a base path.
            base_id: That base path; None where `uri` is an address.

        Raises:
            CorruptFile: The path climbs out of its base path, or the base path is not there.
            UnsupportedFeature: The rules do not allow to read there.
        """
        if base_id is not None:
            _check_relative(uri)
            uri = f"{self._base(base_id).path.rstrip('/')}/{uri}"
        protocol, path = self._parts(self._moved(uri))
        for allowed in self.rules.external_blobs:
            its_protocol, directory = self._parts(allowed)
            climbs = ".." in path.replace("\\", "/").split("/")
            if protocol == its_protocol and _is_below(path, directory) and not climbs:
                if allowed not in self._external:
                    self._external[allowed] = self._store_at(protocol, directory)
                return self._external[allowed].file(path[len(directory.rstrip("/")) :].lstrip("/"))
        raise UnsupportedFeature(
            f"the blob {uri!r} is no part of the table; it is read only when asked for, with "
            "BaseRules(external_blobs=[…]) of the addresses that may be read"
        )

    def _parts(self, address: str) -> tuple[str, str]:
        """Split an address into its protocol, empty for the table's own filesystem, and path."""
        protocol, separator, path = address.partition("://")
        if separator and protocol not in _protocols(self.store.fs):
            return protocol, path
        return "", str(self.store.fs._strip_protocol(address))

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

    def _open(self, base: BasePath) -> Store:
        path = self._moved(base.path)
        is_named = path != base.path
        if not path or ".." in path.replace("\\", "/").split("/"):
            raise CorruptFile(f"base path {base.id} is {base.path!r}, not an absolute path")
        protocol, path = self._parts(path)
        if protocol and self.rules.follow != "any":
            raise _refused(base, "in another store", "any")
        opened = self._store_at(protocol, path)
        if base.is_dataset_root and not protocol and not is_named:
            opened = self._found(opened)
        is_outside = not protocol and not _is_below(opened.root, self._root.root)
        if self.rules.follow == "table" and is_outside:
            raise _refused(base, "outside of the table's directory", "store")
        return opened

    def _found(self, recorded: Store) -> Store:
        """Return the directory of another table, or of this one, also where all of it was moved.

        Only a directory that is gone is looked for: at this table, where it has the same name and
        this is a branch of it; and beside this table, where a parent stood that was moved with it.
        """
        root = self._root.root
        if recorded.root == root or _is_table(recorded):
            return recorded
        for candidate in _candidates(recorded.root, root, is_branch=root != self.store.root):
            found = Store(self.store.fs, candidate)
            if _is_table(found):
                logger.warning(
                    "%s: the manifest names files of %s, which is gone; they are read from %s. "
                    "BaseRules(moved={…}) says where such a table is now",
                    self.store.url(),
                    recorded.url(),
                    found.url(),
                )
                return found
        return recorded  # who reads a file of it will say that it is gone

    def _moved(self, path: str) -> str:
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
    """Yield where a table may be now.

    Args:
        recorded: Where it, or a branch of it, was.
        root: Where the table is that is read.
        is_branch: Whether a branch of that is read.
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
    """The protocols of the addresses that a filesystem takes, those of one that it caches too."""
    import fsspec
    from fsspec.implementations.dirfs import DirFileSystem

    own = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    inner = getattr(fs, "fs", None)
    if isinstance(inner, fsspec.AbstractFileSystem) and not isinstance(fs, DirFileSystem):
        own |= _protocols(inner)
    return own


def _refused(base: BasePath, where: str, rule: Follow) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"base path {base.id} ({base.path}) lies {where}; it is followed only when asked for, "
        f"with BaseRules(follow={rule!r})"
    )
