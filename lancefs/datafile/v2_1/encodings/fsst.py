"""FSST: strings compressed with a symbol table that the description holds."""

from __future__ import annotations

from collections.abc import Sequence

from lancefs.datafile.blocks import Array, Block, Ints, VariableWidth
from lancefs.datafile.kernels import decode_fsst, fsst_lengths
from lancefs.datafile.kernels.fsst import SymbolTable, parse_table
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import Fsst
from lancefs.storage import Bytes


def decode_chunks(encoding: Fsst, buffers: Sequence[Chunked], counts: Ints) -> Block:
    return _spell(encoding, registry.decode_chunks(encoding.values, buffers, counts))


def decode_at(encoding: Fsst, buffers: Sequence[Chunked], counts: Ints, wanted: Ints) -> Block:
    return _spell(encoding, registry.decode_at(encoding.values, buffers, counts, wanted))


def value_lengths(encoding: Fsst, buffers: Sequence[Chunked], counts: Ints) -> Ints:
    compressed = registry.decode_chunks(encoding.values, buffers, counts)
    return fsst_lengths(*_codes(encoding, compressed))


def decode_variable(encoding: Fsst, values: Chunked) -> Block:
    return _spell(encoding, registry.decode_variable(encoding.values, values))


def _spell(encoding: Fsst, compressed: Block) -> Block:
    return VariableWidth(*decode_fsst(*_codes(encoding, compressed)))


def _codes(encoding: Fsst, compressed: Block) -> tuple[SymbolTable, Array, Bytes]:
    """Return the arguments of the kernels: symbol table, offsets of the codes, and codes."""
    if not isinstance(compressed, VariableWidth):
        raise CorruptFile("FSST over values that are not variable-width")
    return parse_table(encoding.symbol_table), compressed.offsets, compressed.data
