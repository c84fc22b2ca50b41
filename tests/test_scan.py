"""How a scan goes about: how much it reads at a time, how far ahead, and in which batches."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from leaks import own_threads_since
from support import Tune

import lancefs
from lancefs.datafile.container import Container
from lancefs.datafile.v2_1.levels import LEVEL_BYTES
from lancefs.lance_dataset import LanceDataset
from lancefs.scan import morsel_reader
from lancefs.scan.decoded_columns import read_columns
from lancefs.scan.mapped_memory import MappedMemory
from lancefs.scan.morsel_reader import MorselReader
from lancefs.scan.morsels import DecodedMorsel, Morsel, decoded_bytes
from lancefs.scan.pace import Pace
from lancefs.scan.settings import BATCH_ROWS, ScanSettings
from lancefs.storage import Store
from lancefs.storage import file as storage
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, resolve
from lancefs.threads import THREADS

ROWS, BATCH = 20_000, 100
Ranges = Sequence[tuple[int, int]]

pytestmark = pytest.mark.usefixtures("threaded")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of two fragments, of which some rows are deleted."""
    where = str(tmp_path_factory.mktemp("tables") / "t.lance")
    table = pa.table({"id": np.arange(ROWS), "text": [f"row {i}" for i in range(ROWS)]})
    lance.write_dataset(table, where, max_rows_per_file=ROWS // 2)
    lance.dataset(where).delete("id % 7 = 3 or (id >= 1000 and id < 1250)")
    return where


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Ranges]:
    """The ranges of rows that fragments are asked for."""
    asked: list[Ranges] = []
    original = FragmentReader.read

    def read(self, fields, ranges, *blobs):  # type: ignore[no-untyped-def]
        asked.append(list(ranges))
        return original(self, fields, ranges, *blobs)

    monkeypatch.setattr(FragmentReader, "read", read)
    return asked


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Morsel, Morsel]]:
    """The morsels that were to be read, each with what was read of it."""
    found: list[tuple[Morsel, Morsel]] = []
    original = MorselReader.read

    def read(self: MorselReader, morsel: Morsel, pace: Pace) -> DecodedMorsel:
        result = original(self, morsel, pace)
        found.append((morsel, result.morsel))
        return result

    monkeypatch.setattr(MorselReader, "read", read)
    return found


def lengths(reads: list[Ranges]) -> list[int]:
    return [sum(end - start for start, end in ranges) for ranges in reads]


def test_the_first_batch_costs_no_more_than_itself(path: str, reads: list[Ranges]) -> None:
    batches = lancefs.open(path).to_batches(batch_size=BATCH)
    assert next(batches)["id"][0].as_py() == 0
    assert reads == [[(0, BATCH)]]


def test_rows_that_are_all_kept_are_not_cut_for_the_sake_of_the_first_ones(
    tmp_path: Path, planned: list[tuple[Morsel, Morsel]]
) -> None:
    table, path = pa.table({"id": np.arange(2 * BATCH_ROWS + 5)}), str(tmp_path / "t.lance")
    for _ in range(2):
        lance.write_dataset(table, path, mode="append")
    dataset = lancefs.open(path)
    assert dataset.to_table()["id"].to_pylist() == 2 * table["id"].to_pylist()
    assert dataset.count_rows(pc.field("id") > 5) == 2 * (len(table) - 6)
    assert [read.rows for _, read in planned] == 4 * [len(table)]
    assert next(dataset.to_batches()).num_rows == BATCH_ROWS
    assert planned[4][1].rows == BATCH_ROWS


