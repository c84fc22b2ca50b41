"""Small fragments are read as one, and give what each of them gives alone."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from weakref import WeakSet

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparison import assert_same_table
from support import Tune, rewrite_manifest

import lancefs
from lancefs.datafile import data_file, kernels
from lancefs.datafile.v2_1.small_files import SmallRows
from lancefs.errors import CorruptFile, LanceError, MissingFile
from lancefs.proto import table_pb2
from lancefs.storage import open_files
from lancefs.storage.shared_budget import SharedBudget
from lancefs.table import fragment_reader, fragment_readers, fragment_run
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun, in_runs

FRAGMENTS = 7

pytestmark = pytest.mark.usefixtures("threaded")


def some_rows(number: int, rows: int) -> pa.Table:
    """Return rows of many types; no two numbers give the same values, lengths or nulls."""
    source = np.random.default_rng(number)

    def maybe(values: list[object]) -> list[object]:
        return [None if source.random() < 0.2 * (number % 3) else value for value in values]

    numbers = source.integers(0, 1 << (3 * number % 30 + 2), rows)
    words = [f"word {number * 3 + int(one) % 4}" for one in numbers]
    lists = [source.integers(0, 99, int(source.integers(0, 4))).tolist() for _ in range(rows)]
    return pa.table(
        {
            "number": pa.array(maybe(numbers.tolist()), pa.int64()),
            "plain": pa.array(numbers.astype(np.uint32)),
            "flag": pa.array(maybe((numbers % 2 == 0).tolist()), pa.bool_()),
            "price": pa.array(maybe([Decimal(int(one)) for one in numbers]), pa.decimal128(38, 2)),
            "word": pa.array(maybe(words)),
            "text": pa.array(maybe([f"{word} {source.random()} and more" for word in words])),
            "kind": pa.array(maybe(words)).dictionary_encode(),
            "same": pa.array([number // 3] * rows, pa.int32()),
            "nothing": pa.nulls(rows, pa.float32()),
            "list": pa.array(maybe(lists), pa.list_(pa.int16())),
            "words": pa.array([[word] * len(one) for word, one in zip(words, lists, strict=True)]),
            "point": pa.array(
                maybe([{"x": one, "y": str(one)} for one in source.random(rows).tolist()])
            ),
            "vector": pa.array(source.random((rows, 4)).tolist(), pa.list_(pa.float32(), 4)),
        }
    )


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with deletions and a newer column in small fragments, and one more fragment."""
    path = tmp_path_factory.mktemp("runs") / "t.lance"
    for number in range(FRAGMENTS):
        lance.write_dataset(
            some_rows(number, 900 + 37 * number),
            path,
            mode="append" if number else "create",
            data_storage_version=request.param,
        )
    dataset = lance.dataset(path)
    dataset.delete("plain % 10 = 3")
    dataset.add_columns({"twice": "plain * 2"})
    dataset.alter_columns({"path": "word", "name": "renamed"})
    last = some_rows(99, 500).rename_columns({"word": "renamed"})
    rows = last.append_column("twice", pc.multiply(last["plain"], 2).cast(pa.uint32()))
    lance.write_dataset(rows, path, mode="append")
    return path


@pytest.fixture
def table(written: Path, tmp_path: Path) -> Path:
    """A copy of it, which the test may change."""
    return Path(shutil.copytree(written, tmp_path / "t.lance"))


@pytest.fixture(params=["few", "many"], autouse=True)
def _fragments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a version with many fragments, scans make no reader of each."""
    if request.param == "many":
        monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of fragments of each run of several ones that is read."""
    found: list[int] = []
    read = FragmentRun.read

    def watched(self: FragmentRun, *arguments: Any) -> list[pa.Array]:
        count = len(self.parts([(0, self.physical_rows)]))
        found.extend([count] if count > 1 else [])
        return read(self, *arguments)

    monkeypatch.setattr(FragmentRun, "read", watched)
    return found


