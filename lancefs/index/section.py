"""The index section of a version, read once for all kinds of indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lancefs.index.by_version import ByVersion
from lancefs.index.segments import Coverage
from lancefs.table.indices import Index, indices_of
from lancefs.table.open_version import OpenVersion


class IndexSection(NamedTuple):
    """What the index section of a version says.

    Attributes:
        indices: The segments of all indices.
        coverage: Says where the rows are that segments name.
    """

    indices: Sequence[Index]
    coverage: Coverage


def index_section_of(version: OpenVersion) -> IndexSection:
    """Return the index section of a version that has one.

    Args:
        version: The version.

    Raises:
        LanceError: The section cannot be read.
    """
    section = _BY_VERSION.of(version)
    assert section is not None
    return section


def _read(version: OpenVersion) -> IndexSection:
    listed = indices_of(version)
    return IndexSection(listed, Coverage(version, listed))


_BY_VERSION = ByVersion(_read)