def test_rows_are_read_for_a_filter_and_not_again_to_be_counted(
    path: str, reads: list[Ranges]
) -> None:
    dataset = lancefs.open(path)
    assert dataset.count_rows(pc.field("id") > 3) == dataset.count_rows() - 3
    assert sum(lengths(reads)) == ROWS


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_of_few_texts_that_pass_only_these_are_decoded(
    tmp_path: Path, reads: list[Ranges], version: str
) -> None:
    rows = 30_000
    texts = [f"text {i} of many letters " * (i % 9) for i in range(rows)]
    table = pa.table({"id": np.arange(rows), "text": texts})
    lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version=version)
    dataset = lancefs.open(tmp_path / "t.lance")
    found = dataset.to_table(filter="id % 10 = 7")
    assert found.equals(table.take(np.arange(7, rows, 10)))
    assert lengths(reads) == [rows, rows // 10]
    reads.clear()
    assert dataset.to_table(filter="id % 2 = 1").equals(table.take(np.arange(1, rows, 2)))
    assert lengths(reads) == [rows, rows]


def test_morsels_grow_while_batches_keep_their_size(path: str, reads: list[Ranges]) -> None:
    batches = list(lancefs.open(path).to_batches(batch_size=BATCH))
    assert len(reads) < len(batches) / 10
    assert max(batch.num_rows for batch in batches) <= BATCH


def test_threads_read_what_takes_long_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tuned: Tune
) -> None:
    table = pa.table({"id": np.arange(200_000)})
    lance.write_dataset(table, str(tmp_path / "t.lance"))
    original, readers = MorselReader.read, set[str]()

    def read(self: MorselReader, morsel: Morsel, pace: Pace) -> DecodedMorsel:
        readers.add(threading.current_thread().name)
        return original(self, morsel, pace)

    monkeypatch.setattr(MorselReader, "read", read)
    tuned(first_bytes=1)
    assert lancefs.open(tmp_path / "t.lance").to_table().equals(table)
    assert len(readers) > 1
    readers.clear()
    tuned(inline_seconds=3600, first_bytes=1)
    assert lancefs.open(tmp_path / "t.lance").to_table().equals(table)
    assert readers == {threading.current_thread().name}


def test_a_scan_that_is_left_stops_its_threads(tmp_path: Path, threaded: None) -> None:
    lance.write_dataset(pa.table({"id": np.arange(300_000)}), str(tmp_path / "t.lance"))
    before = threading.enumerate()
    batches = lancefs.open(tmp_path / "t.lance").to_batches()
    assert [next(batches).num_rows for _ in range(2)] == 2 * [BATCH_ROWS]
    started = own_threads_since(before)
    assert started
    batches.close()  # type: ignore[attr-defined]  # an iterator that is a generator
    assert not any(one.is_alive() for one in started)


