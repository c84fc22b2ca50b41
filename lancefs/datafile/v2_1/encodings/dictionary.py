"""Dictionary: distinct items, and for each value the index of its item.

The buffer of a sequence (format 2.3) begins with the sizes of both parts, u64 each.
"""

from typing import NamedTuple

import numpy as np

from lancefs.datafile.blocks import Block, FixedWidth, Ints
from lancefs.datafile.blocks import Dictionary as DictionaryBlock
from lancefs.datafile.v2_1.encodings import registry
from lancefs.datafile.v2_1.encodings.registry import split_parts
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import Dictionary as DictionaryMessage
from lancefs.storage import Bytes


def has_payload(encoding: DictionaryMessage) -> bool:
    return registry.has_payload(encoding.indices) or registry.has_payload(encoding.items)


def decode_sequence(encoding: DictionaryMessage, data: Bytes, count: int) -> Ints:
    parts = split_parts(data, 2) if has_payload(encoding) else [data, data]
    indices = registry.decode_sequence(encoding.indices, parts[0], count)
    items = registry.decode_sequence(encoding.items, parts[1], int(encoding.num_dictionary_items))
    if count and int(indices.max()) >= len(items):
        raise _out_of_bounds(int(indices.max()), len(items))
    return items[indices]


class PageDictionaries(NamedTuple):
    """The dictionaries of one or more pages.

    Attributes:
        items: The items of all dictionaries, concatenated.
        sizes: Number of items of each dictionary; None for a single dictionary.
        counts: Number of values of each page, in order; None for a single dictionary.
    """

    items: Block
    sizes: Ints | None = None
    counts: Ints | None = None


def look_up(indices: Block, dictionaries: PageDictionaries) -> DictionaryBlock:
    """Join the indices of pages with the dictionaries of the pages.

    Raises:
        CorruptFile: An index is not below the size of its dictionary.
    """
    if not isinstance(indices, FixedWidth) or indices.bits not in (8, 16, 32, 64):
        raise CorruptFile("the indices into a dictionary are not integers")
    items, sizes, counts = dictionaries.items, dictionaries.sizes, dictionaries.counts
    if sizes is None or counts is None:
        if indices.length and int(indices.values.max()) >= items.length:
            raise _out_of_bounds(int(indices.values.max()), items.length)
        return DictionaryBlock(indices.values, items)
    if indices.length != int(counts.sum()):
        raise CorruptFile(f"{indices.length} indices, expected {int(counts.sum())}")
    with_values = counts > 0
    starts = (np.cumsum(counts) - counts)[with_values]
    largest = np.maximum.reduceat(indices.values, starts) if len(starts) else counts[:0]
    wrong = np.flatnonzero(largest >= sizes[with_values])
    if len(wrong):
        raise _out_of_bounds(int(largest[wrong[0]]), int(sizes[with_values][wrong[0]]))
    shifts = (np.cumsum(sizes) - sizes).astype(np.uint32)
    return DictionaryBlock(indices.values.astype(np.uint32) + np.repeat(shifts, counts), items)


def _out_of_bounds(index: int, items: int) -> CorruptFile:
    return CorruptFile(f"index {index} into a dictionary of {items} items")
