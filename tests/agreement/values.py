"""Random values for a field, built from a few parameters and a seed, column by column.

Drawing each value from hypothesis would be slow, and would shrink what does not matter. So
hypothesis draws the type and a `Profile`, and NumPy fills in the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from comparison import is_list

Numbers: TypeAlias = npt.NDArray[np.uint64]
Lengths: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

SHAPES = ("few", "constant", "sorted", "runs", "narrow", "random")
SIZES = ("short", "none", "mixed", "long")
ALPHABETS = ("ascii", "unicode", "bytes")

_ITEMS = 40_000  # about the most items of all lists of a column, or of one level of it
_TEXT = 4_000_000  # about the most bytes of a column of strings
_DAY = 86_400
_PER_DAY = {
    pa.time32("s"): _DAY,
    pa.time32("ms"): _DAY * 1000,
    pa.time64("us"): _DAY * 1000**2,
    pa.time64("ns"): _DAY * 1000**3,
}
_LETTERS = {
    "ascii": "abcdefgh ijklmnop.",
    "unicode": "aé語🦀ß\u0301 ∞",
    "bytes": "".join(chr(code) for code in range(256)),
}


@dataclass(frozen=True)
class Profile:
    """What the values of a column are like.

    Attributes:
        shape: How values follow each other.
        nulls: The share of nulls at each level that can be null.
        size: How long strings and lists are.
        alphabet: What strings are made of.
        bits: With the shape `narrow`, at most so many bits are used.
    """

    shape: str = "few"
    nulls: float = 0.0
    size: str = "short"
    alphabet: str = "ascii"
    bits: int = 8


def make_array(field: pa.Field, count: int, profile: Profile, rng: np.random.Generator) -> pa.Array:
    """Build an array of a field.

    Args:
        field: Its type; it has nulls, at most, where it is nullable.
        count: Slots.
        profile: What the values are like.
        rng: Where they come from.
    """
    data_type = field.type
    if isinstance(data_type, pa.BaseExtensionType):
        storage = make_array(field.with_type(data_type.storage_type), count, profile, rng)
        return pa.ExtensionArray.from_storage(data_type, storage)
    if pa.types.is_null(data_type):
        return pa.nulls(count)
    valid = _validity(count, profile, rng) if field.nullable else None
    if pa.types.is_struct(data_type):
        children = [make_array(child, count, _below(profile, rng), rng) for child in data_type]
        return pa.Array.from_buffers(data_type, count, [_bitmap(valid)], children=children)
    if pa.types.is_fixed_size_list(data_type):
        items = count * data_type.list_size
        child = make_array(data_type.value_field, items, _below(profile, rng), rng)
        return pa.Array.from_buffers(data_type, count, [_bitmap(valid)], children=[child])
    if is_list(data_type):
        return _lists(data_type, count, valid, profile, rng)
    if pa.types.is_dictionary(data_type):
        return _dictionary(data_type, count, valid, profile, rng)
    if _is_text(data_type):
        return _text(data_type, count, valid, profile, rng)
    return _fixed(data_type, numbers(count, profile, rng), valid, profile)


def numbers(count: int, profile: Profile, rng: np.random.Generator) -> Numbers:
    """Return unsigned 64-bit numbers that follow each other as the profile says."""
    match profile.shape:
        case "constant":
            return np.full(count, _random(1, rng)[0])
        case "few":
            pool = _random(int(rng.integers(1, 21)), rng)
            return pool[rng.integers(0, len(pool), count)]
        case "sorted":
            return np.cumsum(rng.integers(0, 5, count)).astype(np.uint64)
        case "runs":
            return _random(count + 1, rng)[_runs(count, rng)]
        case "narrow":
            # The width changes every few hundred values, so that chunks have different ones.
            widths = np.repeat(rng.integers(0, profile.bits + 1, count // 700 + 1), 700)[:count]
            return _random(count, rng) & ((np.uint64(1) << widths.astype(np.uint64)) - np.uint64(1))
        case _:
            return _random(count, rng)


def _random(count: int, rng: np.random.Generator) -> Numbers:
    return rng.integers(0, 1 << 64, count, dtype=np.uint64)


def _runs(count: int, rng: np.random.Generator) -> Lengths:
    """Return for each slot which run it belongs to."""
    return np.cumsum(rng.random(count) < rng.choice([0.3, 0.003]))


def _below(profile: Profile, rng: np.random.Generator) -> Profile:
    """Vary a profile for what lies inside of a value."""
    return replace(profile, nulls=profile.nulls if rng.random() < 0.7 else 0.0)


def _validity(count: int, profile: Profile, rng: np.random.Generator) -> Mask | None:
    if not profile.nulls:
        return None
    if profile.nulls == 1:
        return np.zeros(count, np.bool_)
    if profile.shape == "runs":
        valid = (rng.random(count + 1) >= profile.nulls)[_runs(count, rng)]
    else:
        valid = rng.random(count) >= profile.nulls
    if rng.random() < 0.25:  # pages with nulls come before pages without, or behind them
        half = slice(count // 2) if rng.random() < 0.5 else slice(count // 2, None)
        valid[half] = True
    return valid


def _bitmap(valid: Mask | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _is_text(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or (pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))
    )


def _lists(
    data_type: pa.DataType,
    count: int,
    valid: Mask | None,
    profile: Profile,
    rng: np.random.Generator,
) -> pa.Array:
    lengths = _list_lengths(count, profile.size, rng)
    if valid is not None and rng.random() < 0.7:
        lengths[~valid] = 0  # else items lie under the nulls, as Arrow allows
    lengths = lengths * _ITEMS // max(_ITEMS, int(lengths.sum()))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    items = int(offsets[-1])
    if pa.types.is_map(data_type):
        entries = [
            make_array(data_type.key_field, items, replace(profile, nulls=0.0), rng),
            make_array(data_type.item_field, items, _below(profile, rng), rng),
        ]
        child = pa.StructArray.from_arrays(
            entries, fields=[data_type.key_field, data_type.item_field]
        )
    else:
        child = make_array(data_type.value_field, items, _below(profile, rng), rng)
    width = np.int64 if pa.types.is_large_list(data_type) else np.int32
    buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(width))]
    return pa.Array.from_buffers(data_type, count, buffers, children=[child])


def _list_lengths(count: int, size: str, rng: np.random.Generator) -> Lengths:
    if size == "none":
        return np.zeros(count, np.int64)
    lengths = rng.integers(0, 40 if size == "mixed" else 4, count)
    if size == "long":
        lengths[rng.random(count) < 0.02] = 3000
    return lengths


def _dictionary(
    data_type: pa.DictionaryType,
    count: int,
    valid: Mask | None,
    profile: Profile,
    rng: np.random.Generator,
) -> pa.Array:
    items = pa.field("item", data_type.value_type, nullable=False)
    values = make_array(items, 50, replace(profile, shape="random", nulls=0.0), rng).unique()
    indices = (numbers(count, profile, rng) % len(values)).astype(np.int64)
    mask = None if valid is None else ~valid
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, mask=mask).cast(data_type.index_type), values, ordered=data_type.ordered
    )


def _text(
    data_type: pa.DataType,
    count: int,
    valid: Mask | None,
    profile: Profile,
    rng: np.random.Generator,
) -> pa.Array:
    chosen = numbers(count, profile, rng)
    pool = pa.array(_words(profile, count, rng), data_type)
    texts = pool.take(pa.array(chosen % np.uint64(len(pool))))
    if profile.shape in ("sorted", "random") and profile.size != "none":
        endings = pa.array(chosen % np.uint64(1_000_000)).cast(pa.string()).cast(data_type)
        texts = pc.binary_join_element_wise(texts, endings, pa.scalar("", data_type))
    if valid is not None:
        texts = pc.if_else(pa.array(valid), texts, pa.scalar(None, data_type))
    return texts


def _words(profile: Profile, count: int, rng: np.random.Generator) -> list[bytes | str]:
    longest = {"short": 12, "none": 0, "mixed": 100, "long": 2000}[profile.size]
    longest = min(longest, _TEXT // max(1, count))
    letters = _LETTERS[profile.alphabet]
    words: list[bytes | str] = []
    for _ in range(64):
        length = int(rng.integers(0, longest + 1))
        if profile.size == "long" and count < 1000 and rng.random() < 0.1:
            length = 70_000 // max(1, count // 10)
        picked = rng.integers(0, len(letters), length)
        words.append("".join(letters[index] for index in picked))
    return words


def _fixed(
    data_type: pa.DataType, chosen: Numbers, valid: Mask | None, profile: Profile
) -> pa.Array:
    if pa.types.is_boolean(data_type):
        data = np.packbits((chosen & np.uint64(1)).astype(np.bool_), bitorder="little")
    elif pa.types.is_decimal(data_type):
        data = _decimals(data_type, chosen)
    else:
        data = _bytes(data_type, _bounded(data_type, chosen, profile))
    return pa.Array.from_buffers(
        data_type, len(chosen), [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(data))]
    )


def _bounded(data_type: pa.DataType, chosen: Numbers, profile: Profile) -> Numbers:
    """Keep numbers to what a type allows; random floating-point numbers may be any bits."""
    if data_type in _PER_DAY:
        return chosen % np.uint64(_PER_DAY[data_type])
    if pa.types.is_date64(data_type):
        return chosen % np.uint64(100_000) * np.uint64(_DAY * 1000)
    if pa.types.is_floating(data_type) and profile.shape != "random":
        values = (chosen % np.uint64(20_000)).astype(np.float64) / 4 - 1000
        bits = values.astype(f"f{data_type.bit_width // 8}")
        return bits.view(f"u{bits.itemsize}").astype(np.uint64)
    return chosen


def _bytes(data_type: pa.DataType, chosen: Numbers) -> npt.NDArray[np.uint8]:
    """Return the low bytes of numbers, repeated where a value is wider than they are."""
    width = data_type.bit_width // 8
    raw = chosen.view(np.uint8).reshape(-1, 8)
    return np.tile(raw, (1, -(-width // 8)))[:, :width]


def _decimals(data_type: pa.DataType, chosen: Numbers) -> npt.NDArray[np.int64]:
    """Return 128- or 256-bit integers, the low word first; the widest use two words."""
    words = np.zeros((len(chosen), data_type.bit_width // 64), np.int64)
    words[:, 0] = chosen % np.uint64(10 ** min(data_type.precision, 18))
    if data_type.precision >= 38:
        words[:, 1] = chosen % np.uint64(5 * 10**18)
    negative = chosen % np.uint64(3) == 0
    words[negative] = ~words[negative]
    return words


def make_table(
    schema: pa.Schema, ids: Sequence[int], profiles: dict[str, Profile], rng: np.random.Generator
) -> pa.Table:
    """Build a table whose column `id`, if it has one, has given values.

    Args:
        schema: Its columns.
        ids: The values of `id`, and how many rows there are.
        profiles: What the other columns are like, by name; there is a default.
        rng: Where the values come from.
    """
    columns = [
        pa.array(ids, pa.int64())
        if field.name == "id"
        else make_array(field, len(ids), profiles.get(field.name, Profile()), rng)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
