"""Row id and version sequences: every form that they are written in, and what damage does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.errors import CorruptFile
from lancefs.proto.rowids_pb2 import (
    EncodedU64Array,
    RowDatasetVersionRun,
    RowDatasetVersionSequence,
    RowIdSequence,
    U64Segment,
)
from lancefs.table.row_ids import decode_row_ids, decode_versions

MOST = 2**64 - 1


def encoded(ids: list[int], width: int) -> EncodedU64Array:
    base = min(ids, default=0)
    if width == 8:
        return EncodedU64Array(
            u64_array=EncodedU64Array.U64Array(values=np.array(ids, "<u8").tobytes())
        )
    offsets = np.array([one - base for one in ids], f"<u{width}").tobytes()
    if width == 4:
        return EncodedU64Array(u32_array=EncodedU64Array.U32Array(base=base, offsets=offsets))
    return EncodedU64Array(u16_array=EncodedU64Array.U16Array(base=base, offsets=offsets))


def plain(start: int, end: int) -> U64Segment:
    return U64Segment(range=U64Segment.Range(start=start, end=end))


def holed(start: int, end: int, holes: list[int], width: int = 2) -> U64Segment:
    return U64Segment(
        range_with_holes=U64Segment.RangeWithHoles(
            start=start, end=end, holes=encoded(holes, width)
        )
    )


def mapped(ids: list[int]) -> U64Segment:
    start, end = ids[0], ids[-1] + 1
    bits = np.isin(np.arange(end - start), np.array(ids, np.uint64) - np.uint64(start))
    bitmap = np.packbits(bits, bitorder="little").tobytes()
    return U64Segment(
        range_with_bitmap=U64Segment.RangeWithBitmap(start=start, end=end, bitmap=bitmap)
    )


def listed(ids: list[int], width: int, is_sorted: bool = False) -> U64Segment:
    array = encoded(ids, width)
    return U64Segment(sorted_array=array) if is_sorted else U64Segment(array=array)


def sequence(*segments: U64Segment) -> bytes:
    return RowIdSequence(segments=segments).SerializeToString()


@st.composite
def segments(draw: st.DrawFn) -> tuple[U64Segment, list[int]]:
    """A segment in any form that can hold some ids, and the ids."""
    start = draw(st.sampled_from([0, 7, 2**32 - 5, 2**63 - 100, MOST - 300]))
    ids = sorted(draw(st.sets(st.integers(start, start + 200), min_size=1, max_size=60)))
    width = draw(st.sampled_from([2, 4, 8]))
    match draw(st.sampled_from(["range", "holes", "bitmap", "sorted", "array"])):
        case "range":
            ids = list(range(ids[0], ids[-1] + 1))
            return plain(ids[0], ids[-1] + 1), ids
        case "holes":
            holes = sorted(set(range(ids[0], ids[-1] + 1)) - set(ids))
            return holed(ids[0], ids[-1] + 1, holes, width), ids
        case "bitmap":
            return mapped(ids), ids
        case "sorted":
            return listed(ids, width, is_sorted=True), ids
    ids = draw(st.permutations(ids))
    return listed(ids, width), ids


@given(st.lists(segments(), max_size=4), st.data())
def test_ids_are_read_and_found_in_every_form(
    parts: list[tuple[U64Segment, list[int]]], data: st.DataObject
) -> None:
    ids = [one for _, held in parts for one in held]
    decoded = decode_row_ids(sequence(*(message for message, _ in parts)), len(ids))
    assert len(decoded) == len(ids)
    assert decoded.at(np.arange(len(ids))).tolist() == ids
    rows = sorted(data.draw(st.sets(st.integers(0, len(ids) - 1)))) if ids else []
    assert decoded.at(np.array(rows, np.int64)).tolist() == [ids[row] for row in rows]
    wanted = np.unique(np.array([*ids, *(one + 1 for one in ids if one < MOST)], np.uint64))
    found, first = [], 0
    for segment in decoded.segments:
        which, places = segment.find(wanted)
        found += zip((first + places).tolist(), wanted[which].tolist(), strict=True)
        first += segment.count
    assert sorted(found) == list(enumerate(ids))


def test_versions_are_repeated_for_the_rows_of_their_runs() -> None:
    runs = [
        RowDatasetVersionRun(span=plain(0, 3), version=5),
        RowDatasetVersionRun(span=plain(3, 3), version=6),
        RowDatasetVersionRun(span=mapped([0, 2, 9]), version=7),  # only its length counts
        RowDatasetVersionRun(span=plain(1, 2), version=2**40),
    ]
    data = RowDatasetVersionSequence(runs=runs).SerializeToString()
    versions = decode_versions(data, 7)
    assert len(versions) == 7
    assert versions.at(np.arange(7)).tolist() == [5, 5, 5, 7, 7, 7, 2**40]
    assert versions.at(np.array([2, 3, 6])).tolist() == [5, 7, 2**40]
    assert decode_versions(b"", 0).at(np.arange(0)).tolist() == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (sequence(plain(0, 9)), "9 row ids are given, the fragment has 10 rows"),
        (sequence(plain(0, 2**60)), "the fragment has 10 rows"),
        (sequence(plain(9, 0)), "a range from 9 to 0"),
        (sequence(U64Segment()), "unknown form"),
        (sequence(U64Segment(array=EncodedU64Array())), "unknown form"),
        (sequence(holed(0, 11, [11])), "holes outside"),
        (sequence(holed(0, 12, [3, 3])), "named twice"),
        (sequence(holed(0, 0, [1, 2]), plain(0, 12)), "2 holes in a range of 0 numbers"),
        (sequence(listed([*range(9), 8], 2, is_sorted=True)), "said to be sorted"),
        (b"\xff", "does not decode"),
        (
            sequence(
                U64Segment(
                    range_with_bitmap=U64Segment.RangeWithBitmap(start=0, end=10, bitmap=b"\xff")
                )
            ),
            "a bitmap of 1 bytes",
        ),
        (
            sequence(
                U64Segment(
                    array=EncodedU64Array(u16_array=EncodedU64Array.U16Array(offsets=b"abc"))
                )
            ),
            "3 bytes for values of 2 bytes",
        ),
        (
            sequence(
                U64Segment(
                    array=EncodedU64Array(
                        u16_array=EncodedU64Array.U16Array(base=MOST, offsets=b"\1" * 20)
                    )
                )
            ),
            "beyond 64 bits",
        ),
    ],
)
def test_a_damaged_sequence_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(CorruptFile, match=words):
        decode_row_ids(data, 10)


def test_an_id_that_occurs_twice_in_a_segment_is_refused_when_ids_are_looked_up() -> None:
    (segment,) = decode_row_ids(sequence(listed([3, 1, 3], 2)), 3).segments
    with pytest.raises(CorruptFile, match="twice"):
        segment.find(np.array([3], np.uint64))


def test_versions_of_fewer_rows_than_none_are_refused() -> None:
    runs = [
        RowDatasetVersionRun(span=plain(0, 5), version=1),
        RowDatasetVersionRun(span=holed(0, 0, [1, 2, 3]), version=2),
        RowDatasetVersionRun(span=plain(5, 3), version=3),
    ]
    with pytest.raises(CorruptFile, match="3 holes in a range of 0 numbers"):
        decode_versions(RowDatasetVersionSequence(runs=runs).SerializeToString(), 5)


def test_versions_of_another_length_are_refused() -> None:
    runs = [RowDatasetVersionRun(span=plain(0, 3), version=5)]
    with pytest.raises(CorruptFile, match="3 versions are given, the fragment has 4 rows"):
        decode_versions(RowDatasetVersionSequence(runs=runs).SerializeToString(), 4)
