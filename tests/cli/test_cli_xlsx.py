"""Workbooks of Excel: `export t.xlsx` and `--format xlsx`."""

from __future__ import annotations

import io
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import openpyxl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape
from running import Here, run_on_terminal, run_without
from support import ORDERS, examples

import lancefs
from lancefs.cli.exits import Failure
from lancefs.cli.render import xlsx


def rows_of(workbook: str | bytes) -> list[tuple[Any, ...]]:
    """Return the values of the first sheet of a workbook, a file or its bytes."""
    source = io.BytesIO(workbook) if isinstance(workbook, bytes) else workbook
    rows = openpyxl.load_workbook(source).active.values
    # Excel reads `_x001B_` as the character; openpyxl leaves that to its callers.
    return [tuple(unescape(one) if isinstance(one, str) else one for one in row) for row in rows]


def written(table: pa.Table) -> list[tuple[Any, ...]]:
    """Write a table as a workbook, and return the values of its rows."""
    sink = io.BytesIO()
    xlsx.write_xlsx(table.schema, table.to_batches(), sink)
    return rows_of(sink.getvalue())[1:]


def test_a_version_becomes_a_workbook(shop: Path, tmp_path: Path, here: Here) -> None:
    out = tmp_path / "teas.xlsx"
    done = here("export", f"{shop}/teas.lance@1", str(out), "-c", "price,id", "-w", "id < 40")
    assert done.code == 0, done.err
    header, *rows = rows_of(str(out))
    assert header == ("price", "id")
    table = lancefs.open(f"{shop}/teas.lance", version=1).to_table(["price", "id"], "id < 40")
    assert rows == list(zip(*table.to_pydict().values(), strict=True))
    assert [one.name for one in tmp_path.iterdir()] == [out.name]


def test_a_folder_gets_a_workbook_a_fragment(shop: Path, tmp_path: Path, here: Here) -> None:
    done = here("export", f"{shop}/teas.lance", str(tmp_path / "out"), "--format", "xlsx")
    assert done.code == 0, done.err
    parts = sorted((tmp_path / "out").glob("*.xlsx"))
    assert sum(len(rows_of(str(part))) - 1 for part in parts) == 90


def test_rows_are_printed_as_a_workbook(shop: Path, here: Here) -> None:
    done = here("head", f"{shop}/teas.lance", "-n", "2", "-c", "id", "--format", "xlsx")
    first, second = lancefs.open(f"{shop}/teas.lance").head(2)["id"].to_pylist()
    assert rows_of(done.raw) == [("id",), (first,), (second,)]
    log = here("log", f"{shop}/teas.lance", "-c", "version,rows", "--format", "xlsx")
    assert rows_of(log.raw)[0] == ("version", "rows")


def test_a_terminal_gets_no_workbook() -> None:
    done = run_on_terminal(["head", ORDERS, "--format", "xlsx"])
    assert done.code == 2
    assert "--format xlsx writes bytes: send it to a file" in done.out


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path) -> None:
    out = tmp_path / "t.xlsx"
    done = run_without("xlsxwriter", "export", ORDERS, str(out))
    assert done.code == 4
    assert "pip install 'lancefs[xlsx]'" in done.err
    assert not list(tmp_path.iterdir())


