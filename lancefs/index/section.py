"""The index section of a version, read once for all kinds of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lancefs.errors import locating
from lancefs.index.segments import Coverage
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
