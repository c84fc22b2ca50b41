"""Tables that pylance 14 writes, but cannot read, or not rightly: they read here as written.

`docs/format-support.md` lists them. Where a newer pylance reads one, it is time to take it off.
"""

from __future__ import annotations

import os

os.environ.setdefault("RUST_BACKTRACE", "0")  # pylance's panics print one each

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from lance.file import LanceFileWriter
from lance.fragment import DataFile

import lancefs

RNG = np.random.default_rng(5)
SEEDED = RNG.bit_generator.state
ROWS = 60
PAIR = pa.struct([("a", pa.int32()), ("b", pa.string())])
LISTS = pa.struct([("a", pa.int32()), ("items", pa.list_(pa.int16()))])
PACKED = {"lance-encoding:packed": "true"}


@pytest.fixture(autouse=True)
def _same_values() -> None:
    """A test draws the same values whatever ran before it."""
    RNG.bit_generator.state = SEEDED


def value(data_type: pa.DataType, nulls: float) -> Any:
    """Make up a value, null here and there at every depth."""
    if RNG.random() < nulls:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: value(field.type, nulls) for field in data_type}
    if pa.types.is_fixed_size_list(data_type):
        return [value(data_type.value_type, nulls) for _ in range(data_type.list_size)]
    if pa.types.is_list(data_type):
        return [value(data_type.value_type, nulls) for _ in range(RNG.integers(0, 4))]
    return "s" * RNG.integers(0, 9) if pa.types.is_string(data_type) else int(RNG.integers(0, 99))


def column(data_type: pa.DataType, nulls: float = 0.15) -> pa.Array:
    return pa.array([value(data_type, nulls) for _ in range(ROWS)], data_type)


def beside(data_type: pa.DataType) -> pa.Table:
    return pa.table({"x": column(data_type), "id": pa.array(range(ROWS))})


def below_null() -> pa.Table:
    """A dictionary column as pandas has it: the index of a missing value is −1."""
    indices = np.array([0, -1, 1, -1] * 10, np.int8)
    validity = pa.py_buffer(np.packbits(indices >= 0, bitorder="little"))
    array = pa.Array.from_buffers(pa.int8(), len(indices), [validity, pa.py_buffer(indices)])
    return pa.table({"x": pa.DictionaryArray.from_arrays(array, pa.array(["a", "b"]), safe=False)})


def bare() -> pa.Array:
    return pa.array([{}] * ROWS, pa.struct([]))


def among_members(names: list[str]) -> pa.Table:
    """A struct in which the member named `a` is a struct without members."""
    arrays = {"a": bare(), "b": pa.array(range(ROWS), pa.int32())}
    rows = pa.StructArray.from_arrays([arrays[name] for name in names], names)
    return pa.table({"x": pa.StructArray.from_arrays([rows], ["inner"])})


def packed_map() -> pa.Table:
    rows = pa.array([[(i, i)] * (i % 3) for i in range(ROWS)], pa.map_(pa.int32(), pa.int32()))
    return pa.table([rows], schema=pa.schema([pa.field("x", rows.type, metadata=PACKED)]))


def packed_structs() -> pa.Table:
    kind = pa.struct([pa.field(name, pa.int32(), False) for name in "abc"])
    rows = pa.array([{"a": i, "b": -i, "c": i * i} for i in range(ROWS)], kind)
    return pa.table([rows], schema=pa.schema([pa.field("x", kind, False, PACKED)]))


@dataclass(frozen=True)
class Win:
    """What reads here, and not there.

    Attributes:
        make: Makes the rows that are written.
        versions: Of the data files.
        dropped: A column that is dropped afterwards, or a part of one.
    """

    make: Callable[[], pa.Table]
    versions: tuple[str, ...]
    dropped: str | None = None

    def write(self, path: str, version: str) -> pa.Table:
        """Let pylance write the table, and return the rows that are in it then."""
        rows = self.make()
        dataset = lance.write_dataset(rows, path, data_storage_version=version)
        if self.dropped is None:
            return rows
        dataset.drop_columns([self.dropped])
        column, member = self.dropped.split(".")
        field = dataset.schema.field(column)
        kept = [{k: v for k, v in row.items() if k != member} for row in rows[column].to_pylist()]
        values = [
            pa.array(kept, field.type) if name == column else rows[name]
            for name in dataset.schema.names
        ]
        return pa.table(values, schema=dataset.schema)


NEW = ("2.2", "2.3")
WINS: dict[str, list[Win]] = {
    "dictionary columns with the index −1 below a null, as pandas makes them": [
        Win(below_null, ("legacy",))
    ],
    "a fixed-size list of structs beside another column": [
        Win(lambda: beside(pa.list_(PAIR, 2)), NEW),
        Win(lambda: beside(pa.list_(LISTS, 3)), NEW),
        Win(lambda: beside(pa.list_(pa.struct([("x", pa.list_(PAIR, 2))]), 3)), NEW),
    ],
    "a struct that holds a fixed-size list of structs": [
        Win(lambda: beside(pa.struct([("x", pa.list_(PAIR, 2)), ("y", pa.int32())])), NEW)
    ],
    "lists of fixed-size lists of structs, with nulls": [
        Win(lambda: beside(pa.list_(pa.list_(PAIR, 2))), ("2.3",)),
        Win(lambda: beside(pa.list_(pa.list_(pa.list_(LISTS, 2)))), ("2.3",)),
        Win(lambda: beside(pa.list_(pa.struct([("l", pa.list_(PAIR, 2))]), 2)), NEW),
    ],
    "lists of structs without members": [
        Win(lambda: pa.table({"x": column(pa.list_(pa.struct([])), 0)}), ("2.3",))
    ],
    "structs without members, before columns or members": [
        Win(lambda: pa.table({"x": bare(), "y": pa.array(range(ROWS))}), ("2.1", "2.2")),
        Win(lambda: among_members(["a", "b"]), ("2.1", *NEW)),
    ],
    "a map with the metadata of packed structs": [Win(packed_map, NEW)],
    "packed structs of which a member was dropped": [
        Win(packed_structs, ("2.0", "2.1", *NEW), "x.a"),
        Win(packed_structs, ("2.0", "2.1", *NEW), "x.b"),
    ],
    "`fixed_size_binary:0`": [
        Win(
            lambda: pa.table({"x": pa.array([b"", None, b""], pa.binary(0))}), ("2.0", "2.1", "2.3")
        )
    ],
}
CASES = [
    pytest.param(win, version, id=f"{what[:40]}-{number}-{version}")
    for what, wins in WINS.items()
    for number, win in enumerate(wins)
    for version in win.versions
]


