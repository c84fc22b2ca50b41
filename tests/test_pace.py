"""How long the morsels of a scan are where pages do not tell how long their rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import Tune

import lancefs
from lancefs.datafile.buffers import TooLarge, check_size, limited
from lancefs.datafile.kernels import lookup, take_strings
from lancefs.datafile.row_ranges import RowRange
from lancefs.errors import MissingFile
from lancefs.lance_dataset import LanceDataset
from lancefs.scan.morsels import Morsel
from lancefs.scan.pace import Pace
from lancefs.scan.settings import BATCH_ROWS, ScanSettings

pytestmark = pytest.mark.usefixtures("threaded")


def uneven(path: Path, long: int, ends: int) -> LanceDataset:
    """A table whose texts are in dictionaries: short ones, then long ones to the end."""
    texts = pa.array(["abc", "x" * long]).take(pa.array([0] * 60_000 + [1] * ends))
    lance.write_dataset(pa.table({"text": texts}), str(path), data_storage_version="2.1")
    dataset = lancefs.open(path)
    assert dataset.dictionary_columns == ["text"]
    return dataset


def test_a_rare_long_text_of_a_dictionary_does_not_make_all_morsels_short(tmp_path: Path) -> None:
    dataset = uneven(tmp_path / "t.lance", 2_000_000, 3)
    batches = list(dataset.to_batches())
    assert len(batches) < 40  # of a million bytes a row, as the dictionary says, 5,000
    assert pa.Table.from_batches(batches).equals(lance.dataset(dataset.uri).to_table())


def test_morsels_whose_texts_turn_out_to_be_long_are_cut(tmp_path: Path, tuned: Tune) -> None:
    budget = 200_000
    tuned(stream_bytes=budget)
    dataset = uneven(tmp_path / "t.lance", 5_000, 2_000)
    for keep in (None, pc.field("text") != "abc"):
        batches = list(dataset.to_batches(filter=keep))
        if keep is None:  # morsels of short texts have more rows than would fit of long ones
            assert max(batch.num_rows for batch in batches) > 1_000
        assert max(batch.nbytes for batch in batches) < 2.1 * budget
        expected = lance.dataset(dataset.uri).to_table(filter=keep)
        assert pa.Table.from_batches(batches).equals(expected)


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_morsels_with_long_texts_among_short_ones_are_cut(
    tmp_path: Path, version: str, tuned: Tune
) -> None:
    budget = 200_000
    tuned(stream_bytes=budget)
    letters = "abcdefghij" * 10_000
    ends = 1 + np.arange(40_000) % 7
    ends[20_000::500] = len(letters)
    table = pa.table({"text": [letters[:end] for end in ends.tolist()]})
    lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version=version)
    batches = list(lancefs.open(tmp_path / "t.lance").to_batches())
    assert pa.Table.from_batches(batches).equals(table)
    assert max(batch.nbytes for batch in batches) < 2.1 * budget


def test_values_are_measured_with_those_before_them() -> None:
    with limited(10):
        check_size(6)
        check_size(4)
        with pytest.raises(TooLarge, match="values of 1 bytes"):
            check_size(1)
    check_size(11)


@pytest.mark.parametrize("valid", [None, np.array([True, True, False])])
def test_strings_that_are_looked_up_are_measured_before(valid: np.ndarray | None) -> None:
    arguments = np.array([0, 2, 5], np.int32), np.frombuffer(b"abcde", np.uint8)
    indices = np.array([0, 1, 1], np.uint32)
    size = 8 if valid is None else 5
    for take in (take_strings, lookup.take_strings):
        with limited(size):
            assert len(take(*arguments, indices, valid)[1]) == size
        with pytest.raises(TooLarge, match=f"values of {size} bytes"), limited(size - 1):
            take(*arguments, indices, valid)
        assert len(take(*arguments, indices, valid)[1]) == size


def _morsel(end: int, candidates: list[RowRange] | None = None) -> Morsel:
    fragment: Any = None  # that nothing is asked of
    return Morsel(fragment, 0, end, candidates)


@pytest.mark.parametrize(
    ("candidates", "trimmed", "count"),
    [
        (None, (0, 100), 100),
        ([(0, 100)], (0, 100), 100),
        ([(7, 9), (20, 40)], (7, 40), 22),
        ([(90, 150)], (90, 100), 10),
        ([(100, 150)], (100, 100), 0),
        ([], (100, 100), 0),
    ],
)
def test_a_morsel_is_trimmed_to_its_candidates(
    candidates: list[RowRange] | None, trimmed: tuple[int, int], count: int
) -> None:
    morsel = _morsel(100, candidates)
    assert morsel.trim()[1:3] == trimmed
    assert morsel.count_candidates() == count


def test_threads_share_the_last_morsel_where_it_is_long() -> None:
    pace = Pace(BATCH_ROWS, 16 * 2**20, 2, ScanSettings())
    assert [part[1:3] for part in pace.share(_morsel(100_000), 2)] == [(0, 100_000)]
    assert [part[1:3] for part in pace.share(_morsel(400_000), 2)] == [
        (0, 4 * BATCH_ROWS),
        (4 * BATCH_ROWS, 400_000),
    ]
    few = [(0, 10), (200_000, 200_100), (399_000, 400_000)]
    assert [part[1:3] for part in pace.share(_morsel(400_000, few), 2)] == [(0, 400_000)]
    many = [(0, 260_000), (390_000, 400_000)]
    assert [part[1:3] for part in pace.share(_morsel(400_000, many), 2)] == [
        (0, 260_000),
        (390_000, 400_000),
    ]


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_compressed_texts_are_taken_to_be_longer_than_stored(
    tmp_path: Path, compression: str | None
) -> None:
    numbers = np.random.default_rng(3).integers(0, 10**6, 200_000)
    texts = pa.array([f"the request number {number} was answered" for number in numbers])
    metadata = {"lance-encoding:compression": compression} if compression else None
    table = pa.table([texts], pa.schema([pa.field("text", pa.string(), metadata=metadata)]))
    lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version="2.1")
    dataset = lancefs.open(tmp_path / "t.lance")
    (reader,) = dataset.opened.readers
    sizes = reader.row_sizes(dataset.opened.fields)
    assert sizes is not None
    assert 0.5 < sizes.bytes_of(0, len(texts)) / texts.nbytes < 2


def test_rows_before_a_broken_fragment_come_first(tmp_path: Path) -> None:
    rows = 200_000
    table = pa.table({"n": np.arange(3 * rows)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=rows)
    dataset = lancefs.open(tmp_path / "t.lance")
    names = [fragment.files[0].path for fragment in dataset.manifest.fragments]
    (tmp_path / "t.lance" / "data" / names[-1]).unlink()
    for filter in (None, pc.field("n") != 5):
        found: list[pa.RecordBatch] = []
        with pytest.raises(MissingFile, match=names[-1]):
            found.extend(dataset.to_batches(filter=filter))
        assert sum(batch.num_rows for batch in found) == 2 * rows - (filter is not None)


def test_parts_of_one_fragment_are_decoded_together(tmp_path: Path) -> None:
    numbers = np.arange(700_000)
    texts = pa.array([f"the request number {number} was answered" for number in numbers])
    table = pa.table({"n": numbers, "text": texts})
    lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version="2.1")
    dataset = lancefs.open(tmp_path / "t.lance")
    for filter in (
        pc.match_substring(pc.field("text"), "99"),
        pc.starts_with(pc.field("text"), "the request number 42"),
        (pc.field("n") >= 100_000) & (pc.field("n") < 500_000),
        (pc.field("n") < 1_000) | (pc.field("n") > 650_000),
    ):
        expected = table.filter(filter)
        for _ in range(2):  # then with the ranges of values that the first scan saw
            scanner = dataset.scanner(filter=filter)
            assert scanner.to_table() == expected
            assert pa.Table.from_batches(dataset.to_batches(filter=filter)) == expected
