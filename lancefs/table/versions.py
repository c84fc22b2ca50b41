"""The versions of a table: one manifest file each, found with one listing.

The names alone tell the versions, so nothing else is read: `latest_version_hint.json` is never
needed, and staged, detached and temporary files are passed over.

Format page: transactions, section "Manifest Naming Schemes"
(`docs/src/format/table/transaction.md`).
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from lancefs.errors import CorruptFile, MissingFile, NotALanceTable, ReadFailed, RefNotFound
from lancefs.storage import Store

VERSIONS = "_versions"

_NAME = re.compile(r"(0|[1-9][0-9]{0,19}|[0-9]{20})\.manifest")
_U64_MAX = 2**64 - 1
# Versions from here on are detached: no part of the history, found only by those who know them.
_FIRST_DETACHED = 2**63


class Scheme(StrEnum):
    """How a table names its manifests."""

    V1 = "V1"  # the version
    V2 = "V2"  # 2⁶⁴ − 1 − the version in twenty digits, so that the newest is listed first


class VersionFile(NamedTuple):
    """The manifest file of one version.

    Attributes:
        version: Its number.
        path: Relative to the table's directory.
        scheme: How it is named.
        size: In bytes, where the listing told it.
        stamp: What tells its bytes from others that had the same name (a table may be deleted and
            made anew), where the listing told it.
    """

    version: int
    path: str
    scheme: Scheme
    size: int | None
    stamp: str | None = None


def list_versions(store: Store) -> list[VersionFile]:
    """List the versions of a table, oldest first, with one listing.

    Args:
        store: The directory of the table, or of a branch.

    Raises:
        NotALanceTable: There is no version at all.
        CorruptFile: Both naming schemes occur; which version is the latest is then undefined.
        ReadFailed: The store refused or failed.
    """
    # What the filesystem remembers of an earlier listing may lack the newest version.
    store.refresh(VERSIONS)
    found: dict[int, VersionFile] = {}
    schemes: dict[Scheme, str] = {}
    try:
        entries = store.entries(VERSIONS)
    except ReadFailed as error:
        raise ReadFailed(f"{error}{_hint(store)}") from error
    for name, info in entries:
        parsed = parse_name(name)
        if parsed is None or info.get("type") == "directory":
            continue
        version, scheme = parsed
        schemes.setdefault(scheme, name)
        size = info.get("size")
        found[version] = VersionFile(
            version,
            f"{VERSIONS}/{name}",
            scheme,
            size if isinstance(size, int) else None,
            _stamp(info),
        )
    if len(schemes) > 1:
        raise _mixed(store, schemes)
    if not found:
        raise _not_a_table(store)
    return sorted(found.values(), key=lambda file: file.version)


def _stamp(info: Mapping[str, object]) -> str | None:
    """Return the digest that object stores give of a file: times are too coarse."""
    found = next((info[name] for name in ("ETag", "etag") if info.get(name)), None)
    return found if isinstance(found, str) else None


def latest(store: Store) -> VersionFile:
    """Return the newest version of a table, with one listing; raises as `list_versions` does."""
    return list_versions(store)[-1]


def pick(store: Store, versions: Sequence[VersionFile], version: int) -> VersionFile:
    """Return one of the versions that were listed.

    Args:
        store: Where they were listed, for the message.
        versions: Oldest first, at least one.
        version: The number of the one that is wanted.

    Raises:
        RefNotFound: It is not among them; the message lists those that are.
    """
    for file in reversed(versions):
        if file.version == version:
            return file
    raise RefNotFound(
        f"{store.url()}: there is no version {version}; {describe(versions)}"
        + (" (older ones were cleaned up)" if version < versions[0].version else "")
    )


def unlisted(store: Store, version: int) -> VersionFile | None:
    """Look for a version by its number alone, on a store that cannot list, with a request or two.

    Args:
        store: The directory of the table, or of a branch.
        version: The number.

    Returns:
        None where there is no such file, or the store does not say.
    """
    for scheme in (Scheme.V2, Scheme.V1):
        number = f"{_U64_MAX - version:020}" if scheme is Scheme.V2 else str(version)
        path = f"{VERSIONS}/{number}.manifest"
        try:
            return VersionFile(version, path, scheme, store.file(path).size)
        except (MissingFile, ReadFailed):
            continue
    return None


def describe(versions: Sequence[VersionFile]) -> str:
    """Name the versions in an error message: all where they are few, else the last ones."""
    shown = [str(file.version) for file in versions[-10:]]
    if len(versions) > 10:
        return f"the table has {versions[0].version} … {', '.join(shown)}"
    return f"the table has {', '.join(shown)}"


def parse_name(name: str) -> tuple[int, Scheme] | None:
    """Read a version off the name of a manifest; None where it is the name of something else."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    digits = match[1]
    number = int(digits)
    scheme = Scheme.V2 if len(digits) == 20 else Scheme.V1
    version = _U64_MAX - number if scheme is Scheme.V2 else number
    return (version, scheme) if 0 <= version < _FIRST_DETACHED else None


def _mixed(store: Store, schemes: dict[Scheme, str]) -> CorruptFile:
    error = CorruptFile(
        "manifests are named by two schemes, which leaves the latest version undefined: "
        + " and ".join(f"{name} ({scheme})" for scheme, name in sorted(schemes.items()))
        + "; Lance's migrate_manifest_paths_v2() renames the old ones"
    )
    error.path = store.url(VERSIONS)
    return error


def _hint(store: Store) -> str:
    """Say what helps with servers that cannot list."""
    is_web = store.url().startswith(("http://", "https://"))
    return "; where a server cannot list, name the version, as in version=7" if is_web else ""


def _not_a_table(store: Store) -> NotALanceTable:
    names = store.names()
    if not names:
        return NotALanceTable(
            f"{store.url()}: there is no such directory, or it is empty{_hint(store)}"
        )
    tables = sorted(name for name in names if name.endswith(".lance"))[:10]
    hint = f"; did you mean one of {', '.join(tables)} in it?" if tables else ""
    return NotALanceTable(
        f"{store.url()}: not a Lance table: there is no manifest in {VERSIONS}/{hint}"
    )
