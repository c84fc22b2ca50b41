"""What ends a search by an index, which begins anew without the segment that broke."""

from __future__ import annotations

from lancefs.errors import LanceError
from lancefs.index.segments import IndexSegment


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
