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
row.

Format page: row ids and lineage (`docs/src/format/table/row_id_lineage.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancefs.datafile.blocks import Mask
from lancefs.datafile.buffers import Ints, to_arrow_numbers
from lancefs.datafile.extensions import present
from lancefs.datafile.fields import Blobs, Field
from lancefs.datafile.row_ranges import as_ranges
from lancefs.errors import CorruptFile
from lancefs.storage import Store
from lancefs.table.commits import CommitFile, read_commits
from lancefs.table.correspondence import Correspondence, correspond
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import Fragment
from lancefs.table.open_version import OpenVersion
from lancefs.table.row_ids import Ids
from lancefs.table.row_metadata import CREATED_AT, LAST_UPDATED_AT, ROW_ID
from lancefs.table.row_values import encode_rows, unmatched
from lancefs.table.timeline import Timeline, is_same, signature
from lancefs.table.versions import list_versions

INSERT = "insert"
DELETE = "delete"
BEFORE = "update_preimage"
AFTER = "update_postimage"

# Columns added to the columns of the newer version.
CHANGE_TYPE = pa.field("_change_type", pa.string(), nullable=False)
COMMIT_VERSION = pa.field("_commit_version", pa.int64(), nullable=False)
COMMIT_TIMESTAMP = pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False)
_ADDED = (ROW_ID.to_arrow(), CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)

# Rows whose values are decoded at once.
_ROWS_AT_ONCE = 64 * 1024
# Decoding this many unwanted rows costs about as much as decoding one more range of rows.
_GAP = 128
_NONE: Ints = np.empty(0, np.int64)


@dataclass(slots=True)
class _VersionRows:
    """Rows of one version.

    Attributes:
        fragments: Position of each row's fragment in the version, shape (n,).
        offsets: Offset of each row in its fragment, shape (n,).
        commits: Version that inserted, updated or deleted each row, shape (n,); 0 if not known.
    """

    fragments: Ints
    offsets: Ints
    commits: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, which: Ints | Mask) -> _VersionRows:
        return _VersionRows(self.fragments[which], self.offsets[which], self.commits[which])

    def order(self) -> Ints:
        """Return the permutation that sorts the rows into scan order."""
        return np.lexsort((self.offsets, self.fragments))

    def groups(self) -> Iterator[tuple[int, slice]]:
        """Yield the position of each fragment, and the slice of its consecutive rows."""
        edges = np.flatnonzero(np.diff(self.fragments)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(self)] if len(self) else []):
            yield int(self.fragments[start]), slice(start, end)


def changes_schema(fields: Sequence[Field]) -> pa.Schema:
    """Return the schema of the changes up to a version.

    Args:
        fields: The columns of the version.
    """
    shown = [one.to_arrow().with_nullable(True) for one in fields]
    return pa.schema([*shown, *_ADDED])


def _commits_between(store: Store, since: int, until: int) -> list[CommitFile]:
    """Read the commits from one version to another, as far as they are there.

    Where one of them restored a version from before the first, those from there on are read too.

    Args:
        store: The directory of the table, or of the branch.
        since: The first version, which is itself left out.
        until: The last one.
    """
    versions = list_versions(store)
    commits: list[CommitFile] = []
    first, start = until + 1, since + 1
    while start < first:
        earlier = [one for one in versions if start <= one.version < first]
        commits = [*read_commits(store, earlier), *commits]
        done = [one.transaction for one in commits if one.transaction is not None]
        restored = [one.details.get("version", 0) for one in done if one.operation == "Restore"]
        first, start = start, min([start, *restored])
    return commits


def read_changes(since: OpenVersion, until: OpenVersion) -> pa.Table:
    """Compare two versions.

    Args:
        since: The older version.
        until: The newer version, on the same branch.

    Returns:
        A row a change, in the order of the commits, with the columns of the newer version and
        `_rowid`, `_change_type` (`insert`, `delete`, `update_preimage`, `update_postimage`),
        `_commit_version` and `_commit_timestamp`. What a row did not have in its version is null.

    Raises:
        ValueError: The versions are on different branches, or not in this order.
        MissingFile: A file of one of the versions is gone.
        CorruptFile: A file is damaged.
        UnsupportedFeature: A file or a type is not read, or rows with it are not compared.
    """
    old, new = since.ref, until.ref
    if old.branch != new.branch or since.manifest.version > until.manifest.version:
        raise ValueError(
            f"{until.name}: changes from {old} to {new}: an older and a newer version of the same "
            "branch were expected"
        )
    store = until.resolved.store
    commits = _commits_between(store, since.manifest.version, until.manifest.version)
    return _Comparison(since, until, commits).run()


class _Comparison:
    """Compares two versions; collects candidate rows, then decides which of them changed."""

    def __init__(
        self,
        since: OpenVersion,
        until: OpenVersion,
        commits: Sequence[CommitFile],
    ) -> None:
        self.since, self.until = since, until
        self.columns: Correspondence = correspond(since.manifest, until.manifest, commits)
        between = [
            one.manifest
            for one in commits
            if one.manifest is not None and one.file.version > since.manifest.version
        ]
        self.timeline = Timeline(until.manifest, between, until.files_of)
        self.is_stable = since.row_metadata.is_stable and until.row_metadata.is_stable
        self._old: list[_VersionRows] = []
        self._new: list[_VersionRows] = []
        self._updates: list[tuple[_VersionRows, _VersionRows]] = []

    def run(self) -> pa.Table:
        self._collect()
        old, new = _in_order(self._old), _in_order(self._new)
        deleted, inserted = self._by_id(old, new) if self.is_stable else self._by_value(old, new)
        self._date(deleted, self.since, is_there=False)
        self._date(inserted, self.until, is_there=True)
        before = _concatenated([one for one, _ in self._updates])
        after = _concatenated([one for _, one in self._updates])
        self._date_updates(after)
        before.commits = after.commits
        tables = [
            self._images(deleted, self.since, DELETE),
            self._images(before, self.since, BEFORE),
            self._images(after, self.until, AFTER),
            self._images(inserted, self.until, INSERT),
        ]
        groups = np.repeat([0, 1, 1, 2], [len(deleted), len(before), len(after), len(inserted)])
        places = np.concatenate([np.arange(len(table)) for table in tables])
        table = pa.concat_tables(tables)
        order = np.lexsort((places, groups, table["_commit_version"].to_numpy()))
        return table.take(to_arrow_numbers(order))

    # Which rows may have changed

    def _collect(self) -> None:
        old = {one.id: position for position, one in enumerate(self.since.manifest.fragments)}
        for position, fragment in enumerate(self.until.manifest.fragments):
            before = old.get(fragment.id)
            if before is None or not is_same(self.since.manifest.fragments[before], fragment):
                self._new.append(_live(self.until, position))
                continue
            del old[fragment.id]
            if self.since.manifest.fragments[before] != fragment:
                self._collect_from(before, position)
        for position in sorted(old.values()):
            self._old.append(_live(self.since, position))

    def _collect_from(self, before: int, position: int) -> None:
        """Collect the rows that may have changed in a fragment of both versions."""
        old, new = self.since.readers[before], self.until.readers[position]
        self._old.append(_rows(before, np.setdiff1d(new.deleted, old.deleted)))
        self._new.append(_rows(position, np.setdiff1d(old.deleted, new.deleted)))
        changed = [
            (of_old, of_new)
            for of_old, of_new in self.columns.compared
            if not _has_same_values(old.fragment, of_old, new.fragment, of_new)
        ]
        if changed:
            self._collect_updates(before, position, changed)

    def _collect_updates(
        self, before: int, position: int, changed: Sequence[tuple[Field, Field]]
    ) -> None:
        """Compare the rows of a fragment in the columns that were rewritten."""
        old, new = self.since.readers[before], self.until.readers[position]
        live = np.setdiff1d(new.live_offsets(), old.deleted, assume_unique=True)
        ids = [one.id for _, below in changed for one in below.walk()]
        commit = self.timeline.since_when_alike(new.fragment, ids)
        for start in range(0, len(live), _ROWS_AT_ONCE):
            offsets = live[start : start + _ROWS_AT_ONCE]
            rows = _rows(before, offsets, commit), _rows(position, offsets, commit)
            of_old = _encoded(self.since, [one for one, _ in changed], rows[0])
            of_new = _encoded(self.until, [one for _, one in changed], rows[1])
            differ = _differ(of_old, of_new)
            if self.is_stable:
                self._updates.append((rows[0].take(differ), rows[1].take(differ)))
            else:
                self._old.append(rows[0].take(differ))
                self._new.append(rows[1].take(differ))

    # Which rows did change

    def _by_value(self, old: _VersionRows, new: _VersionRows) -> tuple[_VersionRows, _VersionRows]:
        """Drop the rows that both versions have, by value."""
        compared = self.columns.compared
        if not (len(old) and len(new) and compared and self.columns.is_comparable):
            return old, new
        of_old = _encoded(self.since, [one for one, _ in compared], old)
        of_new = _encoded(self.until, [one for _, one in compared], new)
        gone, come = unmatched(of_old, of_new)
        return old.take(gone), new.take(come)

    def _by_id(self, old: _VersionRows, new: _VersionRows) -> tuple[_VersionRows, _VersionRows]:
        """Collect the rows of both versions, by row id, as updates where their values differ."""
        ids_old, ids_new = _unique_ids(self.since, old), _unique_ids(self.until, new)
        _, in_old, in_new = np.intersect1d(ids_old, ids_new, return_indices=True)
        order = np.argsort(in_new)
        in_old, in_new = in_old[order], in_new[order]
        if len(in_new):
            self._compare_moved(old.take(in_old), new.take(in_new))
        gone, come = np.ones(len(old), np.bool_), np.ones(len(new), np.bool_)
        gone[in_old] = False
        come[in_new] = False
        return old.take(gone), self._created(new.take(come))

    def _compare_moved(self, old: _VersionRows, new: _VersionRows) -> None:
        """Collect updates among pairs of rows with the same id, newer rows in scan order."""
        was = _versions(self.since, old)
        now = _versions(self.until, new)
        unchanged = (was > 0) & (was == now)  # last updated in the same version
        old, new, now = old.take(~unchanged), new.take(~unchanged), now[~unchanged]
        compared = self.columns.compared
        if not len(new) or not compared:
            return
        of_old = _encoded(self.since, [one for one, _ in compared], old)
        of_new = _encoded(self.until, [one for _, one in compared], new)
        differ = _differ(of_old, of_new)
        after = new.take(differ)
        after.commits = self._known_commits(now[differ])
        self._updates.append((old.take(differ), after))

    def _created(self, rows: _VersionRows) -> _VersionRows:
        """Return inserted rows with the versions that created them, as far as recorded."""
        rows.commits = self._known_commits(_versions(self.until, rows, CREATED_AT))
        return rows

    def _known_commits(self, versions: Ints) -> Ints:
        """Replace versions that are not between the compared versions by 0."""
        is_known = np.isin(versions, list(self.timeline.timestamps))
        return np.where(is_known, versions, 0)

    # When they changed, and their values

    def _date(self, rows: _VersionRows, version: OpenVersion, is_there: bool) -> None:
        """Find the version that inserted or deleted each row, where it is not known yet."""
        unknown = np.flatnonzero(rows.commits == 0)
        left = rows.take(unknown)
        if self.is_stable and len(left):
            rows.commits[unknown] = self.timeline.since_when_ids(_ids(version, left), is_there)
            return
        for position, part in left.groups():
            fragment = version.manifest.fragments[position]
            versions = self.timeline.since_when(fragment, left.offsets[part], is_there)
            rows.commits[unknown[part]] = versions

    def _date_updates(self, rows: _VersionRows) -> None:
        """Find the version that last wrote each updated row, where it is not known yet."""
        for position, part in rows.groups():
            fragment = self.until.manifest.fragments[position]
            unknown = np.flatnonzero(rows.commits[part] == 0) + part.start
            versions = self.timeline.since_when(fragment, rows.offsets[unknown], is_there=True)
            rows.commits[unknown] = versions

    def _images(self, rows: _VersionRows, version: OpenVersion, change: str) -> pa.Table:
        """Read rows as one version has them, in the schema of the changes."""
        is_old = version is self.since
        wanted = [pair.old if is_old else pair.field for pair in self.columns.pairs]
        read = iter(_read(version, [one for one in wanted if one is not None], rows))
        schema = changes_schema(self.until.manifest.fields)
        stamps = [self.timeline.timestamps[version] for version in rows.commits.tolist()]
        columns = [
            pa.nulls(len(rows), shown.type) if one is None else next(read).cast(shown.type)
            for one, shown in zip(wanted, schema, strict=False)
        ]
        columns += [
            pa.array(_ids(version, rows)),
            pa.repeat(change, len(rows)),
            pa.array(rows.commits),
            pa.array(stamps, COMMIT_TIMESTAMP.type),
        ]
        return pa.table(columns, schema=schema)


def _concatenated(parts: Sequence[_VersionRows]) -> _VersionRows:
    return _VersionRows(
        np.concatenate([_NONE, *(part.fragments for part in parts)]),
        np.concatenate([_NONE, *(part.offsets for part in parts)]),
        np.concatenate([_NONE, *(part.commits for part in parts)]),
    )


def _in_order(parts: Sequence[_VersionRows]) -> _VersionRows:
    rows = _concatenated(parts)
    return rows.take(rows.order())


def _rows(position: int, offsets: Ints, commit: int = 0) -> _VersionRows:
    """Return rows of one fragment."""
    return _VersionRows(np.full(len(offsets), position), offsets, np.full(len(offsets), commit))


def _live(version: OpenVersion, position: int) -> _VersionRows:
    """Return the live rows of a fragment."""
    reader = version.readers[position]
    return _rows(position, reader.live_offsets())


def _differ(old: pa.LargeBinaryArray, new: pa.LargeBinaryArray) -> Mask:
    differ: Mask = pc.not_equal(old, new).to_numpy(zero_copy_only=False)
    return differ


def _has_same_values(old: Fragment, of_old: Field, new: Fragment, of_new: Field) -> bool:
    """Tell whether a field has the same values in both fragments: the same columns and files."""
    return signature(old, [one.id for one in of_old.walk()]) == signature(
        new, [one.id for one in of_new.walk()]
    )


def _ids(version: OpenVersion, rows: _VersionRows) -> Ids:
    """Return the row ids of rows."""
    order = rows.order()
    ordered = rows.take(order)
    ids = np.empty(len(rows), np.uint64)
    for position, part in ordered.groups():
        reader = version.readers[position]
        ids[order[part]] = version.row_metadata.at(ROW_ID, reader, ordered.offsets[part])
    return ids


def _unique_ids(version: OpenVersion, rows: _VersionRows) -> Ids:
    """Return the stable row ids of rows, and check that they are unique."""
    ids = _ids(version, rows)
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        raise CorruptFile(
            f"{version.manifest.path}: two rows have the stable id {values[counts > 1][0]}"
        )
    return ids


def _versions(version: OpenVersion, rows: _VersionRows, which: Field = LAST_UPDATED_AT) -> Ints:
    """Return the versions that created or last updated rows; 0 where they are not recorded."""
    versions = np.zeros(len(rows), np.int64)
    for position, part in rows.groups():
        sequence = version.row_metadata.versions(which, version.readers[position])
        if sequence is not None:
            versions[part] = sequence.at(rows.offsets[part]).astype(np.int64)
    return versions


def _read(
    version: OpenVersion, fields: Sequence[Field], rows: _VersionRows
) -> list[pa.ChunkedArray]:
    """Read columns of rows, in the types that readers see."""
    order = rows.order()
    parts: list[list[pa.Array]] = [[] for _ in fields]
    for reader, offsets in _split(version, rows.take(order)):
        for part, array, one in zip(parts, _values(reader, fields, offsets), fields, strict=True):
            part.append(present(array, one))
    back = to_arrow_numbers(np.argsort(order))
    return [
        pa.chunked_array(part, one.to_arrow().type).take(back)
        for part, one in zip(parts, fields, strict=True)
    ]


def _encoded(
    version: OpenVersion, fields: Sequence[Field], rows: _VersionRows
) -> pa.LargeBinaryArray:
    """Return each row's values of some columns as one binary value, for comparison."""
    order = rows.order()
    parts = [
        encode_rows(_values(reader, fields, offsets, "bytes"), len(offsets))
        for reader, offsets in _split(version, rows.take(order))
    ]
    encoded = pa.concat_arrays(parts) if parts else pa.array([], pa.large_binary())
    return encoded.take(to_arrow_numbers(np.argsort(order)))


def _split(version: OpenVersion, rows: _VersionRows) -> Iterator[tuple[FragmentReader, Ints]]:
    """Split sorted rows into parts of one fragment each, small enough to decode at once."""
    for position, part in rows.groups():
        offsets = rows.offsets[part]
        if _are_scattered(offsets) and len(offsets) <= _ROWS_AT_ONCE:
            yield version.readers[position], offsets
            continue
        edges = np.flatnonzero(np.diff(offsets // _ROWS_AT_ONCE)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(offsets)]):
            yield version.readers[position], offsets[start:end]


def _values(
    reader: FragmentReader, fields: Sequence[Field], offsets: Ints, blobs: Blobs = "descriptors"
) -> list[pa.Array]:
    """Read columns of some rows of a fragment; rows in small gaps are decoded and dropped."""
    if not fields:
        return []
    if _are_scattered(offsets):
        return reader.read(fields, as_ranges(offsets), blobs)
    first, end = int(offsets[0]), int(offsets[-1]) + 1
    arrays = reader.read(fields, [(first, end)], blobs)
    if end - first == len(offsets):
        return arrays
    picked = to_arrow_numbers(offsets - first)
    return [array.take(picked) for array in arrays]


def _are_scattered(offsets: Ints) -> bool:
    """Tell whether the gaps between rows are so large that decoding ranges is cheaper."""
    runs = int(np.count_nonzero(np.diff(offsets) != 1)) + 1
    return runs * _GAP < int(offsets[-1] - offsets[0])
