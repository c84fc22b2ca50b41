"""The history of a table: a commit for each version, with its operation and its effects.

A listing gives the versions; manifests and transactions are read lazily. A commit whose transaction
is gone has None for the facts of the transaction, and a note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from lancefs.datafile.constants import array_of, lists_of, times_of
from lancefs.table.commits import CommitFile, read_commits
from lancefs.table.fragments import Fragment
from lancefs.table.refs import Resolved
from lancefs.table.schema_changes import schema_changes
from lancefs.table.tags_and_branches import Tag, list_tags
from lancefs.table.versions import VersionFile, list_versions
from lancefs.threads import Threads, submit

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
# The largest number that a column of the history holds; the format's own numbers are unsigned.
_MOST = 2**63 - 1
_NUMBERS = [column.name for column in HISTORY if pa.types.is_integer(column.type)]


@dataclass(frozen=True, slots=True)
class Commit:
    """A version and the operation that made it. Facts that are not known are None.

    Attributes:
        version: Number of the version.
        timestamp: Time of the commit, in UTC.
        branch: Branch of the version; None for the main branch.
        tags: Names of the tags that point to the version.
        operation: The format's name of the operation: `Append`, `Delete`, …
        summary: The operation in words.
        message: The writer's message.
        rows: Number of live rows.
        rows_added: Number of rows that the version added. An updated row counts as one deleted and
            one added; a row that was only moved counts as neither.
        rows_deleted: Number of rows that the version deleted.
        fragments: Number of fragments.
        data_files: Number of data files.
        bytes: Size of the data files.
        schema_changes: Changes of the columns, in words.
        read_version: Version that the writer started from.
        transaction: UUID of the transaction.
        properties: Properties that the writer gave the transaction.
        writer: Name and version of the library that wrote the version.
        note: Description of what cannot be read, and why.
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


def read_history(where: Resolved, newest: int | None) -> Iterator[Commit]:
    """Read the commits of a branch lazily, oldest first.

    Args:
        where: Any version of the branch.
        newest: Number of newest versions to read; None for all.

    Raises:
        NotALanceTable: The directory has no version.
        CorruptFile: A manifest or a tag is damaged.
        ReadFailed: The store refused or failed.
    """
    versions, found = _list(where)
    first = 0 if newest is None else max(0, len(versions) - newest)
    tags = _tags(found, where.branch)
    summarizer = _Summarizer()
    # The changes of the first version show against the version before it.
    for record in read_commits(where.store, versions[max(0, first - 1) :]):
        commit = summarizer.summarize(record)
        if first < len(versions) and commit.version >= versions[first].version:
            commit = _without_forged_numbers(commit)
            yield replace(commit, branch=where.branch, tags=tuple(tags.get(commit.version, ())))


def _list(where: Resolved) -> tuple[Sequence[VersionFile], Mapping[str, Tag]]:
    """List the versions and the tags, of a remote table at the same time."""
    if where.store.is_local:
        return list_versions(where.store, with_sizes=False), list_tags(where.root)
    with Threads(1, "lancefs-history") as pool:
        tags = submit(pool, list_tags, where.root)
        return list_versions(where.store), tags()


def history_table(commits: Iterator[Commit] | Sequence[Commit]) -> pa.Table:
    """Return commits as a table of the schema `HISTORY`."""
    rows = list(commits)
    names = [attribute.name for attribute in fields(Commit)]
    assert set(names) == set(HISTORY.names)
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    columns["properties"] = [list(row.properties.items()) for row in rows]
    arrays = [_column(columns[column.name], column.type) for column in HISTORY]
    return pa.table(arrays, schema=HISTORY)


