"""The vector indices of a version: which there are over a column, and their open segments."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from lancefs.errors import LanceError
from lancefs.forks import Lock
from lancefs.index.files import IndexReader
from lancefs.index.opened import identity_of, index_file
from lancefs.index.segments import ColumnIndex, Coverage, IndexSegment
from lancefs.index.vectors.partitions import FILES, VectorPartitions
from lancefs.printable import get_logger
from lancefs.storage import File, holding_tails
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import TableFiles
from lancefs.table.indices import read_indices
from lancefs.table.open_version import OpenVersion

logger = get_logger(__name__)

# Bytes of centroids and codebooks that a process keeps.
_BUDGET = 64 * 1024 * 1024

_OPENED: BudgetCache[tuple[object, ...], tuple[VectorPartitions, list[File]]] = BudgetCache(_BUDGET)


class VectorIndices:
    """The vector indices of one version.

    Args:
        files: Finds the files of the version.
        coverage: Says where the rows are that segments name.
        indices: The indices.
    """

    def __init__(
        self, files: TableFiles, coverage: Coverage, indices: Sequence[ColumnIndex]
    ) -> None:
        self.coverage = coverage
        self._files = files
        self._indices = indices
        self._broken: set[str] = set()  # ids of segments that cannot be read

    def over(self, field_id: int) -> Sequence[ColumnIndex]:
        """Return the indices over a column."""
        return [index for index in self._indices if index.field_id == field_id]

    def open(self, segment: IndexSegment) -> VectorPartitions | None:
        """Return a segment, open; None if it cannot be read, or covers nothing."""
        if segment.index.uuid in self._broken or not len(segment.covered):
            return None
        try:
            return _open(segment, self._files)
        except LanceError as error:
            self.give_up(segment, error)
            return None

    def give_up(self, segment: IndexSegment, error: LanceError) -> None:
        """Use a segment no more, and say so once."""
        if segment.index.uuid not in self._broken:
            self._broken.add(segment.index.uuid)
            _warn(segment.index.name, error)


def _open(segment: IndexSegment, files: TableFiles) -> VectorPartitions:
    found = [index_file(segment, name, files) for name in FILES]
    key = tuple(part for file in found for part in identity_of(file))

    def opened() -> tuple[VectorPartitions, list[File]]:
        with holding_tails(found):
            index, vectors = (IndexReader(file, files.max_memory) for file in found)
            return VectorPartitions(index, vectors, key), found

    return _OPENED.get(key, opened, lambda entry: entry[0].cost)[0]


_known: weakref.WeakKeyDictionary[OpenVersion, VectorIndices | None] = weakref.WeakKeyDictionary()
_lock = Lock()


def vector_indices_of(version: OpenVersion) -> VectorIndices | None:
    """Return the vector indices of a version; None if there are none.

    The index section of the manifest is read once for each open version.

    Args:
        version: The version.
    """
    if version.manifest.index_section is None or version.is_fresh:
        return None
    with _lock:
        if version in _known:
            return _known[version]
    found = _read(version)
    with _lock:
        return _known.setdefault(version, found)


def _read(version: OpenVersion) -> VectorIndices | None:
    try:
        listed = read_indices(version.resolved.manifest, version.manifest, version.files)
        coverage = Coverage(version, listed)
        indices = list(coverage.vector_indices(listed))
    except LanceError as error:
        _warn("section", error)
        return None
    return VectorIndices(version.files, coverage, indices) if indices else None


def _warn(name: str, error: LanceError) -> None:
    logger.warning("index %s is not used, vectors are compared one by one: %s", name, error)
