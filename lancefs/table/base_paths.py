"""Finding the files that a manifest names.

Most files lie below the table's own directory. A file with a base id lies below one of the
manifest's base paths: the directory of the table that a shallow clone or a branch was made from, or
a plain directory of files. A base path is absolute and may point anywhere, and a manifest may come
from a stranger. So `BaseRules` decide whether a base path is followed, and a path below a base may
never climb out of it.

By default, base paths are followed in the table's own store: the same origin (`storage.origins`),
and of a machine's files those in the folder of tables that the table lies in. What was given for
that origin, such as credentials, is not used for another one. Symbolic links are held to the same
directories (`storage.links`).

Format page: storage layout, section "Base Path System" (`docs/src/format/table/layout.md`).
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import unquote

from lancefs.errors import CorruptFile, ReadFailed, UnsupportedFeature, locating
from lancefs.masking import mask_secrets
from lancefs.printable import get_logger
from lancefs.storage import TAIL, Bytes, File, Store, opened_folder, read_folder
from lancefs.storage.filesystems import is_machine, open_url
from lancefs.storage.links import Confines
from lancefs.storage.origins import is_web_url, options_for, origin, same_origin
from lancefs.storage.web import split_query
from lancefs.table.fragments import DataFile, Fragment
from lancefs.table.manifest import BasePath

logger = get_logger(__name__)

Follow: TypeAlias = Literal["table", "store", "any"]

DATA = "data"
_VERSIONS = "_versions"
DELETIONS = "_deletions"

# Estimated bytes of metadata at the end of a data file, for each column.
_BYTES_PER_COLUMN = 160
# Stamp of files that a manifest names: their names are never reused for other bytes.
_UNIQUE = "unique"
# Times that a path may be quoted again before it counts as an attempt to climb.
_MAX_QUOTED = 8
_EXTERNAL = "the directory that it leads to in BaseRules(external_blobs=[…])"


@dataclass(frozen=True, slots=True)
class BaseRules:
    """Rules for files outside of the table's directory: which ones are read, and from where.

    Attributes:
        follow: Base paths that are followed. `table`: those below the table's own directory.
            `store` (the default): those in the table's store, which is the same server, bucket or
            container; of local files and other files of a machine, those below the directory that
            the table lies in. `any`: all. Symbolic links are followed to the same places.
        moved: New directories by old ones, for base paths whose directories were moved or copied.
            The new directories are allowed, so that an entry with the same directory twice allows
            a directory that did not move.
        storage_options: Options for other stores, by origin, for instance `s3://bucket` or
            `https://host:8443`, or by protocol. Options of web servers are given by origin only.
            Other stores do not get the options of the table's own store.
        external_blobs: Directories with external blobs that may be read, for instance
            `s3://bucket/videos`. By default none, whatever `follow` says: an external blob may name
            any file.

    Raises:
        ValueError: `follow` is none of these, or `storage_options` has options for all web servers.
    """

    follow: Follow = "store"
    moved: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict,
        repr=False,  # may hold secrets
    )
    external_blobs: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.follow not in get_args(Follow):
            expected = ", ".join(map(repr, get_args(Follow)))
            raise ValueError(f"follow is {self.follow!r}; one of {expected} was expected")
        for key in self.storage_options:
            if key in ("http", "https"):
                raise ValueError(
                    f"storage_options for {key!r} would go to every web server that a table names; "
                    "give them by origin, for instance 'https://host'"
                )

    def moving(self, moved: Mapping[str, str]) -> BaseRules:
        """Return the rules with further moved directories.

        Args:
            moved: New directories by old ones, as the attribute.
        """
        return replace(self, moved={**self.moved, **moved})


def as_rules(
    given: BaseRules | Mapping[str, Any] | None, moved: Mapping[str, str] | None = None
) -> BaseRules | None:
    """Return the rules that a caller gives; None for the default ones.

    Args:
        given: The rules, or their fields in a mapping.
        moved: Further moved directories, as `BaseRules.moved`.

    Raises:
        TypeError: They are neither, or there is no such field.
        ValueError: As for `BaseRules`.
    """
    value: object = given
    if value is not None and not isinstance(value, BaseRules | Mapping):
        kind = type(value).__name__  # the value may hold a secret
        raise TypeError(f"base_rules is a {kind}; lancefs.BaseRules(…) was expected")
    others: object = moved
    if others is not None and not isinstance(others, Mapping):
        raise TypeError(f"base_paths is {others!r}; a mapping of old to new locations was expected")
    rules = BaseRules(**given) if isinstance(given, Mapping) else given
    return (rules or BaseRules()).moving(moved) if moved else rules


def confine(store: Store, rules: BaseRules | None) -> Store:
    """Return the directory of a table with what symbolic links may lead to, by the rules.

    Args:
        store: The directory of the table.
        rules: The rules; None for the default ones.
    """
    return store.confined(_confines(store, rules or BaseRules()))


def _confines(store: Store, rules: BaseRules) -> Confines:
    root = store.local_root
    if rules.follow == "any" or root is None:
        return Confines(None)
    if rules.follow == "table":
        return Confines([root], "BaseRules(follow='store')")
    home = os.path.dirname(root)
    # Below the root directory lie all files of the machine: there, a table stands alone.
    given = [root] if home == os.sep else [root, home]
    named = [new.removeprefix("file://") for new in rules.moved.values()]
    allowed = [*given, *(path for path in named if os.path.isabs(path))]
    return Confines(allowed, "BaseRules(follow='any')", beside=root)


class TableFiles:
    """Finds the files of one version of a table.

    Args:
        store: The directory of the table, or of the branch.
        base_paths: Base paths of the manifest.
        rules: Rules for files outside of the table's directory.
        root: The directory of the table, if `store` is that of a branch.
        max_memory: Bytes that one read of the files may expand to; None for the default limit, see
            `datafile.buffers.expanding`.
    """

    def __init__(
        self,
        store: Store,
        base_paths: Sequence[BasePath] = (),
        rules: BaseRules | None = None,
        root: Store | None = None,
        max_memory: int | None = None,
    ) -> None:
        self.max_memory = max_memory
        self.rules = rules or BaseRules()
        root = root or store
        self._root = confine(root, self.rules) if root.confines is None else root
        self.store = store.confined(self._root.confines) if store.confines is None else store
        self._bases = {base.id: base for base in base_paths}
        self._stores: dict[int, Store] = {}
        self._external: dict[str, Store] = {}
        if len(self._bases) != len(base_paths):
            with self.locating():
                raise CorruptFile("two base paths of the manifest have the same id")

    def data_file(self, file: DataFile) -> File:
        """Return a data file of a fragment; raises as `file` does."""
        opened = self.file(DATA, file.path, file.base_id, file.size)
        opened.tail = TAIL + _BYTES_PER_COLUMN * len(file.fields)
        return opened

    def read_plain(self, names: Sequence[str], sizes: Sequence[int], memory: Bytes) -> None:
        """Read small data files of the table's own directory, one after the other.

        Args:
            names: Names of the files, which lead nowhere else.
            sizes: Bytes of each file.
            memory: What the bytes are written to, as long as all files together.

        Raises:
            LanceError: As `storage.read_joined` does.
        """
        read_folder(self.store, DATA, names, sizes, memory)

    def opened_data(self) -> AbstractContextManager[int]:
        """Open the directory of data files for a while; see `storage.opened_folder`."""
        return opened_folder(self.store, DATA)

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
        try:
            check_relative(path)
            if base_id is None:
                return self.store.file(_join(directory, path), size, _UNIQUE)
            base = self._base(base_id)
            if base_id not in self._stores:
                self._stores[base_id] = self._open_base(base).of_version(self.store.version)
        except (CorruptFile, UnsupportedFeature):
            with self.locating():
                raise
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
        try:
            return self._external_file(uri, base_id)
        except (CorruptFile, UnsupportedFeature):
            with self.locating():
                raise

    def _external_file(self, uri: str, base_id: int | None) -> File:
        if "\0" in uri:
            raise CorruptFile(f"the blob {uri!r} has a NUL in its address")
        if base_id is not None:
            check_relative(uri)
            uri = f"{self._base(base_id).path.rstrip('/')}/{uri}"
        address = self._moved(uri)[0]
        if not _climbs(address):
            for allowed in self.rules.external_blobs:
                rest = self._below(address, allowed)
                if rest is not None:
                    if allowed not in self._external:
                        opened = self._store_at(allowed)
                        root = opened.local_root
                        confines = None if root is None else Confines([root], _EXTERNAL)
                        self._external[allowed] = opened.confined(confines)
                    return self._external[allowed].file(rest)
        raise UnsupportedFeature(
            f"the blob {uri!r} is no part of the table; it is read only when asked for, with "
            "BaseRules(external_blobs=[…]), which lists the directories that may be read"
        )

    def locating(self) -> locating:
        """Return what adds the table and the version to errors about what the manifest says."""
        version = self.store.version
        return locating(self.store.url(), None if version is None else f"version {version}")

    def _below(self, uri: str, directory: str) -> str | None:
        """Return the path of a URI below a directory; None if it lies elsewhere."""
        here, there = self._own_path(uri), self._own_path(directory)
        if (here is None) != (there is None):
            return None
        if here is None or there is None:
            if origin(uri) != origin(directory):
                return None
            here, there = uri, directory
        if is_web_url(there):
            here, there = (unquote(split_query(one)[0]) for one in (here, there))
        return here[len(there.rstrip("/")) :].lstrip("/") if _is_below(here, there) else None

    def _own_path(self, url: str) -> str | None:
        """Return the path of a URL in the table's own store; None if it is in another one."""
        return same_origin(self.store.fs, self._root.root, url)

    def _store_at(self, url: str, confines: Confines | None = None) -> Store:
        """Return the directory that a URL names, in whatever store it is."""
        path = self._own_path(url)
        if path is not None:
            return Store(self.store.fs, path, confines)
        if "://" not in url:  # in another bucket
            url = str(self.store.fs.unstrip_protocol(self.store.fs._strip_protocol(url)))
        options = options_for(url, self.rules.storage_options)
        fs, root = open_url(url, options)
        return Store(fs, root, confines)

    def _base(self, base_id: int) -> BasePath:
        try:
            return self._bases[base_id]
        except KeyError:
            raise CorruptFile(
                f"a file lies below base path {base_id}, the manifest has {sorted(self._bases)}"
            ) from None

    def _open_base(self, base: BasePath) -> Store:
        url, allowed = self._moved(base.path)
        if not url or _climbs(url):
            raise CorruptFile(f"base path {base.id} is {base.path!r}, not an absolute path")
        path = self._own_path(url)
        refusal = self._refusal(base, path, is_named=allowed is not None)
        # A plain directory is looked for on this machine only: in a store, that costs a listing.
        may_be_moved = base.is_dataset_root or self._root.is_local
        if may_be_moved and allowed is None and (refusal or path is not None):
            moved = self._find_moved(base, url, path, is_refused=refusal is not None)
            if moved is not None:
                return moved
        if refusal is not None:
            raise refusal
        confines = self._root.confines
        if path is None:
            confines = None  # of a store that the caller allowed
        return self._store_at(url, confines)

    def _refusal(
        self, base: BasePath, path: str | None, is_named: bool
    ) -> UnsupportedFeature | None:
        """Return the error for a base path that the rules do not allow; None for another one.

        Args:
            base: The base path.
            path: Its path in the table's own store, after moves; None in another store.
            is_named: Whether the caller named its directory in `moved`.
        """
        rules, root = self.rules, self._root
        if rules.follow == "any":
            return None
        if path is None:
            where = f"in another store than {origin_of(root)}"
            return _refusal(base, where, "BaseRules(follow='any')")
        if rules.follow == "table":
            if self._is_inside(path, root.root):
                return None
            return _refusal(base, "outside of the table's directory", "BaseRules(follow='store')")
        if is_named or not is_machine(root.fs):
            return None
        home = posixpath.dirname(root.root)
        if root.is_local:
            assert root.confines is not None
            is_allowed = root.confines.allow(path)
        else:
            is_allowed = _is_below(path, home if home.strip("/") else root.root)
        if is_allowed:
            return None
        advice = (
            f"BaseRules(moved={{{base.path!r}: {base.path!r}}}) for this directory, or "
            "BaseRules(follow='any') for all"
        )
        return _refusal(base, f"outside of {home}, the folder that the table is in", advice)

    def _is_inside(self, path: str, directory: str) -> bool:
        """Return whether a path of the table's own store is below a directory."""
        if self._root.is_local:
            return Confines([directory]).allow(path)
        if self._root.is_web:
            path, directory = (unquote(split_query(one)[0]) for one in (path, directory))
        return _is_below(path, directory)

    def _find_moved(
        self, base: BasePath, url: str, path: str | None, is_refused: bool
    ) -> Store | None:
        """Return the directory of a base path, if it was moved or copied with this table.

        Only a directory that is gone, or that may not be read, is looked for: this table itself,
        if it has the same name or is read as a branch; and a table or a directory of files of the
        same name beside this table.

        Args:
            base: The base path.
            url: The recorded directory.
            path: Its path in the table's own store; None in another store.
            is_refused: Whether the rules do not allow to read it.
        """
        root = self._root
        if not is_refused:
            assert path is not None
            recorded = Store(root.fs, path, root.confines)
            if recorded.root == root.root or _is_base(recorded, base):
                return recorded
        is_branch = root.root != self.store.root
        for candidate in _candidates(url, root, is_branch, self.rules.follow == "table"):
            # A clone may have the name of its original: then its own directory is no candidate.
            is_own = candidate.root == root.root and not is_branch
            if not (is_own and is_refused) and _is_base(candidate, base):
                is_there = path is None or (root.is_local and os.path.exists(path))
                logger.warning(
                    "%s: the manifest names files of %s, which %s; they are read from %s. "
                    "BaseRules(moved={…}) says where such a table is now",
                    mask_secrets(self.store.url()),
                    mask_secrets(url if path is None else Store(root.fs, path).url()),
                    "may not be read" if is_refused and is_there else "is gone",
                    mask_secrets(candidate.url()),
                )
                return candidate
        return None  # a read of its files raises MissingFile

    def _moved(self, url: str) -> tuple[str, str | None]:
        """Apply the moves to a URL or path.

        Returns:
            The URL with its directory replaced by the one that `rules.moved` gives, and the latter;
            None if there is no move for it.
        """
        for old, new in self.rules.moved.items():
            if _is_below(url, old):
                return new.rstrip("/") + url[len(old.rstrip("/")) :], new
        return url, None


