"""The constant layout: all values of a page are null, or the same value.

Docs: format/file/encoding, "Constant page layout". The description holds a small value, the first
buffer of the page a larger one. A page with lists, or with some nulls, has two more buffers:
repetition and definition levels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lancefs.datafile.blocks import (
    Block,
    Constant,
    Dictionary,
    FixedWidth,
    RowRange,
    VariableWidth,
    typed,
)
from lancefs.datafile.buffers import reserve
from lancefs.datafile.container import Page
from lancefs.datafile.row_ranges import count_rows
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.levels import (
    LEVEL_BYTES,
    DecodedPage,
    Level,
    parse_layers,
    visible_levels,
)
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, ConstantLayout
from lancefs.storage import ByteRange, Bytes, Reads

# More levels than a compressed byte can hold: a larger count is damage, refused before memory is
# allocated for it.
_LEVELS_A_BYTE = 1 << 16


class ConstantPage:
    """Reads rows of one constant page; keeps its value, and levels that must be read as a whole.

    Args:
        page: The location of the page.
        layout: The description of the page.
    """

    def __init__(self, page: Page, layout: ConstantLayout) -> None:
        self.page = page
        self.unplaced = None
        self.layout = layout
        self.layers = parse_layers(layout.layers)
        # Releases from 0.39 to 4 wrote pages of lists without items with the outermost layer first,
        # and left out their levels. An innermost layer is never a list.
        self.lacks_levels = bool(self.layers) and self.layers[0].is_list
        if self.lacks_levels:
            self.layers = self.layers[::-1]
        self.has_value_buffer = len(page.buffers) % 2 == 1
        if len(page.buffers) > 3:
            raise CorruptFile(f"a constant page of {len(page.buffers)} buffers")
        self._value: Block | None = None  # the value, if the first buffer holds it
        self._rows: DecodedPage | None = None  # all rows, once their levels were read

    def read(self, ranges: Sequence[RowRange]) -> Reads[DecodedPage]:
        """Read rows, ascending and disjoint, within the page."""
        levels = self.page.buffers[self.has_value_buffer :]
        has_levels = any(start < end for start, end in levels)
        value = [self.page.buffers[0]] if self.has_value_buffer and self._value is None else []
        has_flat_levels = has_levels and self._has_flat_levels(levels)
        requests = list(levels) if has_levels and self._rows is None else []
        if has_flat_levels:
            requests = _ranges_of_levels(levels[1], ranges)
        buffers = list((yield [*value, *requests]))
        if value:
            self._value = _parse_value(buffers.pop(0))
        if not has_levels:
            return self._without_levels(count_rows(ranges))
        if has_flat_levels:
            parts = [np.empty(0, "<u2"), *(data.view("<u2") for data in buffers)]
            definition = np.concatenate(parts)
            return self._with_levels(None, definition, len(definition))
        if self._rows is None:
            self._rows = self._decode_levels(buffers)
        return self._rows.select(ranges)

    def _has_flat_levels(self, levels: Sequence[ByteRange]) -> bool:
        """Whether each row has a definition level of 16 bits, uncompressed, and nothing else."""
        (rep_start, rep_end), (start, end) = levels
        is_raw = not self.layout.HasField("def_compression")
        return is_raw and rep_start == rep_end and end - start == 2 * self.page.rows

    def _decode_levels(self, buffers: Sequence[Bytes]) -> DecodedPage:
        layout, rows = self.layout, self.page.rows
        rep_encoding = layout.rep_compression if layout.HasField("rep_compression") else None
        def_encoding = layout.def_compression if layout.HasField("def_compression") else None
        rep = _levels(buffers[0], rep_encoding, int(layout.num_rep_values), rows)
        definition = _levels(buffers[1], def_encoding, int(layout.num_def_values), rows)
        return self._with_levels(rep, definition, rows)

    def _with_levels(self, rep: Level | None, definition: Level | None, rows: int) -> DecodedPage:
        if definition is not None:
            count = int(np.count_nonzero(definition <= visible_levels(self.layers)))
        else:
            count = rows if rep is None else len(rep)
        return DecodedPage(self._values(count), rep, definition, self.layers, rows).check()

    def _without_levels(self, rows: int) -> DecodedPage:
        """Return rows of a page that has one value, or one kind of null, throughout."""
        if self.lacks_levels:
            return self._without_items(rows)
        values = self._values(rows)
        nulls = None
        if isinstance(values, Constant) and values.value is None:
            if visible_levels(self.layers) != 1:
                raise CorruptFile("an all-null page whose layers do not tell which null it has")
            nulls = np.ones(rows, np.uint16)
        return DecodedPage(values, None, nulls, self.layers, rows).check()

    def _without_items(self, rows: int) -> DecodedPage:
        """Return lists that are all null or all empty, whose levels the writer left out."""
        *inner, outermost = self.layers
        if outermost.levels != 1 or any(layer.is_list for layer in inner):
            raise CorruptFile("an all-null page whose layers do not tell which null it has")
        level = sum(layer.levels for layer in self.layers)
        rep, definition = np.ones(rows, np.uint16), np.full(rows, level, np.uint16)
        return DecodedPage(Constant(None, 0), rep, definition, self.layers, rows).check()

    def _values(self, count: int) -> Block:
        if self.layout.HasField("inline_value"):
            return Constant(self.layout.inline_value, count)
        if self._value is None:
            return Constant(None, count)
        return Dictionary(np.zeros(count, np.uint8), self._value)


def _ranges_of_levels(levels: ByteRange, ranges: Sequence[RowRange]) -> list[ByteRange]:
    """Return the byte ranges of the levels of rows, 16 bits each."""
    return [(levels[0] + 2 * start, levels[0] + 2 * end) for start, end in ranges]


def _parse_value(data: Bytes) -> Block:
    """Read one value: the number of its Arrow buffers, their sizes (u32 each), then the buffers."""
    head = data[: len(data) // 4 * 4].view("<u4")
    count = int(head[0]) if len(head) else 0
    if count not in (1, 2) or len(head) <= count:
        raise CorruptFile(f"a constant value of {count} buffers; expected 1 or 2")
    sizes = [int(size) for size in head[1 : 1 + count]]
    start = 4 * (1 + count)
    if start + sum(sizes) > len(data):
        raise CorruptFile(f"a constant value of {sum(sizes)} bytes in a buffer of {len(data)}")
    if count == 1:
        return FixedWidth(8 * sizes[0], typed(data[start : start + sizes[0]], 8 * sizes[0]))
    if sizes[0] not in (8, 16):
        raise CorruptFile(f"the offsets of a constant value take {sizes[0]} bytes")
    text = data[start + sizes[0] : start + sum(sizes)]
    offsets = data[start : start + sizes[0]].view(f"<i{sizes[0] // 2}")
    if not 0 <= offsets[0] <= offsets[1] <= len(text):
        raise CorruptFile("the offsets of a constant value leave its bytes")
    return VariableWidth(offsets, text)


def _levels(
    data: Bytes, encoding: CompressiveEncoding | None, count: int, rows: int
) -> Level | None:
    if not len(data):
        return None
    if count > max(rows, _LEVELS_A_BYTE * len(data)):
        raise CorruptFile(f"{count} levels of {rows} rows in a buffer of {len(data)} bytes")
    reserve(LEVEL_BYTES * count, len(data))
    if encoding is None:
        if len(data) % 2:
            raise CorruptFile(f"levels of 16 bits in a buffer of {len(data)} bytes")
        return data.view("<u2")
    block = registry.decode_block(encoding, data, count)
    if not isinstance(block, FixedWidth) or block.bits != 16:
        raise CorruptFile("levels that are not 16 bits wide")
    return block.values
