"""Many small fragments are read without a reader for each, and have the rows of the table."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table

import lancefs
from lancefs.errors import LanceError
from lancefs.table import fragment_readers, fragment_run
from lancefs.table.fragment_reader import FragmentReader
from lancefs.table.fragment_run import FragmentRun

FRAGMENTS = 24
KIND = fragment_run._kind
NAMES = ["number", "flag", "share", "word", "kind", "text", "raw"]


def some_rows(number: int) -> pa.Table:
    """Return rows whose pages have other forms and lengths in each fragment."""
    source = np.random.default_rng(number)
    rows = int(source.integers(1, 400))
    numbers = source.integers(0, 1000, rows)
    missing = source.random(rows) < (0, 0.2, 1)[number % 3]
    kinds = np.array(["", "ä kind", "another kind"])[numbers % 3]
    words = [f"wörd {one}" * int(one % 3) for one in numbers]
    return pa.table(
        {
            "number": numbers,
            "flag": pa.array(numbers % 2 == 0, mask=missing),
            "share": pa.array(source.random(rows), mask=missing),
            "word": pa.array(words, pa.string(), mask=missing),
            "kind": pa.array(kinds, mask=source.random(rows) < 0.1 * (number % 2)),
            "text": pa.array([f"a long text that is like others {one}" * 4 for one in numbers]),
            "raw": pa.array([source.bytes(int(one % 4)) for one in numbers], pa.large_binary()),
            "list": pa.array([[int(one)] * int(one % 3) for one in numbers]),
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose second version lacks rows and whose third one has a new column."""
    path = tmp_path_factory.mktemp("plain") / "t.lance"
    for number in range(FRAGMENTS):
        mode = "append" if number else "create"
        lance.write_dataset(some_rows(number), path, mode=mode, data_storage_version=request.param)
    dataset = lance.dataset(path)
    dataset.tags.create("whole", dataset.version)
    dataset.delete("number % 97 = 3")
    dataset.tags.create("deleted", dataset.version)
    dataset.add_columns(pa.schema([pa.field("new", pa.string())]))
    dataset.tags.create("evolved", dataset.version)
    return path


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[FragmentReader]:
    """Readers that are made, of versions that pass for long ones."""
    monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", 1)
    readers: list[FragmentReader] = []
    init = FragmentReader.__init__

    def counted(self: FragmentReader, *arguments: object) -> None:
        readers.append(self)
        init(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(FragmentReader, "__init__", counted)
    return readers


@pytest.mark.parametrize("tag", ["whole", "deleted", "evolved"])
@pytest.mark.parametrize("columns", [None, NAMES, ["word"], ["number", "list"]])
def test_a_scan_gives_the_rows_of_the_table(
    written: Path, tag: str, columns: list[str] | None
) -> None:
    expected = lance.dataset(written, version=tag)
    found = lancefs.open(written, tag=tag)
    assert_same_table(found.to_table(columns=columns), expected.to_table(columns=columns))
    for size in (7, 1000):
        batches = list(found.to_batches(columns=columns, batch_size=size))
        joined = pa.Table.from_batches(batches)
        assert_same_table(joined, expected.to_table(columns=columns))


@pytest.mark.parametrize("tag", ["deleted", "evolved"])
@pytest.mark.parametrize("filter", ["word = 'wörd 7'", "number % 5 = 1", "share > 0.5 AND flag"])
def test_a_filter_gives_the_rows_that_pass(written: Path, tag: str, filter: str) -> None:
    expected = lance.dataset(written, version=tag)
    found = lancefs.open(written, tag=tag)
    assert_same_table(found.to_table(filter=filter), expected.to_table(filter=filter))


@pytest.mark.parametrize(("offset", "limit"), [(0, 5), (300, 700), (2000, 10_000)])
def test_a_part_of_the_rows_is_cut_to_the_row(written: Path, offset: int, limit: int) -> None:
    expected, found = lance.dataset(written), lancefs.open(written)
    assert_same_table(
        found.scanner(NAMES, offset=offset, limit=limit).to_table(),
        expected.scanner(NAMES, offset=offset, limit=limit).to_table(),
    )


@pytest.mark.parametrize("ranges", [[(0, 1)], [(5, 900)], [(3, 3), (100, 101), (700, 2000)]])
def test_a_run_reads_ranges_of_its_rows(written: Path, ranges: list[tuple[int, int]]) -> None:
    dataset = lancefs.open(written, tag="whole")
    run = fragment_run.plain_run(dataset.opened.base_readers)
    assert isinstance(run, FragmentRun)
    fields = [dataset.opened.field(name) for name in NAMES]
    whole = pa.concat_tables([some_rows(number) for number in range(FRAGMENTS)]).select(NAMES)
    expected = pa.concat_tables([whole.slice(start, end - start) for start, end in ranges])
    arrays = run.read(fields, ranges)
    assert_same_table(pa.table(arrays, names=NAMES), expected)


def test_no_reader_is_made_for_each_fragment(written: Path, made: list[FragmentReader]) -> None:
    dataset = lancefs.open(written, tag="whole")
    rows = sum(batch.num_rows for batch in dataset.to_batches(columns=["number", "raw"]))
    assert rows == dataset.count_rows()
    assert len({reader.fragment.id for reader in made}) <= 3  # the first ones: `head` needs them


@pytest.mark.parametrize("most", [1, 3, 100])
def test_runs_are_no_longer_than_they_may_be(
    written: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragment_run, "MAX_FRAGMENTS", most)
    readers = lancefs.open(written, tag="whole").opened.base_readers
    for most_rows in (1, 500, 1 << 20):
        runs = list(fragment_run.many_in_runs(readers, most_rows, most_rows))
        assert [id for run in runs for id in run.fragment_ids] == [*range(FRAGMENTS)]
        for run in runs:
            assert len(run.fragment_ids) <= most
            assert len(run.fragment_ids) == 1 or run.physical_rows <= most_rows


def kind_of_few(reader: FragmentReader) -> object:
    """Have fragments of files 2.0 read alone."""
    return None if reader.fragment.files[0].has_nulls_apart else KIND(reader)


@pytest.mark.parametrize("seed", range(60))
def test_damage_gives_an_error_or_the_rows_of_a_fragment_that_is_read_alone(
    written: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = np.random.default_rng(seed)
    names = [one.data_files()[0].path for one in lance.dataset(written).get_fragments()]
    path = written / "data" / names[int(source.integers(len(names)))]
    data = path.read_bytes()
    damaged = bytearray(data)
    for _ in range(int(source.integers(1, 4))):
        # Half of the time in the metadata, at the end of the file.
        start = int(source.choice([0, max(0, len(data) - 900)]))
        damaged[int(source.integers(start, len(data)))] = int(source.integers(256))
    path.write_bytes(damaged)
    try:
        outcomes = []
        for few in (1, 1000):
            monkeypatch.setattr(fragment_readers, "_FEW_FRAGMENTS", few)
            if few > 1:
                monkeypatch.setattr(fragment_run, "_kind", kind_of_few)
            try:
                outcomes.append(lancefs.open(written, tag="whole").to_table(columns=NAMES))
            except LanceError:
                outcomes.append(None)
        assert (outcomes[0] is None) == (outcomes[1] is None)
        if outcomes[0] is not None:
            assert_same_table(*outcomes)
    finally:
        path.write_bytes(data)
