"""The parsed description of mini-block pages, and the values of their chunks.

Docs: format/file/encoding, "Mini-block page layout". The buffers of a page are the chunk table and
the chunks, then a dictionary and a repetition index if the page has them. A chunk has a header
(number of levels, sizes of its buffers), then repetition levels, definition levels and value
buffers, each padded to 8 bytes from the start of the chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints
from lancefs.datafile.buffers import reserve
from lancefs.datafile.container import Page
from lancefs.datafile.kernels import tally_parts
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.dictionary import PageDictionaries, look_up
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.layouts.prefetch_ranges import Unplaced
from lancefs.datafile.v2_1.levels import LEVEL_BYTES, Level, parse_layers, visible_levels
from lancefs.errors import CorruptFile
from lancefs.forks import cached_property
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, MiniBlockLayout
from lancefs.storage import Bytes

# How encodings of texts are called, and how many times as long texts are once decoded.
_TEXTS = ("variable", "fsst")
# Bytes of an entry of the chunk table, where chunks may be large.
LARGE_CHUNK = 4
# How much sizes of chunks vary, see `Unplaced`: each has many values, but these may have a trend.
CHUNK_VARIATION = 0.25
_FSST_EXPANSION, _GENERAL_EXPANSION = 2.0, 3.0


class MiniBlock:
    """The parsed description of mini-block pages; pages with equal descriptions share one.

    Args:
        layout: The description.

    Attributes:
        layers: The layers of the levels, innermost first.
        top: Number of list layers, which is the repetition level of a new row.
        items: Number of values of the page.
        buffers: Number of value buffers of a chunk.
        width: Bytes of an entry of the chunk table.
        size_widths: Bytes of the size of each buffer, in the header of a chunk.

    Raises:
        CorruptFile: The description contradicts itself.
    """

    def __init__(self, layout: MiniBlockLayout) -> None:
        self.layout = layout
        self.layers = parse_layers(layout.layers)
        self.top = sum(layer.is_list for layer in self.layers)
        self.has_rep = layout.HasField("rep_compression")
        self.has_def = layout.HasField("def_compression")
        self.has_dictionary = layout.HasField("dictionary")
        self.items = int(layout.num_items)
        self.buffers = int(layout.num_buffers)
        self.width = LARGE_CHUNK if layout.has_large_chunk else 2
        if self.has_rep and (not self.top or not layout.repetition_index_depth):
            raise CorruptFile("a mini-block page with repetition levels but no lists or no index")
        if self.items >= registry.MAX_VALUES:
            raise CorruptFile(f"a page of {self.items} items")
        if self.dictionary_items >= registry.MAX_VALUES:
            raise CorruptFile(f"a dictionary of {self.dictionary_items} items")
        if self.buffers > 64:
            raise CorruptFile(f"{self.buffers} value buffers a chunk")
        levels = self.has_rep + self.has_def
        self.size_widths = (*[2] * levels, *[self.width] * self.buffers)

    @cached_property
    def kind(self) -> bytes:
        """Key that pages share whose chunks one call can decode."""
        layout = MiniBlockLayout()
        layout.CopyFrom(self.layout)
        layout.ClearField("num_items")
        layout.ClearField("num_dictionary_items")
        return layout.SerializeToString(deterministic=True)

    @cached_property
    def expansion(self) -> float:
        """Decoded bytes of texts beyond their stored bytes, as a multiple of these: an estimate."""
        values = self.layout.value_compression
        match values.WhichOneof("compression"):
            case "fsst":
                return _FSST_EXPANSION - 1
            case "general" if values.general.values.WhichOneof("compression") in _TEXTS:
                return _GENERAL_EXPANSION - 1
        return 0.0

    def check_buffers(self, page: Page) -> None:
        """Check that a page has the buffers that its description needs.

        Raises:
            CorruptFile: The page has fewer.
        """
        needed = 2 + self.has_dictionary + self.has_rep
        if len(page.buffers) < needed:
            raise CorruptFile(
                f"a mini-block page of {len(page.buffers)} buffers; it needs {needed}"
            )

    def unplaced(self, page: Page) -> Unplaced:
        """Return the chunks of a page, which has the buffers that it needs."""
        start, end = page.buffers[0]
        is_flat = _is_flat(self.layout.value_compression)
        are_alike = is_flat and not (self.has_rep or self.has_def)
        variation = 0 if are_alike else CHUNK_VARIATION
        return Unplaced(page.buffers[1], (end - start) // self.width, variation)

    @property
    def dictionary_items(self) -> int:
        """Number of items in the dictionary of the page."""
        return int(self.layout.num_dictionary_items)

    def dictionary(self, data: Bytes) -> PageDictionaries:
        """Decode the dictionary of the page."""
        items = self.dictionary_items
        return PageDictionaries(registry.decode_block(self.layout.dictionary, data, items))

    def decoded_overhead(self, page: Page) -> float:
        """Bytes the decoded page needs beyond its stored size."""
        levels = LEVEL_BYTES * self.items if self.has_rep else 0
        if not self.has_dictionary:
            start, end = page.buffers[1] if len(page.buffers) > 1 else (0, 0)
            return levels + self.expansion * (end - start)
        if len(page.buffers) < 3:
            return levels
        from lancefs.datafile.row_sizes import lookup_bytes

        start, end = page.buffers[2]
        is_compressed = self.layout.dictionary.WhichOneof("compression") in ("general", "fsst")
        return levels + lookup_bytes(self.items, self.dictionary_items, end - start, is_compressed)

    def levels(self, buffers: list[Chunked], counts: Ints) -> tuple[Level | None, Level | None]:
        """Decode the repetition and definition levels of chunks, and remove their buffers.

        Args:
            buffers: The buffers of the chunks; the call leaves the value buffers in the list.
            counts: Number of levels of each chunk.
        """
        rep = definition = None
        if self.has_rep:
            rep = _levels(self.layout.rep_compression, buffers.pop(0), counts)
        if self.has_def:
            definition = _levels(self.layout.def_compression, buffers.pop(0), counts)
        return rep, definition


class Chunks(NamedTuple):
    """The values of some chunks, read and not yet decoded.

    Attributes:
        encoding: The encoding of the values.
        buffers: The buffers of the chunks, as many as the encoding has.
        counts: Number of values in each chunk.
        dictionary: The dictionary that the values are indices into; None for plain values.
        wanted: Positions among the values of all chunks, ascending, each once; None for all.
    """

    encoding: CompressiveEncoding
    buffers: Sequence[Chunked]
    counts: Ints
    dictionary: PageDictionaries | None
    wanted: Ints | None

    @property
    def length(self) -> int:
        """Number of wanted values."""
        return int(self.counts.sum()) if self.wanted is None else len(self.wanted)

    def decode(self) -> Block:
        """Decode the wanted values."""
        if self.wanted is None:
            values = registry.decode_chunks(self.encoding, self.buffers, self.counts)
        else:
            values = registry.decode_at(self.encoding, self.buffers, self.counts, self.wanted)
        return values if self.dictionary is None else look_up(values, self.dictionary)


def check_rows(in_chunks: int, in_page: int) -> None:
    """Check that the chunks of a page hold as many rows as the page.

    Raises:
        CorruptFile: The numbers of rows differ.
    """
    if in_chunks != in_page:
        raise CorruptFile(f"the chunks of the page hold {in_chunks} rows, the page {in_page}")


def check_items(description: MiniBlock, counts: Ints, levels: Ints, stored: int) -> None:
    """Check that chunks have the levels that their values need, before either are decoded.

    Without lists, each value of a chunk has a level. Chunks of lists may have more levels.

    Args:
        description: The description of the page.
        counts: Number of values in each chunk.
        levels: Number of levels of each chunk.
        stored: Bytes of the chunks.

    Raises:
        CorruptFile: A chunk has other levels.
        MemoryLimitExceeded: The levels take too much memory.
        TooLarge: They do; those of fewer rows may not.
    """
    if not description.has_rep:
        if description.has_def and np.any(counts != levels):
            raise CorruptFile("a chunk has more or fewer levels than values")
        return
    if np.any(counts > levels):
        chunk = int(np.argmax(counts > levels))
        raise CorruptFile(f"{counts[chunk]} values in a chunk of {levels[chunk]} levels")
    reserve(LEVEL_BYTES * int(levels.sum()), stored)


def check_visible(
    description: MiniBlock, definition: Level | None, levels: Ints, counts: Ints
) -> None:
    """Check that each chunk of lists has a value for each of its visible items.

    Values that a chunk lacks and another one has too many would be shifted in between.

    Args:
        description: The description of the page.
        definition: The definition levels of all chunks; None where all are 0.
        levels: Number of levels of each chunk.
        counts: Number of values in each chunk.

    Raises:
        CorruptFile: A chunk has more values, or fewer.
    """
    if not description.has_rep or definition is None or len(counts) < 2:
        return  # one chunk is checked as a page is; without nulls, `check_items` is enough
    visible = tally_parts(definition, levels, visible_levels(description.layers))
    wrong = np.flatnonzero(visible != counts)
    if len(wrong):
        at = wrong[0]
        raise CorruptFile(f"{counts[at]} values in a chunk whose levels tell of {visible[at]}")


def _is_flat(encoding: CompressiveEncoding) -> bool:
    """Whether all values take the same bytes, those of fixed-size lists of any depth included."""
    while encoding.HasField("fixed_size_list"):
        encoding = encoding.fixed_size_list.values
    return encoding.HasField("flat")


def _levels(encoding: CompressiveEncoding, buffer: Chunked, counts: Ints) -> Level:
    block = registry.decode_blocks(encoding, buffer, counts)
    if not isinstance(block, FixedWidth) or block.bits != 16:
        raise CorruptFile("levels that are not 16 bits wide")
    return block.values
