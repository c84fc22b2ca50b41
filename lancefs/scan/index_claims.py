"""Verifying an index: each row that it returns for a condition must pass the condition.

A row that does not pass proves that the index has a wrong row number or a wrong value, and then it
may lack other rows that do pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lancefs.datafile.arrays import spelled_out, to_arrow
from lancefs.datafile.blocks import FixedWidth
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
    columns: Mapping[int, pa.Array],
    passed: Mask,
) -> None:
    """Check that rows that a filter rejected pass what indices say of them.

    Args:
        claims: What indices say of all rows that they name in a fragment.
        fragment_id: The fragment.
        columns: Columns of the named rows, by field id; they may be dictionary-encoded.
        passed: Which of the named rows the filter did not reject.

    Raises:
        WrongIndex: A row does not pass.
    """
    from lancefs.index.claims import passing
    from lancefs.index.predicates import UnfitTest

    rejected = to_arrow(FixedWidth(1, ~passed), pa.bool_(), None)

    def rejected_values(field_id: int) -> pa.Array:
        column = columns[field_id]
        values = spelled_out(column) if pa.types.is_dictionary(column.type) else column
        return values.filter(rejected)

    for claim in claims:
        with suppress(UnfitTest):  # for a row that another part of the filter rejected
            if not np.all(passing(claim.predicate, rejected_values)):
                raise WrongIndex(claim, fragment_id)
