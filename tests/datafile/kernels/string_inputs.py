"""Drawn strings for the kernels that read, compare and pick them."""

from __future__ import annotations

import numpy as np
from drawing import Arguments, damage, generators, ints, odd_place, some_of
from hypothesis import strategies as st

from lancefs.datafile.kernels import TextSet, fsst


@st.composite
def fsst_strings(draw: st.DrawFn) -> Arguments:
    source = draw(generators())
    symbols = np.zeros((256, 8), np.uint8)
    lengths = np.zeros(256, np.uint8)
    used = draw(st.sampled_from([1, 3, 200, 255]))
    lengths[:used] = source.integers(1, 9, used)
    symbols[:used] = source.integers(0, 256, (used, 8))
    symbols[np.arange(8) >= lengths[:, None]] = 0
    table = fsst.SymbolTable(symbols, lengths, raw=draw(st.integers(0, 15)) == 0)
    strings_: list[list[int]] = []
    rare = draw(st.sampled_from([2, 5, 40, 1000]))
    for size in draw(st.lists(st.sampled_from([0, 1, 7, 8, 9, 30, 2100]), max_size=8)):
        codes: list[int] = []
        for code, choice in zip(
            source.integers(0, used, size), source.integers(0, rare, size), strict=True
        ):
            codes += [255, int(source.integers(0, 256))] if choice == 0 else [int(code)]
        strings_.append(codes)
    before = draw(st.integers(0, 3))
    ends = np.cumsum([before, *(len(codes) for codes in strings_)])
    offsets = ends.astype(draw(st.sampled_from([np.int32, np.int64])))
    data = np.array([0] * before + [code for codes in strings_ for code in codes], np.uint8)
    damage(draw, offsets, data)
    return table, offsets, data


@st.composite
def string_chunks(draw: st.DrawFn) -> Arguments:
    width = draw(st.sampled_from([4, 8]))
    text = draw(st.sampled_from([st.binary(max_size=9), st.binary(min_size=1, max_size=1)]))
    texts = draw(st.lists(st.lists(text, max_size=6), max_size=4))
    padding = draw(st.integers(0, 5))
    pieces, starts, ends, at = [], [], [], draw(st.integers(0, 3))
    pieces.append(bytes(at))
    for chunk in texts:
        head = (len(chunk) + 1) * width
        offsets = np.cumsum([head, *(len(text) for text in chunk)]).astype(f"<u{width}")
        damage(draw, offsets)
        pieces.append(offsets.tobytes() + b"".join(chunk) + bytes(padding))
        starts.append(at)
        at += len(pieces[-1])
        ends.append(at)
    data = np.frombuffer(b"".join(pieces), np.uint8)
    bounds = ints(starts), ints(ends), ints([len(chunk) for chunk in texts])
    damage(draw, *bounds)
    return odd_place(draw, data), *bounds, width


@st.composite
def strings_of_chunks(draw: st.DrawFn) -> Arguments:
    arguments = draw(string_chunks())
    return *arguments, some_of(draw, arguments[3])


@st.composite
def string_lookups(draw: st.DrawFn) -> Arguments:
    # Short items, and items of one byte, have ways of their own, if they are not too many.
    shortest, longest = draw(st.sampled_from([(0, 20), (1, 1), (0, 32), (20, 50)]))
    lengths = st.binary(min_size=shortest, max_size=longest)
    items = draw(st.lists(lengths, min_size=1, max_size=8)) * draw(st.sampled_from([1, 1, 1, 60]))
    before = draw(st.integers(0, 3))
    offsets = np.cumsum([before, *(len(item) for item in items)])
    offsets = offsets.astype(draw(st.sampled_from([np.int32, np.int64])))
    data = np.frombuffer(bytes(before) + b"".join(items), np.uint8)
    source = draw(generators())
    count = draw(st.integers(0, 40))
    kind = draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]))
    most = min(len(items), int(np.iinfo(kind).max) + 1)
    indices = source.integers(0, most, count).astype(kind)
    damage(draw, indices, offsets)
    valid = draw(st.sampled_from([None, source.integers(0, 2, count).astype(np.bool_)]))
    return offsets, data, indices, valid


@st.composite
def texts(draw: st.DrawFn) -> Arguments:
    long = st.integers(0, 9000).map(lambda size: "a" * size)
    parts = [text.encode() for text in draw(st.lists(st.text(max_size=8) | long, max_size=6))]
    data = np.frombuffer(b"".join(parts), np.uint8).copy()
    offsets = np.cumsum([0, *(len(part) for part in parts)])
    offsets = offsets.astype(draw(st.sampled_from([np.int32, np.int64])))
    if len(data) and draw(st.booleans()):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    if len(parts) > 1 and draw(st.booleans()):
        offsets[1] = draw(st.integers(int(offsets[0]), int(offsets[2])))
    return offsets, data


