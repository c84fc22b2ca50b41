"""Dating changes: which of the versions between two others added, removed or changed rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise

import numpy as np

from lancefs.datafile.blocks import Mask
from lancefs.datafile.buffers import Ints, UInts
from lancefs.datafile.row_ranges import is_among
from lancefs.forks import cached_property
from lancefs.table.base_paths import TableFiles
from lancefs.table.deletions import read_deletions
from lancefs.table.flags import ReaderFlags
from lancefs.table.fragment_readers import FragmentReaders
from lancefs.table.fragments import DataFile, DataOverlay, DeletionFile, Fragment
from lancefs.table.manifest import Manifest
from lancefs.table.row_index import RowIndex
from lancefs.table.row_metadata import RowMetadata

Signature = tuple[tuple[tuple[object, ...] | None, ...], tuple[DataOverlay, ...]]


def is_same(old: Fragment, new: Fragment) -> bool:
    """Return whether fragments with the same id hold the same rows: early releases reused ids.

    Args:
        old: The fragment in one version.
        new: The fragment in a later one.
    """
    if old.physical_rows != new.physical_rows:
        return False
    return not {_file(file) for file in old.files}.isdisjoint(_file(file) for file in new.files)


def signature(fragment: Fragment, field_ids: Sequence[int]) -> Signature:
    """Return where the values of fields are stored, without deletions.

    A fragment has the same values in two versions if its signatures are equal.

    Args:
        fragment: The fragment.
        field_ids: Ids of the fields.
    """
    holders, ids = fragment.holders(), set(field_ids)
    places = []
    for field_id in field_ids:
        file = holders.get(field_id)
        column = None if file is None or file.is_legacy else file.columns.get(field_id)
        places.append(None if file is None else (*_file(file), column))
    overlays = tuple(
        overlay for overlay in fragment.overlays if not ids.isdisjoint(overlay.file.fields)
    )
    return tuple(places), overlays


def have_row_versions(versions: Sequence[Manifest], field_ids: Sequence[int]) -> bool:
    """Return whether the row versions tell which rows changed between the first and last version.

    A writer may give a fragment other values and leave its row versions as they were, as commits of
    `Fragment.update_columns` do; a compaction then moves the rows, and nothing tells of the change.

    Args:
        versions: The readable versions, oldest first.
        field_ids: Ids of the fields whose values are meant.
    """
    return all(
        following.version == version.version + 1 and _updates_row_versions(*parts, field_ids)
        for version, following in pairwise(versions)
        for parts in [version.fragments.differences(following.fragments)]
    )


def _updates_row_versions(
    old: Sequence[Fragment], new: Sequence[Fragment], field_ids: Sequence[int]
) -> bool:
    """Return whether all fragments that got other values also got other row versions."""
    earlier = {fragment.id: fragment for fragment in old}
    return all(
        before.last_updated_at_versions != fragment.last_updated_at_versions
        or signature(before, field_ids) == signature(fragment, field_ids)
        for fragment in new
        for before in [earlier.get(fragment.id)]
        if before is not None
    )


class Timeline:
    """The versions after a first one, up to a last one.

    Args:
        until: The last version.
        between: The readable versions before the last one, oldest first.
        files: Finds the files of a version.
    """

    def __init__(
        self,
        until: Manifest,
        between: Sequence[Manifest],
        files: Callable[[Manifest], TableFiles],
    ) -> None:
        self._until = until
        self._between = [earlier for earlier in between if earlier.version != until.version]
        self._files = files
        self._indices: dict[int, RowIndex] = {}
        self._deleted: dict[tuple[int, DeletionFile], Ints] = {}

    @cached_property
    def timestamps(self) -> dict[int, datetime]:
        """Time of commit of each version."""
        return {version.version: version.timestamp for version in [*self._between, self._until]}

    def since_when(self, fragment: Fragment, offsets: Ints, is_there: bool) -> Ints:
        """Return the version that added each row, or that removed it.

        Args:
            fragment: The fragment of the rows, in a version that has them.
            offsets: Offsets of the rows.
            is_there: Whether the last version has the rows. If so, the result is the version that
                added each row; if not, the version that removed it.
        """
        return self._first_versions(
            len(offsets),
            self._changes.get(fragment.id, []),
            lambda position: self._has(position, fragment, offsets) == is_there,
        )

    def since_when_ids(self, ids: UInts, is_there: bool) -> Ints:
        """Return the version that added each row, or that removed it, by stable row ids.

        Args:
            ids: Ids of the rows, each once.
            is_there: Whether the last version has the rows; see `since_when`.
        """
        order = np.argsort(ids)
        ascending = ids[order]

        def test(position: int) -> Mask:
            has_row = np.zeros(len(ids), np.bool_)
            for rows in self._index(position).find_ids(ascending):
                has_row[order[rows.which]] = True
            return has_row if is_there else ~has_row

        return self._first_versions(len(ids), range(len(self._between)), test)

    def since_when_alike(self, fragment: Fragment, field_ids: Sequence[int]) -> int:
        """Return the version that gave fields of a fragment the values of the last version.

        Args:
            fragment: The fragment in the last version.
            field_ids: Ids of the fields.
        """
        last = signature(fragment, field_ids)

        def test(position: int) -> Mask:
            earlier = self._fragment(position, fragment.id)
            is_alike = earlier is not None and signature(earlier, field_ids) == last
            return np.array([is_alike])

        return int(self._first_versions(1, self._changes.get(fragment.id, []), test)[0])

    def _first_versions(
        self, rows: int, changes: Sequence[int], test: Callable[[int], Mask]
    ) -> Ints:
        """Return for each row the first version from which on it passes a test.

        Args:
            rows: Number of rows. All of them pass in the last version.
            changes: Positions of `_between`, ascending, of versions in which the result of the test
                may differ from that in the next version.
            test: Tests the rows in the version at a position of `_between`.
        """
        versions = np.full(rows, self._until.version, np.int64)
        passes = np.ones(rows, np.bool_)
        for position in reversed(changes):
            versions[passes] = self._version(position + 1)
            passes &= test(position)
            if not passes.any():
                return versions
        versions[passes] = self._version(0)
        return versions

    def _version(self, position: int) -> int:
        """Return the version at a position of `_between`, behind which the last one follows."""
        return [*self._between[position : position + 1], self._until][0].version

    @cached_property
    def _changes(self) -> dict[int, list[int]]:
        """By fragment id: the versions in which it is not what it is in the next version.

        Successive versions share most fragments, so that these are few.
        """
        changes: dict[int, list[int]] = {}
        for position, (version, following) in enumerate(pairwise([*self._between, self._until])):
            for parts in version.fragments.differences(following.fragments):
                for number in {part.id for part in parts}:
                    known = changes.setdefault(number, [])
                    if known[-1:] != [position]:
                        known.append(position)
        return changes

    def _index(self, position: int) -> RowIndex:
        """Return the row index of a version."""
        if position not in self._indices:
            manifest = self._between[position]
            files, fragments = self._files(manifest), manifest.fragments
            readers = FragmentReaders(files, fragments, manifest.fields)
            is_stable = ReaderFlags.STABLE_ROW_IDS in manifest.reader_flags
            metadata = RowMetadata(files, readers, fragments, is_stable)
            self._indices[position] = RowIndex(metadata, readers, fragments)
        return self._indices[position]

    def _fragment(self, position: int, number: int) -> Fragment | None:
        """Return a fragment of a version by its id; None if the version lacks it."""
        fragments = self._between[position].fragments
        place = fragments.positions.get(number)
        return None if place is None else fragments[place]

    def _has(self, position: int, fragment: Fragment, offsets: Ints) -> Mask:
        """Return whether a version has each row of a fragment."""
        own = self._fragment(position, fragment.id)
        if own is None or not is_same(fragment, own):
            return np.zeros(len(offsets), np.bool_)
        if own.deletion_file is None:
            return np.ones(len(offsets), np.bool_)
        key = (own.id, own.deletion_file)
        if key not in self._deleted:
            files = self._files(self._between[position])
            self._deleted[key] = read_deletions(files, own, own.physical_rows)
        return ~is_among(offsets, self._deleted[key])


def _file(file: DataFile) -> tuple[int | None, str]:
    return file.base_id, file.path
