"""`lancefs.open`: opens the version of a table that a URL and the other arguments name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Never

from lancefs import other_names
from lancefs.arguments import check_flags, check_number, options_of
from lancefs.errors import NotALanceTable, ReadFailed
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.storage.filesystems import open_url, with_mapping
from lancefs.storage.local_files import local_path
from lancefs.table.base_paths import BaseRules, as_rules, confine
from lancefs.table.open_version import OpenVersion, open_version
from lancefs.table.refs import Ref, again_if_cleaned_up, make_ref, parse_ref, resolve
from lancefs.table.versions import VERSIONS

# The path of a table, perhaps in an archive, and the ref after the @. Behind that of a login in the
# URL of an archive is a slash.
_VERSIONED = re.compile(r"(.*\.lance|.*\.lance/*::.*(?=@[^/]*\Z))/*@([^@]*)", re.DOTALL)


def open(
    url: str | os.PathLike[str],
    *,
    version: int | str | None = None,
    tag: str | None = None,
    branch: str | None = None,
    as_of: datetime | str | None = None,
    ref: Ref | str | int | None = None,
    fresh: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    base_rules: BaseRules | Mapping[str, Any] | None = None,
    base_paths: Mapping[str, str] | None = None,
    max_memory: int | None = None,
    mmap: bool = True,
    filesystem: Any = None,
    **unknown: Never,
) -> LanceDataset:
    """Open one version of a Lance table, the newest by default.

    Args:
        url: The directory of the table: a local path, or a URL of any store that fsspec knows. A
            ref may follow it, as in `t.lance@prod` or `t.lance@v7`; a directory of exactly that
            name takes precedence.
        version: A version number, on `branch` if that is given.
        tag: The name of a tag.
        branch: The name of a branch; its newest version by default.
        as_of: Open the newest version committed at or before this time (UTC if it has no offset).
        ref: Version, tag or branch in one string: `7`, `v7`, `prod`, `exp:latest`, `exp:3`.
        fresh: Whether to add the rows that writers have flushed to the write-ahead log (MemWAL) and
            not merged into the table yet, to those of the newest version.
        storage_options: Options of the fsspec filesystem, such as credentials.
        base_rules: Which base paths of the manifest, outside of the table, are followed:
            `lancefs.BaseRules`, or its fields in a mapping.
        base_paths: New locations of moved tables, by the base paths that the manifest names; the
            same as `moved` of `base_rules`.
        max_memory: Bytes of memory that a read may take, as in `LanceDataset.scanner`. By default,
            only data that expands to many times its size in the file is limited.
        mmap: Whether large local files may be mapped into memory. If a mapped file is truncated
            while it is read, the operating system ends the process; without mapping, the read
            fails. The storage option `mmap` of a local path means the same.
        filesystem: The filesystem, of fsspec or pyarrow, in which `url` is a path.
        **unknown: There are no others.

    Raises:
        NotALanceTable: There is no table at the path.
        RefNotFound: There is no such version, tag or branch.
        TypeError: An argument is of another type than described here.
        ValueError: The arguments contradict each other, or one of them makes no sense.
        CorruptFile: The manifest is damaged.
        UnsupportedFeature: The version needs a feature that this release does not read.
        ReadFailed: The store refused a request, or failed to answer it.
    """
    for name in unknown:
        other_names.refuse_argument("open", name, other_names.OPENING, open.__annotations__)
    path = _path_of(url)
    check_flags(fresh=fresh, mmap=mmap)
    if max_memory is not None:
        check_number("max_memory", max_memory, least=1)
    options = with_mapping(path, options_of(storage_options), mmap)
    if filesystem is not None and (options or not mmap):
        raise ValueError(
            "filesystem comes with options of its own; leave out storage_options and mmap"
        )
    rules = as_rules(base_rules, base_paths)
    wanted = make_ref(version=version, tag=tag, branch=branch, as_of=as_of, ref=ref)

    def open_at(path: str, wanted: Ref) -> LanceDataset:
        store = confine(_store(path, options, filesystem), rules)
        find = _open_fresh if fresh else open_version
        return LanceDataset(find(store, wanted, rules, max_memory))

    versioned = _VERSIONED.fullmatch(path)
    if versioned is None:
        return open_at(path, wanted)
    if wanted == Ref() and not _is_there(path, options, filesystem):
        return open_at(versioned[1], parse_ref(versioned[2]))
    try:
        return open_at(path, wanted)
    except (NotALanceTable, ReadFailed):  # no such directory, or a server that does not list
        if filesystem is None and os.path.exists(path):
            raise
        if wanted != Ref():
            named = f"{path!r} names a version, and so does another argument"
            raise ValueError(f"{named}; give one of them") from None
        return open_at(versioned[1], parse_ref(versioned[2]))


# The name that pylance has for it.
dataset = open


def _path_of(url: object) -> str:
    """Return a URL or path as text."""
    if not isinstance(url, str | bytes | os.PathLike):
        raise TypeError(f"url is {url!r}; the path or URL of a table was expected")
    return os.fsdecode(url)


def _is_there(path: str, storage_options: Mapping[str, Any], filesystem: Any) -> bool:
    """Tell by one listing whether a table may be at a path; True where that cannot be listed."""
    try:
        store = _store(path, storage_options, filesystem)
        return os.path.lexists(store.root) if store.is_local else bool(store.names(VERSIONS))
    except NotALanceTable:  # an archive that is not there
        return False
    except ReadFailed:
        return True


def _open_fresh(
    store: Store, wanted: Ref, rules: BaseRules | None, max_memory: int | None
) -> OpenVersion:
    """Open the newest version together with the generations that it does not include yet."""
    if wanted != Ref(branch=wanted.branch):
        raise ValueError(f"fresh rows belong on top of the newest version, not on {wanted}")
    from lancefs.table.fresh import FreshVersion
    from lancefs.table.indices import read_indices
    from lancefs.table.mem_wal import read_generations, unmerged

    # Generations are read first: one that is merged and removed in the meantime is then part of the
    # version that is opened after it.
    generations = read_generations(resolve(store, wanted).store)

    def open_newest() -> OpenVersion:
        version = OpenVersion(resolve(store, wanted), rules)
        indices = read_indices(version.resolved.manifest, version.manifest, version.files)
        newer = unmerged(generations, indices)
        return FreshVersion(version.resolved, newer, rules, version.manifest, max_memory)

    return again_if_cleaned_up(open_newest)


def _store(url: str, storage_options: Mapping[str, Any], filesystem: Any) -> Store:
    """Return the directory that a URL names."""
    if filesystem is not None:
        from lancefs.storage.arrow_filesystem import as_fsspec

        filesystem = as_fsspec(filesystem)
        return Store(filesystem, filesystem._strip_protocol(url))
    path = None if storage_options else local_path(url)
    if path is not None:
        return Store(None, path)
    return Store(*open_url(url, storage_options))
