"""Which rows differ between two versions of a table.

Only rows that may differ are read:

- no row of a fragment that is the same in both versions;
- the deleted rows of a fragment that lost rows;
- the rewritten columns of a fragment whose columns were rewritten;
- all rows of a fragment that only one version has.

These rows are then compared:

- by row id, where row ids are stable. A row of both versions with other values was updated. A row
  that only moved is mostly recognized by its last-updated version, without reading its values.
- by value, where they are not. A row on both sides was moved, for instance by a compaction, and did
  not change. An updated row is a deleted and an inserted row.

Rows are compared in the columns that both versions have: adding or dropping a column changes no
row. With a key, rows that changed are paired by the values of its columns in the end: a row whose
key is in both versions was updated, whatever its row id is.

Format page: row ids and lineage (`docs/src/format/table/row_id_lineage.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.arrays import mask_of, numbers_of
from lancefs.datafile.blocks import Mask
from lancefs.datafile.buffers import Ints, UInts, to_arrow_numbers
from lancefs.datafile.constants import array_of, scalar_of, times_of
from lancefs.datafile.fields import Field
from lancefs.errors import UnsupportedFeature
from lancefs.forks import cached_property
from lancefs.table.change_keys import key_fields, pair_rows
from lancefs.table.commits import CommitFile, commits_between
from lancefs.table.correspondence import Correspondence, correspond
from lancefs.table.file_prefetch import open_together
from lancefs.table.fragments import Fragment
from lancefs.table.manifest import made_anew
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_metadata import CREATED_AT, ROW_ID
from lancefs.table.row_values import unmatched
from lancefs.table.timeline import Timeline, have_row_versions, is_same, signature
from lancefs.table.version_rows import (
    ROWS_AT_ONCE,
    VersionRows,
    concatenated,
    encoded_rows,
    for_each,
    ids_of,
    in_order,
    live_rows,
    paired_ids,
    read_rows,
    rows_at,
    versions_of,
)
from lancefs.table.versions import latest

INSERT = "insert"
DELETE = "delete"
BEFORE = "update_preimage"
AFTER = "update_postimage"

# Columns added to the columns of the newer version.
CHANGE_TYPE = pa.field("_change_type", pa.string(), nullable=False)
COMMIT_VERSION = pa.field("_commit_version", pa.int64(), nullable=False)
COMMIT_TIMESTAMP = pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False)
_ADDED = (ROW_ID.to_arrow(), CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
# Added where rows are compared by a key: the columns whose values an update changed.
CHANGED_COLUMNS = pa.field("_changed_columns", pa.list_(pa.string()))


@dataclass(frozen=True, slots=True)
class IdShare:
    """The rows that one of several readers compares: runs of consecutive row ids, in turn.

    Attributes:
        number: Which share it is, from 0.
        count: How many shares there are.
        run: Row ids of a run.
    """

    number: int
    count: int
    run: int

    def has(self, ids: UInts) -> Mask:
        """Return a mask of the ids that are in the share."""
        mask: Mask = ids // np.uint64(self.run) % np.uint64(self.count) == self.number
        return mask


def changes_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the schema of the changes up to a version.

    Args:
        fields: The columns of the version.
    """
    shown = [one.to_arrow().with_nullable(True) for one in fields]
    return pa.schema([*shown, *_ADDED])


def _check_same_table(
    since: OpenVersion, until: OpenVersion, commits: Sequence[CommitFile]
) -> None:
    """Check that two open versions are of one table.

    Args:
        since: The older version.
        until: The newer version, which may have been opened long before.
        commits: The commits up to it, read from the table as it is now.

    Raises:
        MissingFile: The table was deleted and made anew in between.
    """
    own, found = until.manifest, [since.manifest, *(one.manifest for one in commits)]
    times = [one.timestamp for one in found if one is not None and one.version == own.version]
    is_anew = any(time != own.timestamp for time in times)
    if not times:  # cleaned up, but never the newest one
        is_anew = latest(until.resolved.store).version < own.version
    if is_anew:
        raise made_anew(until.name)