def test_garbage_is_collected_without_waiting_for_the_threads_of_a_scan(
    tmp_path: Path, threaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be collected where a lock is held that the threads wait for."""
    table = pa.table({"id": np.arange(5 * BATCH_ROWS)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=BATCH_ROWS)
    original, found = MorselReader.read, list[bool]()
    is_reading, is_collected = threading.Event(), threading.Event()

    def read(self: MorselReader, morsel: Morsel, pace: Pace) -> DecodedMorsel:
        if morsel.fragment.fragment_ids[0] >= 2:
            is_reading.set()
            found.append(is_collected.wait(10))
        return original(self, morsel, pace)

    monkeypatch.setattr(MorselReader, "read", read)
    before = threading.enumerate()
    batches = lancefs.open(tmp_path / "t.lance").to_batches()
    assert [next(batches).num_rows for _ in range(2)] == 2 * [BATCH_ROWS]
    started = own_threads_since(before)
    assert is_reading.wait(10)
    garbage: list[object] = [batches]
    garbage.append(garbage)
    del garbage, batches
    gc.collect()
    is_collected.set()
    for one in started:
        one.join()
    assert all(found)


def test_batches_are_the_same_however_long_morsels_are(path: str, tuned: Tune) -> None:
    long = list(lancefs.open(path).to_batches(batch_size=BATCH))
    tuned(stream_bytes=BATCH * 40)  # a batch, with its deleted rows
    short = list(lancefs.open(path).to_batches(batch_size=BATCH))
    assert [batch.num_rows for batch in long] == [batch.num_rows for batch in short]
    assert pa.Table.from_batches(long).equals(pa.Table.from_batches(short))


def test_morsels_stay_within_the_budget(path: str, reads: list[Ranges], tuned: Tune) -> None:
    tuned(stream_bytes=50_000)
    assert sum(batch.num_rows for batch in lancefs.open(path).to_batches(batch_size=BATCH)) > 0
    row = 8 + 4 + len("row 19999")
    assert BATCH < max(lengths(reads)) <= 1.2 * 50_000 / row


def documents(path: Path, version: str) -> pa.Table:
    """A table of 40,000 rows, of which the second half has long texts."""
    texts = [f"row {i} " + "text " * (0 if i < 20_000 else 200 + i % 50) for i in range(40_000)]
    table = pa.table({"id": np.arange(40_000), "text": texts})
    lance.write_dataset(table, str(path), data_storage_version=version)
    return table


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("at_once", [0, 3600])
def test_few_rows_are_read_at_a_time_where_they_are_long(
    tmp_path: Path, reads: list[Ranges], version: str, at_once: int, tuned: Tune
) -> None:
    table = documents(tmp_path / "t.lance", version)
    budget = 500_000
    tuned(inline_seconds=at_once)
    tuned(stream_bytes=budget)
    batches = list(lancefs.open(tmp_path / "t.lance").to_batches())
    assert pa.Table.from_batches(batches).equals(table)
    encoded = sum(file.stat().st_size for file in (tmp_path / "t.lance" / "data").iterdir())
    expanded = max(table.nbytes / encoded, 1)  # as far as is known only once a morsel was read
    # A file 0.1 does not tell how long the rows are that come next.
    expanded *= 4 if version == "legacy" else 1
    assert max(batch.nbytes for batch in batches) <= 2 * expanded * budget
    assert max(lengths(reads)) < 20_000


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_few_rows_are_read_at_a_time_where_a_dictionary_holds_long_texts(
    tmp_path: Path, version: str, tuned: Tune
) -> None:
    path, budget = tmp_path / "t.lance", 500_000
    source = np.random.default_rng(1)
    texts = [source.integers(97, 123, 2000, np.uint8).tobytes().decode() for _ in range(10)]
    lists = [[texts[i % 10]] * (i % 3) for i in range(20_000)]
    table = pa.table({"text": [texts[i % 10] for i in range(20_000)], "list": lists})
    lance.write_dataset(table, str(path), data_storage_version=version)
    assert sum(file.stat().st_size for file in (path / "data").iterdir()) < table.nbytes / 50
    tuned(stream_bytes=budget)
    batches = list(lancefs.open(path).to_batches())
    assert pa.Table.from_batches(batches).equals(table)
    assert max(batch.nbytes for batch in batches) <= budget


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_what_a_filter_keeps_of_long_rows_is_read_few_at_a_time(
    tmp_path: Path, reads: list[Ranges], version: str, tuned: Tune
) -> None:
    table = documents(tmp_path / "t.lance", version)
    tuned(stream_bytes=500_000)
    dataset = lancefs.open(tmp_path / "t.lance")
    for keep in (pc.field("id") >= 100, pc.bit_wise_and(pc.field("id"), 3) == 1):
        batches = list(dataset.to_batches(filter=keep))
        assert pa.Table.from_batches(batches).equals(table.filter(keep))
        assert max(batch.nbytes for batch in batches) < 5_000_000 < table.nbytes / 4
    reads.clear()
    assert [batch.num_rows for batch in dataset.to_batches(filter=pc.field("id") == 39_000)] == [1]
    assert len(reads) <= 4  # the numbers are short, and so are the texts of one row


def test_columns_of_which_no_row_is_left_are_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents(tmp_path / "t.lance", "2.1")
    loaded: list[int] = []
    original = Container.load_columns

    def load_columns(self: Container, indices: Sequence[int]) -> None:
        loaded.extend(indices)
        original(self, indices)

    monkeypatch.setattr(Container, "load_columns", load_columns)
    dataset = lancefs.open(tmp_path / "t.lance")
    assert not list(dataset.to_batches(filter=pc.field("id") < 0))
    assert set(loaded) == {0}


def test_morsels_are_planned_as_long_as_they_can_be_read(
    tmp_path: Path, planned: list[tuple[Morsel, Morsel]], tuned: Tune
) -> None:
    documents(tmp_path / "t.lance", "2.1")
    tuned(stream_bytes=500_000)
    assert sum(len(batch) for batch in lancefs.open(tmp_path / "t.lance").to_batches()) == 40_000
    # What is left of a morsel is read when its turn comes, not beside others. Longer are those that
    # four threads have begun before long rows were met.
    cut = [read.end < morsel.end for morsel, read in planned if morsel.start >= 31_000]
    assert len(cut) > 30 > 10 * sum(cut)


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_what_is_tested_by_its_dictionary_counts_when_it_is_spelled_out(
    version: str, tmp_path: Path, planned: list[tuple[Morsel, Morsel]], tuned: Tune
) -> None:
    texts = pa.array([f"{number} " * 500 for number in range(20)])
    rows = 40_000
    table = pa.table({"text": texts.take(np.arange(rows) % 20), "id": np.arange(rows)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version=version)
    tuned(stream_bytes=2_000_000)
    dataset, budget = lancefs.open(tmp_path / "t.lance"), 2_000_000 // len(texts[0].as_py())
    few = list(dataset.to_batches(columns=["id"], filter=pc.field("text") == texts[3]))
    assert pa.Table.from_batches(few)["id"].to_pylist() == list(range(3, rows, 20))
    assert max(read.rows for _, read in planned) == rows  # of the texts, only indices are read
    planned.clear()
    most = list(dataset.to_batches(filter=pc.field("text") != texts[3]))
    assert pa.Table.from_batches(most).equals(table.filter(pc.field("text") != texts[3]))
    assert max(read.rows for _, read in planned) <= 2 * budget


def test_a_morsel_of_deleted_rows_is_tested_by_nothing(
    tmp_path: Path, planned: list[tuple[Morsel, Morsel]], tuned: Tune
) -> None:
    tuned(first_bytes=1)
    rows = 200_000
    names = pa.array(["a", "b", "c"]).take(np.arange(rows) % 3)
    table = pa.table({"name": names, "id": np.arange(rows)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), data_storage_version="2.1")
    lance.dataset(str(tmp_path / "t.lance")).delete(f"id < {BATCH_ROWS + 5}")
    found = lancefs.open(tmp_path / "t.lance").to_table(filter=pc.field("name") == "b")
    assert found["id"].to_pylist() == [i for i in range(BATCH_ROWS + 5, rows) if i % 3 == 1]
    assert planned[0][1].rows == BATCH_ROWS
    assert set(found["name"].to_pylist()) == {"b"}


def test_a_limit_on_long_rows_reads_no_more_than_it_must(
    tmp_path: Path, reads: list[Ranges], tuned: Tune
) -> None:
    table = documents(tmp_path / "t.lance", "2.1")
    tuned(stream_bytes=500_000)
    dataset = lancefs.open(tmp_path / "t.lance")
    keep = pc.field("id") >= 25_000
    found = dataset.to_table(filter=keep, limit=10)
    assert found.equals(table.slice(25_000, 10))
    batches = list(dataset.scanner(filter=keep, limit=30_000).to_batches())
    assert pa.Table.from_batches(batches).equals(table.slice(25_000))


def test_lists_count_with_the_levels_that_they_are_made_of() -> None:
    lists = pa.array([[1, 2, 3], [], None, [4]], pa.list_(pa.int8()))
    assert decoded_bytes({0: lists}) == lists.nbytes + 4 * LEVEL_BYTES
    parts = pa.StructArray.from_arrays([lists, lists], ["a", "b"])
    assert decoded_bytes({0: parts}) == parts.nbytes + 8 * LEVEL_BYTES
    entries = pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int8()))
    assert decoded_bytes({0: entries}) == entries.nbytes + 4 * LEVEL_BYTES  # a key and a value each
    nested = pa.array([[[1, 2], [3]], [[4]]], pa.list_(pa.list_(pa.int64())))
    assert decoded_bytes({0: nested, 1: lists}) == nested.nbytes + lists.nbytes + 8 * LEVEL_BYTES
    numbers = pa.array([1, 2])
    assert decoded_bytes({0: numbers}) == numbers.nbytes


@pytest.mark.parametrize(
    ("fitting", "chosen"), [(945, 1000), (940, 750), (490, 500), (160, 250), (150, 125), (80, 125)]
)
def test_morsels_are_whole_batches_or_half_of_one(fitting: int, chosen: int) -> None:
    pace, batch = Pace(250, 1000 * fitting, 1, ScanSettings()), pa.record_batch({"a": [0]})
    morsel = Morsel(None, 0, 1000)  # type: ignore[arg-type]  # nothing is read
    for _ in range(3):
        pace.learn(DecodedMorsel(morsel, batch, None, 1000 * 1000))
    assert pace.rows == chosen


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak")
@pytest.mark.parametrize(
    "kind", ["long", "uneven", "repeated", "real", "wide", "lists", "mixed", "deleted"]
)
def test_a_stream_takes_less_than_300_mb(tmp_path: Path, kind: str) -> None:
    source = np.random.default_rng(1)
    letters = source.integers(97, 123, 1 << 22, np.uint8).tobytes().decode()
    if kind == "long":
        starts = source.integers(0, len(letters) - 4000, 100_000)
        table = pa.table({"text": [letters[start : start + 4000] for start in starts]})
    elif kind == "uneven":
        ends = source.integers(0, 40, 1_000_000)
        ends[source.integers(0, len(ends), 80)] = len(letters)
        table = pa.table({"text": [letters[:end] for end in ends.tolist()]})
    elif kind == "repeated":
        texts = pa.array([letters[i * 5000 : (i + 1) * 5000] for i in range(20)])
        table = pa.table({"text": texts.take(pa.array(source.integers(0, 20, 70_000)))})
    elif kind == "real":
        table = pa.table({f"c{i}": source.random(250_000) for i in range(200)})
    elif kind == "wide":
        numbers = source.integers(0, 1 << 40, 800_000)
        table = pa.table({f"c{i}": np.roll(numbers, i) for i in range(50)})
    elif kind == "lists":
        items = pa.array(source.integers(-100, 100, 80_000_000, np.int8))
        ends = np.arange(0, len(items) + 1, 64, np.int32)
        table = pa.table({"a": pa.ListArray.from_arrays(ends, items)})
        table = pa.concat_tables([table] * 4)
    else:
        numbers = source.integers(0, 10**9, 120_000)
        missing = source.random(120_000) < 0.1
        parts = [pa.array(numbers, mask=missing), pa.array(numbers).cast(pa.string())]
        table = pa.table({f"c{i}": parts[i % 2] for i in range(300)})
    lance.write_dataset(table, str(tmp_path / "t.lance"))
    if kind == "deleted":
        lance.dataset(str(tmp_path / "t.lance")).delete("c0 % 10 = 3")
    peak = peak_of(tmp_path / "t.lance", "dataset.to_batches()", table.num_rows * 9 // 10)
    assert peak < 300e6 < table.nbytes


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak")
@pytest.mark.parametrize(
    ("batches", "rows"),
    [
        ("dataset.to_batches()", 4_000_000),
        ("dataset.to_batches(filter=pc.field('c0') < 1 << 52)", 3_000),
        ("dataset.scanner(filter=pc.field('c0') < 0, limit=10).to_batches()", 0),
        ("pa.ipc.open_stream(fs.open('latest.arrows'))", 4_000_000),
    ],
)
def test_what_was_read_of_many_fragments_does_not_stay_in_memory(
    tmp_path: Path, batches: str, rows: int
) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 4_000_000)
    table = pa.table({f"c{i}": np.roll(numbers, i) for i in range(16)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=40_000)
    assert peak_of(tmp_path / "t.lance", batches, rows) < 300e6 < table.nbytes


def peak_of(path: Path, batches: str, least: int) -> int:
    """Return the bytes that a process takes at most that reads batches, three times.

    Args:
        path: Of the table.
        batches: An expression.
        least: Rows that it gives, at least.
    """
    code = f"""
import lancefs, pyarrow as pa, pyarrow.compute as pc
dataset, fs = lancefs.open({str(path)!r}), lancefs.LanceFileSystem(fo={str(path)!r})
for _ in range(3):
    assert sum(batch.num_rows for batch in {batches}) >= {least}
status = open("/proc/self/status").read().splitlines()
print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    return int(done.stdout) * 1024


def test_a_limit_of_many_rows_reads_little_behind_them(path: str, reads: list[Ranges]) -> None:
    """As many rows as are deleted may be read in addition: metadata does not tell where these lie.

    A limit beyond all numbers is none.
    """
    dataset = lancefs.open(path)
    rows = lance.dataset(path).to_table()
    deleted = ROWS - rows.num_rows
    for offset, limit in [(0, 300), (0, 7_000), (6_500, 900), (8_000, 5_000), (9_000, 10**30)]:
        reads.clear()
        found = dataset.to_table(offset=offset, limit=limit, batch_size=BATCH)
        assert found.equals(rows.slice(offset, min(limit, ROWS)))
        assert sum(lengths(reads)) <= limit + deleted + BATCH
        batches = dataset.to_batches(offset=offset, limit=limit, batch_size=BATCH)
        assert pa.Table.from_batches(batches, rows.schema).equals(found)


def test_a_filter_with_a_limit_reads_no_further_than_it_must(
    path: str, reads: list[Ranges]
) -> None:
    dataset = lancefs.open(path)
    found = dataset.to_table(filter=pc.field("id") >= 20, limit=BATCH // 2, batch_size=BATCH)
    assert found["id"].to_pylist()[:2] == [20, 21]
    assert sum(lengths(reads)) <= 2 * BATCH
    # More rows pass than are wanted: those are read alone of the columns that the filter needs not.
    reads.clear()
    assert dataset.to_table(filter=pc.field("id") >= 20, limit=2, offset=3)["text"].to_pylist() == [
        "row 23",
        "row 25",
    ]
    assert sum(lengths(reads[1:])) == 2


def test_rows_that_a_filter_scatters_are_read_in_one_go(
    path: str, reads: list[Ranges], tuned: Tune
) -> None:
    tuned(few_share=0)  # of few texts, kernels find those of each row
    dataset = lancefs.open(path)
    found = dataset.to_table(columns=["text"], filter=pc.bit_wise_and(pc.field("id"), 15) == 0)
    expected = [i for i in range(0, ROWS, 16) if i % 7 != 3 and not 1000 <= i < 1250]
    assert found["text"].to_pylist() == [f"row {i}" for i in expected]
    assert all(len(ranges) == 1 for ranges in reads)


def test_few_rows_that_a_filter_keeps_are_read_alone(path: str, reads: list[Ranges]) -> None:
    found = lancefs.open(path).to_table(columns=["text"], filter=pc.field("id") == 5000)
    assert found["text"].to_pylist() == ["row 5000"]
    assert [(5000, 5001)] in reads


def test_a_scan_goes_on_while_the_interpreter_ends(path: str) -> None:
    code = f"""
import threading, lancefs
batches = lancefs.open({path!r}).to_batches(batch_size=100)
next(batches)
def rest():
    threading.main_thread().join()
    print(sum(batch.num_rows for batch in batches))
threading.Thread(target=rest).start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    total = lancefs.open(path).count_rows()
    assert (done.stdout.strip(), done.stderr) == (
        str(total - (BATCH - len(range(3, BATCH, 7)))),
        "",
    )


def test_bytes_that_were_given_back_are_still_right(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 1 << 62, 200_000)
    lance.write_dataset(pa.table({"n": numbers}), str(tmp_path / "t.lance"))
    dataset = lancefs.open(tmp_path / "t.lance")
    table = dataset.to_table()
    for reader in dataset.opened.readers:
        reader.release()
    assert np.array_equal(table["n"].to_numpy(), numbers)


def test_bytes_of_all_fragments_are_given_back_once_there_are_many(tmp_path: Path) -> None:
    table = pa.table({"n": np.random.default_rng(1).integers(0, 1 << 62, 800_000)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=80_000)
    readers = lancefs.open(tmp_path / "t.lance").opened.readers
    mapped, most, found = MappedMemory(4_000_000), 0, []
    for reader in readers:
        found += reader.read(reader.fields, [(0, reader.physical_rows)])
        assert reader.touched > 620_000  # the bytes of the file
        mapped.watch(reader)
        most = max(most, sum(one.touched for one in readers))
    assert 2_400_000 < most < 4_000_000
    assert np.array_equal(np.concatenate(found), table["n"].to_numpy())


class Together(MemoryFileSystem):  # type: ignore[misc]
    """A store that answers when so many requests for data files wait, or no more come."""

    protocol = "together"
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.store, self.pseudo_dirs = {}, [""]
        self.waiting = self.most = 0
        self.wanted = 1
        self.changed = threading.Condition()

    def cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        with self.changed:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.wanted, 0.5)
            self.waiting -= 1
        return bytes(super().cat_file(path, start, end, **kwargs))


def remote_table(tmp_path: Path, deleted: str | None = None) -> Together:
    """A table of 20 fragments of 100 rows, some of them deleted."""
    table = pa.table({"x": np.arange(2000)})
    dataset = lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=100)
    if deleted is not None:
        dataset.delete(deleted)
    fs = Together()
    fs.put(str(tmp_path / "t.lance"), "/t.lance", recursive=True)
    return fs


def opened(fs: Together) -> lancefs.LanceDataset:
    resolved = resolve(Store(fs, "/t.lance"), Ref())
    return LanceDataset(OpenVersion(resolved))


def test_many_small_fragments_of_a_store_are_waited_for_together(tmp_path: Path) -> None:
    fs = remote_table(tmp_path)
    dataset = opened(fs)
    fs.wanted = 10
    assert dataset.to_table()["x"].to_pylist() == list(range(2000))
    assert fs.most >= fs.wanted


@pytest.mark.parametrize("are_deleted", [False, True])
def test_fragments_that_rows_are_taken_from_are_waited_for_together(
    tmp_path: Path, are_deleted: bool
) -> None:
    fs = remote_table(tmp_path, "x % 2 = 1" if are_deleted else None)
    dataset = opened(fs)
    fs.wanted = 10
    wanted = list(range(dataset.count_rows() - 1, 0, -99))
    expected = [2 * row for row in wanted] if are_deleted else wanted
    assert dataset.take(wanted)["x"].to_pylist() == expected
    assert fs.most >= fs.wanted
    fs.most = 0
    ids = dataset.to_table(columns=["_rowid"])["_rowid"].take(wanted)
    storage._CACHE.clear()  # the files are small, and in it
    assert dataset.take(row_ids=ids)["x"].to_pylist() == expected
    assert fs.most >= fs.wanted


def test_a_store_is_read_also_while_the_interpreter_ends(tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(2000)})
    lance.write_dataset(table, str(tmp_path / "t.lance"), max_rows_per_file=100)
    code = f"""
import atexit, fsspec, lancefs
fsspec.filesystem("memory").put({str(tmp_path / "t.lance")!r}, "/t.lance", recursive=True)
dataset = lancefs.open("memory://t.lance")
atexit.register(lambda: print(dataset.take(range(0, 2000, 300))["x"].to_pylist()))
atexit.register(lambda: print(dataset.to_table().num_rows))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2000", str(list(range(0, 2000, 300)))]
    assert not done.stderr


def test_no_more_rows_of_a_store_are_read_ahead_than_the_budget_allows(
    tmp_path: Path, tuned: Tune
) -> None:
    tuned(stream_bytes=50 * 8)
    fs = remote_table(tmp_path)
    dataset = opened(fs)
    fs.wanted = 1000  # never: all requests that are made at a time are seen
    batches = dataset.scanner(batch_size=50).to_batches()
    assert sum(batch.num_rows for batch in batches) == 2000
    assert fs.most <= 2 * THREADS + 1


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_few_scattered_rows_of_long_texts_are_decoded_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    rows = 200_000
    keys = np.random.default_rng(11).permutation(rows)
    texts = pa.array([f"{n} of the words of row {n * 7919 % rows}" for n in range(rows)])
    table = pa.table({"key": keys, "number": np.arange(rows), "text": texts})
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version=version)
    read = dict[str, int]()

    def noted(request: Any, fragment: Any, fields: Any, ranges: Any, forms: Any) -> Any:
        for field in fields:
            read[field.name] = read.get(field.name, 0) + sum(end - start for start, end in ranges)
        return read_columns(request, fragment, fields, ranges, forms)

    monkeypatch.setattr(morsel_reader, "read_columns", noted)
    found = lancefs.open(tmp_path / "t.lance").to_table(filter=pc.field("key") < rows // 20)
    assert found == table.filter(pc.field("key") < rows // 20)
    assert read["text"] == rows // 20
    assert read["number"] > rows // 20
