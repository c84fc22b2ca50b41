"""Glob patterns as table names: `lake/*.lance`, as fsspec's `glob` reads them.

A name that is a table itself is no pattern, whatever signs it has.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath

from duckdb_adapter.open_names import find_table
from duckdb_adapter.paths import TableName, parse_name, protocol_of
from duckdb_adapter.storage import Storage
from lancefs.errors import NotALanceTable
from lancefs.storage import Store
from lancefs.storage.filesystems import matching_folders, open_url
from lancefs.table.versions import VERSIONS

# What may follow the suffix is for the store to read, as in `t.lance?ddbTableName=commits`.
_QUERY = re.compile(r"\.lance\?.*")
_SIGNS = re.compile(r"[*?[]")
_WEB = ("http", "https")
# Protocols of fsspec that keep copies of what the URL behind them names, as in `simplecache::s3://…`.
_CACHES = re.compile(r"(?:(?:simplecache|filecache|blockcache|cached)::)+")
_SUFFIX = ".lance"


def expand(name: str, storage: Storage, is_claimed: bool) -> list[str] | None:
    """List the tables that a pattern matches, in the order of their names.

    Args:
        name: As it stands in SQL; after `@` a ref, which is that of each table.
        storage: Gives the storage options.
        is_claimed: Whether the name is ours, whatever its ending; otherwise it ends in `.lance`.

    Returns:
        Names of tables, spelled as the pattern is; None if the name is no pattern.

    Raises:
        NotALanceTable: The pattern matches no table.
        ReadFailed: The store cannot list what there is.
    """
    if _SIGNS.search(name) is None:
        return None
    candidates = [
        one
        for one in parse_name(name)
        if is_claimed or not one.lacks_suffix or one.url.endswith(_SUFFIX)
    ]
    pattern = next((one for one in candidates if _has_signs(one)), None)
    if pattern is None or _is_table(name, pattern, storage):
        return None
    ref = "" if pattern.ref is None else f"@{pattern.ref}"
    found = [url + ref for url in _matches(pattern, storage)]
    if not found:
        raise NotALanceTable(
            f"no Lance table matches the pattern {name}; * matches within one part of a path, and "
            "** any number of parts"
        )
    return found


def _has_signs(name: TableName) -> bool:
    first = _QUERY.sub("", _CACHES.sub("", name.url, count=1).partition("::")[0])
    is_web = protocol_of(first) in _WEB
    return "*" in first or (not is_web and ("?" in first or "[" in first))


def _is_table(name: str, pattern: TableName, storage: Storage) -> bool:
    """Whether a name with signs of a pattern is that of a table, where it may well be."""
    if pattern.is_local:
        return pattern.may_be_table()
    try:
        return "*" not in pattern.url and find_table(name, storage) is not None
    except NotALanceTable:
        return False


def _matches(pattern: TableName, storage: Storage) -> list[str]:
    fs, path = open_url(pattern.url, storage(pattern.url))
    signs = _SIGNS.search(path)
    if signs is None:
        return []
    start = path.rfind("/", 0, signs.start()) + 1
    fs.invalidate_cache(path[:start])
    folders = matching_folders(fs, path, pattern.url)
    # Tables are spelled as the URL is before and after the part that is the pattern.
    before, _, after = pattern.url.rpartition(path[start:])
    is_local = Store(fs, path).is_local
    tables: dict[str, str] = {}
    for table in folders:
        is_table = (
            os.path.isdir(os.path.join(table, VERSIONS)) if is_local else table.endswith(_SUFFIX)
        )
        # Below a table there are its branches.
        if is_table and not any(str(parent) in tables for parent in PurePosixPath(table).parents):
            tables[table] = before + table[start:] + after
    return list(tables.values())
