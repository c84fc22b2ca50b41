"""Which of the versions between two others brought a row, or took it away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property

import numpy as np

from lancefs.datafile.blocks import Mask
from lancefs.datafile.buffers import Ints
from lancefs.table.base_paths import TableFiles
from lancefs.table.deletions import read_deletions
from lancefs.table.flags import ReaderFlags
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragments import DataFile, DataOverlay, DeletionFile, Fragment
from lancefs.table.manifest import Manifest
from lancefs.table.row_ids import Ids
from lancefs.table.row_index import RowIndex, among
from lancefs.table.row_metadata import RowMetadata

Signature = tuple[tuple[tuple[object, ...] | None, ...], tuple[DataOverlay, ...]]


def is_same(old: Fragment, new: Fragment) -> bool:
    """Whether two fragments of an id hold the same rows: early releases used ids again."""
    if old.physical_rows != new.physical_rows:
        return False
    return not {_file(one) for one in old.files}.isdisjoint(_file(one) for one in new.files)


def signature(fragment: Fragment, field_ids: Sequence[int]) -> Signature:
    """Return what tells whether two versions of a fragment have the same values in some fields."""
    holders, wanted = fragment.holders(), set(field_ids)
    places = []
    for field_id in field_ids:
        held = holders.get(field_id)
        column = None if held is None or held.is_legacy else held.columns.get(field_id)
        places.append(None if held is None else (*_file(held), column))
    overlays = tuple(one for one in fragment.overlays if not wanted.isdisjoint(one.file.fields))
    return tuple(places), overlays


class Timeline:
    """The versions after one, up to another.

    Args:
        until: The last of them.
        between: Those before it that can be read, oldest first.
        files: Finds the files of a version.
    """

    def __init__(
        self,
        until: Manifest,
        between: Sequence[Manifest],
        files: Callable[[Manifest], TableFiles],
    ) -> None:
        self._until = until
        self._between = [one for one in between if one.version != until.version]
        self._files = files
        self._indices: dict[int, RowIndex] = {}
        self._deleted: dict[tuple[int, DeletionFile], Ints] = {}

    @cached_property
    def timestamps(self) -> dict[int, datetime]:
        """When each version was committed."""
        return {one.version: one.timestamp for one in [*self._between, self._until]}

    def since_when(self, fragment: Fragment, offsets: Ints, is_there: bool) -> Ints:
        """Return the version since which each row has been there, or gone, up to the last version.

        Args:
            fragment: The fragment, as a version has it that the rows are in.
            offsets: Of the rows.
            is_there: Whether they are there in the last version.
        """
        return self._since_when(
            len(offsets), lambda at: self._are_there(at, fragment, offsets) == is_there
        )

    def since_when_ids(self, ids: Ids, is_there: bool) -> Ints:
        """Return the version since which each row has been there, or gone, by their stable ids.

        Args:
            ids: Of the rows, each once.
            is_there: Whether they are there in the last version.
        """
        order = np.argsort(ids)
        wanted = ids[order]

        def test(position: int) -> Mask:
            there = np.zeros(len(ids), np.bool_)
            for found in self._index(position).find_ids(wanted):
                there[order[found.which]] = True
            return there if is_there else ~there

        return self._since_when(len(ids), test)

    def since_when_alike(self, fragment: Fragment, field_ids: Sequence[int]) -> int:
        """Return the version since which fields of a fragment have had their last values.

        Args:
            fragment: As the last version has it.
            field_ids: The fields.
        """
        wanted, version = signature(fragment, field_ids), self._until.version
        for position in range(len(self._between) - 1, -1, -1):
            held = self._fragments[position].get(fragment.id)
            if held is None or signature(held, field_ids) != wanted:
                break
            version = self._between[position].version
        return version

    def _since_when(self, rows: int, test: Callable[[int], Mask]) -> Ints:
        """Go back from the last version for as long as a test holds for each row."""
        versions = np.full(rows, self._until.version, np.int64)
        going_on = np.ones(rows, np.bool_)
        for position in range(len(self._between) - 1, -1, -1):
            going_on &= test(position)
            if not going_on.any():
                break
            versions[going_on] = self._between[position].version
        return versions

    def _index(self, position: int) -> RowIndex:
        """Return what finds rows of a version by their stable ids."""
        if position not in self._indices:
            manifest = self._between[position]
            files, fragments = self._files(manifest), manifest.fragments
            readers = [FragmentReader(files, one, manifest.fields) for one in fragments]
            is_stable = ReaderFlags.STABLE_ROW_IDS in manifest.reader_flags
            metadata = RowMetadata(files, readers, fragments, is_stable)
            self._indices[position] = RowIndex(metadata, readers, fragments)
        return self._indices[position]

    @cached_property
    def _fragments(self) -> list[dict[int, Fragment]]:
        return [{one.id: one for one in manifest.fragments} for manifest in self._between]

    def _are_there(self, position: int, fragment: Fragment, offsets: Ints) -> Mask:
        held = self._fragments[position].get(fragment.id)
        if held is None or not is_same(fragment, held):
            return np.zeros(len(offsets), np.bool_)
        if held.deletion_file is None:
            return np.ones(len(offsets), np.bool_)
        key = (held.id, held.deletion_file)
        if key not in self._deleted:
            files = self._files(self._between[position])
            self._deleted[key] = read_deletions(files, held, held.physical_rows)
        return ~among(offsets, self._deleted[key])


def _file(file: DataFile) -> tuple[int | None, str]:
    return file.base_id, file.path
