"""FSST: strings compressed with a symbol table that the description holds."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import RowRange, VariableWidth
from lancefs.datafile.kernels import decode_fsst
from lancefs.datafile.kernels.fsst import parse_table
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.page import ArrayPage, Slots
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import Fsst
from lancefs.storage import Steps


def read(encoding: Fsst, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    table = parse_table(encoding.symbol_table)
    slots = yield from registry.read(encoding.binary, page, ranges)
    strings = slots.values
    if not isinstance(strings, VariableWidth):
        raise CorruptFile("FSST over values that are not variable-width")
    return Slots(VariableWidth(*decode_fsst(table, strings.offsets, strings.data)), slots.valid)
