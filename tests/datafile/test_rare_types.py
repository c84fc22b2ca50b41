"""Types that few tables have, at the edges of what formats can store."""

from __future__ import annotations

import decimal
import struct
from dataclasses import replace
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from files_v2 import ColumnOf, PageOf, write_file

import lancefs
from lancefs.datafile.blocks import Constant
from lancefs.datafile.container import Page, PageEncoding
from lancefs.datafile.fields import Field
from lancefs.datafile.outlines import outline_of
from lancefs.datafile.row_ranges import rows_of
from lancefs.datafile.v2_1.layouts.fullzip_page import FullZipPage
from lancefs.datafile.v2_1.null_free_pages import known_without_nulls
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.datafile.validity import validity_of
from lancefs.errors import CorruptFile, UnsupportedFeature
from lancefs.proto.encodings_v2_1_pb2 import (
    REPDEF_ALL_VALID_ITEM,
    REPDEF_EMPTYABLE_LIST,
    REPDEF_NULLABLE_ITEM,
    REPDEF_NULLABLE_LIST,
    ConstantLayout,
    FullZipLayout,
    MiniBlockLayout,
    PageLayout,
    RepDefLayer,
)
from lancefs.storage import run

NEW = ("2.1", "2.2", "2.3")


def written(table: pa.Table, path: Path, version: str) -> lancefs.LanceDataset:
    lance.write_dataset(table, path, data_storage_version=version)
    return lancefs.open(path)


@pytest.mark.parametrize("values", [[b"", b"", b""], [b"", None, b""], [None, None, None]])
def test_binary_values_of_the_size_0_are_only_there_or_not(
    values: list[bytes | None], tmp_path: Path
) -> None:
    table = pa.table({"x": pa.array(values, pa.binary(0))})
    for version in ("2.0", *NEW):
        dataset = written(table, tmp_path / version, version)
        assert_same_table(dataset.to_table(), table)
        assert_same_table(dataset.take([2, 1]), table.take([2, 1]))


def test_structs_without_members_are_never_null(tmp_path: Path) -> None:
    """So does pylance read them, whatever was written."""
    table = pa.table({"x": pa.array([{}, None, {}], pa.struct([]))})
    dataset = written(table, tmp_path / "t", "2.3")
    assert dataset.to_table()["x"].to_pylist() == [{}, {}, {}]
    assert_same_table(dataset.to_table(), lance.dataset(tmp_path / "t").to_table())
    for version in NEW:
        table = pa.table({"x": pa.array([{}, {}, {}], pa.struct([]))})
        assert_same_table(written(table, tmp_path / version, version).take([1]), table.take([1]))


@pytest.mark.parametrize("version", NEW)
def test_booleans_that_packed_structs_lost_are_refused_by_name(
    version: str, tmp_path: Path
) -> None:
    members = [pa.array([True, False]), pa.array([1, 2])]
    rows = pa.StructArray.from_arrays(members, ["flag", "number"])
    field = pa.field("x", rows.type, metadata={"lance-encoding:packed": "true"})
    dataset = written(pa.table([rows], schema=pa.schema([field])), tmp_path / "t", version)
    with pytest.raises(UnsupportedFeature, match=r"column 0 \(x\).*booleans"):
        dataset.to_table()


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize("kinds", [1, 60])
def test_fixed_size_lists_that_repeat_keep_the_nulls_in_them(
    kinds: int, version: str, tmp_path: Path
) -> None:
    """In 2.3 they may be the values of a dictionary."""
    few = [[index, None, index * index] for index in range(kinds)]
    values = [None if row % 9 == 8 else few[row * row % kinds] for row in range(900)]
    table = pa.table({"x": pa.array(values, pa.list_(pa.int32(), 3))})
    dataset = written(table, tmp_path / "t", version)
    assert_same_table(dataset.to_table(), table)
    assert_same_table(dataset.take([899, 0, 17]), table.take([899, 0, 17]))


