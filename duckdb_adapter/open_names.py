"""Opening the table or tables that a name in SQL refers to."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from duckdb_adapter.paths import TableName, parse_name
from duckdb_adapter.storage import Storage
from duckdb_adapter.version_cache import open_cached
from lancefs.errors import NotALanceTable
from lancefs.lance_dataset import LanceDataset
from lancefs.masking import mask_secrets
from lancefs.scan.settings import default_settings
from lancefs.storage import Store
from lancefs.storage.filesystems import open_url
from lancefs.storage.local_files import local_path
from lancefs.table.base_paths import confine
from lancefs.table.refs import Ref, Resolved, make_ref
from lancefs.threads import Threads, prefetch, submit

_log = logging.getLogger("duckdb_adapter")


class NamedTable(NamedTuple):
    """A version of a table that was opened.

    Attributes:
        dataset: Its rows.
        where: Its files.
    """

    dataset: LanceDataset
    where: Resolved


def find_table(name: str, storage: Storage) -> NamedTable | None:
    """Open the table that a name means, or return None where it means none.

    Args:
        name: As it stands between quotes in SQL.
        storage: Gives the storage options.

    Raises:
        NotALanceTable: There is none at a path or URL that ends in `.lance`.
        RefNotFound: There is such a table, but not the version.
        LanceError: There is such a table, but it cannot be read.
        ValueError: There is such a table, but what names the version is not a ref.
        ImportError: What fsspec needs for the store is not installed.
    """
    for candidate in parse_name(name):
        if candidate.may_be_table() or not candidate.lacks_suffix:
            table = _find(candidate, storage)
            if table is not None:
                return table
    return None


def open_tables(
    urls: Sequence[str], storage: Storage, use_index: bool | None = None, **ref: Any
) -> list[NamedTable]:
    """Open the tables that a function of ours was called with.

    The requests of remote tables are under way together.

    Args:
        urls: Tables; with `@` and a ref unless `ref` names the version.
        storage: Gives the storage options.
        use_index: Whether filters may be looked up in indices; None for what the storage says.
        **ref: `version`, `tag`, `branch` or `as_of`.

    Raises:
        NotALanceTable: There is no table.
        LanceError: It cannot be read.
        ValueError: The version is named twice, or wrongly.
    """
    uses = storage.use_index if use_index is None else use_index
    # Not in threads of ours: fsspec has a filesystem for each thread, and the secrets are those of
    # the connection that this one runs.
    places = [_placed(*_chosen(url, ref), storage) for url in urls]
    if all(place.store.is_local for place in places) or len(places) < 2:
        return [place.open(uses) for place in places]
    most = default_settings().remote_prefetch
    pool = Threads(most, "lancefs-open")
    try:
        start = partial(submit, pool, lambda place: place.open(uses))
        return list(prefetch(places, start, lambda under_way: len(under_way) >= most))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _chosen(url: str, ref: Mapping[str, Any]) -> tuple[str, Ref]:
    """Return the URL of the table that is named, and its version."""
    candidates = parse_name(url) or [TableName(url, None, lacks_suffix=False)]
    given = {key: value for key, value in ref.items() if value is not None}
    chosen = next((one for one in candidates if one.may_be_table()), candidates[-1])
    if given and chosen.ref is not None:
        shown = mask_secrets(repr(url))
        raise ValueError(f"{shown} names a version, and so does {', '.join(given)}; leave one out")
    return chosen.url, make_ref(**given) if given else chosen.version()


class _Place(NamedTuple):
    """Where a table is, and which version of it is meant.

    Attributes:
        store: Its directory.
        ref: The version.
        storage: How the store is reached.
    """

    store: Store
    ref: Ref
    storage: Storage

    def open(self, use_index: bool) -> NamedTable:
        store, rules = self.store, self.storage.rules
        # A local table is the same by its path and by a URL.
        where = (store.maps if store.is_local else store.fs, store.root)
        version = self.storage.pins.open(
            where, self.ref, lambda wanted: open_cached(store, wanted, rules)
        )
        return NamedTable(LanceDataset(version, use_index=use_index), version.resolved)


def _placed(url: str, ref: Ref, storage: Storage) -> _Place:
    options = storage(url)
    local = None if options else local_path(url)
    fs, path = open_url(url, options) if local is None else (None, local)
    return _Place(confine(Store(fs, path), storage.rules), ref, storage)


def _find(candidate: TableName, storage: Storage) -> NamedTable | None:
    try:
        place = _placed(candidate.url, _ref_or_newest(candidate), storage)
        table = place.open(storage.use_index)
    except NotALanceTable as error:
        if candidate.lacks_suffix:
            return None
        # Where this is None, DuckDB offers a name of its catalog that looks alike, or says that it
        # lacks an extension that reads the URL.
        raise NotALanceTable(f"there is no Lance table of this name: {error}") from None
    except Exception as error:
        # Behind other names than `….lance` there may be anything, or nothing at all, and DuckDB may
        # reach it where we cannot. Filesystems raise errors of libraries of their own.
        if candidate.lacks_suffix and not candidate.is_local:
            url, reason = mask_secrets(candidate.url), mask_secrets(str(error))
            _log.debug("%s is not read as a Lance table: %s: %s", url, type(error).__name__, reason)
            return None
        raise
    candidate.version()  # now that there is a table, a ref that is not one is worth a message
    return table


def _ref_or_newest(candidate: TableName) -> Ref:
    try:
        return candidate.version()
    except ValueError:
        return Ref()
