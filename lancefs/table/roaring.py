"""32-bit Roaring bitmaps: sets of row offsets, as deletion files and manifests hold them.

Written out here, and not left to a library, because these bytes come from outside: every count and
offset is checked before it is used, and nothing is expanded beyond what the caller can take.

Format: https://github.com/RoaringBitmap/RoaringFormatSpec (standard, portable, little-endian).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lancefs.errors import CorruptFile
from lancefs.storage import Bytes

Offsets: TypeAlias = npt.NDArray[np.int64]

_NO_RUNS = 12346  # the cookie of a bitmap without run containers
_RUNS = 12347  # with some; the number of containers − 1 is in its upper half
_NO_OFFSETS_BELOW = 4  # a bitmap with runs has the table of offsets from this many containers on
_ARRAY_UP_TO = 4096  # a container of more values than this is a bitset
_BITSET_BYTES = 8192


@dataclass(frozen=True, slots=True)
class _Header:
    keys: Offsets  # the upper 16 bits of each container's values
    counts: Offsets
    is_run: npt.NDArray[np.bool_]
    end: int  # where the containers start


def read_roaring(data: Bytes, limit: int) -> Offsets:
    """Return the values of a serialised 32-bit Roaring bitmap, sorted.

    Args:
        data: The bytes of the bitmap, all of them.
        limit: What every value must be below.

    Raises:
        CorruptFile: The bytes are not such a bitmap, or hold a value that is not below `limit`.
    """
    header = _read_header(data)
    if len(header.keys) == 0:
        return np.empty(0, dtype=np.int64)
    if (np.diff(header.keys) <= 0).any():
        raise CorruptFile("the containers of the bitmap are not in order")
    # Before anything is expanded: what the containers hold together must fit below the limit.
    if int(header.keys[-1]) << 16 >= limit or int(header.counts.sum()) > limit:
        raise CorruptFile(
            f"the bitmap holds {int(header.counts.sum())} values up to at least "
            f"{int(header.keys[-1]) << 16}, expected values below {limit}"
        )
    parts: list[Offsets] = []
    at = header.end
    for key, count, is_run in zip(header.keys, header.counts, header.is_run, strict=True):
        low, at = _read_container(data, at, int(count), bool(is_run))
        parts.append(low + (int(key) << 16))
    if at != len(data):
        raise CorruptFile(f"the bitmap ends at byte {at}, {len(data) - at} bytes follow it")
    values = np.concatenate(parts)
    if int(values[-1]) >= limit:
        raise CorruptFile(f"the bitmap holds {int(values[-1])}, expected values below {limit}")
    return values


def _read_header(data: Bytes) -> _Header:
    cookie = int(_numbers(data, 0, 1, "<u4")[0])
    if cookie & 0xFFFF == _RUNS:
        containers = (cookie >> 16) + 1
        flags, at = _take(data, 4, (containers + 7) // 8)
        is_run = np.unpackbits(flags, count=containers, bitorder="little").astype(bool)
        has_offsets = containers >= _NO_OFFSETS_BELOW
    elif cookie == _NO_RUNS:
        containers = int(_numbers(data, 4, 1, "<u4")[0])
        if containers > 1 << 16:
            raise CorruptFile(f"the bitmap claims {containers} containers, at most 65536 exist")
        at = 8
        is_run = np.zeros(containers, dtype=bool)
        has_offsets = True
    else:
        raise CorruptFile(f"not a Roaring bitmap: it starts with {cookie}")
    described = _numbers(data, at, 2 * containers, "<u2").reshape(containers, 2)
    at += 4 * containers
    if has_offsets:  # they only save a walk; the containers lie one after another
        _, at = _take(data, at, 4 * containers)
    return _Header(described[:, 0], described[:, 1] + 1, is_run, at)


def _read_container(data: Bytes, at: int, count: int, is_run: bool) -> tuple[Offsets, int]:
    """Return the 16-bit values of the container at a position, and where it ends."""
    if is_run:
        low, at = _read_runs(data, at)
    elif count > _ARRAY_UP_TO:
        bits, at = _take(data, at, _BITSET_BYTES)
        low = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
    else:
        low = _numbers(data, at, count, "<u2")
        at += 2 * count
        if (np.diff(low) <= 0).any():
            raise CorruptFile("the values of a container of the bitmap are not in order")
    if len(low) != count:
        raise CorruptFile(f"a container of the bitmap holds {len(low)} values, expected {count}")
    return low, at


def _read_runs(data: Bytes, at: int) -> tuple[Offsets, int]:
    runs = int(_numbers(data, at, 1, "<u2")[0])
    pairs = _numbers(data, at + 2, 2 * runs, "<u2").reshape(runs, 2)
    starts, lengths = pairs[:, 0], pairs[:, 1] + 1
    ends = starts + lengths
    if (starts[1:] < ends[:-1]).any() or (ends > 1 << 16).any():
        raise CorruptFile("the runs of a container of the bitmap overlap or leave it")
    before = np.cumsum(lengths) - lengths
    low = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - before, lengths)
    return low, at + 2 + 4 * runs


def _numbers(data: Bytes, at: int, count: int, dtype: str) -> Offsets:
    raw, _ = _take(data, at, count * int(dtype[-1]))
    return np.frombuffer(raw.tobytes(), dtype=dtype).astype(np.int64)


def _take(data: Bytes, at: int, length: int) -> tuple[Bytes, int]:
    end = at + length
    if end > len(data):
        raise CorruptFile(f"the bitmap ends at byte {len(data)}, expected bytes up to {end}")
    return data[at:end], end
