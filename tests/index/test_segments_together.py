"""A remote table's index segments are asked together, not one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from store_doubles import SlowFileSystem

import lancefs
from lancefs import MatchQuery, PhraseQuery
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

ROWS = 300
SEGMENTS = 3
PATIENCE = 5.0  # seconds that a request waits for those of other segments
Ask = Callable[[LanceDataset], int]


class WaitingFileSystem(SlowFileSystem):
    """Answers requests for index files only once files of several segments are asked for."""

    def __init__(self, segments: int) -> None:
        super().__init__(0)
        self.segments = segments
        self.asked: set[str] = set()
        self.gave_up = False

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        if "_indices" in path:
            self.asked.add(str(Path(path).parent))
            waited = 0.0
            while len(self.asked) < self.segments and not self.gave_up:
                await asyncio.sleep(0.01)
                waited += 0.01
                self.gave_up = waited > PATIENCE
        return await super()._cat_file(path, start, end, **kwargs)


def rows(start: int) -> pa.Table:
    ids = np.arange(start, start + ROWS)
    vectors = np.random.default_rng(start).normal(size=(ROWS, 8)).astype(np.float32)
    return pa.table(
        {
            "id": ids,
            "kind": [f"k{number % 5}" for number in ids.tolist()],
            "text": [f"brown fox {number} or red fox" for number in ids.tolist()],
            "v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose indices have a segment for each of its fragments."""
    path = tmp_path_factory.mktemp("together") / "t.lance"
    lance.write_dataset(rows(0), path, data_storage_version="2.1")
    for column, kind in (("id", "BTREE"), ("kind", "BITMAP")):
        lance.dataset(path).create_scalar_index(column, kind)
    lance.dataset(path).create_scalar_index("text", "INVERTED", with_position=True)
    lance.dataset(path).create_index("v", "IVF_FLAT", num_partitions=2)
    for number in range(1, SEGMENTS):
        lance.write_dataset(rows(number * ROWS), path, mode="append")
        lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    return path


def found(filter: str) -> Ask:
    return lambda dataset: dataset.to_table(filter=filter).num_rows


def counted(filter: str) -> Ask:
    return lambda dataset: dataset.count_rows(filter=filter)


def searched(query: str | MatchQuery | PhraseQuery) -> Ask:
    return lambda dataset: dataset.search(query, k=None).num_rows


def nearest(dataset: LanceDataset) -> int:
    return dataset.nearest("v", np.zeros(8, np.float32), k=7).num_rows


@pytest.mark.parametrize(
    ("ask", "segments", "expected"),
    [
        pytest.param(found("id in (1, 400, 700)"), SEGMENTS, 3, id="values"),
        pytest.param(found("id < 610 and kind = 'k1'"), 2 * SEGMENTS, 122, id="and"),
        pytest.param(found("id < 10 or kind = 'k1'"), 2 * SEGMENTS, 188, id="or"),
        pytest.param(counted("id between 100 and 699"), SEGMENTS, 600, id="count"),
        pytest.param(searched("red"), SEGMENTS, 900, id="words"),
        pytest.param(searched(MatchQuery("brwn", fuzziness=1)), SEGMENTS, 900, id="fuzzy"),
        pytest.param(searched('"brown fox"'), SEGMENTS, 900, id="phrase"),
        pytest.param(nearest, SEGMENTS, 7, id="vectors"),
    ],
)
def test_segments_are_opened_together(table: Path, ask: Ask, segments: int, expected: int) -> None:
    fs = WaitingFileSystem(segments)
    dataset = LanceDataset(OpenVersion(resolve(Store(fs, str(table)))))
    assert ask(dataset) == expected
    assert not fs.gave_up


def test_tests_that_are_read_together_are_told_in_one_order(table: Path) -> None:
    filter = "kind = 'k2' and id < 610"
    for _ in range(5):
        dataset = LanceDataset(OpenVersion(resolve(Store(SlowFileSystem(0), str(table)))))
        told = dataset.scanner(filter=filter).explain()
        assert told == lancefs.open(table).scanner(filter=filter).explain()
