"""Pages that are decoded as one give the rows that they have alone, and no others."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.blocks import Array, Dictionary, FixedWidth, VariableWidth
from lancefs.datafile.layouts.chunks import MiniBlock
from lancefs.datafile.layouts.registry import layout_of
from lancefs.datafile.layouts.whole import WholePage, decode, fetch_whole
from lancefs.datafile.levels import Leaf
from lancefs.datafile.structural import StructuralReader
from lancefs.errors import CorruptFile
from lancefs.storage import run

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


def pages_of(path: Path, column: str) -> list[WholePage]:
    """Fetch the only page of a column of each fragment."""
    found = []
    dataset = lancefs.open(path)
    field = next(field for field in dataset.manifest.fields if field.name == column)
    while field.children:
        field = field.children[0]
    for reader in dataset._fragment_readers:
        file, opened = reader.open_file(reader.fragment.files[0])
        assert isinstance(opened, StructuralReader)
        (page,) = opened.container.column(opened.columns[field.id]).pages
        layout = layout_of(page.encoding)
        assert isinstance(layout, MiniBlock)
        found += run([(file, fetch_whole([(page, layout)]))])[0]
    return found


@pytest.mark.parametrize("column", ["number", "flag", "list"])
def test_rows_come_in_the_order_of_pages(table: Path, column: str) -> None:
    pages = pages_of(table, column)
    assert pages[0].fits(pages[1])
    joined = decode(pages)
    assert joined.rows == sum(page.rows for page in pages)
    alone = [decode([page]) for page in pages]
    for part in ("rep", "definition"):
        levels = [getattr(leaf, part) for leaf in alone]
        if levels[0] is not None:
            assert np.array_equal(getattr(joined, part), np.concatenate(levels))
    values = np.concatenate([_numbers(leaf) for leaf in alone])
    assert np.array_equal(_numbers(joined), values)


def _numbers(leaf: Leaf) -> Array:
    assert isinstance(leaf.values, FixedWidth)
    return leaf.values.values


def test_each_page_has_a_dictionary_of_its_own(table: Path) -> None:
    first, last = pages_of(table, "word")
    assert first.fits(last)
    joined = decode([first, last]).values
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
        decode(moved)


def test_indices_stay_within_the_dictionary_of_their_page(table: Path) -> None:
    first, last = pages_of(table, "word")
    layout = type(first.described.layout)()
    layout.CopyFrom(first.described.layout)
    layout.num_dictionary_items = 2
    damaged = first._replace(described=MiniBlock(layout))
    with pytest.raises(CorruptFile, match="index 2 into a dictionary of 2 items"):
        decode([damaged, last])


def test_large_pages_are_not_copied_together(table: Path) -> None:
    first, last = pages_of(table, "number")
    large = first._replace(chunks=np.zeros(1 << 20, np.uint8))
    assert first.fits(last)
    assert not large.fits(last)
    assert not last.fits(large)
