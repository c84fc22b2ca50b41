"""Refs: names of one version of a table.

All of lancefs uses one grammar:

    latest              the newest version of the main branch (the default)
    7, v7               a version of the main branch
    prod, tags/12       the version of a tag; `tags/` if the tag looks like a version or `latest`
    exp:latest, exp:3   a version of a branch, whose name may contain `/`

A point in time is an argument of its own: it names the newest version committed at or before it.
Tags and branches are JSON files below `_refs/`.

Format page: branches and tags (`docs/src/format/table/branch_tag.md`).
"""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from lancefs.errors import (
    CorruptFile,
    MissingFile,
    NotALanceTable,
    ReadFailed,
    RefNotFound,
    locating,
)
from lancefs.storage import Bytes, File, Store, read_all
from lancefs.table.manifest import read_timestamps
from lancefs.table.versions import (
    DETACHED,
    FIRST_DETACHED,
    VersionFile,
    describe,
    latest,
    list_versions,
    numbered,
    unlisted,
)

_Found = TypeVar("_Found")

MAIN = "main"
LATEST = "latest"

_TAGS = "_refs/tags"
_BRANCHES = "_refs/branches"
_VERSION = re.compile(r"v?([0-9]{1,19})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TAG = re.compile(r"[A-Za-z0-9._-]+")
_BRANCH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_TAG_PREFIX = "tags/"
_ATTEMPTS = 5  # to find a version and to read its manifest before it is cleaned up
# Manifests of a remote table that are read at once to find a time: the rounds are few then.
_TIMES_AT_ONCE = 8
_LAST_SECOND = int(datetime.max.replace(microsecond=0, tzinfo=UTC).timestamp())
_GRAMMAR = "expected a version (7 or v7), a tag, 'latest', or branch:version, branch:latest"


class Ref(NamedTuple):
    """A ref: the name of one version of a table.

    Attributes:
        version: Number of the version; None for the newest version, or with `tag` or `as_of`.
        branch: Branch of the version; None for the main branch.
        tag: Tag of the version; excludes the other attributes.
        as_of: Point in time, which names the newest version committed at or before it; excludes
            `version`.
    """

    version: int | None = None
    branch: str | None = None
    tag: str | None = None
    as_of: datetime | None = None

    def __str__(self) -> str:
        """Return the ref in the grammar of this module; a point in time follows a `?`."""
        if self.tag is not None:
            is_plain = self.tag != LATEST and not _VERSION.fullmatch(self.tag)
            return self.tag if is_plain else _TAG_PREFIX + self.tag
        version = LATEST if self.version is None else str(self.version)
        text = version if self.branch is None else f"{self.branch}:{version}"
        return text if self.as_of is None else f"{text}?as_of={self.as_of.isoformat()}"


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


class Resolved(NamedTuple):
    """The place of the version that a ref names.

    Attributes:
        store: Directory of the table, or of the branch.
        file: Manifest file of the version.
        branch: Branch of the version; None for the main branch.
        root: Directory of the table.
    """

    store: Store
    file: VersionFile
    branch: str | None
    root: Store

    @property
    def manifest(self) -> File:
        """Manifest file, for `read_manifest`."""
        store = self.store.uncached.of_version(str(self.ref))
        return store.file(self.file.path, self.file.size, self.file.stamp)

    @property
    def ref(self) -> Ref:
        """Version number, with its branch."""
        return Ref(version=self.file.version, branch=self.branch)


def parse_ref(text: str) -> Ref:
    """Parse a ref.

    Raises:
        ValueError: The text is not a ref; the message gives the grammar.
    """
    text = text.strip()
    head, colon, tail = text.rpartition(":")
    if colon:
        return _parse_branch(text, head, tail)
    if text in ("", LATEST):
        return Ref()
    version = _VERSION.fullmatch(text)
    if version:
        return Ref(version=int(version[1]))
    tag = text.removeprefix(_TAG_PREFIX)
    if _is_name(tag, _TAG):
        return Ref(tag=tag)
    hint = f"; for a branch say '{text}:latest'" if _BRANCH.fullmatch(text) else ""
    raise ValueError(f"{text!r} is not a ref: {_GRAMMAR}{hint}")


def make_ref(
    version: int | str | None = None,
    tag: str | None = None,
    branch: str | None = None,
    as_of: date | str | None = None,
    ref: Ref | str | int | None = None,
) -> Ref:
    """Make a ref from the arguments with which users name a version.

    Args:
        version: Number of a version, of `branch` if given.
        tag: Name of a tag.
        branch: Name of a branch; without `version` and `as_of`, its newest version is meant.
        as_of: Point in time: a datetime, ISO 8601 text, or a date for the start of that day; UTC
            if it names no time zone.
        ref: A ref, or text in the grammar of this module.

    Raises:
        ValueError: The arguments contradict each other, or one of them does not parse.
    """
    given = {"ref": ref, "version": version, "tag": tag, "branch": branch, "as_of": as_of}
    named = [name for name, value in given.items() if value is not None]
    allowed = {"version", "branch"}, {"as_of", "branch"}
    if len(named) > 1 and not any(set(named) <= pair for pair in allowed):
        raise ValueError(
            f"{' and '.join(named)} each name a version; only branch goes with version or as_of"
        )
    if ref is not None:
        return ref if isinstance(ref, Ref) else parse_ref(str(ref))
    if tag is not None:
        return Ref(tag=_checked(str(tag), _TAG, "tag"))
    return Ref(
        version=None if version is None else _parse_version(version),
        branch=None if branch in (None, MAIN) else _checked(str(branch), _BRANCH, "branch"),
        as_of=None if as_of is None else _parse_time(as_of),
    )


def ref_from(branch: str | None, given: Ref | str | int) -> Ref:
    """Return the ref that is meant where a branch is at hand: a plain number is of this branch.

    Args:
        branch: The branch; None for the main branch.
        given: A number (3, or v3), which main:3 is not; or another ref.

    Raises:
        ValueError: It is none of them.
    """
    if isinstance(given, Ref):
        return given
    ref = parse_ref(given) if isinstance(given, str) else Ref(_parse_version(given))
    # `main:3` and `3` are the same ref; only the text tells which one names a branch.
    is_number = ref.version is not None and (not isinstance(given, str) or ":" not in given)
    return ref._replace(branch=branch) if is_number else ref


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


def resolve(store: Store, ref: Ref | None = None) -> Resolved:
    """Find the version that a ref names.

    Takes one listing, or none for a number of a local table. A tag needs one read more, a point in
    time a few.

    Args:
        store: The directory of the table.
        ref: The ref; the newest version of the main branch by default.

    Raises:
        NotALanceTable: The directory is not a table.
        RefNotFound: There is no such version, tag or branch; the message lists existing ones.
        CorruptFile: The file of a tag or a manifest is damaged.
        ReadFailed: The store refused or failed.
    """
    ref = ref or Ref()
    if ref.tag is None:
        return _resolve(store, ref)
    tag = _read_tag(store, ref.tag)
    try:
        return _resolve(store, Ref(version=tag.version, branch=tag.branch))
    except RefNotFound as error:
        gone = f"the tag {tag.name!r} points to a version that is gone: {error}"
        raise RefNotFound(gone) from error


def again_if_cleaned_up(find: Callable[[], _Found]) -> _Found:
    """Return a version that is found and read, and look again if it goes away in between.

    A writer may clean up a version after it was listed and before its manifest is read.

    Args:
        find: Resolves a ref anew at each call, and reads the manifest.

    Raises:
        MissingFile: A file is listed and yet gone, time after time.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return find()
        except MissingFile:
            continue
    return find()


def _resolve(store: Store, ref: Ref) -> Resolved:
    branch = None if ref.branch == MAIN else ref.branch
    where = store
    if branch is not None:
        where = store.below(f"tree/{_checked(branch, _BRANCH, 'branch')}")
    if where.is_local and ref.version is not None and ref.version < FIRST_DETACHED:
        # To ask for two names takes less time than to list thousands.
        file = unlisted(where, ref.version)
        if file is not None:
            return Resolved(where, file, branch, store)
    try:
        if ref.version is None and ref.as_of is None:
            return Resolved(where, latest(where), branch, store)
        if ref.as_of is None:
            assert ref.version is not None
            return Resolved(where, numbered(where, ref.version, branch), branch, store)
        versions = list_versions(where, with_sizes=False)
    except (NotALanceTable, ReadFailed) as error:
        file = None if ref.version is None else unlisted(where, ref.version)
        if file is not None:
            return Resolved(where, file, branch, store)
        if ref.version is not None and isinstance(error, ReadFailed):
            found = f"nor is there a manifest of version {ref.version} that may be read"
            listing = error.__cause__ or error  # without the advice to name a version
            raise ReadFailed(f"{listing.args[0]}; {found}") from listing
        if branch is None or isinstance(error, ReadFailed):
            raise
        raise _no_branch(store, branch) from None
    return Resolved(where, _as_of(where, versions, ref.as_of), branch, store)


def _as_of(store: Store, versions: Sequence[VersionFile], as_of: datetime) -> VersionFile:
    """Return the newest version committed at or before a time.

    The times of commit ascend with the versions, unless a writer's clock was set back, so a binary
    search finds it; of a remote table one that looks at several versions at once.
    """

    def committed(positions: Sequence[int]) -> list[datetime]:
        found = [versions[position] for position in positions]
        files = [store.uncached.file(one.path, one.size, one.stamp) for one in found]
        return read_timestamps(files)

    if committed([len(versions) - 1])[0] <= as_of:  # by far the most frequent case
        return versions[-1]
    low, high = 0, len(versions) - 1
    at_once = 1 if store.is_local else _TIMES_AT_ONCE
    while low < high:
        count = min(at_once, high - low)
        looked_at = [low + (high - low) * (one + 1) // (count + 1) for one in range(count)]
        later = bisect_right(committed(looked_at), as_of)
        low = looked_at[later - 1] + 1 if later else low
        high = looked_at[later] if later < count else high
    if low == 0:
        raise RefNotFound(
            f"{store.url()}: there is no version from {as_of.isoformat()} or before; the oldest, "
            f"{versions[0].version}, is from {committed([0])[0].isoformat()}; "
            f"{describe(versions)}"
        )
    return versions[low - 1]


def _parse_branch(text: str, branch: str, version: str) -> Ref:
    if not _is_name(branch, _BRANCH):
        hint = "; a point in time goes into as_of" if re.match(r"\d{4}-\d\d-\d\d", text) else ""
        raise ValueError(f"{text!r} is not a ref: {_GRAMMAR}{hint}")
    return make_ref(branch=branch, version=version)


def _parse_version(version: int | str) -> int | None:
    match = _VERSION.fullmatch(str(version).strip())
    if match and not isinstance(version, bool) and int(match[1]) < FIRST_DETACHED:
        return int(match[1])
    if version == LATEST:
        return None
    hint = f"; {DETACHED}" if _is_detached(version) else ""
    if isinstance(version, str) and _is_name(version, _TAG):
        hint = hint or "; the argument for tags is tag"
    raise ValueError(f"{version!r} is not a version: a number was expected, or {LATEST!r}{hint}")


def _is_detached(version: object) -> bool:
    text = str(version).strip().removeprefix("v")
    return re.fullmatch("[0-9]{19,20}", text) is not None and FIRST_DETACHED <= int(text) < 2**64


def _parse_time(time: object) -> datetime:
    if isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    try:
        found = datetime.fromisoformat(time.strip()) if isinstance(time, str) else time
        # Of pandas, a missing time is a `datetime` that equals no time, not even itself.
        if not isinstance(found, datetime) or found != found:
            raise ValueError
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{time!r} is not a point in time; one like 2026-01-31T12:00:00Z was expected"
        ) from None


def _is_name(name: str, grammar: re.Pattern[str]) -> bool:
    """Return whether a name fits a grammar and is safe: `..` would leave its directory."""
    return grammar.fullmatch(name) is not None and ".." not in name


def _checked(name: str, grammar: re.Pattern[str], kind: str) -> str:
    if not _is_name(name, grammar):
        parts = "" if grammar is _TAG else ", in parts with '/' between them"
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
        ranges = [(file, [(0, size)]) for file, size in zip(files, known, strict=True)]
        data = [parts[0] for parts in read_all(ranges)]
    else:
        data = [file.read_whole() for file in files]
    names = [name.removesuffix(".json") for name, _ in entries]
    return sorted(zip(names, data, files, strict=True), key=lambda entry: entry[0])


def _read_tag(store: Store, name: str) -> Tag:
    file = store.uncached.file(f"{_TAGS}/{_checked(name, _TAG, 'tag')}.json")
    try:
        return _tag(name, file.read_whole(), file)
    except MissingFile:
        list_versions(store)  # raises another error if the directory is not a table
        raise _no_tag(store, name) from None


def _tag(name: str, data: Bytes, file: File) -> Tag:
    with locating(file.url):
        content = _parse_json(data)
        branch = _text(content, "branch")
        if branch is not None and not _is_name(branch, _BRANCH):
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


def _no_tag(store: Store, name: str) -> RefNotFound:
    tags = [tag.removesuffix(".json") for tag in store.names(_TAGS)]
    branches = [unquote(branch.removesuffix(".json")) for branch in store.names(_BRANCHES)]
    hint = f"; for the branch say '{name}:latest'" if name in branches else ""
    if _DATE.match(name):
        hint = "; a point in time goes into as_of"
    if _is_detached(name):
        hint = f"; {DETACHED}"
    return RefNotFound(
        f"{store.url()}: there is no tag {name!r}; {_name_existing(name, tags, 'tags')}{hint}"
    )


def _no_branch(store: Store, name: str) -> RefNotFound | NotALanceTable:
    try:
        list_versions(store)
    except NotALanceTable as error:
        return error
    branches = [unquote(branch.removesuffix(".json")) for branch in store.names(_BRANCHES)]
    return RefNotFound(
        f"{store.url()}: there is no branch {name!r}; {_name_existing(name, branches, 'branches')}"
    )


def _name_existing(name: str, names: Sequence[str], kind: str) -> str:
    """List existing names for an error message: all of at most ten, else the most similar."""
    if not names:
        return f"the table has no {kind}"
    if len(names) > 10:
        import difflib

        near = difflib.get_close_matches(name, names, 10, 0.3) or sorted(names)[:10]
        return f"the table has {len(names)} {kind}, among them {', '.join(near)}"
    return f"the table has the {kind} {', '.join(sorted(names))}"
