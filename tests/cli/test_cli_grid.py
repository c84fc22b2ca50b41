"""Grids on a terminal: what is cut, and what is left out, where they do not fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.cli.render.grid import Column, _widths
from lancefs.cli.render.text import count, jsonable, plural, share, size
from lancefs.showing import cell


def widths(texts: list[str], room: int) -> list[int]:
    columns = [Column("", str(position)) for position in range(len(texts))]
    return _widths(columns, [texts], room)


def test_long_texts_are_cut_before_numbers_are() -> None:
    assert widths(["12,345,678", "x" * 100, "7"], 60) == [10, 43, 1]
    assert widths(["ab", "x" * 30, "y" * 60], 80) == [2, 30, 42]
    assert widths(["ab", "cd"], 80) == [2, 2]


def test_columns_are_left_out_when_nothing_more_can_be_cut() -> None:
    assert widths(["x" * 40] * 5, 60) == [18, 18, 18]
    assert widths(["x" * 40], 5) == [16]


@given(st.lists(st.integers(1, 120), min_size=1, max_size=20), st.integers(20, 250))
def test_what_is_shown_fits(lengths: list[int], room: int) -> None:
    found = widths(["x" * length for length in lengths], room)
    assert 1 <= len(found) <= len(lengths)
    assert sum(found) + 3 * (len(found) - 1) <= room
    assert all(got <= length for got, length in zip(found, lengths, strict=False))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (1024**2 - 1, "1.0 MiB"),
        (None, "–"),
    ],
)
def test_sizes_have_a_unit_that_suits_them(value: int | None, text: str) -> None:
    assert size(value) == text


def test_words_and_numbers_agree() -> None:
    assert [plural(number, "row") for number in (0, 1, 1234)] == ["0 rows", "1 row", "1,234 rows"]
    assert plural(2, "index") == "2 indices"
    assert (share(0.0), share(1), share(0.123), share(None)) == ("0 %", "100 %", "12.3 %", "–")
    assert (count(None), count(1191)) == ("–", "1,191")


@given(st.text())
def test_a_cell_is_one_short_line_without_control_characters(text: str) -> None:
    shown = cell(text)
    assert shown.isprintable()
    assert len(shown) <= 200
    if text.isprintable() and len(text) <= 200:
        assert shown == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.binary() | st.dates() | st.decimals(),
        lambda below: st.lists(below) | st.dictionaries(st.text(), below),
        max_leaves=10,
    )
)
def test_every_value_becomes_valid_json(value: object) -> None:
    import json

    text = json.dumps(jsonable(value), allow_nan=False)
    json.loads(text)
