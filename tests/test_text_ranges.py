"""What scans have seen of texts lets the next ones pass over rows, never over wrong ones."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.scan import fragment_ranges, value_ranges
from lancefs.scan.stats import ScanStats

ROWS, ZONE = 1000, 16


@pytest.fixture(autouse=True)
def _small_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_ranges, "ZONE_ROWS", ZONE)


def write(path: Path | str, texts: pa.Array, **options: Any) -> str:
    rows = pa.table({"s": texts, "n": range(len(texts))})
    lance.write_dataset(rows, str(path), **options)
    return str(path)


def read(table: str, filter: Any) -> tuple[list[int], ScanStats]:
    scanner = lancefs.open(table).scanner(["n"], filter=filter)
    return scanner.to_table()["n"].to_pylist(), scanner.stats


def check(table: str, filter: Any, texts: list[str | None], passes: Callable[[str], bool]) -> int:
    """Read twice, and check the rows. Return how many of them the second read passed over."""
    expected = [row for row, text in enumerate(texts) if text is not None and passes(text)]
    fragment_ranges.forget()
    found, stats = read(table, filter)
    assert (found, stats.rows_skipped) == (expected, 0), filter
    found, stats = read(table, filter)
    assert found == expected, filter
    return stats.rows_skipped


def ordered(count: int = ROWS) -> list[str]:
    return [f"/var/log/app/2026-11-27/{i:05}" for i in range(count)]


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_a_second_read_passes_over_texts_that_the_first_one_ruled_out(
    tmp_path: Path, version: str
) -> None:
    texts = ordered()
    options = {"data_storage_version": version, "max_rows_per_file": 400}
    table = write(tmp_path / "t", pa.array(texts), **options)
    one, other = texts[500], texts[520]
    most = ROWS - 2 * ZONE
    assert check(table, f"s = '{one}'", texts, lambda s: s == one) >= most
    both = check(table, f"s between '{one}' and '{other}'", texts, lambda s: one <= s <= other)
    assert both >= most - ZONE
    assert check(table, f"s > '{one}' and s < '{other}'", texts, lambda s: one < s < other) >= 900
    assert check(table, f"s in ('{one}', '/', 'x')", texts, lambda s: s == one) >= most
    tens = f"s like '{one[:-1]}%'"
    assert check(table, tens, texts, lambda s: s.startswith(one[:-1])) >= most
    assert check(table, f"starts_with(s, '{one[:-2]}')", texts, lambda s: s[:-2] == one[:-2]) > 800
    assert check(table, "s = 'x'", texts, lambda s: False) == ROWS
    # Another filter on the column uses what was seen, and one with other conditions too.
    assert read(table, f"s <= '{texts[5]}'")[1].rows_decoded <= ZONE
    assert read(table, f"s >= '{texts[985]}' and n > 990 and s like '%9'")[0] == [999]


def test_filters_that_other_texts_may_pass_read_all_rows(tmp_path: Path) -> None:
    texts = ordered()
    table = write(tmp_path / "t", pa.array(texts))
    one = texts[500]
    for filter, passes in {
        f"s != '{one}'": lambda s: s != one,
        f"s = '{one}' or n >= 0": lambda s: True,
        f"not s like '{one}%'": lambda s: s != one,
        f"lower(s) = '{one}'": lambda s: s == one,
        "s like '%77'": lambda s: s.endswith("77"),
        f"s ilike '{one.upper()}%'": lambda s: s == one,
        "s is not null": lambda s: True,
    }.items():
        assert check(table, filter, texts, passes) == 0


def test_texts_that_differ_late_are_told_apart(tmp_path: Path) -> None:
    """Ranges are of the first bytes, which say nothing of what follows."""
    texts = ["x" * 31 + f"{i:04}" for i in range(200)]
    table = write(tmp_path / "t", pa.array(texts))
    for row in (0, 77, 199):
        text = texts[row]
        assert check(table, f"s = '{text}'", texts, lambda s, text=text: s == text) == 0
        assert check(table, f"s > '{text}'", texts, lambda s, text=text: s > text) == 0
        assert check(table, f"s in ('{text}')", texts, lambda s, text=text: s == text) == 0
    assert check(table, "s < 'x'", texts, lambda s: False) == 200


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_missing_and_empty_texts(tmp_path: Path, kind: pa.DataType) -> None:
    texts = [*[None] * 40, *[""] * 40, *["\0"] * 40, *["é"] * 40, None, "a", *["\U0010ffff"] * 40]
    table = write(tmp_path / "t", pa.array(texts, kind))
    for wanted in ("", "\0", "a", "é", "\U0010ffff"):
        literal = pa.scalar(wanted, kind)
        field = pc.field("s")
        assert check(table, field == literal, texts, lambda s, w=wanted: s == w) >= 100, wanted
        check(table, field > literal, texts, lambda s, w=wanted: s > w)
        check(table, field <= literal, texts, lambda s, w=wanted: s <= w)
    assert read(table, "s is null")[0] == [*range(40), 160]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_texts_with_a_dictionary_have_ranges(tmp_path: Path, version: str) -> None:
    days = [None if i % 97 == 5 else f"2026-11-{1 + i // 4000:02}" for i in range(80_000)]
    table = write(tmp_path / "t", pa.array(days), data_storage_version=version)
    skipped = check(table, "s = '2026-11-07'", days, lambda s: s == "2026-11-07")
    assert skipped >= 80_000 - 4000 - 2 * ZONE
    assert read(table, "s < '2026'")[1].rows_decoded == 0
    assert read(table, "s like '2026-11-2%'")[0] == [
        row for row, day in enumerate(days) if day is not None and day[:9] == "2026-11-2"
    ]


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_texts_that_no_dictionary_has_are_passed_over(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever they would come in the order of texts."""
    monkeypatch.setattr(value_ranges, "ZONE_ROWS", 4096)
    rows, rare = 350_000, 250_001
    hosts = [f"host-{i * 7 % 200:03}.example" for i in range(rows)]
    hosts[rare] = "host-007.local"
    options: dict[str, Any] = {"data_storage_version": version, "max_rows_per_file": 70_000}
    table = write(tmp_path / "t", pa.array(hosts), **options)
    assert check(table, "s = 'host-0777.example'", hosts, lambda s: False) == rows
    assert read(table, "s in ('a', 'host-0777.example', 'z') and n > 5")[1].rows_decoded == 0
    assert read(table, "s like 'host-0777%'")[1].rows_decoded == 0
    found, stats = read(table, "s = 'host-007.local'")
    assert (found, stats.fragments_skipped) == ([rare], 4)
    found, stats = read(table, "s = 'host-007.example' and n < 300")
    assert (found, stats.fragments_skipped) == ([1, 201], 0)
    assert read(table, "s != 'host-0777.example' and n < 3")[0] == [0, 1, 2]
    assert read(table, "s is null or s = 'host-0777.example'")[0] == []