@pytest.mark.parametrize(("win", "version"), CASES)
def test_what_lance_wrote_is_read(win: Win, version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    written = win.write(path, version)
    dataset = lancefs.open(path)
    table = dataset.to_table()
    table.validate(full=True)
    assert_same_table(table, written)
    some = [written.num_rows - 1, 0, written.num_rows // 2]
    assert_same_table(dataset.take(some), written.take(some))
    assert_same_table(dataset.to_table(offset=1, limit=2), written.slice(1, 2))


@pytest.mark.parametrize(("win", "version"), CASES)
def test_pylance_does_not_read_it(win: Win, version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    written = win.write(path, version)
    try:
        rows = lance.dataset(path).to_table()
    except Exception:
        return
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what Rust panics are, not an Exception
            raise
        return
    assert rows.to_pylist() != written.to_pylist(), "take it off docs/format-support.md"


def test_lists_of_fixed_size_lists_of_structs_read_without_nulls_too(tmp_path: Path) -> None:
    for number, data_type in enumerate(
        (pa.list_(pa.list_(PAIR, 2)), pa.map_(pa.int32(), pa.list_(LISTS, 3)))
    ):
        if pa.types.is_map(data_type):
            rows = [[(i, value(data_type.item_type, 0))] * (i % 3) for i in range(ROWS)]
            written = pa.table({"x": pa.array(rows, data_type)})
        else:
            written = pa.table({"x": column(data_type, 0)})
        path = str(tmp_path / f"{number}.lance")
        lance.write_dataset(written, path, data_storage_version="2.3")
        assert_same_table(lancefs.open(path).to_table(), written)
        assert_same_table(lancefs.open(path).take([7, 50]), written.take([7, 50]))


@pytest.mark.parametrize("version", ["2.0", "2.1", *NEW])
def test_structs_without_members_read_behind_other_members(version: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    written = among_members(["b", "a"])
    lance.write_dataset(written, path, data_storage_version=version)
    assert_same_table(lancefs.open(path).to_table(), written)
    assert_same_table(lancefs.open(path).take([7, 50]), written.take([7, 50]))


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_an_overlay_brings_structs_and_missing_ones(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page calls "overlays of structs, missing ones before or after".

    pylance 14 overlays the members, and leaves as it was whether there is a struct.
    """
    monkeypatch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
    path, name = str(tmp_path / "t.lance"), "overlay.lance"
    old, new = {"a": 1, "b": "old"}, {"a": 2, "b": "new"}
    before = pa.table({"id": [0, 1, 2], "s": pa.array([None, old, None], PAIR)})
    lance.write_dataset(before, path, data_storage_version=version)
    values = pa.table({"s": pa.array([new, None], PAIR)})
    with LanceFileWriter(f"{path}/data/{name}", values.schema, version=version) as writer:
        writer.write_batch(values)
    major, minor = map(int, version.split("."))
    file = DataFile(name, [2, 3], [0, 1], major, minor)  # the leaves, as data files name them
    overlay = lance.LanceOperation.DataOverlayFile(file, [0, 1])
    group = lance.LanceOperation.DataOverlayGroup(0, [overlay])
    lance.LanceDataset.commit(path, lance.LanceOperation.DataOverlay([group]), read_version=1)
    assert lancefs.open(path).to_table()["s"].to_pylist() == [new, None, None]
    theirs = lance.dataset(path).to_table()["s"].to_pylist()
    assert theirs == [None, {"a": None, "b": None}, None]


@pytest.mark.parametrize("version", ["2.0", "2.1", *NEW])
def test_structs_written_before_they_were_to_be_packed_are_read(
    version: str, tmp_path: Path
) -> None:
    """What the page calls "packed structs whose members have columns of their own".

    Releases up to 0.37 always wrote them so to data files 2.1.
    """
    path = str(tmp_path / "t.lance")
    packed = packed_structs()
    loose = packed.cast(pa.schema([packed.schema.field("x").remove_metadata()]))
    lance.write_dataset(loose, path, data_storage_version=version)
    lance.dataset(path).update_field_metadata({"x": dict(PACKED)})
    lance.write_dataset(packed, path, mode="append")
    written = pa.concat_tables([packed, packed])
    dataset = lancefs.open(path)
    assert_same_table(dataset.to_table(), written)
    some = [0, ROWS - 1, ROWS, 2 * ROWS - 1]
    assert_same_table(dataset.take(some), written.take(some))
    member = written["x"].combine_chunks().field("b")
    assert dataset.to_table(columns=["x.b"])["x.b"].to_pylist() == member.to_pylist()
    assert dataset.count_rows("x is null") == 0
    assert dataset.count_rows("x.a > 10") == 2 * (ROWS - 11)
    with pytest.raises(pa.ArrowInvalid, match=r"more fields|unmasked nulls"):
        lance.dataset(path).to_table()
