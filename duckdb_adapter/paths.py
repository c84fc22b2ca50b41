"""Parsing names in SQL that refer to Lance tables and their versions.

dir/t.lance, dir/t.lance/           a directory, the newest version
s3://bucket/t.lance@v7              any fsspec URL; after `@` a ref (`lancefs.table.refs`)
dir/t.lance@exp:3                   a version of a branch
dir/t                               a table in a directory with another name
zip://t.lance::dir/a.zip@v7         in an archive; the ref is behind the whole
lance://tags/prod.arrow::s3://…     a view of the `lance` filesystem, also as
lance:///data/t.lance/versions/7.arrow
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lancefs.table.refs import Ref, make_ref, parse_ref

_SUFFIX = ".lance"
_VIEWS = "lance://"
# A URL may end in what only its store understands, as in `t.lance?ddbTableName=commits`.
_AFTER_SUFFIX = re.compile(r"(.*\.lance(?:\?[^@]*)?)/*@(.*)", re.DOTALL)
_VIEW = re.compile(
    r"(?:(?P<table>.*?)/)??"
    r"(?:tags/(?P<tag>[^/]+?)"
    r"|(?:branches/(?P<branch>.+)/)?(?:latest|versions/(?P<version>[0-9]+)))"
    r"\.arrows?",
    re.DOTALL,
)
# A table in an archive, perhaps behind a cache, and a ref. Behind the `@` of a login is a slash.
_ARCHIVED = re.compile(r"((?:\w+::)*\w+://[^:]*\.lance/*::.*?)(?:@([^@/]*))?", re.DOTALL)
# What other readers of DuckDB know by its ending: never worth a look into a remote store.
_OTHERS = re.compile(
    r"\.(parquet|csv|tsv|txt|json|jsonl|ndjson|arrow|arrows|feather|ipc|avro|orc|xlsx|db|duckdb"
    r"|sqlite|gz|zst|bz2|xz|zip)$",
    re.IGNORECASE,
)


class TableName(NamedTuple):
    """What a name may mean.

    Attributes:
        url: The directory of the table.
        ref: The version, as it was written; None for the newest one.
        lacks_suffix: Whether nothing but a look at the directory tells that it is a table.
    """

    url: str
    ref: str | None
    lacks_suffix: bool

    @property
    def is_local(self) -> bool:
        """Whether the directory is in the local file system, and not behind a URL."""
        return "://" not in self.url and "::" not in self.url

    def may_be_table(self) -> bool:
        """Whether opening it may succeed; looks at the disk if it is local."""
        if self.is_local:
            return os.path.isdir(os.path.join(os.path.expanduser(self.url), "_versions"))
        return not (self.lacks_suffix and _OTHERS.search(self.url))

    def version(self) -> Ref:
        """Return the version that is meant.

        Raises:
            ValueError: What stands for it is not a ref.
        """
        return Ref() if self.ref is None else parse_ref(self.ref)


def parse_name(name: str) -> list[TableName]:
    """Read a name in SQL; what it may mean, the likeliest first.

    Args:
        name: As it stands between quotes.
    """
    if not name or "\0" in name:
        return []
    if name.startswith(_VIEWS):
        view = _parse_view(name)
        return [] if view is None else [view]
    archived = _ARCHIVED.fullmatch(name)
    if archived:
        return [TableName(archived[1], archived[2], lacks_suffix=False)]
    versioned = _AFTER_SUFFIX.fullmatch(name)
    if versioned:
        return [TableName(versioned[1], versioned[2], lacks_suffix=False)]
    url = name.rstrip("/") or name
    found = [TableName(url, None, lacks_suffix=not _has_suffix(url))]
    head, at, ref = name.rpartition("@")
    if at and head and not _has_suffix(url) and _is_ref(ref):
        found.insert(0, TableName(head.rstrip("/"), ref, lacks_suffix=True))
    return found


def options_for(url: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the storage options for a URL.

    Args:
        url: The table.
        options: For fsspec; or keyed by protocol, of which those that the URL names are taken.
    """
    if not options:
        return {}
    if not all(isinstance(value, Mapping) for value in options.values()):
        return dict(options)
    protocols = [protocol_of(part) or part for part in url.split("::")]
    if len(protocols) > 1:
        return {name: dict(options[name]) for name in protocols if name in options}
    return dict(options.get(protocol_of(url) or "file", {}))


def protocol_of(url: str) -> str | None:
    """Return the protocol of a URL, as fsspec reads it; None of a path."""
    if ":" not in url:
        return None
    from fsspec.core import split_protocol  # imports `asyncio`, which takes 40 ms

    protocol: str | None = split_protocol(url)[0]
    return protocol


def _parse_view(name: str) -> TableName | None:
    """Read the address of a view of a whole version; other views are not tables."""
    inner, chain, target = name.removeprefix(_VIEWS).partition("::")
    match = _VIEW.fullmatch(inner)
    if match is None:
        if chain:
            return TableName(target.rstrip("/"), None, lacks_suffix=False) if not inner else None
        versioned = parse_name(inner) if inner else []
        return versioned[0] if versioned else None
    table = target if chain else match["table"]
    if not table or bool(chain) == (match["table"] is not None):
        return None
    ref = make_ref(tag=match["tag"], branch=match["branch"], version=match["version"])
    return TableName(table.rstrip("/"), str(ref), lacks_suffix=False)


def _has_suffix(url: str) -> bool:
    return url.partition("?")[0].endswith(_SUFFIX)


def _is_ref(text: str) -> bool:
    try:
        parse_ref(text)
    except ValueError:
        return False
    return bool(text)
