"""Mutants: tables damaged in one to three places, each drawn from a number, its seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np

from damage.messages import Files, messages_of, note_sizes
from damage.mutations import draw
from damage.regions import Region, regions_of
from damage.wire import LIMITS, NoMessage, damage

# Files of a table that say nothing about the rows of its versions.
_BESIDE_ROWS = ("_transactions",)


@dataclass(frozen=True)
class Mutant:
    """A damaged table.

    Attributes:
        files: All files of it.
        what: What was done, each damage with its file.
        changed: The files that were damaged, or rewritten to fit.
    """

    files: Files
    what: list[str]
    changed: frozenset[str]

    @property
    def has_sound_manifests(self) -> bool:
        """Whether what manifests and deletion files say of the number of rows is still true."""
        kinds = (".manifest", ".arrow", ".bin")
        return not any(path.endswith(kinds) for path in self.changed)

    @property
    def has_sound_rows(self) -> bool:
        """Whether nothing was damaged that rows are read from."""
        return all(path.startswith(_BESIDE_ROWS) for path in self.changed)


@dataclass(frozen=True)
class SoundTable:
    """A table that is to be damaged.

    Attributes:
        files: Its files, in an order that does not depend on random names.
        regions: What lies where in them, with paths below the table.
    """

    files: Files
    regions: list[Region]


def read_table(directory: Path) -> SoundTable:
    """Read the files of a table."""
    paths = [path for path in directory.rglob("*") if path.is_file()]
    names = {str(path.relative_to(directory).as_posix()): path for path in paths}
    files = {name: names[name].read_bytes() for name in sorted(names)}
    order = sorted(files, key=lambda name: _order(name, files[name]))
    regions = [
        Region(region.path.relative_to(directory), region.kind, region.start, region.end)
        for region in regions_of(directory)
    ]
    regions.sort(key=lambda region: (order.index(region.path.as_posix()), region.start))
    return SoundTable({name: files[name] for name in order}, regions)


def _order(name: str, data: bytes) -> tuple[str, str, int, bytes]:
    path = PurePosixPath(name)
    number = path.stem.partition("-")[0] if path.suffix != ".lance" else ""
    return str(path.parent), number, len(data), data


def draw_mutant(table: SoundTable, rng: np.random.Generator) -> Mutant:
    """Damage a table."""
    files = dict(table.files)
    times = int(rng.choice([1, 1, 1, 1, 2, 3]))
    what = []
    for _ in range(times):
        way = _WAYS[rng.integers(len(_WAYS))]
        what.append(way(table, files, rng))
    changed = {path for path in {*files, *table.files} if files.get(path) != table.files.get(path)}
    data = {path for path in changed if path in files and path.endswith(".lance")}
    data = {path for path in data if len(files[path]) != len(table.files.get(path, b""))}
    # Mostly the manifest knows of the new size, so that the damage itself is met.
    if data and rng.random() < 0.9:
        note_sizes(files, data)
        what.append("sizes noted")
    return Mutant(files, what, frozenset(changed))


def _damage_message(table: SoundTable, files: Files, rng: np.random.Generator) -> str:
    """Damage the fields of a message: each kind of message is as likely as any other."""
    messages = messages_of(files)
    kinds = sorted({message.kind for message in messages})
    if not kinds:
        return "no message is left to damage"
    kind = kinds[rng.integers(len(kinds))]
    candidates = [message for message in messages if message.kind == kind]
    chosen = candidates[rng.integers(len(candidates))]
    try:
        data, what = damage(chosen.data, rng)
    except NoMessage:
        return f"{chosen.path}: {kind}: no fields to damage"
    files[chosen.path] = chosen.put(data)
    return f"{chosen.path}: {kind}: {what}"


def _exchange_messages(table: SoundTable, files: Files, rng: np.random.Generator) -> str:
    """Put a message in the place of another of its kind."""
    messages = messages_of(files)
    if not messages:
        return "no message is left to exchange"
    one = messages[rng.integers(len(messages))]
    others = [message for message in messages if message.kind == one.kind]
    other = others[rng.integers(len(others))]
    files[one.path] = one.put(other.data)
    return f"{one.path}: {one.kind}: replaced by that of {other.path}"


def _damage_bytes(table: SoundTable, files: Files, rng: np.random.Generator) -> str:
    """Damage bytes of a region, as the other damage tests do."""
    with TemporaryDirectory() as directory:
        root = Path(directory)
        regions = [region for region in table.regions if len(_data(files, region)) >= region.end]
        if not regions:
            return "no region is left to damage"
        kinds = sorted({region.kind for region in regions})
        kind = kinds[rng.integers(len(kinds))]
        candidates = [region for region in regions if region.kind == kind]
        region = candidates[rng.integers(len(candidates))]
        place = root / region.path.name
        place.write_bytes(_data(files, region))
        mutation = draw([Region(place, kind, region.start, region.end)], rng)
    files[region.path.as_posix()] = mutation.data
    return f"{region.path}: {kind}: {mutation.what}"


def _data(files: Files, region: Region) -> bytes:
    return files.get(region.path.as_posix(), b"")


def _change_buffer(table: SoundTable, files: Files, rng: np.random.Generator) -> str:
    """Copy, shift or flip a whole region, or set a series of numbers in it."""
    regions = [region for region in table.regions if len(_data(files, region)) >= region.end]
    if not regions:
        return "no region is left to change"
    region = regions[rng.integers(len(regions))]
    data = bytearray(_data(files, region))
    old = data[region.start : region.end]
    other = regions[rng.integers(len(regions))]
    source = _data(files, other)[other.start : other.end]
    ways: list[tuple[str, Callable[[], bytes]]] = [
        (f"copied from {other.path} {other.start}", lambda: source),
        ("shifted by a byte", lambda: old[1:] + old[:1]),
        ("shifted by 8 bytes", lambda: old[8:] + old[:8]),
        ("shifted the other way", lambda: old[-1:] + old[:-1]),
        ("all bits flipped", lambda: bytes(byte ^ 0xFF for byte in old)),
        ("turned round", lambda: old[::-1]),
        ("the first half twice", lambda: old[: len(old) // 2] * 2),
        ("numbers at limits", lambda: _limits(bytes(old), rng)),
    ]
    name, change = ways[rng.integers(len(ways))]
    new = change()[: len(old)]
    data[region.start : region.start + len(new)] = new
    files[region.path.as_posix()] = bytes(data)
    return f"{region.path}: {region.kind} at {region.start}: {name}"


def _limits(old: bytes, rng: np.random.Generator) -> bytes:
    """Set several numbers of a width to limits."""
    width = int(rng.choice([1, 2, 4, 8]))
    data = bytearray(old)
    for _ in range(int(rng.integers(1, 6))):
        if len(data) >= width:
            place = int(rng.integers(len(data) // width)) * width
            value = LIMITS[rng.integers(len(LIMITS))] % (1 << 8 * width)
            data[place : place + width] = value.to_bytes(width, "little")
    return bytes(data)


def _change_files(table: SoundTable, files: Files, rng: np.random.Generator) -> str:
    """Remove a file, empty it, or put another in its place."""
    names = list(files)
    one, other = names[rng.integers(len(names))], names[rng.integers(len(names))]
    same = [name for name in names if PurePosixPath(name).suffix == PurePosixPath(one).suffix]
    alike = same[rng.integers(len(same))]
    ways: list[tuple[str, bytes | None]] = [
        ("removed", None),
        ("emptied", b""),
        (f"replaced by {alike}", files[alike]),
        (f"replaced by {alike}", files[alike]),
        (f"replaced by {other}", files[other]),
        ("put twice", files[one] * 2),
    ]
    name, data = ways[rng.integers(len(ways))]
    if data is None:
        del files[one]
    else:
        files[one] = data
    return f"{one}: {name}"


_WAYS: list[Callable[[SoundTable, Files, np.random.Generator], str]] = [
    *[_damage_message] * 10,
    _exchange_messages,
    *[_damage_bytes] * 4,
    *[_change_buffer] * 4,
    _change_files,
]
