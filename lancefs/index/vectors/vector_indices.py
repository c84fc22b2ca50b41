"""The vector indices of a version: which there are over a column, and their open segments."""

from __future__ import annotations

from contextlib import suppress

from lancefs.errors import LanceError, UnsupportedFeature
from lancefs.index.column_indices import ColumnIndices, indices_of_kind
from lancefs.index.files import IndexReader, holding_buffers
from lancefs.index.open_segments import cost_of, identity_of, index_file
from lancefs.index.segments import (
    VECTORS_HOLD_ROW_IDS,
    ColumnIndex,
    Coverage,
    IndexSegment,
    is_over_vectors,
)
from lancefs.index.vectors.distances import METRICS, Metric
from lancefs.index.vectors.one_file import OneFile, is_one_file, metric_of
from lancefs.index.vectors.partitions import VectorPartitions
from lancefs.index.vectors.two_files import FILES, TwoFiles, described
from lancefs.printable import get_logger
from lancefs.storage import SMALL, File, holding_tails
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.base_paths import TableFiles
from lancefs.table.open_version import OpenVersion
from lancefs.table.per_version import per_version

logger = get_logger(__name__)

# Bytes of centroids and codebooks that a process keeps.
_BUDGET = 64 * 1024 * 1024

# Global buffers that are read: the partitions, and the codebook.
_BUFFERS = (1, 2)

_OPENED: BudgetCache[tuple[object, ...], tuple[VectorPartitions, list[File]]] = BudgetCache(_BUDGET)


class VectorIndices(ColumnIndices):
    """The vector indices of one version."""

    def open(self, segment: IndexSegment) -> VectorPartitions | None:
        """Return a segment, open; None if it cannot be read, or covers nothing."""
        if self.broken(segment) is not None or not len(segment.covered):
            return None
        try:
            return _open(segment, self._files)
        except LanceError as error:
            self.give_up(segment, error)
            return None

    def metric(self, index: ColumnIndex) -> Metric | None:
        """Return how an index compares vectors, also one that cannot be used; None if unknown.

        Releases before 10 or so did not record it in the manifest; then the files tell.
        """
        found = index.metric
        for segment in index.segments if found is None else ():
            file = index_file(segment, FILES[0], self._files)
            with suppress(LanceError):  # it was said that the index cannot be used
                found = metric_of(file) if is_one_file(file) else described(IndexReader(file))[1]
                break
        return next((metric for metric in METRICS if metric == found), None)


def _open(segment: IndexSegment, files: TableFiles) -> VectorPartitions:
    found = [index_file(segment, name, files) for name in FILES]
    listed = {file.path for file in segment.index.files}
    if FILES[1] not in listed and is_one_file(found[0]):
        found = found[:1]
    key = tuple(part for file in found for part in identity_of(file))

    def opened() -> tuple[VectorPartitions, list[File]]:
        remote = [file for file in found if not file.store.is_local]
        for file in remote:
            if file.size <= SMALL:  # to read a part of it would be one round of requests more
                file.tail = file.size
        # Centroids are the first bytes of a file that has the graphs of HNSW kinds.
        heads = [file for file in remote[:1] if len(remote) > 1 and file.size > SMALL]
        with holding_tails(found, heads):
            if len(found) == 1:
                return VectorPartitions(OneFile(found[0]), key), found
            index, vectors = (IndexReader(file, files.max_memory) for file in found)
            with holding_buffers([index, vectors], _BUFFERS):
                return VectorPartitions(TwoFiles(index, vectors), key), found

    return _OPENED.get(key, opened, cost_of)[0]


@per_version
def vector_indices_of(version: OpenVersion) -> VectorIndices | None:
    """Return the vector indices of a version; None if there are none.

    Args:
        version: The version.
    """
    found = indices_of_kind(version, Coverage.vector_indices, _warn)
    if found is None:
        return None
    (listed, coverage), indices = found
    for index in filter(is_over_vectors, listed):
        if (index.index_version or 0) not in VECTORS_HOLD_ROW_IDS:
            _warn(index.name, UnsupportedFeature(f"its version is {index.index_version}"))
    return VectorIndices(version.files, coverage, indices, _warn) if indices else None


def _warn(name: str, error: LanceError) -> None:
    logger.warning("index %s is not used, vectors are compared one by one: %s", name, error)
