"""Buffers that are compressed with lz4 or zstd, each with its raw size before it."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.datafile import zstd_frames
from lancefs.datafile.v2_1.encodings import general
from lancefs.datafile.v2_1.encodings.registry import Chunked
from lancefs.errors import CorruptFile
from lancefs.proto.encodings_v2_1_pb2 import (
    COMPRESSION_ALGORITHM_LZ4,
    COMPRESSION_ALGORITHM_ZSTD,
    General,
)

_NAMES = {COMPRESSION_ALGORITHM_LZ4: ("lz4_raw", 4), COMPRESSION_ALGORITHM_ZSTD: ("zstd", 8)}

# The header of a zstd frame tells sizes in 1, 2, 4 or 8 bytes.
texts = st.one_of(
    st.binary(max_size=40),
    st.builds(bytes.__mul__, st.binary(min_size=1, max_size=3), st.integers(80, 70_000)),
)

# From how many bytes on a frame is decompressed alone.
lengths = st.sampled_from([1, 30, 5_000, 1 << 20])


def packed(scheme: int, values: list[bytes]) -> Chunked:
    """Compress values; of an empty one there is nothing."""
    name, prefix = _NAMES[scheme]
    codec = pa.Codec(name)
    parts = [
        len(one).to_bytes(prefix, "little") + codec.compress(one, asbytes=True) if one else b""
        for one in values
    ]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    starts = ends - np.array([len(part) for part in parts], np.int64)
    return Chunked(np.frombuffer(b"".join(parts), np.uint8), starts, ends)


def described(scheme: int) -> General:
    message = General()
    message.compression.scheme = scheme  # type: ignore[assignment]
    return message


def one_by_one(scheme: int, buffers: Chunked) -> list[bytes] | None:
    """Return what is in each buffer; None where one is damaged."""
    pairs = zip(buffers.starts.tolist(), buffers.ends.tolist(), strict=True)
    try:
        return [general.decompress(scheme, buffers.data[a:b]).tobytes() for a, b in pairs]
    except CorruptFile:
        return None


def together(scheme: int, buffers: Chunked) -> list[bytes] | None:
    """Return what is in all buffers, decompressed in one go; None where one is damaged."""
    try:
        found = general.decompress_chunks(described(scheme), buffers)
    except CorruptFile:
        return None
    pairs = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    return [found.data[a:b].tobytes() for a, b in pairs]


@given(st.sampled_from(sorted(_NAMES)), st.lists(texts, max_size=8), lengths)
def test_buffers_come_back_as_they_were(scheme: int, values: list[bytes], long: int) -> None:
    buffers = packed(scheme, values)
    with patch.object(zstd_frames, "_LONG", long):
        assert together(scheme, buffers) == values
    assert one_by_one(scheme, buffers) == values


@given(st.lists(texts, min_size=2, max_size=5), lengths, st.data())
def test_damage_is_found_in_one_go_as_one_by_one(
    values: list[bytes], long: int, data: st.DataObject
) -> None:
    scheme = COMPRESSION_ALGORITHM_ZSTD
    buffers = packed(scheme, values)
    damaged = buffers.data.copy()
    if len(damaged):
        # Most of what can go wrong is in the sizes and headers, at the beginnings.
        start = data.draw(st.sampled_from(buffers.starts[buffers.sizes > 0].tolist()))
        place = min(start + data.draw(st.integers(0, 24)), len(damaged) - 1)
        damaged[place] = data.draw(st.integers(0, 255))
    buffers = Chunked(damaged, buffers.starts, buffers.ends)
    with patch.object(zstd_frames, "_LONG", long):
        assert together(scheme, buffers) == one_by_one(scheme, buffers)


def test_frames_are_decompressed_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("one by one")

    monkeypatch.setattr(general, "decompress", refuse)
    values = [b"a" * count for count in (1, 255, 256, 65_791, 65_792, 0, 3, 2 << 20, 5)]
    assert (
        together(COMPRESSION_ALGORITHM_ZSTD, packed(COMPRESSION_ALGORITHM_ZSTD, values)) == values
    )


@pytest.mark.parametrize("scheme", sorted(_NAMES))
@pytest.mark.parametrize("more", [-1, 1, 200])
def test_a_buffer_that_holds_less_or_more_than_it_says_is_damaged(scheme: int, more: int) -> None:
    buffers = packed(scheme, [b"some text " * 30])
    data = buffers.data.copy()
    prefix = _NAMES[scheme][1]
    data[:prefix] = np.frombuffer((300 + more).to_bytes(prefix, "little"), np.uint8)
    with pytest.raises(CorruptFile, match="decompress"):
        general.decompress(scheme, data)
