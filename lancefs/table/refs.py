"""Refs: names of one version of a table.

All of lancefs uses one grammar:

    latest              the newest version of the main branch (the default)
    7, v7               a version of the main branch
    prod, tags/12       the version of a tag; `tags/` if the tag looks like a version or `latest`
    exp:latest, exp:3   a version of a branch, whose name may contain `/`

A point in time is an argument of its own: it names the newest version committed at or before it.

Format page: branches and tags (`docs/src/format/table/branch_tag.md`).
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple, TypeVar

from lancefs.errors import MissingFile, NotALanceTable, ReadFailed, RefNotFound
from lancefs.storage import File, Store
from lancefs.table.manifest import read_timestamps
from lancefs.table.tags_and_branches import (
    BRANCH,
    TAG,
    Tag,
    branch_names,
    checked_name,
    is_name,
    read_tag,
    tag_names,
)
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

_VERSION = re.compile(r"v?([0-9]{1,19})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TAG_PREFIX = "tags/"
_ATTEMPTS = 5  # to find a version and to read its manifest before it is cleaned up
# Manifests of a remote table that are read at once to find a time: the rounds are few then.
_TIMES_AT_ONCE = 8
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
    if is_name(tag, TAG):
        return Ref(tag=tag)
    hint = f"; for a branch say '{text}:latest'" if BRANCH.fullmatch(text) else ""
    raise ValueError(f"{text!r} is not a ref: {_GRAMMAR}{hint}")


def make_ref(
    version: int | str | None = None,
    tag: str | None = None,
    branch: str | None = None,
    as_of: date | str | None = None,
    ref: Ref | str | int | date | None = None,
) -> Ref:
    """Make a ref from the arguments with which users name a version.

    Args:
        version: Number of a version, of `branch` if given.
        tag: Name of a tag.
        branch: Name of a branch; without `version` and `as_of`, its newest version is meant.
        as_of: Point in time: a datetime, ISO 8601 text, or a date for the start of that day; UTC
            if it names no time zone.
        ref: A ref, text in the grammar of this module, or a point in time as a datetime or date.

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
    if isinstance(ref, date):
        return Ref(as_of=_parse_time(ref))
    if ref is not None:
        return ref if isinstance(ref, Ref) else parse_ref(str(ref))
    if tag is not None:
        return Ref(tag=checked_name(str(tag), TAG))
    return Ref(
        version=None if version is None else _parse_version(version),
        branch=None if branch in (None, MAIN) else checked_name(str(branch), BRANCH),
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
        where = store.below(f"tree/{checked_name(branch, BRANCH)}")
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
    if not is_name(branch, BRANCH):
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
    if isinstance(version, str) and is_name(version, TAG):
        hint = hint or "; the argument for tags is tag"
    expected = f"a whole number was expected, or {LATEST!r}"
    raise ValueError(f"{version!r} is not a version: {expected}{hint}")


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


def _read_tag(store: Store, name: str) -> Tag:
    try:
        return read_tag(store, name)
    except MissingFile:
        list_versions(store)  # raises another error if the directory is not a table
        raise _no_tag(store, name) from None


def _no_tag(store: Store, name: str) -> RefNotFound:
    tags, branches = tag_names(store), branch_names(store)
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
    existing = _name_existing(name, branch_names(store), "branches")
    return RefNotFound(f"{store.url()}: there is no branch {name!r}; {existing}")


def _name_existing(name: str, names: Sequence[str], kind: str) -> str:
    """List existing names for an error message: all of at most ten, else the most similar."""
    if not names:
        return f"the table has no {kind}"
    if len(names) > 10:
        import difflib

        near = difflib.get_close_matches(name, names, 10, 0.3) or sorted(names)[:10]
        return f"the table has {len(names)} {kind}, among them {', '.join(near)}"
    return f"the table has the {kind} {', '.join(sorted(names))}"
