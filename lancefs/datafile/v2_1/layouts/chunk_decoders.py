"""Decoders of mini-block chunks that give values another form than the page stores.

Plain decimals come in 64 bits (see `datafile.decimals`), plain strings of a byte each as indices
into a dictionary.
"""

from __future__ import annotations

from lancefs.datafile.arrays import flags_of
from lancefs.datafile.blocks import Block, FixedWidth
from lancefs.datafile.decimals import decimal64_values
from lancefs.datafile.kernels import to_decimal64
from lancefs.datafile.v2_1.encodings import flat, variable
from lancefs.datafile.v2_1.layouts.miniblock_chunks import Chunks


def decimal64_chunks(chunks: Chunks) -> Block:
    """Decode the wanted values of chunks, plain decimals into 64 bits.

    Where such a decimal takes more bits it may be below a null, as is not known here: all of them
    are then decoded as they are.

    Raises:
        CorruptFile: A chunk is damaged.
    """
    encoding, dictionary = chunks.encoding, chunks.dictionary
    is_flat = encoding.WhichOneof("compression") == "flat" and encoding.flat.bits_per_value == 128
    if is_flat and dictionary is None and chunks.wanted is None:
        buffer, ends = flat.checked_ends(encoding.flat, chunks.buffers, chunks.counts)
        low, fits = to_decimal64(buffer.data, buffer.starts, ends)
        if fits:
            return FixedWidth(64, low)
    values = chunks.decode()
    if isinstance(values, FixedWidth) and values.bits == 128:  # not the indices of a dictionary
        return decimal64_values(values) or values
    return values


def coded_chunks(chunks: Chunks) -> Block:
    """Decode the wanted values of chunks, strings of a byte each as indices into a dictionary.

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
