"""The rows of a dataset in shards: each row once, the same in all processes, shuffled by a seed."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

import lancefs
from lancefs.errors import ColumnNotFound
from lancefs.scan.shards import Shard


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of 2,700 live rows in fragments of 1,000, of which every tenth is deleted."""
    path = str(tmp_path_factory.mktemp("shards") / "t.lance")
    rows = pa.table({"a": range(3000), "b": [str(i) for i in range(3000)]})
    lance.write_dataset(rows, path, max_rows_per_file=1000)
    lance.dataset(path).delete("a % 10 = 9")
    return path


def numbers(shards: Sequence[Shard]) -> list[list[int]]:
    """Read the column `a` of shards."""
    return [[a for batch in shard for a in batch["a"].to_pylist()] for shard in shards]


def test_shards_have_all_rows_once_in_equal_parts(path: str) -> None:
    dataset = lancefs.open(path)
    shards = dataset.shards(4, batch_size=100)
    assert [shard.num_rows for shard in shards] == [675] * 4
    assert shards[0].schema == dataset.schema
    batches = [batch for shard in shards for batch in shard]
    assert [batch.num_rows for batch in batches] == [*[100] * 6, 75] * 4
    assert [len(shard) for shard in shards] == [7] * 4
    assert pa.Table.from_batches(batches).equals(dataset.to_table().combine_chunks())


def test_shuffled_shards_have_all_rows_once_in_another_order(path: str) -> None:
    dataset = lancefs.open(path)
    every = dataset.to_table()["a"].to_pylist()
    shards = dataset.shards(3, ["a"], seed=7)
    found = numbers(shards)
    assert [len(one) for one in found] == [900] * 3
    assert sorted(chain(*found)) == every
    assert numbers(shards) == found, "each iteration reads the same rows"
    assert numbers(dataset.shards(3, ["a"], seed=7)) == found, "and so does each process"
    following = shards.shuffled(8)
    assert sorted(chain(*numbers(following))) == every
    assert set(numbers(following)[0]) != set(found[0])
    assert numbers(shards.shuffled(None)) == numbers(dataset.shards(3))


def test_shuffled_rows_come_from_all_over_the_table(path: str) -> None:
    (first, *_) = numbers(lancefs.open(path).shards(10, seed=1))
    # 270 of 2,700 rows: in ten parts of the table, about 27 each.
    assert np.bincount(np.array(first) // 300, minlength=10).min() > 5
    steps = np.abs(np.diff(first))
    assert np.median(steps) > 300, "rows that follow each other are far apart"


def test_a_small_buffer_shuffles_less_and_loses_nothing(path: str) -> None:
    dataset = lancefs.open(path)
    shards = dataset.shards(2, seed=3, batch_size=64, buffer_size=1)
    assert sorted(chain(*numbers(shards))) == dataset.to_table()["a"].to_pylist()
    assert max(batch.num_rows for shard in shards for batch in shard) == 64


@pytest.mark.parametrize("seed", [None, 5])
def test_shards_have_the_rows_that_filters_keep(path: str, seed: int | None) -> None:
    dataset = lancefs.open(path).filter("a >= 500")
    shards = dataset.shards(3, {"half": pc.field("a") / 2.0}, "a < 1500", seed=seed)
    found = sorted(half for shard in shards for batch in shard for half in batch[0].to_pylist())
    assert found == [a / 2 for a in range(500, 1500) if a % 10 != 9]
    assert [shard.num_rows for shard in shards] == [300] * 3
    nothing = dataset.shards(2, filter="a < 0", seed=seed)
    assert [list(shard) for shard in nothing] == [[], []]


def test_there_may_be_more_shards_than_rows(path: str) -> None:
    shards = lancefs.open(path).filter("a < 3").shards(5, seed=0)
    assert [shard.num_rows for shard in shards] == [0, 1, 0, 1, 1]
    assert sorted(chain(*numbers(shards))) == [0, 1, 2]


def test_shards_are_a_sequence(path: str) -> None:
    shards = lancefs.open(path).shards(5)
    assert len(shards) == 5
    assert numbers([shards[-1]]) == numbers(shards[4:])
    assert [shard.num_rows for shard in shards[1::2]] == [540, 540]
    assert repr(shards) == "<5 Shards of 2,700 rows>"
    assert repr(shards[0]) == "<Shard of 540 of 2,700 rows>"
    with pytest.raises(IndexError):
        shards[5]


def test_row_metadata_are_columns_of_shards(path: str) -> None:
    dataset = lancefs.open(path).with_row_metadata()
    (shard,) = dataset.shards(1)
    assert pa.Table.from_batches(shard).equals(dataset.to_table().combine_chunks())


def test_blobs_come_as_bytes_where_these_are_wanted(tmp_path: Path) -> None:
    blob = pa.field("x", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([[b"one", b"two", b"three"]], pa.schema([blob]))
    lance.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.1")
    shards = lancefs.open(tmp_path / "t.lance").shards(2, blobs="bytes", seed=1)
    found = chain(*(batch["x"].to_pylist() for shard in shards for batch in shard))
    assert sorted(found) == [b"one", b"three", b"two"]


@pytest.mark.parametrize(
    "arguments",
    [{"count": 0}, {"batch_size": 0}, {"buffer_size": 0}, {"seed": -1}],
    ids=lambda arguments: next(iter(arguments)),
)
def test_numbers_that_make_no_sense_are_refused(path: str, arguments: dict[str, int]) -> None:
    (name,) = arguments
    with pytest.raises(ValueError, match=f"{name} is {arguments[name]}; a (positive )?number"):
        lancefs.open(path).shards(**{"count": 2} | arguments)


def test_numbers_that_are_not_whole_are_refused(path: str) -> None:
    with pytest.raises(TypeError, match=r"count is 2\.5; a whole number"):
        lancefs.open(path).shards(2.5)  # type: ignore[arg-type]


def test_a_column_that_is_missing_is_named_at_once(path: str) -> None:
    with pytest.raises(ColumnNotFound, match="'c'"):
        lancefs.open(path).shards(2, ["c"])


def _sum(shard: Shard) -> int:
    return sum(pc.sum(batch["a"]).as_py() for batch in shard)


def test_shards_can_be_pickled(path: str) -> None:
    shards = lancefs.open(path).shards(2, ["a"], "a < 100", seed=2)
    copy = pickle.dumps(shards)
    assert len(copy) < 10_000
    assert numbers(pickle.loads(copy)) == numbers(shards)


@pytest.mark.slow
def test_processes_read_a_shard_each(path: str) -> None:
    shards = lancefs.open(path).shards(2, ["a"], "a < 100", seed=2)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        sums = list(pool.map(_sum, shards))
    assert sum(sums) == sum(a for a in range(100) if a % 10 != 9)


@settings(max_examples=examples(30))
@given(
    st.integers(0, 300),
    st.integers(1, 7),
    st.integers(1, 100),
    st.integers(20, 300),
    st.none() | st.integers(0, 9),
)
def test_all_rows_come_once(
    path: str, rows: int, count: int, batch_size: int, buffer_size: int, seed: int | None
) -> None:
    dataset = lancefs.open(path).filter(f"_rowoffset < {rows}")
    shards = dataset.shards(count, ["a"], seed=seed, batch_size=batch_size, buffer_size=buffer_size)
    assert sorted(chain(*numbers(shards))) == dataset.to_table()["a"].to_pylist()
    assert all(len(list(shard)) == len(shard) for shard in shards)
