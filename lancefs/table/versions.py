"""The versions of a table: a manifest file for each version, found with one listing.

The names of the manifest files give the versions, so no file is read, not even
`latest_version_hint.json`. Staged, detached and temporary files are ignored.

Format page: transactions, section "Manifest Naming Schemes"
(`docs/src/format/table/transaction.md`).
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, overload

from lancefs.errors import CorruptFile, MissingFile, NotALanceTable, ReadFailed, RefNotFound
from lancefs.storage import Store
from lancefs.storage.retries import NOT_ALLOWED, is_store_closed

VERSIONS = "_versions"

_V1_NAME = re.compile(r"(?:0|[1-9][0-9]{0,18})\.manifest")
_V2_NAME = re.compile(r"[0-9]{20}\.manifest")
# The names in a listing that is joined with slashes, which no name has.
_V2_NAMES = re.compile(rf"/({_V2_NAME.pattern})(?=/)")
_SUFFIX = ".manifest"
_V2_LENGTH = 20 + len(_SUFFIX)
# Of a file whose name is all that was asked for.
_NO_INFO: Mapping[str, object] = {}
_U64_MAX = 2**64 - 1
# Versions from here on are detached: they are not part of the history.
FIRST_DETACHED = 2**63
DETACHED = "versions of 64 bits are detached, and not read"


class Scheme(StrEnum):
    """Naming scheme of a table's manifest files."""

    V1 = "V1"  # the version
    V2 = "V2"  # 2⁶⁴ − 1 − the version, in twenty digits: listings begin with the newest


class VersionFile(NamedTuple):
    """The manifest file of one version.

    Attributes:
        version: Number of the version.
        path: Path relative to the directory of the table or branch.
        scheme: Naming scheme of the file.
        size: Size in bytes, if the listing gave it.
        stamp: Digest of the bytes, if the listing gave one. It differs from that of an earlier
            file of this name: a table may be deleted and created again.
    """

    version: int
    path: str
    scheme: Scheme
    size: int | None
    stamp: str | None = None


class VersionList(Sequence[VersionFile]):
    """The versions of a listing, oldest first; objects are made of those that are looked at.

    Args:
        names: Names of the manifest files, in the order of the versions.
        infos: What the listing says of each file, by name; nothing of those that it lacks.
    """

    def __init__(self, names: Sequence[str], infos: Mapping[str, Mapping[str, object]]) -> None:
        self._names = names
        self._infos = infos

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> VersionFile: ...

    @overload
    def __getitem__(self, index: slice) -> "VersionList": ...

    def __getitem__(self, index: int | slice) -> "VersionFile | VersionList":
        if isinstance(index, slice):
            return VersionList(self._names[index], self._infos)
        name = self._names[index]
        version, scheme = _numbered(name)
        info = self._infos.get(name, _NO_INFO)
        return _described(VersionFile(version, f"{VERSIONS}/{name}", scheme, None), info)


def list_versions(
    store: Store, with_sizes: bool = True, since: int | None = None, explained: bool = True
) -> VersionList:
    """List the versions of a table, oldest first, with one listing.

    Args:
        store: The directory of the table, or of a branch.
        with_sizes: Whether the sizes of local files are wanted, for which each file is asked.
        since: Versions before this one may be left out, which S3 lists last; None for all.
        explained: Whether the error for no table says what is there, which takes requests.

    Raises:
        NotALanceTable: The directory has no version.
        CorruptFile: Both naming schemes occur, so that the latest version is undefined.
        ReadFailed: The store refused or failed.
    """
    names, infos = _list_files(store, with_sizes, since)
    return VersionList(_in_order(store, names, explained), infos)


def _list_files(
    store: Store, with_sizes: bool, since: int | None, is_sole: bool = False
) -> tuple[Sequence[str], Mapping[str, Mapping[str, object]]]:
    """Return the names of the files beside manifests, and what the listing says of each."""
    # An earlier listing in the filesystem's cache may lack the newest version.
    store.refresh(VERSIONS)
    try:
        if store.is_local and not with_sizes:
            return store.file_names(VERSIONS), {}
        entries = None if since is None else _first_entries(store, since, is_sole)
        entries = store.entries(VERSIONS) if entries is None else entries
    except ReadFailed as error:
        # Of a store that nothing can be read from, no version can be read either.
        hint = "" if is_store_closed(error) else _listing_hint(store)
        said = str(error.args[0]).removesuffix(NOT_ALLOWED if hint else "")
        raise ReadFailed(f"{said}{hint}") from error
    infos = {name: info for name, info in entries if info.get("type") != "directory"}
    return list(infos), infos