def test_the_texts_of_parts_of_a_column_are_put_together(tmp_path: Path) -> None:
    """Each read has the dictionary of the rows that it reads."""
    table = write(tmp_path / "t", pa.array([f"{'ab'[i // 500]}{i % 9}" for i in range(ROWS)]))
    first = {"limit": 500, "dictionary_columns": ["s"]}
    assert lancefs.open(table).to_table(filter="s = 'a10'", **first).num_rows == 0
    for wanted in ("a4", "b4"):
        found = read(table, f"s = '{wanted}'")[0]
        assert found == [i for i in range(ROWS) if f"{'ab'[i // 500]}{i % 9}" == wanted]
    fragment_ranges.forget()


def test_many_texts_of_dictionaries_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_ranges, "ZONE_ROWS", 4096)
    monkeypatch.setattr(value_ranges, "_MAX_KEPT_ITEMS", 199)
    hosts = [f"host-{i % 200:03}" for i in range(70_000)]
    table = write(tmp_path / "t", pa.array(hosts))
    assert check(table, "s = 'host-0777'", hosts, lambda s: False) == 0


def test_an_arrow_dictionary_has_ranges(tmp_path: Path) -> None:
    days = [f"day {i // 100}" for i in range(ROWS)]
    table = write(tmp_path / "t", pa.array(days).dictionary_encode())
    assert check(table, "s = 'day 7'", days, lambda s: s == "day 7") >= 880


def test_small_fragments_are_passed_over(tmp_path: Path) -> None:
    texts = ordered(50)
    table = write(tmp_path / "t", pa.array(texts), max_rows_per_file=5)
    assert check(table, f"s = '{texts[27]}'", texts, lambda s: s == texts[27]) == 45
    _, stats = read(table, f"s like '{texts[27]}%'")
    assert (stats.fragments, stats.fragments_skipped) == (1, 9)


def test_texts_of_many_small_fragments_have_no_ranges(tmp_path: Path) -> None:
    texts = ordered(500)
    table = write(tmp_path / "t", pa.array(texts), max_rows_per_file=5)
    assert check(table, f"s = '{texts[77]}'", texts, lambda s: s == texts[77]) == 0
    both = f"s > '{texts[77]}' and n < 80"
    check(table, both, texts, lambda s: texts[77] < s < texts[80])


LETTERS = st.text(st.sampled_from("\0a~é\U0010ffff"), max_size=3)
TEXTS = LETTERS | LETTERS.map(lambda end: "é" * 15 + end)
COMPARED: dict[str, Callable[[Any, str], Any]] = {
    "=": lambda s, text: s == text,
    "<": lambda s, text: s < text,
    "<=": lambda s, text: s <= text,
    ">": lambda s, text: s > text,
    ">=": lambda s, text: s >= text,
}


def condition(operator: str, wanted: list[str]) -> tuple[Any, Callable[[str], bool]]:
    """Return a condition on texts as a filter, and as a function."""
    field, first = pc.field("s"), wanted[0]
    if operator == "in":
        return field.isin(wanted), lambda s: s in wanted
    if operator == "begins":
        return pc.starts_with(field, first), lambda s: s.startswith(first)
    compare = COMPARED[operator]
    return compare(field, first), lambda s: bool(compare(s, first))


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.none() | TEXTS, min_size=1, max_size=60),
    st.sampled_from([*COMPARED, "in", "begins"]),
    st.lists(TEXTS, min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from(["2.0", "2.1"]),
)
def test_any_texts_pass_filters_as_in_memory(
    texts: list[str | None], operator: str, wanted: list[str], is_sorted: bool, version: str
) -> None:
    if is_sorted:
        texts.sort(key=lambda text: (text is None, text or ""))
    filter, passes = condition(operator, wanted)
    with tempfile.TemporaryDirectory() as directory:
        column = pa.array(texts, pa.string())
        table = write(f"{directory}/t", column, data_storage_version=version)
        check(table, filter, texts, passes)
