"""How many bytes rows have, by what the pages of their columns tell."""

from __future__ import annotations

import pytest

from lancefs.datafile import row_sizes
from lancefs.datafile.row_sizes import (
    FieldSizes,
    PageSizes,
    RowSizes,
    estimate_row_sizes,
    lookup_bytes,
)


def test_bytes_of_a_page_are_spread_over_its_rows() -> None:
    sizes = estimate_row_sizes(
        [FieldSizes([PageSizes((0, 10, 30), (100, 1000))])], rows=30, most=10_000
    )
    assert sizes.rows_within(0, 50) == 5
    assert sizes.rows_within(5, 50 + 500) == 5 + 10
    assert sizes.rows_within(0, 1_000_000) == 30


def test_columns_add_up_whatever_their_pages_count() -> None:
    rows, items = PageSizes((0, 10, 30), (100, 1000)), PageSizes((0, 60), (3000,))
    parts = PageSizes((0, 30), (600,))
    sizes = estimate_row_sizes(
        [FieldSizes([rows, items]), FieldSizes([parts, rows])], rows=30, most=10_000
    )
    assert sizes.rows_within(0, 10 * (2 * 10 + 100 + 20)) == 10
    assert sizes.rows_within(10, 10 * (2 * 50 + 100 + 20)) == 10


def test_rows_have_as_many_bytes_as_their_types_take() -> None:
    pages = PageSizes((0, 10, 30), (0, 2000))
    sizes = estimate_row_sizes([FieldSizes([pages], least=8, varies=False)], rows=30, most=10_000)
    assert sizes.rows_within(0, 80) == 10
    assert sizes.rows_within(10, 500) == 5


def test_the_bytes_of_strings_come_on_top_of_their_offsets() -> None:
    texts = FieldSizes([PageSizes((0, 10), (200,))], least=4, varies=True)
    packed = FieldSizes([PageSizes((0, 10), (20,))], least=8, varies=False)
    assert estimate_row_sizes([texts, packed], rows=10, most=1000).rows_within(0, 3 * (24 + 8)) == 3


def test_damaged_pages_have_no_more_bytes_than_the_files() -> None:
    pages = [PageSizes((0, 10), (1 << 60,))] * 3
    assert estimate_row_sizes([FieldSizes(pages)], rows=10, most=100).rows_within(0, 50) == 5


def test_without_pages_rows_have_what_their_types_take() -> None:
    assert estimate_row_sizes([], rows=10, most=0).rows_within(4, 1) == 6
    empty = FieldSizes([PageSizes((0,), ())], least=1)
    assert estimate_row_sizes([empty], rows=10, most=0).rows_within(4, 2) == 2
    assert estimate_row_sizes([FieldSizes((), least=8)], rows=10, most=0).rows_within(4, 16) == 2
    assert estimate_row_sizes([], rows=0, most=0).rows_within(0, 1) == 0


def test_values_of_a_dictionary_count_as_often_as_they_occur() -> None:
    columns = [PageSizes((0, 10, 30), (10, 20), (5000.0, 0.0)), PageSizes((0, 10, 30), (10, 20))]
    sizes = estimate_row_sizes([FieldSizes(columns)], rows=30, most=60)
    assert sizes.rows_within(0, 502 * 4) == 4
    assert sizes.rows_within(10, 2 * 15) == 15


def test_bytes_of_rows_that_follow_each_other() -> None:
    first = estimate_row_sizes([FieldSizes([PageSizes((0, 10), (100,))])], rows=10, most=1000)
    nothing = estimate_row_sizes([], rows=5, most=0)
    last = estimate_row_sizes([FieldSizes([PageSizes((0, 20), (20,))])], rows=20, most=1000)
    sizes = RowSizes.joined([first, nothing, last])
    assert sizes.rows_within(0, 50) == 5
    assert sizes.rows_within(5, 50 + 7) == 5 + 5 + 7
    assert sizes.rows_within(12, 10) == 3 + 10
    assert sizes.rows_within(0, 1000) == 35


def test_a_sample_tells_of_more_rows() -> None:
    sizes = estimate_row_sizes(
        [FieldSizes([PageSizes((0, 10, 30), (100, 1000))])], rows=30, most=10_000
    )
    assert sizes.stretched(300).rows_within(0, 500) == 50
    assert sizes.stretched(300).rows_within(100, 11_000) == 200


def test_a_damaged_dictionary_does_not_make_rows_as_long_as_the_file() -> None:
    assert lookup_bytes(values=100, items=20, size=4000) == 100 * 200
    assert lookup_bytes(values=100, items=0, size=1 << 40) == 100 * 256 * 1024


def test_compressed_texts_of_a_dictionary_are_longer_than_they_are_stored() -> None:
    assert lookup_bytes(values=10, items=2, size=400, is_compressed=True) == 4 * 10 * 200
    assert lookup_bytes(values=10, items=2, size=40, is_compressed=True) == 10 * 20


@pytest.mark.parametrize("cells", [1, 50, 1 << 16])
def test_columns_that_are_spread_together_count_as_each_alone(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_sizes, "_CELLS", cells)
    pages = [(0, 100), (0, 30, 100), (0, 0, 60, 100, 100), (0, 200)]  # two of them are empty
    fields = [
        FieldSizes(
            [PageSizes(first, [10 * at + 5 for at in range(1, len(first))], overhead)],
            least=number,
            varies=number % 2 == 0,
        )
        for number, first in enumerate(pages * 5)
        for overhead in (None, [7.0] * (len(first) - 1))
    ]
    together = estimate_row_sizes(fields, 100, 1 << 30)
    alone = [estimate_row_sizes([field], 100, 1 << 30) for field in fields]
    for end in (0, 10, 30, 45, 60, 99, 100):
        expected = sum(one.bytes_of(0, end) for one in alone)
        assert together.bytes_of(0, end) == pytest.approx(expected)