_ITEMS = [
    pa.int32(),
    pa.bool_(),
    pa.float64(),
    pa.string(),
    pa.large_binary(),
    pa.binary(5),
    pa.decimal128(9, 2),
    pa.list_(pa.int16(), 2),
    pa.list_(pa.string()),
    pa.struct({"a": pa.int32(), "b": pa.string()}),
    pa.dictionary(pa.int8(), pa.string()),
]
_STRUCTURES: list[dict[str, str]] = [
    {},
    {"lance-encoding:structural-encoding": "fullzip"},
    {"lance-encoding:compression": "zstd"},
    {"lance-encoding:compression": "lz4"},
]


@pytest.mark.parametrize("version", ["2.0", *NEW])
@pytest.mark.parametrize("item", _ITEMS, ids=str)
def test_rows_that_are_all_empty_or_null_lists_are_read_on_their_own(
    item: pa.DataType, version: str, tmp_path: Path
) -> None:
    """Of their page no value is needed."""
    one = _value(item)
    other = one if pa.types.is_struct(item) else None  # 2.0 knows no null structs
    values = [[], None, []] * 20 + [[one], [one, other], []] * 100 + [None, []] * 20
    column = pa.array(values, pa.list_(item))
    for number, structure in enumerate(_STRUCTURES if version in NEW else [{}]):
        field = pa.field("x", column.type, metadata=structure)
        table = pa.table([column], schema=pa.schema([field]))
        dataset = written(table, tmp_path / str(number), version)
        assert_same_table(dataset.head(5), table.slice(0, 5))
        assert_same_table(lancefs.open(dataset.uri).head(60), table.slice(0, 60))
        assert_same_table(dataset.take([1, 0, 399, 61, 3]), table.take([1, 0, 399, 61, 3]))
        assert_same_table(dataset.to_table(offset=365, limit=30), table.slice(365, 30))


def _value(item: pa.DataType) -> object:
    if pa.types.is_list(item) or pa.types.is_fixed_size_list(item):
        return [_value(item.value_type)] * getattr(item, "list_size", 1)
    if pa.types.is_struct(item):
        return {field.name: _value(field.type) for field in item}
    if pa.types.is_dictionary(item):
        return _value(item.value_type)
    if pa.types.is_boolean(item):
        return True
    if pa.types.is_string(item):
        return "text"
    if pa.types.is_binary(item) or pa.types.is_large_binary(item):
        return b"bytes"
    if pa.types.is_fixed_size_binary(item):
        return b"12345"
    return decimal.Decimal("1.25") if pa.types.is_decimal(item) else 1


def test_wide_values_that_are_all_null_have_no_bytes_in_the_pages_of_pylance_2() -> None:
    layout = FullZipLayout(bits_def=1, num_items=5, num_visible_items=5, bits_per_value=0)
    layout.value_compression.constant.SetInParent()
    layout.layers.append(REPDEF_NULLABLE_ITEM)
    steps = FullZipPage(Page(5, ((0, 5),), PageEncoding("", b"")), layout).read([(1, 4)])
    assert next(steps) == [(1, 4)]
    with pytest.raises(StopIteration) as stopped:
        steps.send([np.ones(3, np.uint8)])
    leaf = stopped.value.value
    assert leaf.definition.tolist() == [1, 1, 1]
    assert leaf.values == Constant(None, 3)


@pytest.mark.parametrize("holes", [[("k", 1), None], [("k", 1), (None, 2)]])
def test_maps_without_keys_are_corrupt(holes: list[tuple[str | None, int]], tmp_path: Path) -> None:
    """Arrow ends the process for them."""
    entry = pa.struct([("key", pa.string()), ("value", pa.int64())])
    rows = pa.array([holes, []], pa.list_(entry))
    dataset = written(pa.table({"x": rows}), tmp_path / "t", "2.2")
    (lists,) = dataset.manifest.fields
    (entries,) = lists.children
    members = replace(entries.children[0], nullable=False), entries.children[1]
    entries = replace(entries, nullable=False, children=members)
    maps = replace(lists, logical_type="map", children=(entries,))
    (reader,) = dataset.opened.readers
    for field in (maps, outline_of(maps)):
        assert field is not None
        with pytest.raises(CorruptFile, match="entries or keys that are null"):
            reader.read([field], [(0, 2)])


