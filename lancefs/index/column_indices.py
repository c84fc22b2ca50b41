"""The indices of a version: its index section, those of one kind, and segments that are broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import pyarrow as pa

from lancefs.errors import LanceError, locating
from lancefs.index.segments import ColumnIndex, Coverage, IndexSegment
from lancefs.table.base_paths import TableFiles
from lancefs.table.indices import Index, indices_of
from lancefs.table.open_version import OpenVersion
from lancefs.table.per_version import per_version
from lancefs.threads import in_threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Segments of a remote table, or tests of its columns, that are worked on at the same time.
_MOST_AT_ONCE = 16
# What is raised over a segment that cannot be used. Its bytes are checked, so that an error of
# Arrow is a mistake of ours: the rows are right without the segment, and the log has the mistake.
BROKEN = LanceError, pa.ArrowException


class ColumnIndices:
    """Indices of one version.

    Args:
        files: Finds the files of the version.
        coverage: Says where the rows are that segments name.
        indices: The indices.
        say_unused: Logs that an index, given by its name, is not used.
    """

    def __init__(
        self,
        files: TableFiles,
        coverage: Coverage,
        indices: Sequence[ColumnIndex],
        say_unused: Callable[[str, LanceError], None],
    ) -> None:
        self.coverage = coverage
        self.indices = indices
        self._files = files
        self._say_unused = say_unused
        self._by_field: dict[int, list[ColumnIndex]] = {}
        for index in indices:
            self._by_field.setdefault(index.field_id, []).append(index)
        self._broken: dict[str, LanceError] = {}  # by the ids of segments

    def over(self, field_id: int) -> Sequence[ColumnIndex]:
        """Return the indices over a column."""
        return self._by_field.get(field_id, ())

    @property
    def is_local(self) -> bool:
        """Whether reads wait for no requests."""
        return self._files.store.is_local

    def do_each(self, do: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Do the same work on several segments; their requests to a store are under way together.

        Args:
            do: The work, which threads may do at the same time.
            items: Its arguments.

        Returns:
            The results, in the order of the items.

        Raises:
            Exception: What the work on the earliest failing item raised.
        """
        if self.is_local:
            return [do(item) for item in items]
        return in_threads(do, items, _MOST_AT_ONCE, "lancefs-index")

    def broken(self, segment: IndexSegment) -> LanceError | None:
        """Return why a segment cannot be read; None as long as it can."""
        return self._broken.get(segment.index.uuid)

    def give_up(self, segment: IndexSegment, error: Exception) -> None:
        """Use a segment no more, and say so once.

        Args:
            segment: The segment.
            error: One of `BROKEN`.
        """
        if self.broken(segment) is None:
            if not isinstance(error, LanceError):
                error = LanceError(f"{type(error).__name__}: {error}; please report it")
            self._broken[segment.index.uuid] = error
            self._say_unused(segment.index.name, error)


class BrokenSegment(Exception):
    """A segment cannot be read; the search begins anew without it.

    Args:
        segment: The segment.
        cause: Says what is wrong.
    """

    def __init__(self, segment: IndexSegment, cause: LanceError) -> None:
        super().__init__(str(cause))
        self.segment = segment
        self.cause = cause


@contextmanager
def reading(segment: IndexSegment | None) -> Iterator[None]:
    """Say of errors in the context that a segment cannot be read; None for what is read of others.

    Raises:
        BrokenSegment: In place of a `LanceError`.
    """
    try:
        yield
    except LanceError as error:
        if segment is None:
            raise
        raise BrokenSegment(segment, error) from error


class IndexSection(NamedTuple):
    """What the index section of a version says.

    Attributes:
        indices: The segments of all indices.
        coverage: Says where the rows are that segments name.
    """

    indices: Sequence[Index]
    coverage: Coverage


@per_version
def index_section_of(version: OpenVersion) -> IndexSection | None:
    """Return the index section of a version; None for one without indices, or with fresh rows.

    Args:
        version: The version.

    Raises:
        LanceError: The section cannot be read.
    """
    if version.manifest.index_section is None or version.is_fresh:
        return None
    listed = indices_of(version)
    with locating(version.resolved.manifest.url, "indices"):
        return IndexSection(listed, Coverage(version, listed))


def indices_of_kind(
    version: OpenVersion,
    choose: Callable[[Coverage, Sequence[Index]], Iterable[ColumnIndex]],
    say_unused: Callable[[str, LanceError], None],
) -> tuple[IndexSection, Sequence[ColumnIndex]] | None:
    """Return the index section of a version, and its indices of one kind.

    Args:
        version: The version.
        choose: The method of `Coverage` that yields the indices of the kind.
        say_unused: Logs that what has a name is not used.

    Returns:
        None where there is no section, or it cannot be read.
    """
    try:
        section = index_section_of(version)
        if section is None:
            return None
        return section, list(choose(section.coverage, section.indices))
    except LanceError as error:
        say_unused("section", error)
        return None
