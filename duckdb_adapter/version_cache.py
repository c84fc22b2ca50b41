"""Versions of tables that stay open from one query to the next.

Each query lists the versions of a table anew. If a name means the version that it meant before, and
the store tells that its manifest is still the same file with the same bytes, the version is not
opened again: manifest, readers of fragments, and small files are those of the query before. What
they take is within the budgets that all open tables of a process share.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from lancefs.storage import Store
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import BaseRules
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, Resolved, again_if_cleaned_up, resolve
from lancefs.table.versions import is_newest

# Budget of what manifests tell, in bytes, about: of a table, and of each of its fragments.
_BUDGET = 64 * 1024 * 1024
_TABLE = 256 * 1024
_FRAGMENT = 512
_NEWEST = Ref()


class _CachedVersion(NamedTuple):
    """A version, and what tells its manifest from all others."""

    manifest: Hashable
    version: OpenVersion


# By the table, how it is reached, and the ref. A newer version takes the place of an older one,
# whose files may be gone, and a point in time that of another one.
_VERSIONS: BudgetCache[Hashable, _CachedVersion] = BudgetCache(_BUDGET)


def open_cached(store: Store, ref: Ref, rules: BaseRules | None) -> OpenVersion:
    """Find the version that a ref names now, and open it unless it is open.

    Args:
        store: The directory of the table.
        ref: The ref.
        rules: How far base paths of the manifest are followed.

    Raises:
        LanceError: As `open_version` does.
    """
    kept = _VERSIONS.peek(_key(store, ref, rules)) if store.is_local and ref == _NEWEST else None
    if kept is not None and is_newest(store, kept.version.resolved.file):
        file = store.file(kept.version.resolved.file.path)
        if kept.manifest == (file.place, file.identity()):
            return _met_again(kept.version)
    return again_if_cleaned_up(lambda: _open_cached(resolve(store, ref), ref, rules))


def forget() -> None:
    """Open all versions anew when they are named next: a file may be put back after an error."""
    _VERSIONS.clear()


def _key(store: Store, ref: Ref, rules: BaseRules | None) -> Hashable:
    # Equal filesystems may hold different files, and rules have no hash: a version keeps both, so
    # that no others can have their ids.
    reached = store.maps if store.is_local else id(store.fs), id(rules)
    place = ref if ref.as_of is None else ref._replace(as_of=None)
    return (store.root, *reached, place)


def _open_cached(resolved: Resolved, ref: Ref, rules: BaseRules | None) -> OpenVersion:
    store, file = resolved.root, resolved.manifest
    identity = file.identity()  # before it is read: if it is replaced now, it differs next time
    if identity is None:
        return OpenVersion(resolved, rules)
    key, manifest = _key(store, ref, rules), (file.place, identity)
    kept = _VERSIONS.peek(key)
    if kept is None or kept.manifest != manifest:
        version = OpenVersion(resolved, rules)
        kept = _CachedVersion(manifest, version)
        _VERSIONS.put(key, kept, _TABLE + _FRAGMENT * len(version.manifest.fragments))
    return _met_again(kept.version)


def _met_again(version: OpenVersion) -> OpenVersion:
    """Return a version whose directories are checked anew: links may have taken their place."""
    confines = version.resolved.root.confines
    if confines is not None:
        confines.look_again()
    return version
