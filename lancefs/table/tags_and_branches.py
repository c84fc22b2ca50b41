"""Tags and branches: JSON files below `_refs/`, each of which names a version of a table.

Format page: branches and tags (`docs/src/format/table/branch_tag.md`).
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

from lancefs.errors import CorruptFile, locating
from lancefs.storage import Bytes, File, Store, check_whole, read_all

# The names of tags and of branches.
TAG = re.compile(r"[A-Za-z0-9._-]+")
BRANCH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")

_TAGS = "_refs/tags"
_BRANCHES = "_refs/branches"
# Bytes of the file of a tag or branch at most; Lance writes a few hundred.
_MOST_BYTES = 16 * 1024 * 1024
_LAST_SECOND = int(datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp())


class Tag(NamedTuple):
    """A tag: a name for one version.

    Attributes:
        name: Name of the tag.
        version: Version that the tag points to.
        branch: Branch of the version; None for the main branch.
        manifest_size: Size of the version's manifest in bytes, if the writer recorded it.
        created_at: Time at which the tag was created, as written; None if the writer recorded none.
        updated_at: Time at which the tag was last moved, as written.
    """

    name: str
    version: int
    branch: str | None = None
    manifest_size: int | None = None
    created_at: str | None = None
    updated_at: str | None = None


class Branch(NamedTuple):
    """A branch: a history of versions that starts from a version of another branch.

    Attributes:
        name: Name of the branch.
        parent_branch: Branch that it starts from; None for the main branch.
        parent_version: Version of the parent branch that it starts from.
        created_at: Time of creation, in UTC; None if the writer recorded none.
        manifest_size: Size of the branch's first manifest in bytes, if the writer recorded it.
    """

    name: str
    parent_branch: str | None
    parent_version: int
    created_at: datetime | None
    manifest_size: int | None


def list_tags(store: Store) -> dict[str, Tag]:
    """Read all tags of a table, by name.

    Args:
        store: The directory of the table.

    Raises:
        CorruptFile: The file of a tag is damaged.
        ReadFailed: The store refused or failed.
    """
    return {name: _tag(name, data, file) for name, data, file in _read_refs(store, _TAGS)}


def list_branches(store: Store) -> dict[str, Branch]:
    """Read all branches of a table except the main one, by name; raises as `list_tags` does."""
    return {
        unquote(name): _branch(unquote(name), data, file)
        for name, data, file in _read_refs(store, _BRANCHES)
    }


def tag_names(store: Store) -> list[str]:
    """List the names of the tags of a table, without reading any."""
    return [name.removesuffix(".json") for name in store.names(_TAGS)]


def branch_names(store: Store) -> list[str]:
    """List the names of the branches of a table except the main one, without reading any."""
    return [unquote(name.removesuffix(".json")) for name in store.names(_BRANCHES)]


def read_tag(store: Store, name: str) -> Tag:
    """Read a tag.

    Raises:
        ValueError: No tag can have the name.
        MissingFile: There is no such tag.
        CorruptFile: The file of the tag is damaged.
    """
    file = store.uncached.file(f"{_TAGS}/{checked_name(name, TAG)}.json")
    return _tag(name, file.read_whole(_MOST_BYTES), file)


def is_name(name: str, grammar: re.Pattern[str]) -> bool:
    """Return whether a name fits a grammar and is safe: `..` would leave its directory."""
    return grammar.fullmatch(name) is not None and ".." not in name


def checked_name(name: str, grammar: re.Pattern[str]) -> str:
    """Return a name that fits a grammar, `TAG` or `BRANCH`.

    Raises:
        ValueError: The name does not fit.
    """
    if not is_name(name, grammar):
        kind = "tag" if grammar is TAG else "branch"
        parts = "" if grammar is TAG else ", in parts with '/' between them"
        raise ValueError(
            f"{name!r} cannot be the name of a {kind}; letters, digits, '_', '-' and single dots "
            f"were expected{parts}"
        )
    return name


def _read_refs(store: Store, directory: str) -> list[tuple[str, Bytes, File]]:
    """Read the JSON files of a directory; return (name without `.json`, bytes, file), by name."""
    store.refresh(directory)
    entries = [entry for entry in store.entries(directory) if entry[0].endswith(".json")]
    files = [store.uncached.file(f"{directory}/{name}") for name, _ in entries]
    sizes = [info.get("size") for _, info in entries]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(files):
        for file, size in zip(files, known, strict=True):
            check_whole(file.url, size, _MOST_BYTES)
        ranges = [(file, [(0, size)]) for file, size in zip(files, known, strict=True)]
        data = [parts[0] for parts in read_all(ranges)]
    else:
        data = [file.read_whole(_MOST_BYTES) for file in files]
    names = [name.removesuffix(".json") for name, _ in entries]
    return sorted(zip(names, data, files, strict=True), key=lambda entry: entry[0])


def _tag(name: str, data: Bytes, file: File) -> Tag:
    with locating(file.url):
        content = _parse_json(data)
        branch = _text(content, "branch")
        if branch is not None and not is_name(branch, BRANCH):
            raise CorruptFile(f"{branch!r} cannot be the name of a branch")
        return Tag(
            name=name,
            version=_number(content, "version"),
            branch=branch,
            manifest_size=_optional_number(content, "manifestSize"),
            created_at=_text(content, "createdAt"),
            updated_at=_text(content, "updatedAt"),
        )


def _branch(name: str, data: Bytes, file: File) -> Branch:
    with locating(file.url):
        content = _parse_json(data)
        created = _optional_number(content, "createAt")
        return Branch(
            name=name,
            parent_branch=_text(content, "parentBranch"),
            parent_version=_number(content, "parentVersion"),
            created_at=None if created is None else _time(created),
            manifest_size=_optional_number(content, "manifestSize"),
        )


def _time(seconds: int) -> datetime:
    """Return the time that is a number of seconds after 1970."""
    if seconds > _LAST_SECOND:
        raise CorruptFile(f"created {seconds} s after 1970, beyond the year 9999")
    return datetime.fromtimestamp(seconds, UTC)


def _parse_json(data: Bytes) -> Mapping[str, Any]:
    try:
        content = json.loads(data.tobytes())
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptFile("a JSON object was expected")
    return content


def _value(content: Mapping[str, Any], key: str) -> Any:
    """Look up a key as Lance writes it, or as the format page spells it (`parent_branch`)."""
    if key in content:
        return content[key]
    return content.get(re.sub("[A-Z]", lambda capital: "_" + capital[0].lower(), key))


def _optional_number(content: Mapping[str, Any], key: str) -> int | None:
    value = _value(content, key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise CorruptFile(f"{key} is {value!r}, a number was expected")
    return value


def _number(content: Mapping[str, Any], key: str) -> int:
    value = _optional_number(content, key)
    if value is None:
        raise CorruptFile(f"{key} is missing")
    return value


def _text(content: Mapping[str, Any], key: str) -> str | None:
    value = _value(content, key)
    if value is not None and not isinstance(value, str):
        raise CorruptFile(f"{key} is {value!r}, a text was expected")
    return value
