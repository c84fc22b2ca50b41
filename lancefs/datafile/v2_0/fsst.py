"""FSST: strings compressed with a symbol table that the description holds."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import FixedWidth, Mask, RowRange, VariableWidth
from lancefs.datafile.kernels import decode_fsst, fsst_lengths
from lancefs.datafile.kernels.fsst import parse_table
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import Fsst
from lancefs.storage import Steps


def read(encoding: Fsst, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    table = parse_table(encoding.symbol_table)
    strings, valid = yield from _compressed(encoding, page, ranges)
    return Slots(VariableWidth(*decode_fsst(table, strings.offsets, strings.data)), valid)


def read_lengths(encoding: Fsst, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    """Read how long strings are, as 64-bit numbers in place of them."""
    table = parse_table(encoding.symbol_table)
    strings, valid = yield from _compressed(encoding, page, ranges)
    return Slots(FixedWidth(64, fsst_lengths(table, strings.offsets, strings.data)), valid)


def _compressed(
    encoding: Fsst, page: ArrayPage, ranges: Sequence[RowRange]
) -> Steps[tuple[VariableWidth, Mask | None]]:
    slots = yield from registry.read(encoding.binary, page, ranges)
    if not isinstance(slots.values, VariableWidth):
        raise CorruptFile("FSST over values that are not variable-width")
    return slots.values, slots.valid