def _first_entries(
    store: Store, since: int, is_sole: bool
) -> list[tuple[str, dict[str, object]]] | None:
    """Return the first files of a listing in the order of their names, by one request.

    Args:
        store: The directory of the table, or of a branch.
        since: A version.
        is_sole: Whether it is the only one that is wanted, which is asked for where it is not
            among the first.

    Returns:
        None where they are not all files, and lack a version that is wanted.
    """
    page = store.first_entries(VERSIONS)
    if page is None:
        return None
    entries, are_all = page
    oldest = _oldest_in_order([name for name, _ in entries])
    if are_all or (oldest is not None and oldest <= since):
        return entries
    if oldest is None or not is_sole:
        return None
    name = _v2_name(since)
    try:
        return [*entries, (name, dict(store.file(f"{VERSIONS}/{name}").described()))]
    except MissingFile:
        return None


def _oldest_in_order(names: Sequence[str]) -> int | None:
    """Return the oldest version among the first names of a listing that begins with the newest.

    It does if the names ascend, and all manifests among them have the scheme of such listings;
    Lance itself then takes the first one for the newest. None where it does not.
    """
    manifests = [name for name in names if name.endswith(_SUFFIX)]
    if not manifests or manifests != sorted(manifests):
        return None
    if not all(map(_V2_NAME.fullmatch, manifests)):
        return None
    newest, oldest = _numbered(manifests[0])[0], _numbered(manifests[-1])[0]
    return oldest if oldest >= 0 and newest < FIRST_DETACHED else None


def _v2_name(version: int) -> str:
    return f"{_U64_MAX - version:020}{_SUFFIX}"


def _in_order(store: Store, names: Sequence[str], explained: bool = True) -> Sequence[str]:
    """Return the names of manifests among those of files, in the order of the versions."""
    # Of twenty digits, the highest are of the oldest version.
    v2 = _attached(sorted(_V2_NAMES.findall("/".join(["", *names, ""])), reverse=True))
    others = [name for name in names if len(name) != _V2_LENGTH]
    v1 = _attached(sorted(filter(_V1_NAME.fullmatch, others), key=_numbered))
    if v1 and v2:
        raise _mixed_schemes(store, {Scheme.V1: v1[0], Scheme.V2: v2[0]})
    if not (v1 or v2):
        if not explained:
            raise NotALanceTable(f"{store.url()}: not a Lance table")
        from lancefs.table.not_a_table import not_a_table

        raise not_a_table(store)
    return v1 or v2


def _newest(names: Sequence[str]) -> str | None:
    """Return the name of the newest manifest; None where only the order of all names tells it."""
    first = min([name for name in names if len(name) == _V2_LENGTH], default="")
    others = [name for name in names if len(name) != _V2_LENGTH]
    if not _V2_NAME.fullmatch(first) or any(map(_V1_NAME.fullmatch, others)):
        return None
    return first if 0 <= _numbered(first)[0] < FIRST_DETACHED else None


def _attached(names: Sequence[str]) -> Sequence[str]:
    """Leave out the names of detached versions, and of numbers beyond 64 bits.

    Args:
        names: Names of manifest files, in the order of the versions.
    """
    if names and _numbered(names[0])[0] >= 0 and _numbered(names[-1])[0] < FIRST_DETACHED:
        return names
    first, last = (
        bisect_left(names, limit, key=lambda name: _numbered(name)[0])
        for limit in (0, FIRST_DETACHED)
    )
    return names[first:last]


def look_again(store: Store, file: VersionFile) -> VersionFile:
    """Ask a store that lists no digests for the size and the digest of a manifest file.

    Args:
        store: The directory of the table, or of a branch.
        file: The file; what is known of its bytes may be out of date.

    Raises:
        MissingFile: The file is gone.
        ReadFailed: The request failed.
    """
    named = store.uncached.of_version(str(file.version))
    return _described(file, named.file(file.path).described())


def _described(file: VersionFile, info: Mapping[str, object]) -> VersionFile:
    """Return a file with what a filesystem says of its bytes."""
    size = info.get("size")
    # A digest, which object stores list; modification times are too coarse.
    stamp = next((info[name] for name in ("ETag", "etag", "e_tag") if info.get(name)), None)
    return file._replace(
        size=size if isinstance(size, int) else None,
        stamp=stamp if isinstance(stamp, str) else None,
    )


def latest(store: Store) -> VersionFile:
    """Return the newest version of a table, with one listing; raises as `list_versions` does."""
    names, infos = _list_files(store, with_sizes=False, since=_U64_MAX)
    newest = _newest(names)
    return VersionList(_in_order(store, names) if newest is None else [newest], infos)[-1]


