"""Drawn small data files, for the kernel that finds the pages of their columns."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import wire_messages
from hypothesis import strategies as st

from lancefs.proto import container_pb2 as pb

_PAGE: wire_messages.Spec = {
    1: "numbers",
    2: "numbers",
    3: "number",
    4: {1: {1: "number", 2: "number"}, 2: {1: "bytes"}, 3: {}},
    5: "number",
}
_COLUMN: wire_messages.Spec = {
    1: {2: {1: "bytes"}, 3: {}},
    2: _PAGE,
    3: "numbers",
    4: "numbers",
}
_DESCRIPTIONS = [b"\n\x05a/b.C\x12\x02\x08\x01", b"\n\x05a/b.C\x12\x02\x08\x02", b"", b"\n\x01\xff"]


@st.composite
def small_files(draw: st.DrawFn, may_be_odd: bool = True) -> tuple[Any, ...]:
    """Draw the arguments of `find_pages`; most files are sound, some may be damaged or unusual."""
    columns, is_odd = draw(st.integers(1, 3)), may_be_odd and draw(st.booleans())
    data, bounds = b"", []
    for _ in range(draw(st.integers(1, 4))):
        start = len(data)
        data += _file(draw, columns, is_odd)
        bounds.append((start, len(data)))
    array = np.frombuffer(data, np.uint8).copy()
    if is_odd and draw(st.booleans()):
        for _ in range(draw(st.integers(1, 3))):
            array[draw(st.integers(0, len(array) - 1))] = draw(st.integers(0, 255))
    wanted = draw(st.lists(st.integers(0, columns - 1), unique=True, min_size=1, max_size=columns))
    if is_odd and not draw(st.integers(0, 9)):
        wanted.append(draw(st.sampled_from([-1, columns, 1 << 40])))
    if is_odd and not draw(st.integers(0, 9)):
        bounds[-1] = bounds[-1][0], bounds[-1][1] + draw(st.sampled_from([-1, 1, 1 << 40]))
    return array, np.array(bounds, np.int64), np.array(sorted(wanted), np.int64)


def _file(draw: st.DrawFn, columns: int, is_odd: bool) -> bytes:
    data, metadata = bytes(draw(st.sampled_from([40, 200])) if is_odd else 200), []
    for _ in range(columns):
        is_drawn = is_odd and not draw(st.integers(0, 9))
        message = (
            draw(wire_messages.messages(_COLUMN)) if is_drawn else _written_column(draw, is_odd)
        )
        metadata.append((len(data), len(message)))
        data += message
    columns_at, buffers_at = len(data), len(data) + 16 * columns
    data += b"".join(struct.pack("<QQ", *place) for place in [*metadata, (0, 8)])
    minor = draw(st.sampled_from([1, 2, 3, 9]))
    return data + struct.pack(
        "<QQQIIHH4s", 0, columns_at, buffers_at, 1, columns, 2, minor, b"LANC"
    )


def _written_column(draw: st.DrawFn, is_odd: bool) -> bytes:
    """Return the metadata of a column as protobuf writes it; odd ones have odd pages."""
    column = pb.ColumnMetadata()
    kind = draw(st.sampled_from(["none", "direct", ""]))
    if kind == "none":
        column.encoding.none.SetInParent()
    elif kind == "direct":
        column.encoding.direct.encoding = draw(st.sampled_from(_DESCRIPTIONS[: 2 + is_odd]))
    for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2] if is_odd else [1]))):
        page, count = column.pages.add(), draw(st.sampled_from([2, 3, 0, 4] if is_odd else [2, 3]))
        page.buffer_offsets.extend(draw(st.integers(0, 40)) for _ in range(count))
        page.buffer_sizes.extend(draw(st.integers(0, 30)) for _ in range(count))
        page.length = draw(st.sampled_from([1, 500, 1 << 47]))
        page.priority = draw(st.integers(0, 3))
        page.encoding.direct.encoding = draw(st.sampled_from(_DESCRIPTIONS[: 4 if is_odd else 2]))
        if is_odd and count and not draw(st.integers(0, 4)):
            page.buffer_offsets[0] = draw(st.sampled_from([10**6, 2**63, 2**64 - 1]))
        if is_odd and not draw(st.integers(0, 4)):
            page.length = draw(st.sampled_from([1 << 48, 2**64 - 1]))
    data: bytes = column.SerializeToString()
    return data