def apart(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read the fragments of a table one by one."""
    dataset, first, tables = lancefs.open(path), 0, []
    for fragment in dataset.fragments:
        rows = fragment.num_rows or 0
        tables.append(dataset.scanner(columns, offset=first, limit=rows).to_table())
        first += rows
    return pa.concat_tables(tables)


def test_a_run_gives_the_rows_of_its_fragments(table: Path, runs: list[int]) -> None:
    expected = apart(table)
    assert not runs
    got = lancefs.open(table).to_table()
    # The first fragment is read alone; the last one has other files.
    assert runs == [FRAGMENTS - 1]
    assert_same_table(got, expected)
    peer = lance.dataset(table).to_table()
    assert_same_table(got, peer.cast(got.schema))


@pytest.mark.parametrize(
    "filter",
    [
        pc.field("plain") < 40,
        pc.field("renamed") == "word 7",
        pc.field("number").is_null() & pc.field("flag").is_valid(),
        pc.field("twice") == 8,
    ],
    ids=str,
)
def test_filters_of_runs_are_exact(table: Path, runs: list[int], filter: pc.Expression) -> None:
    expected = apart(table).filter(filter)
    assert_same_table(lancefs.open(table).to_table(filter=filter), expected)
    assert runs


def test_row_metadata_of_a_run_is_that_of_its_fragments(table: Path, runs: list[int]) -> None:
    columns = ["_rowid", "_rowaddr", "plain"]
    got = lancefs.open(table).to_table(columns=columns)
    peer = lance.dataset(table).to_table(["plain"], with_row_id=True, with_row_address=True)
    assert runs
    assert got["_rowid"].to_pylist() == peer["_rowid"].to_pylist()
    assert got["_rowaddr"].to_pylist() == peer["_rowaddr"].to_pylist()


def test_strings_of_a_run_may_stay_dictionaries(table: Path, runs: list[int]) -> None:
    plain = lancefs.open(table).to_table(columns=["renamed"])["renamed"]
    encoded = lancefs.open(table).scanner(["renamed"], dictionary_columns=["renamed"]).to_table()
    for chunk in encoded["renamed"].chunks:
        items = chunk.dictionary.to_pylist()
        assert len(items) == len(set(items))
    assert runs
    assert encoded["renamed"].cast(pa.string()).to_pylist() == plain.to_pylist()


def test_rows_of_small_fragments_are_taken_together(table: Path, runs: list[int]) -> None:
    expected = apart(table)
    dataset = lancefs.open(table)
    wanted = np.random.default_rng(5).integers(0, expected.num_rows, 60)
    assert_same_table(dataset.take(wanted), expected.take(pa.array(wanted)))
    assert runs == [FRAGMENTS]
    names = ["_rowid", "text", "list"]
    whole = dataset.to_table(columns=names)
    ids = whole["_rowid"].take(pa.array(wanted))
    assert_same_table(dataset.take(row_ids=ids, columns=names), whole.take(pa.array(wanted)))
    assert_same_table(dataset.take([0, 1], columns=names), whole.slice(0, 2))


def test_few_fragments_are_open_at_a_time_when_rows_of_many_are_taken(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_run, "MAX_FRAGMENTS", 2)
    monkeypatch.setattr(fragment_reader, "READERS", SharedBudget(lambda: 1, 1 << 40))
    opened, most = WeakSet[FragmentReader](), 0
    open_file = FragmentReader.open_file

    def watched(self: FragmentReader, *arguments: Any) -> Any:
        nonlocal most
        opened.add(self)
        most = max(most, len(opened))
        return open_file(self, *arguments)

    monkeypatch.setattr(FragmentReader, "open_file", watched)
    dataset = lancefs.open(table)
    rows = np.arange(0, dataset.count_rows(), 100)
    expected = dataset.to_table().take(pa.array(rows))
    opened.clear()
    most = 0
    assert_same_table(dataset.take(rows), expected)
    assert 1 < most < FRAGMENTS


def test_small_fragments_that_are_long_are_cut(
    table: Path, runs: list[int], monkeypatch: pytest.MonkeyPatch, tuned: Tune
) -> None:
    """Runs estimate the bytes of their rows, except for those of tiny fragments."""
    expected = apart(table)
    dataset = lancefs.open(table)
    run = FragmentRun(dataset.opened.readers[:FRAGMENTS])
    alike = run.row_sizes(dataset.manifest.fields)  # as the first one tells
    assert alike is not None
    assert alike.rows_within(0, 1 << 40) == run.physical_rows
    monkeypatch.setattr(fragment_reader, "TINY_ROWS", 1000)  # three fragments are tiny
    sizes = run.row_sizes(dataset.manifest.fields)
    assert sizes is not None
    few = sum(one.physical_rows for one in run.readers[:3])
    assert few <= sizes.rows_within(0, 1) <= few + 1
    tuned(stream_bytes=40_000, first_run_rows=run.physical_rows)
    batches = list(lancefs.open(table).to_batches())
    assert runs == [FRAGMENTS - 1] * len(runs)
    assert len(runs) > 3
    assert_same_table(pa.Table.from_batches(batches), expected)


def test_runs_do_not_lengthen_batches(table: Path, runs: list[int], tuned: Tune) -> None:
    tuned(first_run_rows=1 << 20)
    batches = list(lancefs.open(table).to_batches(batch_size=2000))
    assert set(runs) == {FRAGMENTS - 1}  # read in parts, as long as a batch and longer
    assert max(batch.num_rows for batch in batches) <= 2000
    assert_same_table(pa.Table.from_batches(batches), lancefs.open(table).to_table())


def test_the_first_batch_of_a_stream_is_of_one_fragment(table: Path, runs: list[int]) -> None:
    batches = lancefs.open(table).to_batches()
    assert next(iter(batches)).num_rows <= 900
    assert not runs


def test_a_damaged_file_of_a_run_is_named(table: Path) -> None:
    fragments = lancefs.open(table).fragments
    damaged = table / "data" / fragments[3].files[0].path
    data = bytearray(damaged.read_bytes())
    data[:64] = b"\xff" * 64  # where the first page begins: its chunk table, or its chunks
    damaged.write_bytes(data)
    with pytest.raises(CorruptFile) as caught:
        lancefs.open(table).to_table()
    assert damaged.name in str(caught.value)
    assert "number, column 0 (number), page 0" in str(caught.value)


def test_large_fragments_and_others_stay_alone(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[FragmentReader] = list(lancefs.open(table).opened.readers)

    def lengths(most_rows: int = 1 << 20) -> list[int]:
        found = in_runs(readers, most_rows)
        return [len(one.parts([(0, one.physical_rows)])) for one in found]

    assert lengths() == [FRAGMENTS, 1]
    assert lengths(most_rows=900) == [1] * (FRAGMENTS + 1)
    monkeypatch.setattr(fragment_run, "MAX_FRAGMENTS", 3)
    assert lengths() == [3, 3, 1, 1]
    size = max(file.size or 0 for one in readers[:-1] for file in one.fragment.files)
    with monkeypatch.context() as patch:
        patch.setattr(fragment_run, "_MAX_BYTES", 2 * size)
        assert lengths() == [2, 2, 2, 1, 1]
    with monkeypatch.context() as patch:  # files that are mapped
        patch.setattr(fragment_run, "SMALL_FILE", 1)
        patch.setattr(fragment_run, "_MAX_MAPPED", 2)
        assert lengths() == [2, 2, 2, 1, 1]
    monkeypatch.setattr(fragment_reader, "_SMALL_ROWS", 1000)
    assert lengths() == [3, 1, 1, 1, 1, 1]
    monkeypatch.setattr(fragment_reader, "_SMALL_BYTES", 1000)
    assert lengths() == [1] * (FRAGMENTS + 1)


def test_columns_of_small_files_are_decoded_by_one_call(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[SmallRows] = []
    decode = data_file.decode_small

    def watched(*arguments: Any) -> SmallRows:
        found.append(decode(*arguments))
        return found[-1]

    monkeypatch.setattr(data_file, "decode_small", watched)
    dataset = lancefs.open(table)
    got = dataset.to_table(columns=["number", "list", "twice"])
    names = {field.id: field.name for field in dataset.manifest.fields}
    by_kernel = {names[number] for rows in found for number in rows.arrays}
    assert "twice" in by_kernel
    assert "list" not in by_kernel
    assert_same_table(got, apart(table).select(got.column_names))


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_each_small_file_has_symbols_of_its_own(version: str, tmp_path: Path) -> None:
    path, parts = tmp_path / "t.lance", []
    compressed = {"lance-encoding:compression": "fsst"}
    schema = pa.schema([pa.field("text", pa.string(), metadata=compressed)])
    for one, other in (("abc", "qrs"), ("def", "tuv"), ("abc", "qrs"), ("ghi", "wxy")):
        texts = [f"{one * 5}{number:05}{other * 4}" for number in range(3000)]
        parts.append(pa.table({"text": texts}, schema=schema))
        mode = "append" if len(parts) > 1 else "create"
        lance.write_dataset(parts[-1], path, mode=mode, data_storage_version=version)
    assert_same_table(lancefs.open(path).to_table(), pa.concat_tables(parts))


def test_small_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fields that no kernel supports, they are read page by page, from what was read before.

    Of the second file, the sizes of rows are estimated before.
    """
    path = tmp_path / "t.lance"
    lance.write_dataset(some_rows(1, 500), path, max_rows_per_file=100)
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 0)  # no reader is kept at first
    opened: list[str] = []
    open_regular, read_files = open_files.open_regular, kernels.read_files

    def watched(path: str, *arguments: Any, **options: Any) -> Any:
        opened.append(Path(path).name)
        return open_regular(path, *arguments, **options)

    def watched_files(folder: int, names: Any, starts: Any, ends: Any, sizes: Any) -> Any:
        bounds = zip(starts, ends, strict=True)
        opened.extend(names[start:end].tobytes().decode() for start, end in bounds)
        return read_files(folder, names, starts, ends, sizes)

    monkeypatch.setattr(open_files, "open_regular", watched)
    monkeypatch.setattr(kernels, "read_files", watched_files)
    names = {file.name for file in (path / "data").iterdir()}
    for columns in (["list"], ["plain"], ["plain", "list"]):
        opened.clear()
        assert lancefs.open(path).to_table(columns=columns).num_rows == 500
        files = [name for name in opened if name in names]
        # The first file of a run that needs no reader tells how large rows are, by a reader; there
        # are two runs, of the first file and of the others.
        assert len(files) == len(set(files)) + 2 * (columns == ["plain"])
        assert len(set(files)) == 5


