"""Rounds of requests of one look-up by an index in a remote table, with the rows that it finds.

The table has six fragments, and each index three segments. It is open, and nothing of it was read.
Most files of its indices are so small that one request gives all of them; for larger ones see
`test_index_remote.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from store_doubles import ChainFileSystem

import lancefs
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

SEGMENTS, FRAGMENT_ROWS = 3, 9_000
ROWS = 2 * SEGMENTS * FRAGMENT_ROWS
SCALAR = {
    "id": "BTREE",
    "a": "BITMAP",
    "b": "BITMAP",
    "tags": "LABEL_LIST",
    "code": "NGRAM",
    "text": "INVERTED",
    "x": "ZONEMAP",
}
QUERY = np.random.default_rng(0).normal(0, 3, 16).astype(np.float32)


def written_rows() -> pa.Table:
    rng = np.random.default_rng(0)
    ids = rng.permutation(ROWS)
    words = np.array([f"word{number}" for number in range(300)])
    picked = rng.zipf(1.3, (ROWS, 5)).clip(max=299)
    vectors = pa.array(rng.normal(0, 3, ROWS * 16).astype(np.float32))
    return pa.table(
        {
            "id": ids,
            "x": rng.random(ROWS),
            "name": [f"n{number:07d}" for number in ids.tolist()],
            "a": rng.integers(0, 20, ROWS),
            "b": [f"b{number}" for number in rng.integers(0, 15, ROWS).tolist()],
            "tags": pa.array(rng.integers(0, 300, (ROWS, 3)).tolist(), pa.list_(pa.int32())),
            "text": [" ".join(words[row]) for row in picked],
            "code": [f"{number * 7919:07x} {words[number % 300]}" for number in ids.tolist()],
            "v": pa.FixedSizeListArray.from_arrays(vectors, 16),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rounds") / "t.lance"
    rows, some = written_rows(), ROWS // SEGMENTS
    for start in range(0, ROWS, some):
        mode = "append" if start else "create"
        lance.write_dataset(
            rows.slice(start, some),
            str(path),
            mode=mode,
            max_rows_per_file=FRAGMENT_ROWS,
            data_storage_version="2.1",
        )
        if start:
            lance.dataset(str(path)).optimize.optimize_indices(num_indices_to_merge=0)
            continue
        for column, kind in SCALAR.items():
            more: dict[str, Any] = {"with_position": True} if kind == "INVERTED" else {}
            lance.dataset(str(path)).create_scalar_index(column, kind, **more)
        native = lance.dataset(str(path))
        native.create_index("v", "IVF_FLAT", num_partitions=8)
    return path


def opened(path: Path) -> tuple[ChainFileSystem, LanceDataset]:
    fs = ChainFileSystem()
    return fs, LanceDataset(OpenVersion(resolve(Store(fs, str(path)))))


def filtered(condition: str) -> Callable[[LanceDataset], pa.Table]:
    return lambda dataset: dataset.to_table(filter=condition)


HUNDRED = ", ".join(map(str, range(0, ROWS, ROWS // 100)))
LOOK_UPS: dict[str, tuple[int, Callable[[LanceDataset], pa.Table]]] = {
    "a number": (2, filtered("id = 1234")),
    "a hundred numbers": (3, filtered(f"id in ({HUNDRED})")),
    "two ranges": (3, filtered("id between 100 and 110 or id between 40000 and 40010")),
    "two columns": (2, filtered("id between 100 and 200 and a = 3")),
    "bitmaps": (2, filtered("a = 3 and b = 'b4'")),
    "items": (2, filtered("array_has(tags, 7) and array_has(tags, 9)")),
    "part of a string": (2, filtered("contains(code, '951c0e')")),
    "zones": (3, filtered("x < 0.0001")),
    "a word": (4, lambda dataset: dataset.search("word77")),
    "words": (4, lambda dataset: dataset.search("word77 word99")),
    "a phrase": (4, lambda dataset: dataset.search('"word1 word12"')),
    "vectors": (4, lambda dataset: dataset.nearest("v", QUERY, 5, nprobes=3)),
    "refined vectors": (
        4,
        lambda dataset: dataset.nearest("v", QUERY, 5, nprobes=3, refine_factor=5),
    ),
    "filtered vectors": (
        4,
        lambda dataset: dataset.nearest("v", QUERY, 5, nprobes=3, filter="name < 'n0027000'"),
    ),
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_look_up_takes_few_rounds_with_its_rows(table: Path, name: str) -> None:
    most, look_up = LOOK_UPS[name]
    fs, dataset = opened(table)
    with fs.counting() as counted:
        found = look_up(dataset)
    assert found.num_rows > 0
    assert_same_table(found, look_up(lancefs.open(str(table))))
    assert counted["rounds"] <= most


COUNTS = {"id = 1234": 2, "id between 100 and 30000": 2, "a = 3": 1, "a = 3 and b = 'b4'": 2}


@pytest.mark.parametrize("condition", COUNTS)
def test_a_count_by_an_index_reads_no_data_files(table: Path, condition: str) -> None:
    fs, dataset = opened(table)
    with fs.counting() as counted:
        found = dataset.count_rows(condition)
    assert found == lancefs.open(str(table)).count_rows(condition)
    assert counted["rounds"] <= COUNTS[condition]
    assert not any("/data/" in request for request in fs.requests)


def test_rows_of_an_index_are_read_at_once_in_a_stream_too(table: Path) -> None:
    """No batch goes out before all rows that the index names are tested."""
    fs, dataset = opened(table)
    with fs.counting() as counted:
        batches = list(dataset.to_batches(columns=["x"], filter="id in (1, 50000, 33333, 5)"))
    assert sum(len(batch) for batch in batches) == 4
    assert counted["rounds"] <= 3


READS: dict[str, tuple[int, Callable[[LanceDataset], object]]] = {
    "open": (2, lambda dataset: dataset.schema),
    "count": (2, lambda dataset: dataset.count_rows()),
    "look-up": (4, filtered("id = 1234")),
    "first rows": (4, lambda dataset: dataset.head(10)),
    "rows": (4, lambda dataset: dataset.take([5, 30_000, 50_000])),
    "columns": (4, lambda dataset: dataset.to_table(columns=["id", "x"])),
}


@pytest.mark.parametrize("name", READS)
def test_a_table_that_is_opened_takes_two_rounds_more(table: Path, name: str) -> None:
    """The listing of its versions, and the manifest."""
    most, read = READS[name]
    fs = ChainFileSystem()
    with fs.counting() as counted:
        read(lancefs.open(str(table), filesystem=fs))
    assert counted["rounds"] <= most
