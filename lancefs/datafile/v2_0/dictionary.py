"""Dictionary: values by their index in a list of items.

Writers use it for two things. A column of a dictionary type has its own items, which may hold
nulls, and indices from 0. A string column of few values has indices from 1, and 0 for null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from google.protobuf.message import Message

from lancefs.datafile import row_sizes
from lancefs.datafile.blocks import Constant, FixedWidth, Mask, RowRange, VariableWidth
from lancefs.datafile.blocks import Dictionary as DictionaryBlock
from lancefs.datafile.v2_0 import registry
from lancefs.datafile.v2_0.array_page import ArrayPage, Slots, count_rows, unsigned
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_0_pb2 import Buffer, Dictionary
from lancefs.storage import Steps, together

_Part = TypeVar("_Part", bound=Message)


def read(encoding: Dictionary, page: ArrayPage, ranges: Sequence[RowRange]) -> Steps[Slots]:
    indices, items = yield from together(
        [registry.read(encoding.indices, page, ranges), _items(encoding, page)]
    )
    if indices.is_all_null or items.is_all_null:
        return Slots(Constant(None, count_rows(ranges)))
    return _look_up(indices, items, page.zero_based)


def _look_up(indices: Slots, items: Slots, zero_based: bool) -> Slots:
    """Join indices with their items; the nulls of both become nulls of the indices."""
    positions, valid = unsigned(indices.values, "the indices into a dictionary"), indices.valid
    if not zero_based:
        valid = _both(valid, positions > 0)
        positions = positions - positions.dtype.type(1)
    if valid is not None:
        positions = np.where(valid, positions, positions.dtype.type(0))
    highest = int(positions.max(initial=0))
    if len(positions) and highest >= items.values.length:
        if valid is not None and not valid.any():
            return Slots(Constant(None, len(positions)))
        raise CorruptFile(f"index {highest} into a dictionary of {items.values.length} items")
    if items.valid is not None:
        valid = _both(valid, items.valid[positions])
    if positions.itemsize > 4 and highest <= np.iinfo(np.uint32).max:  # as kernels take them
        positions = positions.astype(np.uint32)
    return Slots(DictionaryBlock(positions, items.values), valid)


def _both(valid: Mask | None, other: Mask) -> Mask | None:
    """Return which slots are valid by both; None where all are."""
    found = other if valid is None else valid & other
    return None if found.all() else found


def _items(encoding: Dictionary, page: ArrayPage) -> Steps[Slots]:
    """Read all items, which every part of the page needs: they are kept."""
    key = encoding.items.SerializeToString()
    if key not in page.dictionaries:
        count = int(encoding.num_dictionary_items)
        items = yield from registry.read(encoding.items, page, [(0, count)] if count else [])
        if not (items.is_all_null or isinstance(items.values, FixedWidth | VariableWidth)):
            raise CorruptFile("the items of a dictionary are neither numbers nor strings")
        page.dictionaries[key] = items
    return page.dictionaries[key]


def looked_up(page: ArrayPage, rows: int) -> Iterator[float]:
    """Yield how many bytes the values of each dictionary of a page take once they are looked up.

    Args:
        page: The page.
        rows: How many it has.

    Raises:
        CorruptFile: A buffer is not there.
        UnsupportedFeature: A buffer is of a kind that is not known.
    """
    for encoding in _parts(page.encoding, Dictionary):
        ranges = [page.locate(buffer) for buffer in _parts(encoding.items, Buffer)]
        size = sum(end - start for start, end in ranges)
        yield row_sizes.looked_up(rows, int(encoding.num_dictionary_items), size)


def _parts(message: Message, kind: type[_Part]) -> Iterator[_Part]:
    """Yield the outermost messages of a kind within another one, single or repeated."""
    if isinstance(message, kind):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if isinstance(value, Sequence) else [value]:
                yield from _parts(part, kind)
