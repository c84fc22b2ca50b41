"""A few rows of plain pages of format 2.0 are looked up, and are the rows of the table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.datafile.container import Container
from lancefs.datafile.v2_0 import reader
from lancefs.datafile.v2_1 import point_reader
from lancefs.errors import CorruptFile

RNG = np.random.default_rng(20)
ROWS = 3000
PLAIN = {
    "int",
    "byte",
    "flag",
    "double",
    "decimal",
    "date",
    "text",
    "raw",
    "compressed",
    "category",
    "struct",
}


def table_of(rows: int) -> pa.Table:
    """Columns of each kind, with and without nulls, and some that are not plain."""
    numbers = RNG.integers(-(2**62), 2**62, rows)
    texts = [f"text {k % 99999} {'é' * int(k % 3)}" if k % 7 else "" for k in numbers]
    found = {
        "int": pa.array(numbers),
        "byte": pa.array((numbers % 100).astype("i1")),
        "flag": pa.array(numbers % 3 == 0),
        "double": pa.array(RNG.normal(size=rows)),
        "decimal": pa.array([Decimal(int(k)) / 100 for k in numbers], pa.decimal128(38, 2)),
        "date": pa.array((numbers % 20000).astype("i4")).cast(pa.date32()),
        "text": pa.array(texts),
        "raw": pa.array([RNG.bytes(int(k % 20)) for k in numbers], pa.large_binary()),
        "compressed": pa.array([text * 9 for text in texts]),
        "category": pa.array(np.array(["alpha", "beta", ""])[numbers % 3]),
        "list": pa.array([[int(k)] * int(k % 3) for k in numbers]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(RNG.random(4 * rows)), 4),
        "struct": pa.array([{"a": int(k), "b": str(k)} for k in numbers]),
    }
    keep = pa.array(RNG.random(rows) < 0.8)
    for name in list(found)[:9]:
        found[f"{name}, nulls"] = pc.if_else(keep, found[name], pa.scalar(None, found[name].type))
    found["nothing"] = pa.nulls(rows, pa.int64())
    return pa.table(found)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """A table of two fragments, and its rows."""
    path, parts = tmp_path_factory.mktemp("plain") / "t", [table_of(ROWS), table_of(40)]
    for part in parts:
        lance.write_dataset(part, path, mode="append", data_storage_version="2.0")
    return path, pa.concat_tables(parts)


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_taken_rows_are_those_of_the_table(
    written: tuple[Path, pa.Table], data: st.DataObject
) -> None:
    path, whole = written
    borders = st.sampled_from([0, 7, 8, ROWS - 1, ROWS, ROWS + 39])
    rows = data.draw(st.lists(borders | st.integers(0, len(whole) - 1), min_size=1, max_size=30))
    found = lancefs.open(path).take(rows)
    found.validate(full=True)
    assert found.equals(whole.take(rows))
    assert found.equals(lance.dataset(path).take(rows))


def test_rows_are_the_same_that_the_general_way_reads(
    written: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = written
    selections: list[list[int]] = [[0], list(range(60)), list(range(0, len(whole), 13))]
    looked_up = [lancefs.open(path).take(rows) for rows in selections]
    head = lancefs.open(path).head(9)
    monkeypatch.setattr(reader, "MAX_ROWS", 0)
    general = lancefs.open(path)
    assert looked_up == [general.take(rows) for rows in selections]
    assert head == general.head(9) == whole.slice(0, 9)


def test_a_kernel_reads_few_rows_of_flat_values_and_strings(
    written: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = written
    calls, read_leaves = [], point_reader.read_leaves

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        return read_leaves(*arguments)

    monkeypatch.setattr(point_reader, "read_leaves", counting)
    dataset = lancefs.open(path)
    for name in whole.column_names:
        calls.clear()
        dataset.take([5], columns=[name])
        assert bool(calls) == (name.partition(",")[0] in PLAIN), name


def large_table(rows: int) -> pa.Table:
    """Columns of which a file of 20,000 rows is mapped, not read whole."""
    numbers = np.arange(rows) * 7919 % 100_003
    keep = pa.array(numbers % 5 > 0)
    texts = pa.array([f"text {number}" for number in numbers.tolist()])
    return pa.table(
        {
            "id": np.arange(rows),
            "number": pc.if_else(keep, pa.array(numbers), None),
            "text": pc.if_else(keep, texts, None),
            "kind": pa.array(np.array(["alpha", "beta", None], object)[numbers % 3]),
            "long": pa.array([f"{number} of {rows} rows " * 9 for number in numbers.tolist()]),
            "flag": pa.array(numbers % 2 > 0),
            "pair": pa.StructArray.from_arrays([pa.array(numbers), texts], ["a", "b"]),
            "items": pa.array([[number] * (number % 3) for number in numbers.tolist()]),
        }
    )


@pytest.mark.parametrize("versions", [["2.0"] * 3, ["2.0", "2.1", "2.0"]])
def test_rows_of_several_fragments_are_those_of_the_table(
    versions: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, path = large_table(60_000), tmp_path / "t"
    if len(set(versions)) > 1:  # in 2.1, the column of a field has another index behind nested ones
        whole = whole.drop_columns(["pair", "items"])
    for number, version in enumerate(versions):
        part = whole.slice(20_000 * number, 20_000)
        lance.write_dataset(part, path, mode="append", data_storage_version=version)
    lance.dataset(path).delete("id % 1000 = 5")
    whole = whole.take(np.flatnonzero(np.arange(60_000) % 1000 != 5))
    last = len(whole) - 1
    rows = [0, 4, 5, 19_979, 19_980, 30_000, 30_001, 30_002, last - 1, last]
    joint: list[int] = []
    read_leaves = point_reader.read_leaves

    def counting(plans: Any, *arguments: Any) -> Any:
        joint.append(len(plans))
        return read_leaves(plans, *arguments)

    monkeypatch.setattr(point_reader, "read_leaves", counting)
    dataset = lancefs.open(path)
    found = dataset.take(rows)
    found.validate(full=True)
    assert found.equals(whole.take(rows))
    assert [files for files in joint if files > 1] == [3]  # one call for the files
    for names in (["text"], ["flag", "number"], ["long", "kind"], whole.column_names[-2:]):
        assert dataset.take(rows[::3], columns=names).equals(whole.select(names).take(rows[::3]))
    kept = dataset.to_table(filter="id IN (7, 20007, 59999)")
    assert kept.equals(whole.filter(pc.is_in(whole["id"], pa.array([7, 20_007, 59_999]))))


def test_damage_in_one_of_several_fragments_is_located(tmp_path: Path) -> None:
    whole, path = large_table(60_000).select(["id", "text"]), tmp_path / "t"
    lance.write_dataset(whole, path, data_storage_version="2.0", max_rows_per_file=20_000)
    dataset = lancefs.open(path)
    damaged = dataset.fragments[1].files[0]
    start, _ = Container(dataset.opened.files.data_file(damaged)).column(1).pages[0].buffers[0]
    stored = path / "data" / damaged.path
    content = bytearray(stored.read_bytes())
    content[start + 8 * 20 : start + 8 * 21] = (1).to_bytes(8, "little")
    stored.write_bytes(content)
    dataset = lancefs.open(path)
    with pytest.raises(CorruptFile, match=rf"{damaged.path}.*text.*page 0.*do not ascend"):
        dataset.take([3, 20_020, 40_000])
    assert dataset.take([3, 20_021 + 5, 40_000]).equals(whole.take([3, 20_026, 40_000]))


@pytest.mark.parametrize("way", ["looked up", "general"])
def test_ends_of_strings_that_descend_are_refused_in_both_ways(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"id": np.arange(50), "text": [f"text {k}" for k in range(50)]})
    lance.write_dataset(table, tmp_path / "t", data_storage_version="2.0")
    dataset = lancefs.open(tmp_path / "t")
    file = dataset.opened.files.data_file(dataset.fragments[0].files[0])
    start, _ = Container(file).column(1).pages[0].buffers[0]
    (path,) = (tmp_path / "t" / "data").iterdir()
    content = bytearray(path.read_bytes())
    content[start + 8 * 20 : start + 8 * 21] = (1).to_bytes(8, "little")
    path.write_bytes(content)
    if way == "general":
        monkeypatch.setattr(reader, "MAX_ROWS", 0)
    with pytest.raises(CorruptFile, match=r"text, column 1 \(text\), page 0.*do not ascend"):
        lancefs.open(tmp_path / "t").take([3, 20])
    assert lancefs.open(tmp_path / "t").take([20], columns=["id"])["id"].to_pylist() == [20]
