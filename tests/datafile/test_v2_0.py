"""Data files 2.0: some of the corpus, most of them written here, page by page."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from files_v2 import (
    COLUMN_BUFFER,
    FILE_BUFFER,
    ColumnOf,
    PageOf,
    all_nulls,
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
from google.protobuf.empty_pb2 import Empty
from hypothesis import given
from hypothesis import strategies as st
from reading_v2_0 import bytes_asked, read, read_page
from support import corpus_case, needs_corpus

from lancefs.datafile.container import Container
from lancefs.datafile.fields import Field, fields_from_proto
from lancefs.datafile.outlines import outline_of
from lancefs.datafile.v2_0.reader import ArrayReader
from lancefs.errors import CorruptFile, LanceError, UnsupportedFeature
from lancefs.proto import encodings_v2_0_pb2 as pb
from lancefs.storage import run
from lancefs.table.dictionary_columns import ENCODED, encoded_field

# --- values ---


def test_flat_values_are_not_copied(tmp_path: Path) -> None:
    encoding, values = no_nulls(flat(64)), bytes_of(range(1000))
    page = PageOf(1000, encoding, [values])
    container = write_file(tmp_path / "t.lance", [ColumnOf([page])])
    mapped = container.file.read_whole()
    start = mapped.ctypes.data
    array = read(container, Field(0, "c", "int64"), [(10, 900)])
    assert array.to_pylist() == list(range(10, 900))
    assert start <= array.buffers()[1].address < start + len(mapped)


def test_booleans_and_validity_take_a_bit_each(tmp_path: Path) -> None:
    encoding = some_nulls(flat(1, 0), flat(1, 1))
    rows = read_page(tmp_path, "bool", encoding, b"\xfd\x05", b"\x0f\x04", rows=11)
    assert rows == [True, None, True, True, False, False, False, False, False, None, True]


def test_bits_are_not_compressed_whatever_the_page_says(tmp_path: Path) -> None:
    encoding = no_nulls(flat(1, scheme="zstd"))  # as Lance 0.14 wrote
    assert read_page(tmp_path, "bool", encoding, b"\x05", rows=3) == [True, False, True]


def test_a_page_of_nulls_has_no_buffers(tmp_path: Path) -> None:
    for logical_type in ("int32", "string", "null", "fixed_size_list:float:2", "bool"):
        assert read_page(tmp_path, logical_type, all_nulls(), rows=3) == [None] * 3
    what = Field(0, "c", "dict:string:int8:false")
    container = write_file(tmp_path / "t.lance", [ColumnOf([PageOf(2, all_nulls())])])
    assert read(container, what, [(0, 2)]).to_pylist() == [None, None]


def test_a_constant_stands_in_the_description(tmp_path: Path) -> None:
    encoding = pb.ArrayEncoding(constant=pb.Constant(value=bytes_of([7], "<i4")))
    assert read_page(tmp_path, "int32", encoding, rows=3) == [7, 7, 7]


def test_strings_are_null_where_their_end_is_adjusted(tmp_path: Path) -> None:
    ends = bytes_of([2, 2, 2 + 9, 5, 8 + 9])  # the last is null and has bytes all the same
    rows = read_page(tmp_path, "string", binary(9), ends, b"abcdefgh", rows=5)
    assert rows == ["ab", "", None, "cde", None]
    rows = read_page(tmp_path, "large_binary", binary(9), ends, b"abcdefgh", rows=5)
    assert rows == [b"ab", b"", None, b"cde", None]


def test_one_string_is_read_without_the_others(tmp_path: Path) -> None:
    ends = bytes_of(range(100, 100_100, 100))
    page = PageOf(1000, binary(100_001), [ends, bytes(100_000)])
    container = write_file(tmp_path / "t.lance", [ColumnOf([page])])
    asked = bytes_asked(container, Field(0, "c", "string"), [(500, 501)])
    assert [end - start for start, end in asked] == [16, 100]


def test_indices_of_a_string_dictionary_count_from_one(tmp_path: Path) -> None:
    encoding = dictionary(no_nulls(flat(8, 0)), binary(6, 1), 2)
    buffers = bytes([1, 0, 2, 2, 1]), bytes_of([2, 5]), b"hmhum"
    rows = read_page(tmp_path, "string", encoding, *buffers, rows=5)
    assert rows == ["hm", None, "hum", "hum", "hm"]


def test_a_string_dictionary_may_be_nothing_but_null(tmp_path: Path) -> None:
    encoding = dictionary(no_nulls(flat(8, 0)), binary(1, 1), 1)
    assert read_page(tmp_path, "string", encoding, bytes(2), bytes_of([1]), b"", rows=2) == [
        None,
        None,
    ]


def test_strings_are_read_with_dictionaries_whatever_their_pages_are(tmp_path: Path) -> None:
    coded = dictionary(no_nulls(flat(8, 0)), binary(6, 1), 2)
    pages = [
        PageOf(5, coded, [bytes([1, 0, 2, 2, 1]), bytes_of([2, 5]), b"hmhum"]),
        PageOf(3, binary(9), [bytes_of([3, 3 + 9, 4]), b"huma"]),
        PageOf(2, all_nulls()),
    ]
    container = write_file(tmp_path / "t.lance", [ColumnOf(pages)])
    array = read(container, encoded_field(Field(0, "c", "string")), [(1, 10)])
    assert array.type == ENCODED
    assert array.to_pylist() == [None, "hum", "hum", "hm", "hum", None, "a", None, None]


def test_indices_of_a_dictionary_type_count_from_zero(tmp_path: Path) -> None:
    encoding = dictionary(no_nulls(flat(16, 0)), some_nulls(flat(1, 1), flat(32, 2)), 3)
    buffers = bytes_of([0, 2, 1, 0], "<u2"), b"\x05", bytes_of([10, 20, 30], "<i4")
    page = PageOf(4, encoding, buffers)
    container = write_file(tmp_path / "t.lance", [ColumnOf([page, page])])
    array = read(container, Field(0, "c", "dict:int32:int16:false"), [(0, 8)])
    assert array.to_pylist() == [10, 30, None, 10] * 2
    assert array.dictionary.null_count == 0


def test_fixed_size_lists_nest(tmp_path: Path) -> None:
    inner = some_nulls(flat(1, 1), fixed_lists(2, some_nulls(flat(1, 2), flat(8, 3))))
    encoding = some_nulls(flat(1, 0), inner)
    page = PageOf(3, encoding, [b"\x05", b"\x05", b"\x3e", bytes(range(6))])
    container = write_file(tmp_path / "t.lance", [ColumnOf([page])])
    array = read(container, Field(0, "c", "fixed_size_list:int8:2"), [(0, 3)])
    assert array.to_pylist() == [[None, 1], None, [4, 5]]
    encoding = no_nulls(fixed_lists(2, no_nulls(fixed_lists(3, no_nulls(flat(8))))))
    logical_type = "fixed_size_list:fixed_size_list:int8:3:2"
    rows = read_page(tmp_path, logical_type, encoding, bytes(range(12)), rows=2)
    assert rows == [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]


def test_packed_structs_hold_their_rows_side_by_side(tmp_path: Path) -> None:
    pair = no_nulls(fixed_lists(2, no_nulls(flat(8))))
    packed = pb.PackedStruct(inner=[no_nulls(flat(32)), pair], buffer=pb.Buffer())
    rows = np.array([(1, (2, 3)), (-4, (5, 6))], np.dtype([("a", "<i4"), ("v", "i1", 2)]))
    page = PageOf(2, pb.ArrayEncoding(packed_struct=packed), [rows.tobytes()])
    container = write_file(tmp_path / "t.lance", [ColumnOf([page])])
    members = (Field(1, "a", "int32"), Field(2, "v", "fixed_size_list:int8:2"))
    what = Field(0, "c", "struct", children=members)
    expected = [{"a": 1, "v": [2, 3]}, {"a": -4, "v": [5, 6]}]
    assert read(container, what, [(0, 2)], {0: 0}).to_pylist() == expected
    assert read(container, what, [(1, 2)], {0: 0}).to_pylist() == expected[1:]


def test_blobs_are_shown_as_where_they_are(tmp_path: Path) -> None:
    packed = pb.PackedStruct(inner=[no_nulls(flat(64))] * 2, buffer=pb.Buffer())
    page = PageOf(2, pb.ArrayEncoding(packed_struct=packed), [bytes_of([64, 3, 1, 0])])
    values = pb.ColumnEncoding(values=Empty())
    encoding = pb.ColumnEncoding(blob=pb.Blob(inner=values))
    container = write_file(tmp_path / "t.lance", [ColumnOf([page], encoding)])
    what = Field(0, "c", "large_binary", metadata={b"lance-encoding:blob": b"true"})
    rows = read(container, what, [(0, 2)]).to_pylist()
    assert rows == [{"position": 64, "size": 3}, {"position": 1, "size": 0}]


@pytest.mark.parametrize(("codec", "scheme", "width"), [("lz4_raw", "lz4", 4), ("zstd", "zstd", 8)])
def test_a_compressed_buffer_is_read_once_for_all_batches(
    tmp_path: Path, codec: str, scheme: str, width: int
) -> None:
    values = bytes_of(range(1000), "<i4")
    packed = len(values).to_bytes(width, "little") + pa.compress(values, codec, asbytes=True)
    page = PageOf(1000, no_nulls(flat(32, scheme=scheme)), [packed])
    container = write_file(tmp_path / "t.lance", [ColumnOf([page])])
    reader, what = ArrayReader(container, {0: 0}), Field(0, "c", "int32")
    container.load_columns([0])
    steps = reader.read(what, [(0, 400)])
    (wanted,) = next(steps)
    with pytest.raises(StopIteration) as stop:
        steps.send(container.file.read([wanted]))
    assert wanted[1] - wanted[0] == len(packed)
    assert stop.value.value.to_pylist() == list(range(400))
    with pytest.raises(StopIteration) as stop:
        next(reader.read(what, [(400, 401), (999, 1000)]))
    assert stop.value.value.to_pylist() == [400, 999]


def test_buffers_may_belong_to_the_column_or_the_file(tmp_path: Path) -> None:
    pages = [
        PageOf(2, no_nulls(flat(8, 0, COLUMN_BUFFER))),
        PageOf(2, no_nulls(flat(8, 1, FILE_BUFFER))),
    ]
    column = ColumnOf(pages, buffers=[b"\1\2"])
    container = write_file(tmp_path / "t.lance", [column], shared=[b"\3\4"])
    assert read(container, Field(0, "c", "int8"), [(0, 4)]).to_pylist() == [1, 2, 3, 4]


def test_zone_maps_are_passed_over(tmp_path: Path) -> None:
    inner = pb.ColumnEncoding(values=Empty())
    encoding = pb.ColumnEncoding(zone_index=pb.ZoneIndex(rows_per_zone=2, inner=inner))
    column = ColumnOf([PageOf(2, no_nulls(flat(8)), [b"\1\2"])], encoding)
    container = write_file(tmp_path / "t.lance", [column])
    assert read(container, Field(0, "c", "int8"), [(0, 2)]).to_pylist() == [1, 2]


# --- what only previews of the format were written with ---


@given(st.data())
def test_bit_packed_integers_are_unpacked(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    bits = data.draw(st.sampled_from([8, 16, 32, 64]), "bits")
    width = data.draw(st.integers(1, bits), "width")
    signed = data.draw(st.booleans(), "signed")
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    numbers = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=40))
    stream = sum((number & (1 << width) - 1) << i * width for i, number in enumerate(numbers))
    buffer = stream.to_bytes(-(-len(numbers) * width // 8), "little")
    encoding = pb.ArrayEncoding(
        bitpacked=pb.Bitpacked(
            compressed_bits_per_value=width,
            uncompressed_bits_per_value=bits,
            buffer=pb.Buffer(),
            signed=signed,
        )
    )
    page = PageOf(len(numbers), no_nulls(encoding), [buffer])
    path = tmp_path_factory.getbasetemp() / "bit_packed.lance"
    container = write_file(path, [ColumnOf([page])])
    what = Field(0, "c", f"{'' if signed else 'u'}int{bits}")
    assert read(container, what, [(0, len(numbers))]).to_pylist() == numbers
    middle = data.draw(st.integers(0, len(numbers)), "middle")
    assert read(container, what, [(middle, len(numbers))]).to_pylist() == numbers[middle:]


def test_blocks_of_bit_packed_integers_are_unpacked(tmp_path: Path) -> None:
    # Of a width that fills its bytes, a block is the values in their order of packing.
    order = [0, 4, 2, 6, 1, 5, 3, 7]
    places = [
        order[row // 8] * 16 + row % 8 * 128 + lane for row in range(8) for lane in range(128)
    ]
    values = np.random.default_rng(0).integers(0, 256, 3 * 1024).astype(np.uint8)
    encoding = pb.ArrayEncoding(
        bitpacked_for_non_neg=pb.BitpackedForNonNeg(
            compressed_bits_per_value=8, uncompressed_bits_per_value=8, buffer=pb.Buffer()
        )
    )
    packed = values.reshape(3, 1024)[:, places].tobytes()
    container = write_file(tmp_path / "t.lance", [ColumnOf([PageOf(2500, encoding, [packed])])])
    what = Field(0, "c", "uint8")
    assert read(container, what, [(0, 2500)]).to_numpy().tolist() == values[:2500].tolist()
    ranges = [(3, 5), (1000, 1030), (1030, 1040), (2047, 2049), (2499, 2500)]
    expected = [value for start, end in ranges for value in values[start:end].tolist()]
    assert read(container, what, ranges).to_pylist() == expected
    (asked,) = bytes_asked(container, what, [(1500, 1501)])
    assert asked[1] - asked[0] == 1024


@pytest.mark.parametrize("bits", [8, 24])
def test_strings_of_one_length_have_no_offsets(tmp_path: Path, bits: int) -> None:
    fixed = pb.FixedSizeBinary(bytes=no_nulls(flat(bits, 1)), byte_width=3)
    encoding = some_nulls(flat(1, 0), pb.ArrayEncoding(fixed_size_binary=fixed))
    rows = read_page(tmp_path, "string", encoding, b"\x05", b"abcdefghi", rows=3)
    assert rows == ["abc", None, "ghi"]


def test_strings_as_lists_of_bytes_have_them_in_the_next_column(tmp_path: Path) -> None:
    ends = [PageOf(3, lists(3), [bytes_of([2, 2 + 4, 3])]), PageOf(2, lists(1), [bytes_of([0, 1])])]
    columns = [ColumnOf(ends), ColumnOf([PageOf(4, no_nulls(flat(8)), [b"abcd"])])]
    container = write_file(tmp_path / "t.lance", columns)
    what = Field(0, "c", "string")
    assert read(container, what, [(0, 5)]).to_pylist() == ["ab", None, "c", "", "d"]
    assert read(container, what, [(1, 3), (4, 5)]).to_pylist() == [None, "c", "d"]


# --- lists and structs ---

LIST = Field(0, "c", "list", children=(Field(1, "item", "int8"),))


def write_lists(path: Path) -> Container:
    """Two pages of lists, with an adjustment for nulls each, over three pages of items."""
    ends = [
        PageOf(4, lists(5), [bytes_of([2, 2 + 6, 2, 5])]),
        PageOf(3, lists(4), [bytes_of([0 + 5, 3, 4 + 5])]),
    ]
    items = [
        PageOf(3, no_nulls(flat(8)), [bytes([start, start + 1, start + 2])]) for start in (0, 3)
    ]
    items.append(PageOf(3, all_nulls()))
    return write_file(path, [ColumnOf(ends), ColumnOf(items)])


def test_lists_are_null_where_their_end_is_adjusted(tmp_path: Path) -> None:
    container = write_lists(tmp_path / "t.lance")
    whole = [[0, 1], None, [], [2, 3, 4], None, [5, None, None], None]
    assert read(container, LIST, [(0, 7)]).to_pylist() == whole
    for start in range(7):
        for end in range(start + 1, 8):
            assert read(container, LIST, [(start, end)]).to_pylist() == whole[start:end]
    scattered = read(container, LIST, [(0, 1), (3, 5), (6, 7)])
    assert scattered.to_pylist() == [[0, 1], [2, 3, 4], None, None]


def test_large_lists_have_wide_offsets(tmp_path: Path) -> None:
    container = write_lists(tmp_path / "t.lance")
    what = Field(0, "c", "large_list", children=LIST.children)
    assert read(container, what, [(2, 4)]).to_pylist() == [[], [2, 3, 4]]


def test_one_list_is_read_without_the_others(tmp_path: Path) -> None:
    ends = bytes_of(range(10, 10_010, 10))
    columns = [
        ColumnOf([PageOf(1000, lists(10_000), [ends])]),
        ColumnOf([PageOf(10_000, no_nulls(flat(64)), [bytes(80_000)])]),
    ]
    container = write_file(tmp_path / "t.lance", columns)
    what = Field(0, "c", "list", children=(Field(1, "item", "int64"),))
    asked = bytes_asked(container, what, [(500, 501)])
    assert [end - start for start, end in asked] == [16, 80]


def test_structs_are_never_null(tmp_path: Path) -> None:
    header = pb.ArrayEncoding(struct=pb.SimpleStruct())
    columns = [
        ColumnOf([PageOf(3, header)]),
        ColumnOf([PageOf(3, no_nulls(flat(8)), [b"\1\2\3"])]),
        ColumnOf([PageOf(3, header)]),
    ]
    container = write_file(tmp_path / "t.lance", columns)
    members = (Field(1, "a", "int8"), Field(2, "none", "struct"))
    rows = read(container, Field(0, "c", "struct", children=members), [(0, 1), (2, 3)])
    assert rows.to_pylist() == [{"a": 1, "none": {}}, {"a": 3, "none": {}}]


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_struct_of_which_more_members_are_stored_is_refused(
    is_listed: bool, tmp_path: Path
) -> None:
    """So releases up to 0.27 wrote slices of arrays; they read the wrong members."""
    columns = [
        ColumnOf([PageOf(3, lists(3), [bytes_of([1, 2, 3])])]),
        ColumnOf([PageOf(3, pb.ArrayEncoding(struct=pb.SimpleStruct()))]),
        ColumnOf([PageOf(5, no_nulls(flat(8)), [b"\1\2\3\4\5"])]),
    ]
    container = write_file(tmp_path / "t.lance", columns)
    what = Field(1, "s", "struct", children=(Field(2, "a", "int8"),))
    if is_listed:
        what = Field(0, "c", "list", children=(what,))
    with pytest.raises(UnsupportedFeature, match="the struct s of 3 rows with 5 of a; Lance"):
        read(container, what, [(0, 2)])


def test_a_column_without_pages_is_empty(tmp_path: Path) -> None:
    container = write_file(tmp_path / "t.lance", [ColumnOf([]), ColumnOf([])])
    for what in (LIST, Field(0, "c", "dict:string:int8:false"), Field(0, "c", "string")):
        assert len(read(container, what, [])) == 0


def test_the_number_of_rows_is_that_of_the_file_not_of_a_column(tmp_path: Path) -> None:
    items = ColumnOf([PageOf(5, no_nulls(flat(8)), [bytes(5)])])
    container = write_file(tmp_path / "t.lance", [items], rows=2)
    assert ArrayReader(container, {0: 0}).num_rows == 2


# --- outlines ---


def outline_asks(container: Container, what: Field) -> list[int]:
    """Read the outline of all 1000 rows, and return how many bytes were asked for at a time."""
    outline = outline_of(what)
    assert outline is not None
    return [end - start for start, end in bytes_asked(container, outline, [(0, 1000)])]


def test_an_outline_of_numbers_reads_which_are_null(tmp_path: Path) -> None:
    pages = [PageOf(1000, some_nulls(flat(1), flat(64, 1)), [bytes(125), bytes(8000)])]
    container = write_file(tmp_path / "t.lance", [ColumnOf(pages)])
    assert outline_asks(container, Field(0, "c", "int64")) == [125]


def test_an_outline_of_strings_reads_where_they_end(tmp_path: Path) -> None:
    ends = bytes_of(range(20, 20_020, 20))
    pages = [PageOf(1000, binary(1 << 40), [ends, bytes(20_000)])]
    container = write_file(tmp_path / "t.lance", [ColumnOf(pages)])
    assert outline_asks(container, Field(0, "c", "string")) == [8000]


def test_an_outline_of_lists_reads_where_they_end(tmp_path: Path) -> None:
    columns = [
        ColumnOf([PageOf(1000, lists(10_000), [bytes_of(range(10, 10_010, 10))])]),
        ColumnOf([PageOf(10_000, no_nulls(flat(64)), [bytes(80_000)])]),
    ]
    container = write_file(tmp_path / "t.lance", columns)
    what = Field(0, "c", "list", children=(Field(1, "item", "int64"),))
    assert outline_asks(container, what) == [8000]


@pytest.mark.parametrize(
    ("logical_type", "encoding", "message"),
    [
        ("string", binary(1 << 40), "32 bytes of values are expected, the buffer has 31"),
        (
            "binary",
            pb.ArrayEncoding(fixed_size_binary=pb.FixedSizeBinary(bytes=flat(8, 1), byte_width=8)),
            "32 bytes of values are expected, the buffer has 31",
        ),
        ("int32", flat(64, 2), "4 bytes of values are expected, the buffer has 3"),
        ("string", flat(64, 0), "values that are not byte strings"),
    ],
)
def test_an_outline_of_values_that_are_not_there_is_refused(
    tmp_path: Path, logical_type: str, encoding: pb.ArrayEncoding, message: str
) -> None:
    buffers = [bytes_of([8, 16, 24, 32]), bytes(31), bytes(3)]
    container = write_file(tmp_path / "t.lance", [ColumnOf([PageOf(4, encoding, buffers)])])
    outline = outline_of(Field(0, "c", logical_type))
    assert outline is not None
    with pytest.raises(CorruptFile, match=message):
        run([(container.file, ArrayReader(container, {0: 0}).read(outline, [(0, 4)]))])


# --- the corpus ---

KINDS = [
    "nested_mix",
    "nested_longlists",
    "pages_varied",
    "prims_nulls",
    "strs_dictlow",
    "enc_zstd",
]


def open_corpus(case: str) -> tuple[Container, tuple[Field, ...], dict[int, int]]:
    """Open the data file of a corpus table with one of them, as its own schema describes it."""
    data = Path(corpus_case(case).table()) / "data"
    container = open_container(next(data.glob("*.lance")))
    descriptor = container.descriptor()
    fields = fields_from_proto(descriptor.schema.fields)
    columns: dict[int, int] = {}

    def number(parts: Sequence[Field]) -> None:
        for part in parts:
            columns[part.id] = len(columns)
            number(() if part.is_packed else part.children)

    number(fields)
    return container, fields, columns


@needs_corpus
@pytest.mark.parametrize("kind", KINDS)
def test_rows_read_in_any_ranges_are_those_expected(kind: str) -> None:
    case = f"{kind}-f2.0-w14.0.2"
    container, fields, columns = open_corpus(case)
    expected = pa.ipc.open_file(corpus_case(case).directory / "expected" / "1.arrow").read_all()
    rows, chance = expected.num_rows, random.Random(kind)
    assert ArrayReader(container, columns).num_rows == rows
    for what in fields:
        # As text, in which a NaN equals itself.
        whole = [str(value) for value in expected[what.name].to_pylist()]
        cuts = sorted(chance.sample(range(rows + 1), 8))
        for ranges in ([(0, rows)], list(zip(cuts[::2], cuts[1::2], strict=True))):
            values = read(container, what, ranges, columns).to_pylist()
            wanted = [value for start, end in ranges for value in whole[start:end]]
            assert [str(value) for value in values] == wanted


@needs_corpus
@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_give_rows_or_a_lance_error(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    original, fields, columns = open_corpus(f"{chance.choice(KINDS)}-f2.0-w14.0.2")
    rows = ArrayReader(original, columns).num_rows
    data = bytearray(original.file.read_whole().tobytes())
    start, end = chance.choice([*original.footer.columns, (0, len(data))])
    for _ in range(chance.choice([1, 4])):
        data[chance.randrange(start, end)] = chance.choice([0, 1, 255, chance.randrange(256)])
    path = tmp_path / "t.lance"
    path.write_bytes(data[: chance.randrange(len(data))] if seed % 8 == 0 else data)
    try:
        container = open_container(path)
    except LanceError:
        return
    for what in fields:
        try:
            steps = ArrayReader(container, columns).read(what, [(0, rows // 2), (rows // 2, rows)])
            (array,) = run([(container.file, steps)])
        except LanceError:
            continue
        array.validate()
        assert len(array) == rows