def test_pages_that_no_kernel_knows_are_met_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From then on, the files are not read for the kernels first."""
    path = tmp_path / "t.lance"
    for number in range(9):
        mode = "append" if number else "create"
        lance.write_dataset(some_rows(number, 100), path, mode=mode, data_storage_version="2.1")
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 0)
    reads: list[int] = []
    read = kernels.read_files

    def watched(*arguments: Any) -> Any:
        reads.extend(arguments[-1].tolist())
        return read(*arguments)

    monkeypatch.setattr(kernels, "read_files", watched)
    dataset, expected = lancefs.open(path), lance.dataset(path).to_table(columns=["plain", "same"])
    for times in (9, 0):
        reads.clear()
        assert_same_table(dataset.to_table(columns=["plain", "same"]), expected)
        assert len(reads) == times
    assert_same_table(dataset.to_table(columns=["plain"]), expected.select(["plain"]))
    assert not reads  # it was kept


def test_a_missing_file_of_a_run_is_named(table: Path) -> None:
    path = lance.dataset(table).get_fragments()[3].data_files()[0].path
    (table / "data" / path).unlink()
    with pytest.raises(MissingFile, match=path):
        lancefs.open(table).to_table(columns=["number"])


@pytest.mark.parametrize("seed", range(20))
def test_damage_of_a_small_file_is_seen_as_when_it_is_read_alone(table: Path, seed: int) -> None:
    source = np.random.default_rng(seed)
    path = table / "data" / lance.dataset(table).get_fragments()[2].data_files()[0].path
    data = bytearray(path.read_bytes())
    at = int(source.integers(0, 4000 if seed % 2 else len(data)))
    data[-1 - at] ^= 1 << int(source.integers(0, 8))  # every second one in the metadata
    path.write_bytes(data)
    columns = ["number", "plain", "price", "renamed", "text"]

    def outcome(read: Callable[[], pa.Table]) -> pa.Table | tuple[type[LanceError], bool]:
        try:
            return read()
        except LanceError as error:
            return type(error), path.name in str(error)

    alone = outcome(lambda: apart(table, columns))
    together = outcome(lambda: lancefs.open(table).to_table(columns=columns))
    if isinstance(alone, pa.Table) and isinstance(together, pa.Table):
        assert_same_table(together, alone)
    else:
        assert isinstance(alone, tuple)
        assert together == (alone[0], True)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_a_string_column_that_points_at_the_items_of_lists_is_corrupt(
    tmp_path: Path, version: str
) -> None:
    path, rows = tmp_path / "t.lance", 9
    for _ in range(3):
        values = pa.table({"text": ["a"] * rows, "words": [["b", "c"]] * rows})
        lance.write_dataset(values, path, mode="append", data_storage_version=version)

    def swap(manifest: table_pb2.Manifest) -> None:
        columns = manifest.fragments[2].files[0].column_indices
        columns[list(columns).index(0)] = 1

    rewrite_manifest(path, swap)
    dataset = lancefs.open(path)
    with pytest.raises(CorruptFile, match=r"text, .*the values lie in lists that no field"):
        dataset.to_table(columns=["text"])
    assert dataset.to_table(columns=["words"]).num_rows == 3 * rows


def test_ranges_shorter_and_longer_than_the_fragments_are_many(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(pa.table({"a": range(64)}), path, max_rows_per_file=8)
    dataset.delete("a >= 8 AND a < 15 OR a = 3 OR a = 63")  # seven of eight rows, and single ones
    rows = dataset.to_table()
    for start, length in itertools.product((0, 1, 7, 8, 20), (1, 3, 4, 9, 30)):
        expected = rows.slice(start, length)
        taken = lancefs.open(path).take(range(start, start + length))
        assert taken.equals(expected), (start, length)
        found = lancefs.open(path).to_table(offset=start, limit=length)
        assert found.equals(expected), (start, length)
