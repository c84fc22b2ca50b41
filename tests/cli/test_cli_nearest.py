"""`lancefs nearest`."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from running import Here, run

import lancefs

VECTORS = [[0.0, 0.0], [1.0, 0.0], [5.0, 5.0], None, [5.0, 6.0]]


@pytest.fixture
def table(tmp_path: Path) -> str:
    rows = pa.table({"id": range(5), "v": pa.array(VECTORS, pa.list_(pa.float32(), 2))})
    lance.write_dataset(rows, tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


def ids(text: str) -> list[int]:
    return [row["id"] for row in json.loads(text)]


def test_rows_like_a_row_are_shown(table: str, here: Here) -> None:
    done = here("nearest", table, "--column", "v", "--like", "2", "-f", "json", "-n", "3")
    assert ids(done.out) == [2, 4, 1]
    plain = here("nearest", table, "--column", "v", "--like", "0", "-c", "id", "-n", "2")
    lines = [line.split() for line in plain.out.splitlines()]
    assert lines == [["id", "_distance"], ["0", "0"], ["1", "1"]]


@pytest.mark.parametrize("text", ["[5, 5.5]", "5 5.5\n", "5, 5.5"])
def test_a_vector_comes_from_a_file_or_the_standard_input(
    table: str, tmp_path: Path, here: Here, text: str
) -> None:
    (tmp_path / "q").write_text(text)
    options = ("nearest", table, "--column", "v", "-f", "json", "--metric", "cosine", "-c", "id")
    found = here(*options, "--vector", str(tmp_path / "q"))
    expected = lancefs.open(table).nearest("v", [5, 5.5], 10, "cosine", columns=["id"])
    assert json.loads(found.out) == expected.to_pylist()
    assert run(*options, "--vector", "-", stdin=text).out == found.out


def test_an_array_of_numpy_may_hold_several_vectors(table: str, tmp_path: Path, here: Here) -> None:
    np.save(tmp_path / "q.npy", [[0, 0], [5, 5]])
    options = ("--vector", str(tmp_path / "q.npy"), "-n", "1", "-f", "csv", "-c", "id")
    done = here("nearest", table, "--column", "v", *options)
    assert done.out == '"query_index","id","_distance"\n0,0,0\n1,2,0\n'


def test_a_condition_comes_first(table: str, here: Here) -> None:
    options = ("--column", "v", "--like", "0", "-w", "id > 1", "-n", "1")
    assert ids(here("nearest", table, *options, "-f", "json").out) == [2]
    told = here("nearest", table, *options, "--explain")
    assert told.out == "exact search: 3 vectors compared by l2\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--column", "v"], "either --like ROWID or --vector FILE is expected"),
        (["--column", "v", "--like", "1", "--vector", "x"], "either --like ROWID or"),
        (["--column", "v", "--like", "77"], "no row with the row id 77"),
        (["--column", "v", "--like", "3"], "the row with the id 3 has no vector in 'v'"),
        (["--column", "w", "--like", "1"], "no column 'w'"),
        (["--column", "id", "--like", "1"], "column 'id' is int64; vectors are"),
        (["--column", "v", "--vector", "gone"], "--vector: gone: No such file"),
        (["--column", "v", "--like", "1", "-w", "id >"], "--where"),
        (["--column", "v", "--like", "1", "--metric", "l3"], "l3"),
        (["--column", "v", "--like", "1", "-n", "0"], "k is 0"),
    ],
)
def test_wrong_input_is_one_line(table: str, here: Here, options: list[str], text: str) -> None:
    done = here("nearest", table, *options)
    assert done.code == 2
    assert text in done.err
    assert not done.out


def test_a_file_without_a_vector_is_wrong_input(table: str, tmp_path: Path, here: Here) -> None:
    for data in (b"one two", b"[1, 2", b"\x93NUMPY", b"\xff\xfe", b"[1, 2, 3]"):
        (tmp_path / "q").write_bytes(data)
        done = here("nearest", table, "--column", "v", "--vector", str(tmp_path / "q"))
        assert done.code == 2, done.err
        assert len(done.err.splitlines()) == 1