def _check_names(until: OpenVersion, more: str) -> None:
    """Check that no column has the name of one that changes add to those of the table.

    Args:
        until: The newer version.
        more: Another name that they add.

    Raises:
        UnsupportedFeature: A column has.
    """
    added = {*(one.name for one in _ADDED), more}
    for field in until.fields:
        if field.name in added:
            raise UnsupportedFeature(
                f"{until.name}: the table has a column {field.name}, which changes add themselves"
            )


def read_changes(
    since: OpenVersion,
    until: OpenVersion,
    key: Sequence[str] | None = None,
    share: IdShare | None = None,
) -> pa.Table:
    """Compare two versions.

    Args:
        since: The older version.
        until: The newer version, on the same branch.
        key: Names of columns of the newer version whose values tell rows apart; None to compare by
            row id or by value.
        share: Only the changes of these rows, where both versions have stable row ids and no key
            is given; of all rows by default.

    Returns:
        A row a change, in the order of the commits, with the columns of the newer version and
        `_rowid`, `_change_type` (`insert`, `delete`, `update_preimage`, `update_postimage`),
        `_commit_version` and `_commit_timestamp`. What a row did not have in its version is null.
        With a key `_changed_columns` comes last, null for rows that were not updated.

    Raises:
        ColumnNotFound: The newer version has no such column.
        ValueError: The versions are on different branches, or not in this order; or two changed
            rows of a version have the same key, or the older version has no such column.
        MissingFile: A file of one of the versions is gone, or the table was made anew in between.
        CorruptFile: A file is damaged.
        UnsupportedFeature: A file or a type is not read, or rows with it are not compared; or a
            column has the name of one that is added.
    """
    old, new = since.ref, until.ref
    if old.branch != new.branch or since.manifest.version > until.manifest.version:
        raise ValueError(
            f"{until.name}: changes from {old} to {new}: an older and a newer version of the same "
            "branch were expected"
        )
    store = until.resolved.store
    commits = commits_between(store, since.manifest.version, until.manifest.version)
    _check_same_table(since, until, commits)
    _check_names(until, CHANGED_COLUMNS.name if key is not None else "")
    return _Comparison(since, until, commits, key, share).run()


