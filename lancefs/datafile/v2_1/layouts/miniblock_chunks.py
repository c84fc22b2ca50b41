"""Mini-block pages: what a description says of its page, and the values of chunks.

Docs: format/file/encoding, "Mini-block page layout". The buffers of a page are the chunk table, the
chunks, then a dictionary and a repetition index where there are such. A chunk has a header (number
of levels, sizes of its buffers), then repetition levels, definition levels and value buffers, each
padded to 8 bytes from the start of the chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from lancefs.datafile.blocks import Block, FixedWidth, Ints
from lancefs.datafile.container import Page
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.dictionary import Dictionaries, look_up
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.datafile.v2_1.levels import LEVEL_BYTES, Level, parse_layers
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, MiniBlockLayout
from lancefs.storage import Bytes


class MiniBlock:
    """What a description says of its page; pages that are described alike share one.

    Args:
        layout: The description.

    Raises:
        CorruptFile: It contradicts itself.
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
        self.width = 4 if layout.has_large_chunk else 2  # of an entry of the chunk table
        if self.has_rep and (not self.top or not layout.repetition_index_depth):
            raise CorruptFile("a mini-block page with repetition levels but no lists or no index")
        if self.items >= 1 << 48:
            raise CorruptFile(f"a page of {self.items} items")
        if self.buffers > 64:
            raise CorruptFile(f"{self.buffers} value buffers a chunk")
        # Bytes of the size of each buffer, in the header of a chunk.
        levels = self.has_rep + self.has_def
        self.size_widths = (*[2] * levels, *[self.width] * self.buffers)

    @cached_property
    def kind(self) -> bytes:
        """What pages have in common that can be decoded as one."""
        layout = MiniBlockLayout()
        layout.CopyFrom(self.layout)
        layout.ClearField("num_items")
        layout.ClearField("num_dictionary_items")
        return layout.SerializeToString(deterministic=True)

    def check_buffers(self, page: Page) -> None:
        """Check how many buffers a page has.

        Raises:
            CorruptFile: It has fewer than its description needs.
        """
        needed = 2 + self.has_dictionary + self.has_rep
        if len(page.buffers) < needed:
            raise CorruptFile(
                f"a mini-block page of {len(page.buffers)} buffers; it needs {needed}"
            )

    @property
    def dictionary_items(self) -> int:
        """How many items the dictionary of the page has."""
        return int(self.layout.num_dictionary_items)

    def dictionary(self, data: Bytes) -> Dictionaries:
        """Decode the dictionary of the page."""
        items = self.dictionary_items
        return Dictionaries(registry.decode_block(self.layout.dictionary, data, items))

    def besides(self, page: Page) -> float:
        """Return how many bytes the rows of a page take, once read, besides those it stores."""
        levels = LEVEL_BYTES * self.items if self.has_rep else 0
        if not self.has_dictionary or len(page.buffers) < 3:
            return levels
        from lancefs.datafile.row_sizes import looked_up

        start, end = page.buffers[2]
        is_compressed = self.layout.dictionary.WhichOneof("compression") in ("general", "fsst")
        return levels + looked_up(self.items, self.dictionary_items, end - start, is_compressed)

    def levels(self, buffers: list[Chunked], counts: Ints) -> tuple[Level | None, Level | None]:
        """Decode the repetition and definition levels of chunks, and take off their buffers.

        Args:
            buffers: Of the chunks; those of the values are left.
            counts: Levels of each chunk.
        """
        rep = definition = None
        if self.has_rep:
            rep = _levels(self.layout.rep_compression, buffers.pop(0), counts)
        if self.has_def:
            definition = _levels(self.layout.def_compression, buffers.pop(0), counts)
        return rep, definition


class Chunks(NamedTuple):
    """The values of some chunks, which were read and not decoded yet.

    Attributes:
        encoding: What the page says about them.
        buffers: Of the chunks, as many as the encoding has.
        counts: Values in each chunk.
        dictionary: What the values point into; None where they stand for themselves.
        wanted: Positions among the values of all chunks, ascending, each once; None for all.
    """

    encoding: CompressiveEncoding
    buffers: Sequence[Chunked]
    counts: Ints
    dictionary: Dictionaries | None
    wanted: Ints | None

    @property
    def length(self) -> int:
        """How many values are wanted."""
        return int(self.counts.sum()) if self.wanted is None else len(self.wanted)

    def decode(self) -> Block:
        """Return the values."""
        if self.wanted is None:
            values = registry.decode_chunks(self.encoding, self.buffers, self.counts)
        else:
            values = registry.decode_at(self.encoding, self.buffers, self.counts, self.wanted)
        return values if self.dictionary is None else look_up(values, self.dictionary)


def check_rows(found: int, page: int) -> None:
    """Check that the chunks of a page hold as many rows as the page.

    Raises:
        CorruptFile: They do not.
    """
    if found != page:
        raise CorruptFile(f"the chunks of the page hold {found} rows, the page {page}")


def _levels(encoding: CompressiveEncoding, buffer: Chunked, counts: Ints) -> Level:
    block = registry.decode_blocks(encoding, buffer, counts)
    if not isinstance(block, FixedWidth) or block.bits != 16:
        raise CorruptFile("levels that are not 16 bits wide")
    return block.values
