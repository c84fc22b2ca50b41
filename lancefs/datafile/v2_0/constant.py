"""Constant: every value is the same; the description holds it."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import Constant as ConstantBlock
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows
from lancefs.proto.encodings_v2_0_pb2 import Constant
from lancefs.storage import Steps


def read(encoding: Constant, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    yield from ()
    return Slots(ConstantBlock(encoding.value, count_rows(ranges)))
