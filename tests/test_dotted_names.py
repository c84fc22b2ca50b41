"""Members whose names have dots, beside structs in which a path of the same letters leads on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.errors import ColumnNotFound

PATH, DOTTED = ("a", "b", "c"), ("a", "b.c")


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Rows in which `c` in `b` is 100 more than `b.c` beside it."""
    rows = [{"b.c": i, "b": {"c": 100 + i}, "d.e": 200 + i} for i in range(5)]
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": pa.array(rows), "a b": range(5)}), path)
    return path


@pytest.mark.parametrize(
    ("name", "first"),
    [("a.b.c", 100), ("a.`b.c`", 0), ("`a`.b.`c`", 100), ("a.`d.e`", 200), ("`a b`", 0)],
)
def test_backticks_tell_a_dot_in_a_name_from_one_behind_it(
    name: str, first: int, table: str
) -> None:
    for dataset in (lancefs.open(table), lance.dataset(table)):
        assert dataset.to_table(columns=[name]).column(0).to_pylist() == list(
            range(first, first + 5)
        )
        assert dataset.to_table(columns={"x": name})["x"][0].as_py() == first
        assert dataset.count_rows(f"{name} = {first + 2}") == 1


def test_without_backticks_a_dot_may_be_part_of_a_name(table: str) -> None:
    dataset = lancefs.open(table)
    assert dataset.to_table(columns=["a.d.e"])["a.d.e"].to_pylist() == list(range(200, 205))
    assert dataset.count_rows("a.d.e >= 203") == 2
    with pytest.raises(ColumnNotFound, match=r"a\.`b'"):
        dataset.to_table(columns=["a.`b"])


def test_both_can_be_read_and_filtered_by_together(table: str) -> None:
    dataset = lancefs.open(table)
    names = ["a.b.c", "a.`b.c`"]
    read = dataset.to_table(columns=names, limit=2)
    assert read.to_pydict() == {"a.b.c": [100, 101], "a.`b.c`": [0, 1]}
    path, dotted = (pc.field(*names) for names in (PATH, DOTTED))
    both: list[Any] = [(path == 102) & (dotted == 2), "a.b.c = 102 and a['b.c'] = 2"]
    for condition in both:
        assert dataset.to_table(columns=["a b"], filter=condition)["a b"].to_pylist() == [2]
    computed = dataset.to_table(columns={"x": path - dotted})
    assert computed["x"].to_pylist() == [100] * 5


def test_an_index_of_one_is_not_looked_up_for_the_other(tmp_path: Path) -> None:
    rows = [{"b.c": i, "b": {"c": 10_000 + i}} for i in range(5000)]
    path = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": pa.array(rows)}), path)
    dataset.create_scalar_index("a.b.c", "BTREE")
    for names, start in ((PATH, 10_000), (DOTTED, 0)):
        found = pc.field(*names) == start + 7
        assert lancefs.open(path).to_table(filter=found)["a"].to_pylist() == rows[7:8]
        assert lancefs.open(path).count_rows(found) == 1
