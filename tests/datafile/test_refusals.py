"""A kernel that refuses sound pages is reported, whichever way it reads them; damage is located."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, NoReturn

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.container import Container
from lancefs.datafile.v2_1 import (
    number_columns,
    point_reader,
    small_files,
    text_columns,
)
from lancefs.errors import CorruptFile, LanceError, MemoryLimitExceeded, UnsupportedFeature
from lancefs.table import fragment_readers

ROWS = 20_000
FEW = [3, 700, 5000]
REPORT = "joined decode refused what single decode accepts"


def table_of(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    vectors = pa.array(np.arange(rows * 64, dtype="f4"))
    return pa.table(
        {
            "number": numbers,
            "text": [f"text {number}" for number in range(rows)],
            "list": [[number] * (number % 3) for number in range(rows)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 64),
            # Of vectors with nulls, a few rows are not read by kernels.
            "gaps": pa.FixedSizeListArray.from_arrays(vectors, 64, mask=pa.array(numbers % 9 == 0)),
        }
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Return the table of a version, in so many fragments, which is written once."""
    folder = tmp_path_factory.mktemp("refusals")

    def write(version: str, fragments: int) -> Path:
        path = folder / f"{version}_{fragments}.lance"
        if not path.exists():
            rows = ROWS if fragments < 4 else 50 * fragments
            each = -(-rows // fragments)
            kinds = {"data_storage_version": version, "max_rows_per_file": each}
            lance.write_dataset(table_of(rows), path, **kinds)
        return path

    return write


class Way(NamedTuple):
    """A way in which kernels read rows.

    Attributes:
        module: Where the function is that reads.
        name: The function.
        version: A version of the format that is read in this way.
        fragments: Number of fragments of the table; many are small.
        columns: The columns that are read.
        rows: The rows that are read; None for all.
    """

    module: ModuleType
    name: str
    version: str
    fragments: int
    columns: list[str]
    rows: list[int] | None


NUMBERS, TEXTS = ["number", "text"], ["text"]
WAYS = {
    "a few rows": Way(point_reader, "read_leaves", "2.1", 1, NUMBERS, FEW),
    "a few rows of lists": Way(point_reader, "read_leaves", "2.2", 1, ["list"], FEW),
    "a few rows beside others": Way(point_reader, "read_leaves", "2.1", 1, ["text", "gaps"], FEW),
    "a few vectors": Way(point_reader, "read_leaves", "2.1", 1, ["vector"], FEW),
    "a few vectors beside others": Way(
        point_reader, "read_leaves", "2.2", 1, ["text", "vector"], FEW
    ),
    "a few rows of files": Way(point_reader, "read_leaves", "2.1", 2, NUMBERS, [3, ROWS - 1]),
    "numbers": Way(number_columns, "read_plain", "2.1", 1, ["number"], None),
    "numbers beside others": Way(number_columns, "read_plain", "2.1", 1, ["number", "gaps"], None),
    "texts": Way(text_columns, "read_texts", "2.1", 1, TEXTS, None),
    "small files": Way(small_files, "read_values", "2.1", 30, NUMBERS, None),
    "small files beside others": Way(small_files, "read_values", "2.1", 30, ["text", "list"], None),
    "rows of small files": Way(
        small_files, "read_values", "2.2", 30, NUMBERS, [*range(60, 1500, 9)]
    ),
    "a few rows, 2.0": Way(point_reader, "read_leaves", "2.0", 1, NUMBERS, FEW),
    "a few rows of files, 2.0": Way(point_reader, "read_leaves", "2.0", 2, NUMBERS, [3, ROWS - 1]),
    "small files, 2.0": Way(small_files, "read_values", "2.0", 30, NUMBERS, None),
    "small files beside others, 2.0": Way(
        small_files, "read_values", "2.0", 30, ["text", "list"], None
    ),
}


@pytest.mark.parametrize("kind", [CorruptFile, UnsupportedFeature])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_kernel_that_refuses_sound_pages_is_reported_and_not_called_again(
    way: Way,
    kind: type[LanceError],
    written: Callable[[str, int], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def refuse(*_: object) -> NoReturn:
        calls.append(1)
        raise kind("made up")

    monkeypatch.setattr(way.module, way.name, refuse)
    dataset = lancefs.open(written(way.version, way.fragments))
    rows = range(dataset.count_rows()) if way.rows is None else way.rows
    with pytest.raises(AssertionError, match=rf"{REPORT}.*made up"):
        dataset.take(rows, columns=way.columns)
    assert 0 < len(calls) <= len(way.columns)  # some kernels read column by column


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_rows_that_are_too_many_for_a_kernel_are_read_page_by_page(
    way: Way, written: Callable[[str, int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(way.version, way.fragments)
    count = lancefs.open(path).count_rows()
    rows = range(count) if way.rows is None else way.rows
    expected = lancefs.open(path).take(rows, columns=way.columns)

    def exceed(*_: object) -> NoReturn:
        raise MemoryLimitExceeded("made up")

    monkeypatch.setattr(way.module, way.name, exceed)
    assert lancefs.open(path).take(rows, columns=way.columns).equals(expected)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_damage_in_small_files_is_located_where_rows_of_it_are_wanted(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)  # read as those of long tables
    rows, each = 12_000, 6000  # of several chunks
    table = table_of(rows).select(["number", "text"])
    kinds = {"data_storage_version": version, "max_rows_per_file": each}
    lance.write_dataset(table, tmp_path / "t", **kinds)
    dataset = lancefs.open(tmp_path / "t")
    damaged = dataset.fragments[1].files[0]
    page = Container(dataset.opened.files.data_file(damaged)).column(1).pages[0]
    path = tmp_path / "t" / "data" / damaged.path
    content = bytearray(path.read_bytes())
    if version == "2.0":  # the end of a string
        start, _ = page.buffers[0]
        content[start + 8 * 20 : start + 8 * 21] = (1).to_bytes(8, "little")
    else:  # the offsets in the first chunk
        start, _ = page.buffers[1]
        content[start : start + 400] = bytes([255]) * 400
    path.write_bytes(content)
    for read in (lancefs.LanceDataset.to_table, lambda opened: opened.take([each + 5, each + 20])):
        with pytest.raises(CorruptFile, match=rf"{damaged.path}.*text, column 1 \(text\), page 0"):
            read(lancefs.open(tmp_path / "t"))
    again = lancefs.open(tmp_path / "t")
    assert again.to_table(offset=0, limit=each).equals(table.slice(0, each))
    assert again.to_table(offset=rows - 900, limit=900).equals(table.slice(rows - 900))
    assert again.to_table(columns=["number"]).equals(table.select(["number"]))
