"""Grids on a terminal: what is cut, and what is left out, where they do not fit."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancefs.cli.render import grid
from lancefs.cli.render.grid import GridColumn
from lancefs.cli.render.text import count, jsonable, plural, share, size
from lancefs.short_texts import cell


def lines_on_terminal(texts: list[str], width: int) -> list[str]:
    """The lines that a terminal shows of a grid with one row, the titles left out."""
    columns = [GridColumn(f"c{n}", f"c{n}") for n in range(len(texts))]
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(shown):
        patch.setenv("COLUMNS", str(width))
        patch.setattr(grid, "is_terminal", lambda: True)
        grid.print_grid(columns, [texts])
    titles, ruler, *rest = shown.getvalue().splitlines()
    assert len(titles) <= width
    assert set(ruler) == {"─"}
    return rest


def cells(texts: list[str], width: int) -> list[str]:
    return lines_on_terminal(texts, width)[0].split()


def test_a_grid_that_fits_is_shown_in_full() -> None:
    assert lines_on_terminal(["ab", "cd"], 80) == ["ab   cd"]
    assert lines_on_terminal(["a b", "x" * 74], 80) == [f"a b   {'x' * 74}"]


def test_long_texts_are_cut_before_numbers_are() -> None:
    assert cells(["12,345,678", "x" * 100, "7"], 60) == ["12,345,678", "x" * 41 + "…", "7"]
    assert cells(["ab", "x" * 30, "y" * 60], 80) == ["ab", "x" * 30, "y" * 41 + "…"]


def test_a_text_with_blanks_stays_in_one_line() -> None:
    (line,) = lines_on_terminal(["12", "one two three four five six seven"], 30)
    assert line == "12   one two three four five …"


def test_wide_characters_count_twice() -> None:
    (line,) = lines_on_terminal(["12", "茶" * 20], 31)
    assert line == f"12   {'茶' * 12} …"


def test_columns_are_left_out_when_nothing_more_can_be_cut() -> None:
    line, more = lines_on_terminal(["x" * 40] * 5, 60)
    assert [len(text) for text in line.split()] == [18, 17, 19]
    assert more == "2 more columns: c3, c4"
    (_, *more_lines) = lines_on_terminal(["x" * 40] * 14, 40)
    assert " ".join(more_lines) == "12 more columns: c2, c3, c4, c5, c6, c7, c8, c9, …"


@given(st.lists(st.integers(1, 120), min_size=1, max_size=20), st.integers(20, 250))
def test_what_is_shown_fits(lengths: list[int], width: int) -> None:
    texts = ["x" * length for length in lengths]
    line, *_ = lines_on_terminal(texts, width)
    assert len(line) <= width
    for shown, text in zip(line.split(), texts, strict=False):
        assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))
        assert len(shown) >= min(len(text), 14)


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
