"""Dictionary: values given by their index among the items that occur.

As a sequence (format 2.3) its buffer begins with the sizes of both parts, u64 each.
"""

from __future__ import annotations

from lancefs.datafile.blocks import Block, FixedWidth, Ints
from lancefs.datafile.blocks import Dictionary as DictionaryBlock
from lancefs.datafile.encodings import registry
from lancefs.datafile.encodings.registry import split_parts
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
        raise CorruptFile(f"index {int(indices.max())} into a dictionary of {len(items)} items")
    return items[indices]


def look_up(indices: Block, items: Block) -> DictionaryBlock:
    """Join indices with the dictionary that they point into.

    Raises:
        CorruptFile: An index is beyond the dictionary.
    """
    if not isinstance(indices, FixedWidth) or indices.bits not in (8, 16, 32, 64):
        raise CorruptFile("the indices into a dictionary are not integers")
    if indices.count and int(indices.values.max()) >= items.count:
        raise CorruptFile(
            f"index {int(indices.values.max())} into a dictionary of {items.count} items"
        )
    return DictionaryBlock(indices.values, items)