def test_fixed_size_lists_of_nulls_have_no_bytes_in_the_pages_of_pylance_2(tmp_path: Path) -> None:
    layout = FullZipLayout(bits_def=1, num_items=3, num_visible_items=3, bits_per_value=0)
    layout.value_compression.constant.SetInParent()
    layout.layers.append(REPDEF_NULLABLE_ITEM)
    page = PageOf(3, PageLayout(full_zip_layout=layout), [b"\0\1\0"])
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {0: 0})
    vectors = Field(0, "v", "fixed_size_list:float:2")
    (array,) = run([(reader.container.file, reader.read(vectors, [(0, 3)]))])
    assert array.to_pylist() == [[None, None], None, [None, None]]
    for reduced in (validity_of(vectors), outline_of(vectors)):
        assert reduced is not None
        (array,) = run([(reader.container.file, reader.read(reduced, [(0, 3)]))])
        assert array.is_valid().to_pylist() == [True, False, True]


def test_lists_of_nulls_are_not_taken_for_valid_throughout(tmp_path: Path) -> None:
    layout = FullZipLayout(num_items=2, num_visible_items=2, bits_per_value=0)
    layout.value_compression.constant.SetInParent()
    layout.layers.append(REPDEF_ALL_VALID_ITEM)
    page = PageOf(2, PageLayout(full_zip_layout=layout), [b""])
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {0: 0})
    vectors = Field(0, "v", "fixed_size_list:float:2", nullable=False)
    steps = [reader.read(vectors, [(0, 2)]), known_without_nulls(reader, vectors, [(0, 2)])]
    array, is_valid = run([(reader.container.file, step) for step in steps])
    assert array.to_pylist() == [[None, None], [None, None]]
    assert not is_valid


@pytest.mark.parametrize("ranges", [[(0, 4)], [(1, 2), (3, 4)]])
def test_valid_values_of_null_structs_are_valid_however_they_are_read(
    tmp_path: Path, ranges: list[tuple[int, int]]
) -> None:
    """Releases up to 0.38 wrote pages so; a view compares what it reads with the outline."""
    layout = MiniBlockLayout(num_buffers=1, num_items=4)
    layout.def_compression.flat.bits_per_value = 16
    layout.value_compression.flat.bits_per_value = 64
    layout.layers.extend([REPDEF_ALL_VALID_ITEM, REPDEF_NULLABLE_ITEM])
    levels, values = struct.pack("<4H", 0, 1, 0, 1), struct.pack("<4q", 7, 0, 9, 0)
    chunk = struct.pack("<4H", 4, len(levels), len(values), 0) + levels + values
    table = struct.pack("<H", (len(chunk) // 8 - 1) << 4)
    page = PageOf(4, PageLayout(mini_block_layout=layout), [table, chunk])
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {1: 0})
    field = Field(0, "s", "struct", children=(Field(1, "n", "int64"),))
    outline = outline_of(field)
    assert outline is not None
    steps = [reader.read(one, ranges) for one in (field, outline)]
    array, reduced = run([(reader.container.file, step) for step in steps])
    wanted = [[{"n": 7}, None, {"n": 9}, None][row] for row in rows_of(ranges).tolist()]
    assert array.to_pylist() == wanted
    assert array.field(0).null_count == reduced.field(0).null_count == 0


def silent(values: list[bytes], bits_per_offset: int = 0, word: bytes = b"\0") -> PageOf:
    """Make a full-zip page as pylance 4 did of valid rows of a batch that has nulls elsewhere."""
    rows = len(values)
    layout = FullZipLayout(num_items=rows, num_visible_items=rows)
    layout.layers.append(REPDEF_NULLABLE_ITEM)
    flat = layout.value_compression
    if not bits_per_offset:
        layout.bits_per_value = 8 * len(values[0])
        flat.flat.bits_per_value = 8 * len(values[0])
        data = b"".join(word + value for value in values)
        return PageOf(rows, PageLayout(full_zip_layout=layout), [data])
    layout.bits_per_offset = bits_per_offset
    flat.variable.offsets.flat.bits_per_value = bits_per_offset
    zipped = [word + len(v).to_bytes(bits_per_offset // 8, "little") + v for v in values]
    index = np.cumsum([0, *map(len, zipped)]).astype("<u4").tobytes()
    return PageOf(rows, PageLayout(full_zip_layout=layout), [b"".join(zipped), index])


@pytest.mark.parametrize("kind", ["fixed_size_binary:3", "binary", "large_binary"])
def test_silent_control_words_of_pylance_4_are_passed_over(kind: str, tmp_path: Path) -> None:
    values = [b"abc", b"\0\0\0", b"xyz"]
    if kind.endswith("binary"):
        values = [b"", b"\0" * 255, b"x" * 256]
    page = silent(values, {"binary": 32, "large_binary": 64}.get(kind, 0))
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {0: 0})
    field = Field(0, "b", kind)
    for ranges in ([(0, 3)], [(0, 1), (2, 3)], [(1, 3)]):
        (array,) = run([(reader.container.file, reader.read(field, ranges))])
        assert array.to_pylist() == [value for a, b in ranges for value in values[a:b]]
    outline = outline_of(field)
    assert outline is not None
    (array,) = run([(reader.container.file, reader.read(outline, [(0, 3)]))])
    lengths = [0] * 3 if ":" in kind else [len(value) for value in values]
    assert array.to_pylist() == lengths


@pytest.mark.parametrize("bits", [32, 64])
def test_lengths_are_not_taken_for_silent_control_words(bits: int, tmp_path: Path) -> None:
    """The low byte of a length of 256 is zero, too."""
    text = b"\1" + bytes(255)
    page = silent([text, text], bits, word=b"")
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {0: 0})
    field = Field(0, "b", "binary" if bits == 32 else "large_binary")
    (array,) = run([(reader.container.file, reader.read(field, [(0, 2)]))])
    assert array.to_pylist() == [text, text]


def test_vectors_behind_silent_control_words(tmp_path: Path) -> None:
    vectors = np.arange(12, dtype="<f4").reshape(3, 4)
    page = silent([vector.tobytes() for vector in vectors])
    layout = page.encoding.full_zip_layout
    layout.value_compression.fixed_size_list.items_per_value = 4
    layout.value_compression.fixed_size_list.values.flat.bits_per_value = 32
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {0: 0})
    field = Field(0, "v", "fixed_size_list:float:4")
    for ranges in ([(0, 3)], [(1, 2)]):
        (array,) = run([(reader.container.file, reader.read(field, ranges))])
        assert array.to_pylist() == [row for a, b in ranges for row in vectors[a:b].tolist()]