def origin_of(store: Store) -> str:
    """Return the origin of a directory, for messages."""
    return origin(store.url()) if "://" in store.url() else "the local files"


def _is_base(store: Store, base: BasePath) -> bool:
    """Return whether a directory is a table or, in local files, holds files as a base path does."""
    files = DATA if base.is_dataset_root else ""
    root = store.local_root
    if root is not None and os.path.isdir(os.path.join(root, files)):
        return True
    return base.is_dataset_root and _is_table(store)


def _is_table(store: Store) -> bool:
    try:
        return bool(store.names(_VERSIONS))
    except ReadFailed:
        return False


def _candidates(recorded: str, root: Store, is_branch: bool, is_inside: bool) -> Iterator[Store]:
    """Yield directories where a moved base path may be.

    Args:
        recorded: Recorded directory of a table, of a branch of it, or of files.
        root: Directory of the table that is read.
        is_branch: Whether a branch of the latter is read.
        is_inside: Whether only directories inside of the latter are wanted.
    """
    old, tree, branch = split_query(recorded)[0].rstrip("/").partition("/tree/")
    name = old.rpartition("/")[2]
    inside = (tree + branch).strip("/")
    address, query = split_query(root.root) if root.is_web else (root.root, "")
    home, _, own_name = address.rpartition("/")
    if is_branch or name == own_name:
        yield root.below(inside) if inside else root
    if name and name != own_name and not is_inside:
        beside = Store(root.fs, f"{home}/{name}{query}", root.confines)
        yield beside.below(inside) if inside else beside


def check_relative(path: str) -> None:
    """Check that a path leads to a file below a directory.

    Args:
        path: The path, as a manifest has it.

    Raises:
        CorruptFile: It climbs out of the directory, or is absolute.
    """
    if not path or path.startswith("/") or _climbs(path):
        raise CorruptFile(
            f"the manifest names the file {path!r}; a path that stays below its base was expected"
        )


def _climbs(path: str) -> bool:
    """Return whether a path has `..` or NUL in it, also in the quoted form that URLs have."""
    for _ in range(_MAX_QUOTED):
        if "\0" in path or ".." in path.replace("\\", "/").split("/"):
            return True
        unquoted = unquote(path) if "%" in path else path
        if unquoted == path:
            return False
        path = unquoted
    return True


def _join(directory: str, path: str) -> str:
    return f"{directory}/{path}" if directory else path


def _is_below(path: str, directory: str) -> bool:
    directory = directory.rstrip("/")
    return path.rstrip("/") == directory or path.startswith(directory + "/")


def _refusal(base: BasePath, where: str, advice: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"base path {base.id} ({base.path}) lies {where}; it is followed only when asked for, "
        f"with {advice}"
    )
