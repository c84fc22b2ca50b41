"""The history of a table: one commit a version, with what it did.

Listing the versions reads none of them. What is told of each is read while the commits are asked
for; a transaction that is gone leaves its fields empty and a note in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

import pyarrow as pa

from lancefs.datafile.fields import Field
from lancefs.storage import Store
from lancefs.table.commits import CommitFile, read_commits
from lancefs.table.fragments import Fragment
from lancefs.table.refs import Tag, list_tags
from lancefs.table.versions import list_versions

HISTORY = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("branch", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("operation", pa.string()),
        ("summary", pa.string()),
        ("message", pa.string()),
        ("rows", pa.int64()),
        ("rows_added", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("fragments", pa.int64()),
        ("data_files", pa.int64()),
        ("bytes", pa.int64()),
        ("schema_changes", pa.list_(pa.string())),
        ("read_version", pa.int64()),
        ("transaction", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("writer", pa.string()),
        ("note", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A version, and what made it. What could not be told is None.

    Attributes:
        version: Its number.
        timestamp: When it was committed, in UTC.
        branch: The branch that it is on; None for the main one.
        tags: The tags that point to it.
        operation: As the format names it: `Append`, `Delete`, …
        summary: The operation in words.
        message: The writer's message.
        rows: That a reader sees.
        rows_added: By this version. An updated row is one deleted and one added; rows that were
            only moved are neither.
        rows_deleted: By this version.
        fragments: How many.
        data_files: How many.
        bytes: Of the data files.
        schema_changes: In words.
        read_version: The version that the writer saw.
        transaction: The UUID of the transaction.
        properties: What the writer noted in it.
        writer: The library that wrote the version, and its own version.
        note: What could not be read, and why.
    """

    version: int
    timestamp: datetime | None = None
    branch: str | None = None
    tags: tuple[str, ...] = ()
    operation: str | None = None
    summary: str | None = None
    message: str | None = None
    rows: int | None = None
    rows_added: int | None = None
    rows_deleted: int | None = None
    fragments: int | None = None
    data_files: int | None = None
    bytes: int | None = None
    schema_changes: tuple[str, ...] = ()
    read_version: int | None = None
    transaction: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    writer: str | None = None
    note: str | None = None


def read_history(
    store: Store, root: Store, branch: str | None = None, newest: int | None = None
) -> Iterator[Commit]:
    """Yield the commits of a branch, oldest first; they are read while they are asked for.

    Args:
        store: The directory of the table, or of the branch.
        root: The directory of the table.
        branch: The branch; None for the main one.
        newest: At most this many versions, the newest ones.

    Raises:
        NotALanceTable: There is no version at all.
        CorruptFile: A manifest or a tag is damaged.
        ReadFailed: The store refused or failed.
    """
    versions = list_versions(store)
    first = 0 if newest is None else max(0, len(versions) - newest)
    tags = _tags(list_tags(root), branch)
    teller = _Teller()
    # The version before the first says what that one changed.
    for read in read_commits(store, versions[max(0, first - 1) :]):
        commit = teller.tell(read)
        if first < len(versions) and commit.version >= versions[first].version:
            yield replace(commit, branch=branch, tags=tuple(tags.get(commit.version, ())))


def history_table(commits: Iterator[Commit] | Sequence[Commit]) -> pa.Table:
    """Return commits as a table of the schema `HISTORY`."""
    rows = list(commits)
    names = [one.name for one in fields(Commit)]
    assert set(names) == set(HISTORY.names)
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    columns["properties"] = [list(row.properties.items()) for row in rows]
    return pa.table([pa.array(columns[one.name], one.type) for one in HISTORY], schema=HISTORY)


def schema_differences(old: Sequence[Field], new: Sequence[Field]) -> list[str]:
    """Say in words how the columns of two versions differ.

    Args:
        old: Of the older version.
        new: Of the newer one.
    """
    before, after = dict(_walk(old)), dict(_walk(new))
    # An overwrite gives new ids to columns that users take for the same.
    same = {(path, one.logical_type): number for number, (path, one) in before.items()}
    known = {
        number: same.get((path, one.logical_type), number) for number, (path, one) in after.items()
    }
    taken = {number for own, number in known.items() if own != number}
    renumbered = {
        (-1 - own if own == number and number in taken else number): after[own]
        for own, number in known.items()
    }
    return list(_differences(before, renumbered))


@dataclass(slots=True)
class _Sums:
    """Sums over the fragments of a version, of which the next one changes only a few."""

    fragments: int = 0
    rows: int = 0
    uncounted: int = 0  # fragments of which the rows are not known
    files: int = 0
    bytes: int = 0
    unmeasured: int = 0  # files of which the size is not known

    def add(self, fragments: Sequence[Fragment], sign: int = 1) -> None:
        """Add fragments, or take them away."""
        for fragment in fragments:
            self.fragments += sign
            self.rows += sign * (fragment.num_rows or 0)
            self.uncounted += sign * (fragment.num_rows is None)
            self.files += sign * len(fragment.files)
            for file in fragment.files:
                self.bytes += sign * (file.size or 0)
                self.unmeasured += sign * (file.size is None)