class _Comparison:
    """Compares two versions; collects candidate rows, then decides which of them changed."""

    def __init__(
        self,
        since: OpenVersion,
        until: OpenVersion,
        commits: Sequence[CommitFile],
        key: Sequence[str] | None,
        share: IdShare | None,
    ) -> None:
        self.since, self.until, self.share = since, until, share
        self.columns: Correspondence = correspond(since.manifest, until.manifest, commits)
        self.key = None if key is None else key_fields(key, self.columns, since, until)
        between = [
            one.manifest
            for one in commits
            if one.manifest is not None and one.file.version > since.manifest.version
        ]
        self._between = between
        self.timeline = Timeline(until.manifest, between, until.files_of)
        self.is_stable = since.row_metadata.is_stable and until.row_metadata.is_stable
        if share is not None and (key is not None or not self.is_stable):
            raise ValueError(
                f"{until.name}: a share of the changes needs stable row ids, and no key"
            )
        self._old: list[VersionRows] = []
        self._new: list[VersionRows] = []
        self._updates: list[tuple[VersionRows, VersionRows]] = []

    def run(self) -> pa.Table:
        """Return the changes; see `read_changes`."""
        self._collect()
        old, new = in_order(self._old), in_order(self._new)
        deleted, inserted = self._by_id(old, new) if self.is_stable else self._by_value(old, new)
        if self.key is not None:
            deleted, inserted = self._by_key(deleted, inserted)
        self._date(deleted, self.since, is_there=False)
        self._date(inserted, self.until, is_there=True)
        before = concatenated([one for one, _ in self._updates])
        after = concatenated([one for _, one in self._updates])
        self._date_updates(after)
        before.commits = after.commits
        changed = None if self.key is None else self._changed_columns(before, after)
        tables = [
            self._images(deleted, self.since, DELETE),
            self._images(before, self.since, BEFORE, changed),
            self._images(after, self.until, AFTER, changed),
            self._images(inserted, self.until, INSERT),
        ]
        groups = np.repeat([0, 1, 1, 2], [len(deleted), len(before), len(after), len(inserted)])
        places = np.concatenate([np.arange(len(table)) for table in tables])
        table = pa.concat_tables(tables)
        order = np.lexsort((places, groups, numbers_of(table["_commit_version"].combine_chunks())))
        return table.take(to_arrow_numbers(order))

    @cached_property
    def _has_row_versions(self) -> bool:
        """Whether `_row_last_updated_at_version` tells all changes of rows."""
        between = [one for one in self._between if one.version < self.until.manifest.version]
        ids = [part.id for _, field in self.columns.compared for part in field.walk()]
        return self.is_stable and have_row_versions(
            [self.since.manifest, *between, self.until.manifest], ids
        )

    # Which rows may have changed

    def _collect(self) -> None:
        older, newer = self.since.manifest.fragments, self.until.manifest.fragments
        new, old = newer.differences(older)
        left = {one.id: one for one in old}
        changed: list[tuple[int | None, int]] = []
        for fragment in new:
            former, position = left.get(fragment.id), newer.positions[fragment.id]
            if former is None or not is_same(former, fragment):
                changed.append((None, position))
                continue
            del left[fragment.id]
            if self._may_differ(former, fragment):
                changed.append((older.positions[fragment.id], position))
        gone = sorted(older.positions[number] for number in left)
        self._open([*gone, *(one for one, _ in changed if one is not None)], changed)
        for before, position in changed:
            if before is None:
                self._new.append(self._shared(self.until, live_rows(self.until, position)))
            else:
                self._collect_from(before, position)
        for position in gone:
            self._old.append(self._shared(self.since, live_rows(self.since, position)))

    def _open(self, old: Sequence[int], new: Sequence[tuple[int | None, int]]) -> None:
        """Open the files of the fragments that differ in few rounds of requests, if remote."""
        if self.until.files.store.is_local:
            return
        pairs = self.columns.pairs
        fields = [one for pair in pairs for one in (pair.old, pair.field) if one is not None]
        readers = [self.since.readers[position] for position in old]
        open_together([*readers, *(self.until.readers[position] for _, position in new)], fields)

    def _shared(self, version: OpenVersion, rows: VersionRows) -> VersionRows:
        """Return the rows that are compared here."""
        return rows if self.share is None else rows.take(self.share.has(ids_of(version, rows)))

    def _collect_from(self, before: int, position: int) -> None:
        """Collect the rows that may have changed in a fragment of both versions."""
        old, new = self.since.readers[before], self.until.readers[position]
        if old.fragment.deletion_file != new.fragment.deletion_file:
            gone = rows_at(before, np.setdiff1d(new.deleted, old.deleted))
            come = rows_at(position, np.setdiff1d(old.deleted, new.deleted))
            self._old.append(self._shared(self.since, gone))
            self._new.append(self._shared(self.until, come))
        changed = self._rewritten(old.fragment, new.fragment)
        if changed:
            self._collect_updates(before, position, changed)

    def _may_differ(self, old: Fragment, new: Fragment) -> bool:
        """Tell whether rows of a fragment of both versions may differ, by its metadata."""
        if old == new:
            return False
        return old.deletion_file != new.deletion_file or bool(self._rewritten(old, new))

    def _rewritten(self, old: Fragment, new: Fragment) -> list[tuple[Field, Field]]:
        """Return the columns of a fragment of both versions that were rewritten."""
        return [
            (of_old, of_new)
            for of_old, of_new in self.columns.compared
            if not _has_same_values(old, of_old, new, of_new)
        ]

    def _collect_updates(
        self, before: int, position: int, changed: Sequence[tuple[Field, Field]]
    ) -> None:
        """Compare the rows of a fragment in the columns that were rewritten."""
        old, new = self.since.readers[before], self.until.readers[position]
        kept = np.setdiff1d(new.live_offsets(), old.deleted, assume_unique=True)
        live = self._shared(self.until, rows_at(position, kept)).offsets
        ids = [one.id for _, below in changed for one in below.walk()]
        commit = self.timeline.since_when_alike(new.fragment, ids)
        for start in range(0, len(live), ROWS_AT_ONCE):
            offsets = live[start : start + ROWS_AT_ONCE]
            rows = rows_at(before, offsets, commit), rows_at(position, offsets, commit)
            of_old = encoded_rows(self.since, [one for one, _ in changed], rows[0])
            of_new = encoded_rows(self.until, [one for _, one in changed], rows[1])
            differ = _differ(of_old, of_new)
            if self.is_stable:
                after = rows[1].take(differ)
                if self._has_row_versions:  # others of the fragment may have changed later
                    known = self._known_commits(versions_of(self.until, after))
                    after.commits = np.where(known > 0, known, after.commits)
                self._updates.append((rows[0].take(differ), after))
            else:
                self._old.append(rows[0].take(differ))
                self._new.append(rows[1].take(differ))

    # Which rows did change

    def _by_value(self, old: VersionRows, new: VersionRows) -> tuple[VersionRows, VersionRows]:
        """Drop the rows that both versions have, by value."""
        columns = self.columns
        if not (len(old) and len(new) and columns.compared and columns.is_comparable):
            return old, new
        gone, come = unmatched(*self._encoded(old, new))
        return old.take(gone), new.take(come)

    def _by_id(self, old: VersionRows, new: VersionRows) -> tuple[VersionRows, VersionRows]:
        """Collect the rows of both versions, by row id, as updates where their values differ."""
        in_old, in_new = paired_ids((self.since, self.until), (old, new))
        if len(in_new):
            self._compare_moved(old.take(in_old), new.take(in_new))
        return old.drop(in_old), self._created(new.drop(in_new))

    def _by_key(
        self, deleted: VersionRows, inserted: VersionRows
    ) -> tuple[VersionRows, VersionRows]:
        """Collect changed rows with the same key as updates, in place of those found so far.

        Returns:
            The rows of the older version and of the newer one that are in no pair.
        """
        assert self.key is not None
        old = concatenated([deleted, *(one for one, _ in self._updates)])
        new = concatenated([inserted, *(one for _, one in self._updates)])
        in_old, in_new = pair_rows(self.since, self.until, self.key, old, new)
        differ = self._differing(old.take(in_old), new.take(in_new))
        self._updates = [(old.take(in_old[differ]), new.take(in_new[differ]))]
        return in_order([old.drop(in_old)]), in_order([new.drop(in_new)])

    def _differing(self, old: VersionRows, new: VersionRows) -> Mask:
        """Return a mask of the pairs of rows whose values differ."""
        return _differ(*self._encoded(old, new))

    def _encoded(
        self, old: VersionRows, new: VersionRows
    ) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
        """Return the values of rows of both versions in the compared columns, as bytes."""
        compared = self.columns.compared
        of_old = encoded_rows(self.since, [one for one, _ in compared], old)
        return of_old, encoded_rows(self.until, [one for _, one in compared], new)

    def _changed_columns(self, before: VersionRows, after: VersionRows) -> pa.Array:
        """Return the names of the columns whose values differ, for each pair of rows."""
        names, masks = [], []
        for pair in self.columns.pairs:
            if pair.compared is not None:
                of_old = encoded_rows(self.since, [pair.compared[0]], before)
                of_new = encoded_rows(self.until, [pair.compared[1]], after)
                names.append(pair.field.name)
                masks.append(_differ(of_old, of_new))
        table = np.array(masks, np.bool_).reshape(len(names), len(before)).T
        ends = np.concatenate([[0], np.cumsum(table.sum(axis=1))])
        which = to_arrow_numbers(np.nonzero(table)[1])
        items = array_of(names, pa.string()).take(which)
        return pa.ListArray.from_arrays(to_arrow_numbers(ends.astype(np.int32)), items)

    def _compare_moved(self, old: VersionRows, new: VersionRows) -> None:
        """Collect updates among pairs of rows with the same id, newer rows in scan order."""
        was = versions_of(self.since, old)
        now = versions_of(self.until, new)
        unchanged = np.zeros(len(new), np.bool_)
        if self._has_row_versions:
            unchanged = (was > 0) & (was == now)  # last updated in the same version
        old, new, now = old.take(~unchanged), new.take(~unchanged), now[~unchanged]
        if not len(new) or not self.columns.compared:
            return
        differ = self._differing(old, new)
        after = new.take(differ)
        after.commits = self._known_commits(now[differ])
        self._updates.append((old.take(differ), after))

    def _created(self, rows: VersionRows) -> VersionRows:
        """Return inserted rows with the versions that created them, as far as recorded."""
        rows.commits = self._known_commits(versions_of(self.until, rows, CREATED_AT))
        return rows

    def _known_commits(self, versions: Ints) -> Ints:
        """Replace versions that are not between the compared versions by 0."""
        is_known = np.isin(versions, list(self.timeline.timestamps))
        return np.where(is_known, versions, 0)

    # When they changed, and their values

    def _date(self, rows: VersionRows, version: OpenVersion, is_there: bool) -> None:
        """Find the version that inserted or deleted each row, where it is not known yet."""
        unknown = np.flatnonzero(rows.commits == 0)
        left = rows.take(unknown)
        if self.is_stable and len(left):
            rows.commits[unknown] = self.timeline.since_when_ids(ids_of(version, left), is_there)
            return

        def date(group: tuple[int, slice]) -> Ints:
            fragment = version.manifest.fragments[group[0]]
            return self.timeline.since_when(fragment, left.offsets[group[1]], is_there)

        groups = list(left.groups())
        for (_, part), versions in zip(groups, for_each(version, date, groups), strict=True):
            rows.commits[unknown[part]] = versions

    def _date_updates(self, rows: VersionRows) -> None:
        """Find the version that last wrote each updated row, where it is not known yet."""
        for position, part in rows.groups():
            fragment = self.until.manifest.fragments[position]
            unknown = np.flatnonzero(rows.commits[part] == 0) + part.start
            versions = self.timeline.since_when(fragment, rows.offsets[unknown], is_there=True)
            rows.commits[unknown] = versions

    def _images(
        self,
        rows: VersionRows,
        version: OpenVersion,
        change: str,
        changed: pa.Array | None = None,
    ) -> pa.Table:
        """Read rows as one version has them, in the schema of the changes."""
        is_old = version is self.since
        wanted = [pair.old if is_old else pair.field for pair in self.columns.pairs]
        read = iter(read_rows(version, [one for one in wanted if one is not None], rows))
        schema = changes_schema(self.until.manifest.fields)
        found, which = np.unique(rows.commits, return_inverse=True)
        times = times_of(
            [self.timeline.timestamps[version] for version in found.tolist()],
            COMMIT_TIMESTAMP.type,
        )
        columns = [
            pa.nulls(len(rows), shown.type) if one is None else _of_type(next(read), shown.type)
            for one, shown in zip(wanted, schema, strict=False)
        ]
        columns += [
            to_arrow_numbers(ids_of(version, rows)),
            pa.repeat(scalar_of(change, CHANGE_TYPE.type), len(rows)),
            to_arrow_numbers(rows.commits),
            times.take(to_arrow_numbers(which)),
        ]
        if self.key is not None:
            schema = schema.append(CHANGED_COLUMNS)
            nothing = pa.nulls(len(rows), CHANGED_COLUMNS.type)
            columns.append(nothing if changed is None else changed)
        return pa.table(columns, schema=schema)


def _of_type(values: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    # Arrow does not cast structs without a value to their own type if a member has no nulls.
    return values if values.type == data_type else values.cast(data_type)


def _differ(old: pa.LargeBinaryArray, new: pa.LargeBinaryArray) -> Mask:
    differ: Mask = mask_of(pc.not_equal(old, new))
    return differ


def _has_same_values(old: Fragment, of_old: Field, new: Fragment, of_new: Field) -> bool:
    """Tell whether a field has the same values in both fragments: the same columns and files."""
    return signature(old, [one.id for one in of_old.walk()]) == signature(
        new, [one.id for one in of_new.walk()]
    )
