"""`report`: what the page says, and how it looks in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from running import Here
from support import ORDERS


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table on which every finding is true."""
    path = str(tmp_path_factory.mktemp("report") / "worn <b>.lance")
    rows = pa.table({"id": range(2000), "x": np.random.default_rng(1).normal(size=2000)})
    lance.write_dataset(rows, path, max_rows_per_file=100)
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.dataset(path).tags.create("first", 1)
    lance.write_dataset(rows, path, mode="append", max_rows_per_file=1000)
    lance.dataset(path).delete("id < 60 or id > 1900")
    lance.dataset(path).add_columns({"double_x": "x * 2"})
    lance.dataset(path).alter_columns({"path": "double_x", "name": "twice"})
    lance.dataset(path).drop_columns(["x"])
    return path


@pytest.fixture
def page(worn: str, tmp_path: Path, here: Here) -> Path:
    path = tmp_path / "report.html"
    done = here("report", worn, "-o", str(path), "--describe")
    assert done.code == 0, done.err
    return path


def test_it_tells_of_versions_fragments_columns_and_indices(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "<h2>Versions</h2>" in text
    assert "version 5: add double_x: double" in text
    assert "version 6: rename double_x to twice" in text
    assert "version 7: drop x" in text
    assert "id_idx" in text
    assert "BTree" in text
    assert '<span class="tag">first</span>' in text
    assert re.search(r"<title>fragment 0: 40 rows, 60.0 % deleted", text)


def test_it_says_in_words_what_stands_out(page: Path) -> None:
    text = page.read_text("utf-8")
    for finding in (
        r"of the rows in data files are deleted",
        r"22 of 22 fragments are small",
        r"belong to columns that are gone",
        r"The index id_idx lacks 1,841 rows",
    ):
        assert re.search(finding, text), finding


def test_nothing_of_a_name_becomes_markup(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "worn <b>" not in text
    assert "worn &lt;b&gt;" in text


def test_it_needs_no_network(page: Path) -> None:
    text = page.read_text("utf-8")
    loads = re.findall(r'(?:src|href)="([^"#][^"]*)"', text)
    assert [url for url in loads if not url.startswith("data:")] == []
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_small_table_has_nothing_that_stands_out(here: Here) -> None:
    done = here("report", ORDERS, "-o", "-")
    assert done.code == 0
    assert "Nothing stands out." in done.out
    assert "add total: decimal:128:14:2" in done.out


def test_the_axis_of_one_version_has_one_number(tmp_path: Path, here: Here) -> None:
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), tmp_path / "t.lance")
    page = here("report", str(tmp_path / "t.lance"), "-o", "-").out
    wide = page[page.index('id="timeline-wide-') : page.index('class="chart narrow"')]
    axis = wide[wide.index("matplotlib.axis_1") : wide.index("matplotlib.axis_2")]
    assert re.findall(r"<text[^>]*>([^<]*)</text>", axis) == ["1", "version"]


def test_a_version_that_added_and_deleted_has_a_dot_of_its_own(tmp_path: Path, here: Here) -> None:
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(10), "b": range(10)}), path)
    lance.dataset(path).update({"b": "b + 1"}, where="a < 3")
    page = here("report", str(path), "-o", "-").out
    assert "version 2: 10 rows (+3 −3)" in page
    dot = page.partition("version 2: 10 rows (+3 −3)")[2].partition("<title>")[0]
    assert "var(--good)" in dot
    assert "var(--bad)" in dot
    assert "linear-gradient(90deg, var(--good) 50%, var(--bad) 50%)" in page


def test_it_says_how_many_columns_are_not_in_the_chart(tmp_path: Path, here: Here) -> None:
    rows = pa.table({f"c{i}": np.random.default_rng(i).random(100) for i in range(20)})
    lance.write_dataset(rows, tmp_path / "t.lance")
    page = here("report", str(tmp_path / "t.lance"), "-o", "-").out
    assert re.search(
        "The chart shows the 15 largest of 20 columns; the others take [0-9.]+ KiB", page
    )


def test_it_shows_what_values_are_like_where_that_is_asked_for(here: Here) -> None:
    assert "<h2>Values</h2>" not in here("report", ORDERS, "-o", "-").out
    page = here("report", ORDERS, "-o", "-", "--describe").out
    section = page[page.index("<h2>Values</h2>") :]
    assert "1,191 rows were read" in section
    assert "Utrecht <small>38.5 %</small>" in section
    assert re.search(r"75\.1 % <span class=.meter.>", section)
    assert len(re.findall(r'<svg class="bars"', section)) == 8
    assert re.search(r"<title>9\.9 to 10\.35: 14\.9 %</title>", section)
    drawn = here("report", ORDERS, "-o", "-", "--describe", "--sample", "100").out
    assert "100 rows of 1,191 were drawn at random" in drawn
    alone = here("report", ORDERS, "-o", "-", "--sample", "100")
    assert alone.code == 2
    assert "add --describe" in alone.err


def test_no_value_becomes_markup(tmp_path: Path, here: Here) -> None:
    rows = pa.table({"<i>": ["<script>alert(1)</script>"] * 3, "x": [1.0, 2.0, None]})
    lance.write_dataset(rows, tmp_path / "t.lance")
    page = here("report", str(tmp_path / "t.lance"), "-o", "-", "--describe").out
    assert "<script" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page


def test_an_empty_table_has_a_page(tmp_path: Path, here: Here) -> None:
    empty = pa.table({"a": pa.array([], pa.int32())})
    lance.write_dataset(empty, tmp_path / "t.lance")
    done = here("report", str(tmp_path / "t.lance"), "-o", "-", "--describe")
    assert done.code == 0, done.err
    assert "There are no data files" in done.out
    assert "0 rows were read" in done.out


def test_a_page_that_cannot_be_written_is_said(tmp_path: Path, here: Here) -> None:
    done = here("report", ORDERS, "-o", str(tmp_path / "none" / "r.html"))
    assert done.code == 2
    assert "No such file or directory" in done.err


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_it_is_usable_in_a_browser(browser: Any, page: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    shown, said, asked = context.new_page(), [], []
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(f"file://{page}")
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert shown.evaluate("document.documentElement.scrollWidth") == width
    assert shown.locator("#values svg:visible").count() == 2
    charts = shown.locator(".chart svg:visible")
    assert charts.count() == 3
    for number in range(3):
        box = charts.nth(number).bounding_box()
        assert 0.75 * min(width, 1100) < box["width"] <= width
        assert box["height"] > 100
    # Texts of charts are large enough to read, and differ from what is behind them.
    sizes = shown.evaluate(
        "[...document.querySelectorAll('svg text')].filter(t => t.getClientRects().length)"
        ".map(t => t.getBoundingClientRect().height)"
    )
    assert len(sizes) > 20
    assert min(sizes) > 7
    colours = [
        shown.evaluate(f"getComputedStyle({what}).{name}")
        for what, name in (
            ("document.body", "backgroundColor"),
            ("document.querySelector('svg text')", "fill"),
        )
    ]
    dark, text = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert (dark < 150 < text) if scheme == "dark" else (dark > 650 > text)
    shown.locator("summary").first.click()
    assert shown.locator("table:visible").count() >= 2
    context.close()
