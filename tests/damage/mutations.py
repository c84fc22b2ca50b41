"""Ways to damage a region of a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from damage.regions import Region

# Numbers at which code that does not look breaks.
_EXTREMES = [0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 64) - 1]


@dataclass(frozen=True)
class Mutation:
    """A file with damaged bytes; it says what was done to which region."""

    region: Region
    what: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.region.path.name}: {self.region.kind}: {self.what}"

    @property
    def path(self) -> Path:
        return self.region.path


def draw(regions: Sequence[Region], rng: np.random.Generator) -> Mutation:
    """Damage one region: each kind is as likely as any other, however often and large it is."""
    kinds = sorted({region.kind for region in regions})
    kind = kinds[rng.integers(len(kinds))]
    candidates = [region for region in regions if region.kind == kind]
    region = candidates[rng.integers(len(candidates))]
    data = bytearray(region.path.read_bytes())
    what = _WAYS[rng.integers(len(_WAYS))](data, region, rng)
    return Mutation(region, what, bytes(data))


def _place(region: Region, rng: np.random.Generator) -> int:
    """Choose a byte of a region; its first ones, often a header, are the likelier."""
    end = region.end if rng.random() < 0.5 else min(region.end, region.start + 32)
    return int(rng.integers(region.start, end))


def _flip_bit(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    place, bit = _place(region, rng), int(rng.integers(8))
    data[place] ^= 1 << bit
    return f"bit {bit} of byte {place} flipped"


def _set_byte(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    place, value = _place(region, rng), int(rng.integers(256))
    data[place] = value
    return f"byte {place} set to {value}"


def _set_number(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    """Overwrite 2, 4 or 8 bytes, mostly where such a number would begin."""
    width = int(rng.choice([2, 4, 8]))
    place = _place(region, rng)
    if rng.random() < 0.8:
        place = max(region.start, place - (place - region.start) % width)
    value = _EXTREMES[rng.integers(len(_EXTREMES))] % (1 << 8 * width)
    data[place : place + width] = value.to_bytes(width, "little")[: len(data) - place]
    return f"{width} bytes at {place} set to {value:#x}"


def _randomize(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    start = _place(region, rng)
    end = min(region.end, start + int(rng.integers(1, 64)))
    data[start:end] = rng.bytes(end - start)
    return f"bytes {start}–{end} set at random"


def _zero(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    start = _place(region, rng)
    data[start : region.end] = bytes(region.end - start)
    return f"bytes {start}–{region.end} set to 0"


def _swap(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    one, other = _place(region, rng), _place(region, rng)
    data[one], data[other] = data[other], data[one]
    return f"bytes {one} and {other} exchanged"


def _cut(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    place = _place(region, rng)
    del data[place:]
    return f"cut off at {place}"


def _take_out(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    start = _place(region, rng)
    end = min(region.end, start + int(rng.integers(1, 64)))
    del data[start:end]
    return f"bytes {start}–{end} taken out"


def _put_in(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    place, count = _place(region, rng), int(rng.integers(1, 64))
    data[place:place] = rng.bytes(count)
    return f"{count} bytes put in at {place}"


def _extend(data: bytearray, region: Region, rng: np.random.Generator) -> str:
    count = int(rng.integers(1, 64))
    data += rng.bytes(count)
    return f"{count} bytes put at the end"


_WAYS: list[Callable[[bytearray, Region, np.random.Generator], str]] = [
    _flip_bit,
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_number,
    _set_number,
    _randomize,
    _zero,
    _swap,
    _cut,
    _take_out,
    _put_in,
    _extend,
]