class _Teller:
    """Tells of versions one after another, each against the one before."""

    def __init__(self) -> None:
        self._before: CommitFile | None = None
        self._sums = _Sums()

    def tell(self, read: CommitFile) -> Commit:
        commit = Commit(version=read.file.version, timestamp=read.timestamp, note=read.note)
        manifest, done, before = read.manifest, read.transaction, self._before
        self._before = read
        if manifest is None:
            return commit
        if done is not None:
            commit = replace(
                commit,
                operation=done.operation,
                summary=done.summary,
                message=done.message,
                read_version=done.read_version,
                transaction=done.uuid or None,
                properties=done.properties,
            )
        added, deleted = self._count(read, before)
        sums = self._sums
        return replace(
            commit,
            rows=None if sums.uncounted else sums.rows,
            rows_added=added,
            rows_deleted=deleted,
            fragments=sums.fragments,
            data_files=sums.files,
            bytes=None if sums.unmeasured else sums.bytes,
            schema_changes=_schema_changes(read, before),
            writer=f"{writer.library} {writer.version}" if (writer := manifest.writer) else None,
        )

    def _count(self, read: CommitFile, before: CommitFile | None) -> tuple[int | None, int | None]:
        """Bring the sums up to a version, and count the rows that it added and deleted."""
        assert read.manifest is not None
        if before is None or before.manifest is None:
            self._sums = _Sums()
            new: list[Fragment] = list(read.manifest.fragments)
            old: list[Fragment] = []
        else:
            new, old = read.manifest.fragments.differences(before.manifest.fragments)
        self._sums.add(new)
        self._sums.add(old, -1)
        if read.transaction is not None and read.transaction.operation == "Rewrite":
            return 0, 0
        follows = before is not None and before.manifest is not None
        if follows and before is not None and before.file.version == read.file.version - 1:
            return _row_changes(new, old)
        return _row_changes(new, []) if read.file.version == 1 else (None, None)


def _row_changes(new: Sequence[Fragment], old: Sequence[Fragment]) -> tuple[int | None, int | None]:
    """Count the rows that were added and deleted, from fragments that are new, gone or changed."""
    if any(fragment.num_rows is None for fragment in (*new, *old)):
        return None, None
    earlier = {fragment.id: fragment for fragment in old}
    added = deleted = 0
    for fragment in new:
        rows, before = fragment.num_rows or 0, 0
        known = earlier.get(fragment.id)
        if known is not None and _is_same(known, fragment):
            del earlier[fragment.id]
            before = known.num_rows or 0
        added += max(0, rows - before)
        deleted += max(0, before - rows)
    return added, deleted + sum(fragment.num_rows or 0 for fragment in earlier.values())


def _is_same(old: Fragment, new: Fragment) -> bool:
    """Whether a fragment is the one that had its id before: early releases used ids again."""
    return old.physical_rows == new.physical_rows and (
        not old.files or not {one.path for one in old.files}.isdisjoint(f.path for f in new.files)
    )


def _schema_changes(read: CommitFile, before: CommitFile | None) -> tuple[str, ...]:
    assert read.manifest is not None
    if before is None or before.manifest is None:
        return ()
    if before.manifest.fields == read.manifest.fields:
        return ()
    old, new = dict(_walk(before.manifest.fields)), dict(_walk(read.manifest.fields))
    if read.transaction is not None and read.transaction.operation in ("Overwrite", "Restore"):
        # Ids are given anew, or are those of long ago: only names say what is the same.
        names = {path: number for number, (path, _) in old.items()}
        new = {names.get(path, -1 - number): (path, one) for number, (path, one) in new.items()}
    return tuple(_differences(old, new))


_Fields = Mapping[int, tuple[str, Field]]


def _differences(old: _Fields, new: _Fields) -> Iterator[str]:
    dropped = {path: one for number, (path, one) in old.items() if number not in new}
    added = {path for number, (path, _) in new.items() if number not in old}
    for number, (path, one) in new.items():
        was = old.get(number)
        if was is None and _around(path) in added:
            continue
        if was is None:
            cast = dropped.pop(path, None)
            what = one.logical_type
            yield f"add {path}: {what}" if cast is None else _changed_type(path, cast, one)
            continue
        if was[0].rpartition(".")[2] != one.name:
            yield f"rename {was[0]} to {path}"
        if was[1].logical_type != one.logical_type:
            yield _changed_type(path, was[1], one)
        elif was[1].nullable != one.nullable:
            yield f"{path} may {'now' if one.nullable else 'no longer'} be null"
    yield from (f"drop {path}" for path in dropped if _around(path) not in dropped)


def _around(path: str) -> str:
    """The path of the field that a nested one lies in."""
    return path.rpartition(".")[0]


def _changed_type(path: str, old: Field, new: Field) -> str:
    return f"change {path} from {old.logical_type} to {new.logical_type}"


def _walk(fields: Sequence[Field], prefix: str = "") -> Iterator[tuple[int, tuple[str, Field]]]:
    for one in fields:
        yield one.id, (prefix + one.name, one)
        yield from _walk(one.children, f"{prefix}{one.name}.")


def _tags(tags: Mapping[str, Tag], branch: str | None) -> dict[int, list[str]]:
    named: dict[int, list[str]] = {}
    for tag in tags.values():
        if tag.branch == branch:
            named.setdefault(tag.version, []).append(tag.name)
    return named