VALUES = {
    "numbers": ([1, -5, None], pa.int64(), [1, -5, None]),
    "long integers": (
        [10**15 - 1, 10**15, -(2**63)],
        pa.int64(),
        [10**15 - 1, str(10**15), str(-(2**63))],
    ),
    "floats": ([0.5, float("nan"), float("-inf")], pa.float64(), [0.5, "nan", "-inf"]),
    "half floats": ([0.5, None, 2.0], pa.float16(), [0.5, None, 2]),
    "booleans": ([True, False, None], pa.bool_(), [True, False, None]),
    "decimals": (
        [Decimal("1.50"), Decimal("12345678901234567.25"), None],
        pa.decimal128(20, 2),
        [1.5, "12345678901234567.25", None],
    ),
    "dates": (
        [date(2026, 1, 31), date(1900, 2, 28), date(1900, 3, 1)],
        pa.date32(),
        [datetime(2026, 1, 31), "1900-02-28", datetime(1900, 3, 1)],
    ),
    "moments": (
        [datetime(2026, 1, 31, 1, 2, 3, 4000), datetime(2026, 1, 31, 1, 2, 3, 4), None],
        pa.timestamp("us"),
        [datetime(2026, 1, 31, 1, 2, 3, 4000), "2026-01-31T01:02:03.000004", None],
    ),
    "moments with a zone": (
        [datetime(2026, 1, 31, 1), None, None],
        pa.timestamp("s", "UTC"),
        ["2026-01-31T01:00:00+00:00", None, None],
    ),
    "times of day": ([time(1, 2, 3), None, None], pa.time32("s"), ["01:02:03", None, None]),
    "durations": ([timedelta(minutes=2), None, None], pa.duration("s"), [120, None, None]),
    "durations in nanoseconds": ([1_500_000_000, None, 0], pa.duration("ns"), [1.5, None, 0]),
    "maps": (
        [[(1, "a")], [], [(1, "a"), (1, "b")]],
        pa.map_(pa.int8(), pa.string()),
        ['{"1": "a"}', "{}", '[[1, "a"], [1, "b"]]'],
    ),
    "bytes": ([b"\x00\xff", None, None], pa.binary(), ["AP8=", None, None]),
    "lists": ([[1, 2], [], None], pa.list_(pa.int8()), ["[1, 2]", "[]", None]),
    "formulas": (["=1+1", "+1", "http://x.y"], pa.string(), ["=1+1", "+1", "http://x.y"]),
    "texts": (
        ["two\nlines", "\x1b[31m", "_x001B_"],
        pa.string(),
        ["two\nlines", "\x1b[31m", "_x001B_"],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_the_table(name: str) -> None:
    values, data_type, expected = VALUES[name]
    if data_type == pa.float16():
        column = pa.array(values, pa.float32()).cast(pa.float16())
    else:
        column = pa.array(values, data_type)
    found = [row[0] for row in written(pa.table({"n": range(3), "x": column}).select(["x", "n"]))]
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert found == expected


def test_a_text_is_never_a_formula() -> None:
    sink = io.BytesIO()
    table = pa.table({"=a": ["=1+1", "{=1}"]})
    xlsx.write_xlsx(table.schema, table.to_batches(), sink)
    cells = [cell for (cell,) in openpyxl.load_workbook(io.BytesIO(sink.getvalue())).active]
    assert [cell.value for cell in cells] == ["=a", "=1+1", "{=1}"]
    assert b"<f>" not in sink.getvalue()


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=10))
def test_any_text_comes_back(texts: list[str]) -> None:
    assert [row[0] for row in written(pa.table({"text": texts}))] == texts


def test_what_a_sheet_cannot_hold_is_refused(
    tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xlsx, "_ROWS", 3)
    table = pa.table({"n": [1, 2, 3]})
    lance.write_dataset(table, tmp_path / "t.lance")
    done = here("export", str(tmp_path / "t.lance"), str(tmp_path / "t.xlsx"))
    assert done.code == 2
    assert "a sheet has 3 rows at most; leave rows out, or choose csv" in done.err
    assert [one.name for one in tmp_path.iterdir()] == ["t.lance"]
    assert written(table[:2]) == [(1,), (2,)]
    monkeypatch.setattr(xlsx, "_COLUMNS", 1)
    with pytest.raises(Failure, match="a sheet has 1 columns at most"):
        written(pa.table({"a": [1], "b": [2]}))


def test_a_text_that_is_too_long_is_named() -> None:
    assert written(pa.table({"text": ["a" * 32_767]})) == [("a" * 32_767,)]
    for text in ("a" * 32_768, "🫖" * 16_384):
        with pytest.raises(Failure, match="row 2 of column 'text' has a text of"):
            written(pa.table({"text": ["short", text]}))
