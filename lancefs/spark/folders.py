"""The tables of a folder, or those that a pattern matches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from lancefs.errors import NotALanceTable
from lancefs.spark.stores import absolute, open_place
from lancefs.storage import Store
from lancefs.storage.filesystems import matching_folders
from lancefs.storage.retries import retry

SUFFIX = ".lance"
# Signs of a pattern, as fsspec has them.
_SIGNS = "*?["


def find_tables(place: str | os.PathLike[str], storage: Mapping[str, Any]) -> dict[str, str]:
    """Find tables, which are folders whose names end in `.lance`.

    Args:
        place: A folder that holds them, or a pattern like `lake/*/o*.lance`. A name that is a
            folder's is no pattern, whatever signs it has.
        storage: For fsspec.

    Returns:
        Their URLs by name, sorted: without `.lance`, and without the folders before the first one
        with a sign of a pattern (`eu/orders`).

    Raises:
        NotALanceTable: There are none.
        ReadFailed: The store refused or failed.
        ValueError: Names differ in case only, or the storage options do not fit the store.
    """
    place = absolute(place)
    fs, path = open_place(place, storage)
    path = path.rstrip("/")
    if has_signs(path) and not retry(lambda: fs.isdir(path), place):
        top, found = _top(path), matching_folders(fs, path, place)
    else:
        top = path
        entries = Store(fs, path).entries()
        found = [f"{path}/{name}" for name, info in entries if info["type"] == "directory"]
    folders = sorted(str(one).rstrip("/") for one in found)
    protocol = fsspec.core.split_protocol(place)[0]
    start = "" if protocol is None or isinstance(fs, LocalFileSystem) else f"{protocol}://"
    tables = {
        folder[len(top) :].lstrip("/").removesuffix(SUFFIX): start + folder
        for folder in folders
        if folder.endswith(SUFFIX)
    }
    if not tables:
        raise NotALanceTable(
            f"{place}: no table is in it, a folder whose name ends in {SUFFIX}"
            if top == path
            else f"{place}: no table matches, a folder whose name ends in {SUFFIX}"
        )
    if len({name.casefold() for name in tables}) < len(tables):
        raise ValueError(f"{place}: names of tables differ in case only, {sorted(tables)}")
    return tables


def has_signs(path: str) -> bool:
    """Return whether a path has signs of a pattern."""
    return any(sign in path for sign in _SIGNS)


def _top(pattern: str) -> str:
    """Return the folders of a pattern before the first one that has a sign."""
    top = os.path.dirname(pattern)
    while has_signs(top):
        top = os.path.dirname(top)
    return top
