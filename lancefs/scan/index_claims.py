"""Holding an index to what it says: a row that it names for a condition must pass the condition.

A row that does not pass proves that the index has a wrong row number or a wrong value, and then it
may lack other rows that do pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.buffers import Mask

if TYPE_CHECKING:
    from lancefs.index.claims import IndexClaim


class WrongIndex(Exception):
    """An index names a row that does not pass; the scan begins anew without the index.

    Args:
        claim: What the index says.
        fragment_id: The fragment of the row.
    """

    def __init__(self, claim: IndexClaim, fragment_id: int) -> None:
        super().__init__(f"it names rows of fragment {fragment_id} that have other values")
        self.claim = claim


def check_claims(
    claims: Sequence[IndexClaim],
    fragment_id: int,
    rejected: Mask,
    values_of: Callable[[int], pa.Array],
) -> None:
    """Check that rows that a filter rejected pass what indices say of them.

    Args:
        claims: What indices say of all rows that they name in a fragment.
        fragment_id: The fragment.
        rejected: Which of the named rows the filter rejected.
        values_of: Returns the values of the named rows in a column, by field id.

    Raises:
        WrongIndex: A row does not pass.
    """
    from lancefs.index.claims import passing

    rows = pa.array(rejected)
    for claim in claims:
        passed = passing(claim.predicate, lambda number: values_of(number).filter(rows))
        if not np.all(passed):
            raise WrongIndex(claim, fragment_id)
