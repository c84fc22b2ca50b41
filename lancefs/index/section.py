"""The index section of a version, read once for all kinds of indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lancefs.errors import LanceError, locating
from lancefs.index.segments import ColumnIndex, Coverage
from lancefs.table.indices import Index, indices_of
from lancefs.table.open_version import OpenVersion
from lancefs.table.per_version import per_version


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
