"""Filters with values and names that are easily taken for others: the rows that pass."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs

NAN = float("nan")


def _open(path: Path, **columns: object) -> lancefs.LanceDataset:
    lance.write_dataset(pa.table(columns), str(path / "t.lance"), data_storage_version="2.1")
    return lancefs.open(str(path / "t.lance"))


def _rows(dataset: lancefs.LanceDataset, filter: str | pc.Expression) -> list[int]:
    found: list[int] = dataset.to_table(["row"], filter=filter)["row"].to_pylist()
    return found


def test_nan_in_a_list_has_no_sign(tmp_path: Path) -> None:
    x = np.array([1, 2, np.copysign(NAN, -1), 3, NAN])
    dataset = _open(tmp_path, x=x, row=range(5))
    assert _rows(dataset, "x in (cast('nan' as double), 1)") == [0, 2, 4]
    assert _rows(dataset, "x not in (cast('nan' as double), 1)") == [1, 3]


def test_expressions_of_several_parts_keep_them_beside_half_floats(tmp_path: Path) -> None:
    halves = pa.array(np.arange(10, dtype=np.float16))
    dataset = _open(tmp_path, h=halves, n=range(10), row=range(10))
    h, n, one = pc.field("h"), pc.field("n"), pa.scalar(np.float16(1))
    two = pa.array(np.array([1, 2], np.float16))
    assert _rows(dataset, (h == one) & (n < 5)) == [1]
    assert _rows(dataset, ~(h == one) & (n < 3)) == [0, 2]
    assert _rows(dataset, ((n <= 3) & (n >= 2)) | h.isin(two)) == [1, 2, 3]


@pytest.mark.parametrize(
    "condition", ["s >= 'abc\0\0'", "starts_with(s, 'abc\0')", "s <= 'abc\0\0'"]
)
def test_texts_that_end_in_nul_are_found_again(tmp_path: Path, condition: str) -> None:
    dataset = _open(tmp_path, s=["abc\0\0", "xyz"], row=range(2))
    filter = f"s in ('abc\0\0') and {condition}"
    assert [_rows(dataset, filter) for _ in range(3)] == [[0]] * 3


@pytest.mark.parametrize("name", ["is_in", "match_like", "match_substring", "if_else", "invert"])
def test_columns_may_have_the_names_of_functions(tmp_path: Path, name: str) -> None:
    dataset = _open(tmp_path, **{name: [True, False, True]}, row=range(3))
    assert _rows(dataset, name) == [0, 2]
    assert _rows(dataset, f"{name} and row > 0") == [2]
    assert _rows(dataset, f"not {name}") == [1]


def test_a_column_of_strings_may_be_called_utf8_lower(tmp_path: Path) -> None:
    dataset = _open(tmp_path, utf8_lower=["ab", "b"], row=range(2))
    assert _rows(dataset, "utf8_lower like 'a%'") == [0]
    assert _rows(dataset, "starts_with(utf8_lower, 'b')") == [1]


def test_no_columns_have_as_many_rows(tmp_path: Path) -> None:
    dataset = _open(tmp_path, x=range(10))
    assert dataset.to_table(columns={}, filter="x < 5").num_rows == 5
    assert dataset.to_table(columns={}).num_rows == 10


def test_fewer_rows_than_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="num_rows is -5"):
        _open(tmp_path, x=range(10)).head(-5, filter="x < 5")


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_bytes_that_are_no_text_are_looked_for(tmp_path: Path, kind: str) -> None:
    values = [b"\xff", b"\xffa", b"a\xff", b"", None]
    lance.write_dataset(pa.table({"b": values, "id": range(5)}), tmp_path / "t.lance")
    dataset = lancefs.open(tmp_path / "t.lance")
    column = pc.field("b")
    for condition, expected in (
        (pc.starts_with(column, b"\xff"), [0, 1]),
        (pc.ends_with(column, b"\xff"), [0, 2]),
        (pc.match_substring(column, b"\xff"), [0, 1, 2]),
        (pc.match_like(column, b"\xff_"), [1]),
    ):
        assert dataset.to_table(["id"], filter=condition)["id"].to_pylist() == expected
    lance.dataset(tmp_path / "t.lance").create_scalar_index("b", kind)
    indexed = lancefs.open(tmp_path / "t.lance")
    found = indexed.to_table(["id"], filter=pc.starts_with(column, b"\xff") & (column > b""))
    assert found["id"].to_pylist() == [0, 1]


def test_an_escape_character_that_arrow_looks_for_is_found_with_an_index(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"s": ["abcde", "ab\\cde", None]}), tmp_path / "t.lance")
    lance.dataset(tmp_path / "t.lance").create_scalar_index("s", "NGRAM")
    dataset = lancefs.open(tmp_path / "t.lance")
    condition = pc.match_like(pc.field("s"), "%ab\\cde%")
    assert dataset.to_table(filter=condition) == dataset.to_table().filter(condition)


@pytest.mark.parametrize("column", [pa.array([b"b", b"\0"]), pa.array(["b", "a\0"])])
def test_a_zone_that_begins_with_a_value_that_ends_in_nul_is_found(
    tmp_path: Path, column: pa.Array
) -> None:
    lance.write_dataset(pa.table({"c": column}), tmp_path / "t.lance")
    lance.dataset(tmp_path / "t.lance").create_scalar_index("c", "ZONEMAP")
    dataset = lancefs.open(tmp_path / "t.lance")
    for condition in (pc.field("c") <= column[1], ~(pc.field("c") > column[1])):
        assert dataset.to_table(filter=condition)["c"].to_pylist() == [column[1].as_py()]