def _column(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(data_type):
        return times_of(values, data_type)
    is_nested = pa.types.is_nested(data_type)
    return lists_of(values, data_type) if is_nested else array_of(values, data_type)


@dataclass(slots=True)
class _Sums:
    """Sums over the fragments of a version, updated by those that the next version changes."""

    fragments: int = 0
    rows: int = 0
    uncounted: int = 0  # fragments whose number of rows is not known
    files: int = 0
    bytes: int = 0
    unmeasured: int = 0  # files whose size is not known

    def add(self, fragments: Sequence[Fragment], sign: int = 1) -> None:
        """Add fragments; subtract them with a sign of -1."""
        for fragment in fragments:
            self.fragments += sign
            self.rows += sign * (fragment.num_rows or 0)
            self.uncounted += sign * (fragment.num_rows is None)
            self.files += sign * len(fragment.files)
            for file in fragment.files:
                self.bytes += sign * (file.size or 0)
                self.unmeasured += sign * (file.size is None)


class _Summarizer:
    """Summarizes commits in the order of their versions, each against the one before."""

    def __init__(self) -> None:
        self._before: CommitFile | None = None
        self._sums = _Sums()

    def summarize(self, record: CommitFile) -> Commit:
        """Return the commit of the next version."""
        commit = Commit(version=record.file.version, timestamp=record.timestamp, note=record.note)
        manifest, transaction, before = record.manifest, record.transaction, self._before
        self._before = record
        if manifest is None:
            return commit
        if transaction is not None:
            commit = replace(
                commit,
                operation=transaction.operation,
                summary=transaction.summary,
                message=transaction.message,
                read_version=transaction.read_version,
                transaction=transaction.uuid or None,
                properties=transaction.properties,
            )
        added, deleted = self._count(record, before)
        sums = self._sums
        return replace(
            commit,
            rows=None if sums.uncounted else sums.rows,
            rows_added=added,
            rows_deleted=deleted,
            fragments=sums.fragments,
            data_files=sums.files,
            bytes=None if sums.unmeasured else sums.bytes,
            schema_changes=schema_changes(record, before),
            writer=None if manifest.writer is None else str(manifest.writer),
        )

    def _count(
        self, record: CommitFile, before: CommitFile | None
    ) -> tuple[int | None, int | None]:
        """Update the sums to a version; return the number of rows that it added and deleted."""
        assert record.manifest is not None
        if before is None or before.manifest is None:
            self._sums = _Sums()
            new: list[Fragment] = list(record.manifest.fragments)
            old: list[Fragment] = []
        else:
            new, old = record.manifest.fragments.differences(before.manifest.fragments)
        self._sums.add(new)
        self._sums.add(old, -1)
        if record.transaction is not None and record.transaction.operation == "Rewrite":
            return 0, 0
        version = record.file.version
        has_before = before is not None and before.manifest is not None
        if has_before and before is not None and before.file.version == version - 1:
            return _row_changes(new, old)
        return _row_changes(new, []) if version == 1 else (None, None)


def _without_forged_numbers(commit: Commit) -> Commit:
    """Replace numbers that no table reaches by None, and say so in the note."""
    forged = [name for name in _NUMBERS if (getattr(commit, name) or 0) > _MOST]
    if not forged:
        return commit
    notes = [f"{name} is {getattr(commit, name)}, beyond 63 bits: not sound" for name in forged]
    nothing: Mapping[str, Any] = dict.fromkeys(forged)
    return replace(commit, note="; ".join([*filter(None, [commit.note]), *notes]), **nothing)


def _row_changes(new: Sequence[Fragment], old: Sequence[Fragment]) -> tuple[int | None, int | None]:
    """Return the number of added and deleted rows, from fragments that are new, gone or changed."""
    if any(fragment.num_rows is None for fragment in (*new, *old)):
        return None, None
    earlier = {fragment.id: fragment for fragment in old}
    added = deleted = 0
    for fragment in new:
        rows, rows_before = fragment.num_rows or 0, 0
        before = earlier.get(fragment.id)
        if before is not None and _is_same(before, fragment):
            del earlier[fragment.id]
            rows_before = before.num_rows or 0
        added += max(0, rows - rows_before)
        deleted += max(0, rows_before - rows)
    return added, deleted + sum(fragment.num_rows or 0 for fragment in earlier.values())


def _is_same(old: Fragment, new: Fragment) -> bool:
    """Return whether fragments with the same id are the same one: early releases reused ids."""
    return old.physical_rows == new.physical_rows and (
        not old.files or not {file.path for file in old.files}.isdisjoint(f.path for f in new.files)
    )


def _tags(tags: Mapping[str, Tag], branch: str | None) -> dict[int, list[str]]:
    """Return the names of the tags of a branch, by version."""
    names: dict[int, list[str]] = {}
    for tag in tags.values():
        if tag.branch == branch:
            names.setdefault(tag.version, []).append(tag.name)
    return names
