"""Planar pages: one description of the structure, another one of the values (format 2.3).

The combinations with dense structure (levels) are the layouts of 2.2. Source of the facts: pages
written by Lance 14, see protos/encodings_v2_3.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lancefs.datafile.container import Page
from lancefs.datafile.v2_1.layouts.constant_page import ConstantPage
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZip
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_reader import PageReader
from lancefs.datafile.v2_1.layouts.sparse_structure import SparsePage
from lancefs.datafile.v2_1.layouts.sparse_values import (
    ChunkedSlots,
    ConstantSlots,
    IndexedSlots,
    SlotValues,
    ZippedSlots,
    chunks,
    zipped,
)
from lancefs.errors import UnsupportedFeature
from lancefs.proto import encodings_v2_1_pb2 as pb21
from lancefs.proto.encodings_v2_3_pb2 import PlanarLayout, ValuePlane


def planar_layout(layout: PlanarLayout) -> MiniBlock | Callable[[Page], PageReader]:
    """Parse the description of a planar page; see `page_layouts.layout_of`.

    Raises:
        CorruptFile: The description contradicts itself.
        UnsupportedFeature: A plane is of a kind that is not known.
    """
    if layout.structure.WhichOneof("codec") == "sparse":
        return partial(_open_sparse, layout=layout)
    if layout.structure.WhichOneof("codec") == "dense":
        match layout.values.WhichOneof("codec"):
            case "chunked":
                return MiniBlock(_mini_block(layout))
            case "zipped":
                return FullZip(_full_zip(layout))
            case "constant" | "no_values":
                return partial(ConstantPage, layout=_constant(layout))
    planes = (layout.structure.WhichOneof("codec"), layout.values.WhichOneof("codec"))
    raise UnsupportedFeature(f"a page of {planes[0]} structure and {planes[1]} values")


def _open_sparse(page: Page, layout: PlanarLayout) -> PageReader:
    return SparsePage(page, layout.structure.sparse, _slot_values(page, layout.values))


def _slot_values(page: Page, values: ValuePlane) -> SlotValues:
    match values.WhichOneof("codec"):
        case "constant":
            return ConstantSlots(values.constant.scalar)
        case "no_values":
            return ConstantSlots(None)
        case "chunked":
            return ChunkedSlots(page, values.chunked)
        case "zipped":
            return ZippedSlots(page, values.zipped)
        case "indexed":
            return IndexedSlots(page, values.indexed)
    raise UnsupportedFeature("values of an unknown kind in a page of sparse structure")


def _mini_block(layout: PlanarLayout) -> pb21.MiniBlockLayout:
    chunked = layout.values.chunked
    message = chunks(chunked, int(chunked.num_items))
    message.layers.extend(layout.structure.dense.layers)
    message.repetition_index_depth = chunked.levels.repetition_index_depth
    if chunked.levels.HasField("repetition"):
        message.rep_compression.CopyFrom(chunked.levels.repetition)
    if chunked.levels.HasField("definition"):
        message.def_compression.CopyFrom(chunked.levels.definition)
    return message


def _full_zip(layout: PlanarLayout) -> pb21.FullZipLayout:
    message = zipped(layout.values.zipped)
    message.layers.extend(layout.structure.dense.layers)
    message.bits_rep = layout.values.zipped.levels.bits_repetition
    message.bits_def = layout.values.zipped.levels.bits_definition
    return message


def _constant(layout: PlanarLayout) -> pb21.ConstantLayout:
    message = pb21.ConstantLayout(layers=layout.structure.dense.layers)
    if layout.values.WhichOneof("codec") == "constant":
        message.inline_value = layout.values.constant.scalar
    return message