@st.composite
def texts_and_parts(draw: st.DrawFn) -> Arguments:
    few = st.text("abA", max_size=9)
    many = st.integers(60, 200).map(lambda size: "a" * size)
    mixed = st.tuples(st.text("abcAB[{", min_size=1, max_size=40), st.integers(1, 40)).map(
        lambda drawn: drawn[0] * drawn[1]
    )
    letters = few | many | mixed
    held = [text.encode() for text in draw(st.lists(letters, min_size=1, max_size=9))]
    offsets = np.cumsum([0, *map(len, held)], dtype=np.int32)
    if draw(st.booleans()):
        offsets[draw(st.integers(0, len(held)))] += draw(st.integers(-3, 3))
    part = draw(st.text("abc{", max_size=6) | st.sampled_from(["a" * 70, "b" + "a" * 62]))
    data = odd_place(draw, np.frombuffer(b"".join(held), np.uint8))
    return offsets, data, part.encode(), draw(st.booleans())


@st.composite
def texts_and_keys(draw: st.DrawFn) -> Arguments:
    """Texts of any bytes, and keys among which some of them are."""
    letters = st.binary(max_size=20) | st.binary(max_size=2).map(lambda end: b"\xe9" * 16 + end)
    held = draw(st.lists(letters, min_size=1, max_size=12))
    offsets = np.cumsum([0, *map(len, held)], dtype=np.int32)
    if not draw(st.integers(0, 4)):
        offsets[draw(st.integers(0, len(held)))] += draw(st.integers(-3, 3))
    data = odd_place(draw, np.frombuffer(b"".join(held), np.uint8))
    keys = draw(st.lists(letters | st.sampled_from(held), max_size=9))
    ends = np.cumsum([0, *map(len, keys)]).astype(draw(st.sampled_from([np.int32, np.int64])))
    return offsets, data, TextSet(ends, np.frombuffer(b"".join(keys), np.uint8))


@st.composite
def texts_that_recur(draw: st.DrawFn) -> Arguments:
    """Texts of any bytes, some of which come again, and how many distinct ones there may be."""
    letters = st.binary(max_size=20) | st.binary(max_size=2).map(lambda end: b"\xe9" * 16 + end)
    known = draw(st.lists(letters, min_size=1, max_size=6))
    held = draw(st.lists(letters | st.sampled_from(known), max_size=30))
    offsets = np.cumsum([0, *map(len, held)], dtype=np.int32)
    most = draw(st.just(100) | st.integers(0, 9))
    if most == 100 and not draw(st.integers(0, 4)):
        offsets[draw(st.integers(0, len(held)))] += draw(st.integers(-3, 3))
    valid = draw(st.none() | st.lists(st.booleans(), min_size=len(held), max_size=len(held)))
    data = odd_place(draw, np.frombuffer(b"".join(held), np.uint8))
    return offsets, data, None if valid is None else np.array(valid, np.bool_), most


@st.composite
def texts_of_zones(draw: st.DrawFn) -> Arguments:
    """Texts of any bytes, of which many have the same beginning."""
    letters = st.binary(max_size=9) | st.binary(max_size=4).map(lambda end: b"\xe9" * 30 + end)
    held = draw(st.lists(letters, max_size=12))
    offsets = np.cumsum([0, *map(len, held)]).astype(draw(st.sampled_from([np.int32, np.int64])))
    if not draw(st.integers(0, 4)):
        offsets[draw(st.integers(0, len(held)))] += draw(st.integers(-3, 3))
    valid = draw(st.none() | st.lists(st.booleans(), min_size=len(held), max_size=len(held)))
    inner = draw(st.lists(st.integers(0, len(held)), max_size=4))
    starts = np.array(sorted([0, *inner, len(held)]), np.int64)
    data = odd_place(draw, np.frombuffer(b"".join(held), np.uint8))
    return offsets, data, None if valid is None else np.array(valid, np.bool_), starts


@st.composite
def masked_strings(draw: st.DrawFn) -> Arguments:
    longest = draw(st.sampled_from([3, 32, 80]))
    items = draw(st.lists(st.binary(max_size=longest), max_size=30))
    before, after = draw(st.integers(0, 3)), draw(st.sampled_from([0, 1, 40]))
    offsets = np.cumsum([before, *(len(item) for item in items)]).astype(np.int32)
    data = np.frombuffer(bytes(before) + b"".join(items) + bytes(after), np.uint8)
    kept = draw(generators()).random(len(items)) < draw(st.sampled_from([0, 0.5, 0.9, 1]))
    damage(draw, offsets)
    return offsets, data, kept