@pytest.mark.parametrize("has_validity", [True, False])
def test_lists_of_nulls_in_fixed_size_lists_have_no_bytes_in_the_pages_of_pylance_4(
    has_validity: bool, tmp_path: Path
) -> None:
    layout = FullZipLayout(num_items=2, num_visible_items=2, bits_per_value=8 * has_validity)
    lists = layout.value_compression.fixed_size_list
    lists.items_per_value, lists.has_validity = 2, has_validity
    lists.values.constant.SetInParent()
    layout.layers.append(REPDEF_ALL_VALID_ITEM)
    page = PageOf(2, PageLayout(full_zip_layout=layout), [b"\1\3" if has_validity else b""])
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {0: 0})
    pairs = Field(0, "v", "fixed_size_list:fixed_size_list:float:3:2")
    (array,) = run([(reader.container.file, reader.read(pairs, [(0, 2)]))])
    nulls = [None] * 3
    assert array.to_pylist() == [[nulls, None if has_validity else nulls], [nulls, nulls]]


@pytest.mark.parametrize(
    ("layer", "row"), [(REPDEF_EMPTYABLE_LIST, []), (REPDEF_NULLABLE_LIST, None)]
)
def test_lists_without_items_have_no_levels_in_the_pages_of_pylance_4(
    layer: RepDefLayer.ValueType, row: list[int] | None, tmp_path: Path
) -> None:
    layout = ConstantLayout(layers=[layer, REPDEF_NULLABLE_ITEM])
    page = PageOf(3, PageLayout(constant_layout=layout), [b"", b""])
    reader = StructuralReader(write_file(tmp_path / "t.lance", [ColumnOf([page])]), {1: 0})
    lists = Field(0, "l", "list", children=(Field(1, "item", "int32"),))
    (array,) = run([(reader.container.file, reader.read(lists, [(0, 2)]))])
    assert array.to_pylist() == [row, row]
