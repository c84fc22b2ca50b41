"""What is refused of data files 2.0, written here page by page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from files_v2 import (
    COLUMN_BUFFER,
    ColumnOf,
    PageOf,
    binary,
    bytes_of,
    dictionary,
    fixed_lists,
    flat,
    lists,
    no_nulls,
    open_container,
    some_nulls,
    write_file,
)
from reading_v2_0 import read

from lancefs.datafile.fields import Field
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb

LIST = Field(0, "c", "list", children=(Field(1, "item", "int8"),))
IN_PAGES_OF_8 = [
    ("int32", flat(7), "flat values of 7 bits"),
    ("int32", flat(0), "values of 0 bits where int32 was expected"),
    ("int32", flat(64), "64 bytes of values are wanted, the buffer has 32"),
    ("int32", flat(32, 1), "buffer 1 of the page is wanted, it has 1"),
    ("int32", flat(32, 0, COLUMN_BUFFER), "buffer 0 of the column is wanted, it has 0"),
    ("int32", flat(16), "values of 16 bits where int32"),
    ("int32", flat(32, scheme="snappy"), "buffers compressed with 'snappy'"),
    ("int32", flat(32, scheme="lz4"), "a buffer of 32 bytes says"),
    ("int32", pb.ArrayEncoding(rle=pb.Rle(bits_per_value=32)), "array encoding rle"),
    ("int32", pb.ArrayEncoding(), r"array encoding \(unknown\)"),
    ("int32", pb.ArrayEncoding(nullable=pb.Nullable()), "a kind of nullability"),
    ("int32", some_nulls(flat(8), flat(32)), "validity of values is not a bit each"),
    ("int32", binary(9), "64 bytes of values are wanted"),
    ("int32", fixed_lists(2, flat(8)), "lists of 2 items where int32"),
    ("int32", pb.ArrayEncoding(bitpacked=pb.Bitpacked()), "integers of 0 bits packed in 0"),
    (
        "int32",
        pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(16), byte_width=4)),
        "strings of 4 bytes stored as values of 16 bits",
    ),
    ("fixed_size_list:int8:2", fixed_lists(0, flat(8)), "a fixed-size list of 0 items"),
    ("string", dictionary(flat(8), flat(8), 8), "index 8 into a dictionary of 8 items"),
    ("string", dictionary(flat(8), flat(8), 99), "99 bytes of values are wanted"),
    ("string", pb.ArrayEncoding(fsst=pb.Fsst(binary=binary(9))), "FSST symbol table"),
]


@pytest.mark.parametrize(("logical_type", "encoding", "message"), IN_PAGES_OF_8)
def test_what_a_page_gets_wrong_is_said(
    tmp_path: Path, logical_type: str, encoding: pb.ArrayEncoding, message: str
) -> None:
    page = PageOf(8, encoding, [bytes([9] * 32)])
    container = write_file(tmp_path / "t.lance", [ColumnOf([page])])
    with pytest.raises((CorruptFile, UnsupportedFeature), match=message) as caught:
        read(container, Field(0, "price", logical_type), [(0, 8)])
    assert str(tmp_path / "t.lance") in str(caught.value)
    assert "column 0 (price), page 0" in str(caught.value)


def test_what_lists_get_wrong_is_said(tmp_path: Path) -> None:
    def read_lists(ends: Sequence[int], items: int) -> None:
        columns = [
            ColumnOf([PageOf(2, lists(items), [bytes_of(ends)])]),
            ColumnOf([PageOf(3, no_nulls(flat(8)), [bytes(3)])]),
        ]
        read(write_file(tmp_path / "t.lance", columns), LIST, [(0, 2)])

    read_lists([1, 3], 3)
    with pytest.raises(CorruptFile, match="do not ascend"):
        read_lists([2, 1], 3)
    with pytest.raises(CorruptFile, match="lists of 8 items in all, expected 3"):
        read_lists([1, 12], 3)
    with pytest.raises(CorruptFile, match="row 4 is wanted, the column has 3"):
        read_lists([1, 5], 5)
    with pytest.raises(CorruptFile, match="beyond 2⁶³"):
        read_lists([1, 1 << 63], 3)


@pytest.mark.parametrize("rows", [[(0, 2)], [(1, 2)], [(0, 1), (2, 3)]])
def test_nulls_end_within_the_text_of_a_page(tmp_path: Path, rows: list[tuple[int, int]]) -> None:
    """No byte is read of a null: an end that is not one would be found by whom reads the others."""
    ends = bytes_of([1 << 50] * 2 + [(1 << 50) + 1])
    page = PageOf(3, binary(9), [ends, b"somebody"])
    container = write_file(tmp_path / "t.lance", [ColumnOf([page])])
    with pytest.raises(CorruptFile, match=r"strings or lists of \d+ items in all, expected 8"):
        read(container, Field(0, "c", "string"), rows)


def test_the_format_before_2_0_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    write_file(path, [ColumnOf([PageOf(1, no_nulls(flat(8)), [b"\1"])])])
    data = path.read_bytes()
    end = int.from_bytes(data[-24:-16], "little") + 16  # of the table of one global buffer
    path.write_bytes(data[:end] + bytes(8) + data[-40:])  # its footer has a number more
    with pytest.raises(UnsupportedFeature, match=r"Lance 0\.10"):
        open_container(path)


def test_types_that_no_writer_put_into_the_format_are_refused(tmp_path: Path) -> None:
    container = write_file(tmp_path / "t.lance", [ColumnOf([])])
    members = (Field(2, "k", "int8", nullable=False), Field(3, "v", "int8"))
    entries = (Field(1, "entries", "struct", children=members),)
    with pytest.raises(UnsupportedFeature, match="map<"):
        read(container, Field(0, "m", "map", children=entries), [], {0: 0})


def test_a_field_without_a_column_is_said(tmp_path: Path) -> None:
    container = write_file(tmp_path / "t.lance", [ColumnOf([])])
    with pytest.raises(CorruptFile, match=r"field 7 \(c\) has no column"):
        read(container, Field(7, "c", "int8"), [], {})
