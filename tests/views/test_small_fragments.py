"""Views of many small fragments: read together, with the bytes that each gives alone."""

from __future__ import annotations

import io
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from leaks import forget_views

import lancefs
from lancefs.errors import CorruptFile
from lancefs.filesystem import LanceFileSystem
from lancefs.views.arrow.measures import Measures

PATH = "latest.arrow"
FRAGMENTS = 9


def some_rows(number: int) -> pa.Table:
    source = np.random.default_rng(number)
    rows = 150 + 40 * number
    numbers = source.integers(0, 1000, rows)
    missing = source.random(rows) < 0.15 * (number % 3)
    words = [f"wörd {one}" * int(one % 3) for one in numbers]
    return pa.table(
        {
            "number": pa.array(numbers),
            "share": pa.array(source.random(rows), mask=missing),
            "flag": pa.array(numbers % 2 == 0, mask=missing),
            "word": pa.array(words, mask=missing),
            "kind": pa.array([f"kind {one % 3}" for one in numbers]),
            "raw": pa.array([source.bytes(int(one % 4)) for one in numbers], pa.large_binary()),
            "list": pa.array([[int(one)] * int(one % 3) for one in numbers]),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    for number in range(FRAGMENTS):
        lance.write_dataset(some_rows(number), path, mode="append" if number else "create")
    return path


@pytest.fixture(params=["whole", "deleted"])
def changed(request: pytest.FixtureRequest, table: Path) -> Path:
    if request.param == "deleted":
        lance.dataset(table).delete("number % 7 = 3")
    return table


def test_the_view_has_the_rows_of_the_table(changed: Path) -> None:
    with LanceFileSystem(fo=str(changed)).open(PATH) as file:
        got = pa.ipc.open_file(file).read_all()
    assert_same_table(got, lancefs.open(changed).to_table())


def test_batches_are_read_in_any_order(changed: Path) -> None:
    expected = lancefs.open(changed).to_table().combine_chunks().to_batches()[0]
    with LanceFileSystem(fo=str(changed)).open(PATH) as file:
        reader = pa.ipc.open_file(file)
        order = [0, 5, 6, 2, 3, 4, 8, 7, 1]
        batches = {number: reader.get_batch(number) for number in order}
    got = pa.Table.from_batches([batches[number] for number in range(FRAGMENTS)])
    assert_same_table(got, pa.Table.from_batches([expected]))


def test_some_columns_are_read(changed: Path) -> None:
    names = ["word", "share"]
    with LanceFileSystem(fo=str(changed)).open(PATH) as file:
        got = pa.ipc.open_file(
            file, options=pa.ipc.IpcReadOptions(included_fields=[3, 1])
        ).read_all()
    assert_same_table(got.select(names), lancefs.open(changed).to_table(columns=names))


@pytest.mark.parametrize("size", [700, 20_000, 1 << 30])
def test_blocks_have_the_bytes_of_fragments_that_are_read_alone(
    changed: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied() -> bytes:
        forget_views()
        target = io.BytesIO()
        with LanceFileSystem(fo=str(changed), skip_instance_cache=True).open(PATH) as file:
            while block := file.read(size):
                target.write(block)
        return target.getvalue()

    together = copied()
    monkeypatch.setattr(Measures, "small_group", lambda _, batch: [batch])
    monkeypatch.setattr(Measures, "_are_small", lambda *_: False)
    assert copied() == together
    assert LanceFileSystem(fo=str(changed)).info(PATH)["size"] == len(together)


def test_a_damaged_file_is_named(table: Path) -> None:
    path = table / "data" / lance.dataset(table).get_fragments()[4].data_files()[0].path
    data = bytearray(path.read_bytes())
    data[:400] = b"\xff" * 400
    path.write_bytes(data)
    with (
        pytest.raises(CorruptFile, match=path.name),
        LanceFileSystem(fo=str(table)).open(PATH) as file,
    ):
        pa.ipc.open_file(file).read_all()
