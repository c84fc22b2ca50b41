"""Chunks that are decoded with those of other pages give the rows that they have alone.

First the pages of one column, then those of several.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.datafile.blocks import Array, Dictionary, FixedWidth, Mask, RowRange, VariableWidth
from lancefs.datafile.v2_1 import leaf_columns
from lancefs.datafile.v2_1.layouts.chunk_runs import ChunkRun, decode, request_whole
from lancefs.datafile.v2_1.layouts.miniblock_chunks import MiniBlock
from lancefs.datafile.v2_1.layouts.page_layouts import layout_of
from lancefs.datafile.v2_1.levels import DecodedPage, Unravelled
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import CorruptFile

ROWS = (1000, 997)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "t.lance"
    for number, rows in enumerate(ROWS):
        words = [f"word {number} {one % 3}" for one in range(rows)]
        lists = [list(range(one, one + one % 4)) for one in range(rows)]
        columns = {
            "number": pa.array([one if one % 5 else None for one in range(rows)]),
            "flag": pa.array([one % 3 == 0 for one in range(rows)]),
            "word": pa.array(words),
            "list": pa.array([None if one % 7 == 6 else items for one, items in enumerate(lists)]),
        }
        lance.write_dataset(pa.table(columns), path, mode="append" if number else "create")
    return path


def pages_of(path: Path, column: str) -> list[ChunkRun]:
    """Fetch the only page of a column of each fragment."""
    found = []
    dataset = lancefs.open(path)
    field = next(field for field in dataset.manifest.fields if field.name == column)
    while field.children:
        field = field.children[0]
    for reader in dataset.opened.readers:
        file, opened = reader.open_file(reader.fragment.files[0])
        assert isinstance(opened, StructuralReader)
        (page,) = opened.container.column(opened.columns[field.id]).pages
        layout = layout_of(page.encoding)
        assert isinstance(layout, MiniBlock)
        request = request_whole(page, layout, [(0, page.rows)])
        assert request is not None
        found.append(request.open(file.read(request.ranges)))
    return found


@pytest.mark.parametrize("column", ["number", "flag", "list"])
def test_rows_come_in_the_order_of_pages(table: Path, column: str) -> None:
    pages = pages_of(table, column)
    assert pages[0].is_followed_by(pages[1])
    (joined,) = decode([pages])
    assert joined.rows == sum(page.rows for page in pages)
    alone = [decode([[page]])[0] for page in pages]
    for part in ("rep", "definition"):
        levels = [getattr(leaf, part) for leaf in alone]
        if levels[0] is not None:
            assert np.array_equal(getattr(joined, part), np.concatenate(levels))
    values = np.concatenate([_numbers(leaf) for leaf in alone])
    assert np.array_equal(_numbers(joined), values)


@pytest.mark.parametrize("column", ["number", "flag", "list"])
@pytest.mark.parametrize(
    "wanted",
    [
        ([(0, 1)], [(996, 997)]),
        ([(1, 3), (500, 502)], [(0, 997)]),
        ([(999, 1000)], [(0, 2), (7, 9)]),  # a range across the pages
        ([(0, 1000)], [(3, 4)]),
        ([(0, 1000)], [(0, 997)]),
    ],
    ids=str,
)
def test_rows_that_are_wanted_of_several_pages_may_be_scattered(
    table: Path, column: str, wanted: tuple[list[RowRange], ...]
) -> None:
    pages = [
        page._replace(wanted=rows)
        for page, rows in zip(pages_of(table, column), wanted, strict=True)
    ]
    (joined,) = decode([pages])
    whole = [decode([[page]])[0] for page in pages_of(table, column)]
    alone = [leaf.select(rows) for leaf, rows in zip(whole, wanted, strict=True)]
    assert joined.rows == sum(leaf.rows for leaf in alone)
    assert np.array_equal(_numbers(joined), np.concatenate([_numbers(leaf) for leaf in alone]))
    apart = zip(*(leaf.unravel() for leaf in alone), strict=True)
    for ours, theirs in zip(joined.unravel(), apart, strict=True):
        assert ours.length == sum(layer.length for layer in theirs)
        valid = np.concatenate([_valid(layer) for layer in theirs])
        assert np.array_equal(_valid(ours), valid)


def _valid(layer: Unravelled) -> Mask:
    return np.ones(layer.length, np.bool_) if layer.validity is None else layer.validity


def _numbers(leaf: DecodedPage) -> Array:
    assert isinstance(leaf.values, FixedWidth)
    return leaf.values.values


def test_each_page_has_a_dictionary_of_its_own(table: Path) -> None:
    first, last = pages_of(table, "word")
    assert first.is_followed_by(last)
    joined = decode([[first, last]])[0].values
    assert isinstance(joined, Dictionary)
    texts = joined.items
    assert isinstance(texts, VariableWidth)
    words = [
        bytes(texts.data[texts.offsets[one] : texts.offsets[one + 1]]).decode()
        for one in joined.indices
    ]
    assert words == [f"word {page} {one % 3}" for page in (0, 1) for one in range(ROWS[page])]


@pytest.mark.parametrize("column", ["number", "flag", "word", "list"])
def test_rows_of_a_page_are_not_those_of_its_neighbour(table: Path, column: str) -> None:
    """Pages whose numbers of rows are wrong are refused also where their sum is right."""
    first, last = pages_of(table, column)
    moved = [first._replace(rows=first.rows + 1), last._replace(rows=last.rows - 1)]
    with pytest.raises(CorruptFile, match="rows"):
        decode([moved])


def test_indices_stay_within_the_dictionary_of_their_page(table: Path) -> None:
    first, last = pages_of(table, "word")
    layout = type(first.description.layout)()
    layout.CopyFrom(first.description.layout)
    layout.num_dictionary_items = 2
    damaged = first._replace(description=MiniBlock(layout))
    with pytest.raises(CorruptFile, match="index 2 into a dictionary of 2 items"):
        decode([[damaged, last]])


def test_large_pages_are_not_copied_together(table: Path) -> None:
    first, last = pages_of(table, "number")
    large = first._replace(chunks=np.zeros(1 << 20, np.uint8))
    assert first.is_followed_by(last)
    assert not large.is_followed_by(last)
    assert not last.is_followed_by(large)


KINDS = ("integer", "nullable", "real", "flag", "word", "text", "list", "member", "vector")
EACH = 3
WIDE_ROWS = 6000


def values_of(kind: str, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 1000 * seed + 7, WIDE_ROWS)
    missing = rng.random(WIDE_ROWS) < 0.2
    match kind:
        case "integer":
            return pa.array(numbers)
        case "nullable":
            return pa.array(numbers, mask=missing)
        case "real":
            return pa.array(rng.random(WIDE_ROWS))
        case "flag":
            return pa.array(numbers % 2 == 0, mask=missing)
        case "word":
            return pa.array([f"word {seed} {one % 11}" for one in numbers.tolist()], mask=missing)
        case "text":
            return pa.array([f"{one} " * (one % 5) for one in numbers.tolist()])
        case "list":
            sizes = np.where(missing, 0, numbers % 9)
            offsets = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32))
            items = pa.array(rng.integers(0, 99, int(sizes.sum())))
            return pa.ListArray.from_arrays(offsets, items, mask=pa.array(numbers % 10 == 9))
        case "member":
            return pa.StructArray.from_arrays([pa.array(numbers)], ["a"], mask=pa.array(missing))
    flat = pa.array(rng.random(3 * WIDE_ROWS).astype(np.float32))
    return pa.FixedSizeListArray.from_arrays(flat, 3)


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def wide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "t.lance"
    names = [(kind, number) for number in range(EACH) for kind in KINDS]
    columns = {f"{kind} {number}": values_of(kind, number) for kind, number in names}
    lance.write_dataset(pa.table(columns), path, data_storage_version=request.param)
    return path


@settings(max_examples=examples(40), deadline=None)
@given(
    start=st.integers(0, WIDE_ROWS - 1),
    length=st.integers(1, WIDE_ROWS),
    kinds=st.sets(st.sampled_from(KINDS), min_size=1),
)
def test_rows_of_many_columns_are_those_that_were_written(
    wide: Path, start: int, length: int, kinds: set[str]
) -> None:
    dataset = lancefs.open(wide)
    (reader,) = dataset.opened.readers
    fields = [one for one in dataset.manifest.fields if one.name.split()[0] in kinds]
    end = min(start + length, WIDE_ROWS)
    for array, field in zip(reader.read(fields, [(start, end)]), fields, strict=True):
        array.validate(full=True)
        kind, number = field.name.split()
        expected = values_of(kind, int(number)).slice(start, end - start)
        assert array.to_pylist() == expected.to_pylist(), field.name


def test_columns_that_are_alike_are_decoded_in_one_call(
    wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counted(pieces: Sequence[Sequence[ChunkRun]]) -> list[DecodedPage]:
        calls.append(len(pieces))
        return decode(pieces)

    monkeypatch.setattr(leaf_columns, "decode", counted)
    dataset = lancefs.open(wide)
    columns = [f"vector {number}" for number in range(EACH)]
    expected = dataset.to_table(columns=columns).slice(1000, 2000)
    calls.clear()
    found = dataset.scanner(columns=columns, offset=1000, limit=2000).to_table()
    assert found.equals(expected)
    assert calls == [EACH]


def test_an_array_keeps_no_bytes_of_the_columns_that_were_decoded_with_it(wide: Path) -> None:
    (reader,) = (dataset := lancefs.open(wide)).opened.readers
    fields = [one for one in dataset.manifest.fields if one.name.startswith("text")]
    for array in reader.read(fields, [(100, 4000)]):
        assert array.buffers()[2].size == sum(len(text) for text in array.to_pylist())


@pytest.mark.parametrize("damaged", range(EACH))
def test_the_column_that_is_damaged_is_named(wide: Path, tmp_path: Path, damaged: int) -> None:
    path = tmp_path / "t.lance"
    shutil.copytree(wide, path)
    dataset = lancefs.open(path)
    (reader,) = dataset.opened.readers
    fields = [one for one in dataset.manifest.fields if one.name.startswith("integer")]
    file, opened = reader.open_file(reader.fragment.files[0])
    assert isinstance(opened, StructuralReader)
    (page,) = opened.container.column(opened.columns[fields[damaged].id]).pages
    data = Path(file.url)
    content = bytearray(data.read_bytes())
    start = page.buffers[1][0]
    content[start + 2 : start + 4] = b"\xff\xff"  # the size of the first chunk's only buffer
    data.write_bytes(content)
    (reader,) = lancefs.open(path).opened.readers
    with pytest.raises(CorruptFile, match=rf"integer {damaged}, column .*page 0"):
        reader.read(fields, [(0, 100)])