def numbered(store: Store, version: int, branch: str | None = None) -> VersionFile:
    """Return a version by its number, with one listing; of many on S3, with a page or two requests.

    Args:
        store: The directory of the table, or of a branch.
        version: The number.
        branch: The branch; None for the main branch.

    Raises:
        RefNotFound: There is no such version; the message names others.
        LanceError: As `list_versions` does.
    """
    names, infos = _list_files(store, with_sizes=False, since=version, is_sole=True)
    found = VersionList(_in_order(store, names), infos)
    if not any(file.version == version for file in found[_place(found, version) :][:1]):
        found = list_versions(store, with_sizes=False)  # all, which the message tells of
    return pick(store, found, version, branch)


def is_newest(store: Store, file: VersionFile) -> bool:
    """Tell whether a version of a local table is still the newest one, in less time than `latest`.

    Args:
        store: The directory of the table, or of a branch.
        file: A version that was the newest one before.

    Returns:
        False also where only `list_versions` can tell.

    Raises:
        ReadFailed: The directory cannot be listed.
    """
    if file.scheme is not Scheme.V2:
        return False
    names = [name for name in store.file_names(VERSIONS) if name.endswith(_SUFFIX)]
    # Names of this length have one scheme, by which the newest version comes first.
    is_one_scheme = set(map(len, names)) == {_V2_LENGTH}
    return is_one_scheme and f"{VERSIONS}/{min(names)}" == file.path


def pick(
    store: Store, versions: Sequence[VersionFile], version: int, branch: str | None = None
) -> VersionFile:
    """Return the file of a version from a listing.

    Args:
        store: The directory that was listed, for the error message.
        versions: The listed versions, oldest first, at least one.
        version: Number of the version.
        branch: The branch that was listed; None for the main branch.

    Raises:
        RefNotFound: The version is not listed; the message names the listed ones.
    """
    position = _place(versions, version)
    if position < len(versions) and versions[position].version == version:
        return versions[position]
    older = ""
    if 0 < version < versions[0].version:
        older = " (older ones were cleaned up)"
        if branch is not None:
            older = " (older ones were cleaned up, or are of the branch that it starts from)"
    if version >= FIRST_DETACHED:
        older = f" ({DETACHED})"
    raise RefNotFound(f"{store.url()}: there is no version {version}; {describe(versions)}{older}")


def _place(versions: Sequence[VersionFile], version: int) -> int:
    """Return where a version is among others, oldest first, or where it would be."""
    return bisect_left(versions, version, key=lambda file: file.version)


def unlisted(store: Store, version: int) -> VersionFile | None:
    """Look for a version by its number, on a store that cannot list; takes one or two requests.

    Args:
        store: The directory of the table, or of a branch.
        version: Number of the version.

    Returns:
        None if neither scheme has such a file, or the store refuses to answer.
    """
    for scheme in (Scheme.V2, Scheme.V1):
        name = _v2_name(version) if scheme is Scheme.V2 else f"{version}{_SUFFIX}"
        path = f"{VERSIONS}/{name}"
        try:
            return VersionFile(version, path, scheme, store.uncached.file(path).size)
        except (MissingFile, ReadFailed):
            continue
    return None


def describe(versions: Sequence[VersionFile]) -> str:
    """List versions for an error message: at most the last ten."""
    shown = [str(file.version) for file in versions[-10:]]
    if len(versions) > 10:
        return f"the table has {versions[0].version} … {', '.join(shown)}"
    return f"the table has {', '.join(shown)}"


def parse_name(name: str) -> tuple[int, Scheme] | None:
    """Return the version and the scheme of a manifest's name; None for any other name."""
    if not (_V1_NAME.fullmatch(name) or _V2_NAME.fullmatch(name)):
        return None
    version, scheme = _numbered(name)
    return (version, scheme) if 0 <= version < FIRST_DETACHED else None


def _numbered(name: str) -> tuple[int, Scheme]:
    """Return the version and the scheme of a name that looks like that of a manifest."""
    number = int(name.removesuffix(_SUFFIX))
    return (_U64_MAX - number, Scheme.V2) if len(name) == _V2_LENGTH else (number, Scheme.V1)


def _mixed_schemes(store: Store, schemes: dict[Scheme, str]) -> CorruptFile:
    error = CorruptFile(
        "manifests are named by two schemes, which leaves the latest version undefined: "
        + " and ".join(f"{name} ({scheme})" for scheme, name in sorted(schemes.items()))
        + "; Lance's migrate_manifest_paths_v2() renames the old ones"
    )
    error.path = store.url(VERSIONS)
    return error


def _listing_hint(store: Store) -> str:
    """Return the advice for stores that do not list, or not for everybody; empty for local ones."""
    if store.is_local or store.is_web:
        return web_hint(store)
    return "; where the store does not let you list, name the version, as in version=7"


def web_hint(store: Store) -> str:
    """Return the advice for web servers, which may be unable to list; empty for other stores."""
    hint = "; where a server cannot list, name the version, as in version=7"
    return hint if store.is_web else ""
