"""Blocks of strings that are joined at once are what they are one by one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.datafile.blocks import VariableWidth
from lancefs.datafile.v2_1.encodings import registry, variable
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import CompressiveEncoding, Variable


def encoding() -> CompressiveEncoding:
    offsets = CompressiveEncoding()
    offsets.flat.bits_per_value = 32
    return CompressiveEncoding(variable=Variable(offsets=offsets))


def block(texts: Sequence[bytes], first: int, gap: int, wide: bool) -> bytes:
    """Lay a block out; its texts may begin later than its bytes, and these than they could."""
    sign = "Q" if wide else "I"
    width = 8 if wide else 4
    offsets = np.cumsum([first, *map(len, texts)]).tolist()
    begin = 2 * width + width * len(offsets) + gap
    head = struct.pack(f"<{2 + len(offsets)}{sign}", 8 * width, begin, *offsets)
    return head + b"?" * (gap + first) + b"".join(texts) + b"!"


def joined(blocks: Sequence[bytes], counts: Sequence[int]) -> list[bytes]:
    sizes = np.array([len(one) for one in blocks], np.int64)
    ends = 3 + np.cumsum(sizes)  # at no multiple of anything
    data = np.frombuffer(b"???" + b"".join(blocks), np.uint8)
    buffer = registry.Chunked(data, ends - sizes, ends)
    found = registry.decode_blocks(encoding(), buffer, np.array(counts, np.int64))
    assert isinstance(found, VariableWidth)
    offsets = found.offsets.tolist()
    text = found.data.tobytes()
    return [text[start:end] for start, end in pairwise(offsets)]


BLOCKS = st.lists(
    st.tuples(
        st.lists(st.binary(max_size=5), max_size=4),
        st.integers(0, 2),
        st.integers(0, 3),
        st.sampled_from([False] * 9 + [True]),
    ),
    min_size=1,
    max_size=9,
)


@given(BLOCKS)
def test_blocks_have_the_strings_that_they_were_laid_out_with(
    drawn: list[tuple[list[bytes], int, int, bool]],
) -> None:
    blocks = [block(*one) for one in drawn]
    counts = [len(texts) for texts, *_ in drawn]
    assert joined(blocks, counts) == [text for texts, *_ in drawn for text in texts]


@given(BLOCKS.filter(lambda one: len(one) >= 4), st.data())
def test_damaged_blocks_are_what_they_are_one_by_one(
    drawn: list[tuple[list[bytes], int, int, bool]], data: st.DataObject
) -> None:
    blocks = [block(*one) for one in drawn]
    counts = [len(texts) for texts, *_ in drawn]
    at = data.draw(st.integers(0, len(blocks) - 1))
    damaged = bytearray(blocks[at])
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))
    blocks[at] = bytes(damaged)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variable, "_MANY_BLOCKS", 1 << 30)
        try:
            expected: list[bytes] | None = joined(blocks, counts)
        except CorruptFile:
            expected = None
    if expected is None:
        with pytest.raises(CorruptFile):
            joined(blocks, counts)
    else:
        assert joined(blocks, counts) == expected
