"""Plain strings of a byte each of mini-block pages, decoded as the indices of a dictionary."""

from __future__ import annotations

from lancefs.datafile.arrays import flags_of
from lancefs.datafile.blocks import Block
from lancefs.datafile.v2_1.encodings import variable
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks


def coded_chunks(chunks: Chunks) -> Block:
    """Decode the wanted values of chunks, flags as a dictionary and indices into it.

    Raises:
        CorruptFile: A chunk is damaged.
    """
    encoding, dictionary = chunks.encoding, chunks.dictionary
    is_plain = encoding.WhichOneof("compression") == "variable" and dictionary is None
    if is_plain and chunks.wanted is None and chunks.length:
        letters = variable.letters_of(encoding.variable, chunks.buffers, chunks.counts)
        flags = None if letters is None else flags_of(letters)
        if flags is not None:
            return flags
    return chunks.decode()
