"""Some rows of a page cost the chunks or bytes that they are in, whatever the layout.

Bytes are counted twice: as the decoders ask for them, and as a store that is not local sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from comparison import assert_same_table
from corpus_pages import of_data_file
from store_doubles import CountingFileSystem
from support import local_store

import lancefs
from lancefs.datafile.blocks import RowRange
from lancefs.datafile.data_file import FieldReader, open_data_file
from lancefs.datafile.row_ranges import between
from lancefs.datafile.v2_1.layouts import chunk_runs
from lancefs.datafile.v2_1.layouts.miniblock_page import MiniBlockPage
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import File, Reads, Store, counting
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import Ref, resolve

RNG = np.random.default_rng(3)
SEEDED = RNG.bit_generator.state
MANY = 60_000  # rows of narrow values
FEW = 600  # rows of wide ones


def numbers(rows: int, bits: int = 64) -> pa.Array:
    """Integers that do not compress."""
    return pa.array(RNG.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), rows, dtype=f"i{bits // 8}"))


def some_null(values: pa.Array) -> pa.Array:
    keep = pa.array(RNG.random(len(values)) < 0.8)
    return pc.if_else(keep, values, pa.scalar(None, values.type))


def strings(rows: int, length: int, distinct: int | None = None) -> pa.Array:
    """Strings that are hard to compress, of lengths up to twice as many."""
    letters = RNG.integers(33, 127, 4 * length, dtype="u1").tobytes().decode()
    starts = RNG.integers(0, 2 * length, distinct or rows)
    sizes = RNG.integers(0, 2 * length, distinct or rows)
    values = [letters[a : a + b] + str(i) for i, (a, b) in enumerate(zip(starts, sizes))]  # noqa: B905
    if distinct is None:
        return pa.array(values)
    return pa.array(values).take(pa.array(RNG.integers(0, distinct, rows)))


def lists(items: pa.Array, longest: int, nulls: bool = True) -> pa.Array:
    """Lists of up to so many items, some empty and some null."""
    lengths = RNG.integers(0, longest + 1, 2 * len(items) // longest)
    offsets = np.minimum(np.concatenate(([0], np.cumsum(lengths))), len(items))
    wanted = pa.array(offsets.astype("i4"), mask=np.append(np.diff(offsets) % 5 == 4, False))
    return pa.ListArray.from_arrays(wanted if nulls else pa.array(offsets.astype("i4")), items)


def vectors(rows: int, size: int) -> pa.Array:
    values = pa.array(RNG.standard_normal(rows * size, dtype="f4"))
    return pa.FixedSizeListArray.from_arrays(values, size)


def structs(rows: int, nulls: bool = True) -> pa.Array:
    members = [some_null(numbers(rows)), some_null(strings(rows, 12))]
    mask = pa.array(RNG.random(rows) < 0.2) if nulls else None
    return pa.StructArray.from_arrays(members, ["a", "b"], mask=mask)


def runs_of_long_strings(rows: int) -> pa.Array:
    """Six strings of 40,000 letters, each of them for many rows in a row."""
    items = [RNG.integers(33, 127, 40_000, dtype="u1").tobytes().decode() for _ in range(6)]
    return pa.array(items).take(pa.array(np.arange(rows) * len(items) // rows))


def packed(rows: int, text: bool) -> pa.Array:
    second = strings(rows, 40) if text else numbers(rows, 16)
    return pa.StructArray.from_arrays([numbers(rows), second], ["a", "b"])


def mostly_null(rows: int) -> pa.Array:
    return pa.array(RNG.integers(0, 1 << 62, rows), mask=RNG.random(rows) < 0.98)


@dataclass(frozen=True)
class Case:
    """A column in a layout.

    Attributes:
        make: Its values.
        versions: The formats of data files that it is written in.
        metadata: Of the field: how the writer shall encode it.
        share: How much of the file's pages ten rows in a row may cost, when what is kept of a page
            was read.
        first: The same for the very first read.
    """

    make: Callable[[], pa.Array]
    versions: tuple[str, ...] = ("2.1", "2.2", "2.3")
    metadata: tuple[tuple[str, str], ...] = ()
    share: float = 0.03
    first: float = 0.05


ALL = ("0.1", "2.0", "2.1", "2.2", "2.3")
STRUCTURAL = "lance-encoding:structural-encoding"
FULL_ZIP = ((STRUCTURAL, "fullzip"),)
SPARSE = ((STRUCTURAL, "sparse"),)
CASES = {
    "integers": Case(lambda: numbers(MANY), ALL),
    "integers_null": Case(lambda: some_null(numbers(MANY)), ALL[1:]),
    "booleans": Case(lambda: pa.array(RNG.random(8 * MANY) < 0.5), ALL, share=0.05, first=0.2),
    "strings": Case(lambda: some_null(strings(MANY, 12)), ALL, first=0.15),
    "few_strings": Case(lambda: strings(MANY, 12, distinct=50), ALL, first=0.2, share=0.07),
    "dictionary": Case(
        lambda: strings(MANY, 12, distinct=200).dictionary_encode(), ALL, first=0.3, share=0.07
    ),
    "small_vectors": Case(lambda: vectors(MANY, 8), ALL),
    "structs": Case(lambda: structs(MANY), first=0.15),
    "structs_plain": Case(lambda: structs(MANY, nulls=False), ALL, first=0.15),
    "lists": Case(lambda: lists(numbers(MANY), 9), ALL[1:], first=0.08),
    "lists_plain": Case(lambda: lists(numbers(MANY), 9, nulls=False), ALL, first=0.08),
    "long_lists": Case(lambda: lists(numbers(8 * MANY, 32), 4000), ALL[1:], share=0.2, first=0.2),
    "list_of_structs": Case(lambda: lists(structs(MANY), 9), first=0.15),
    "list_of_structs_plain": Case(
        lambda: lists(structs(MANY, nulls=False), 9, nulls=False), ALL, first=0.15
    ),
    "list_of_lists": Case(lambda: lists(lists(numbers(MANY), 9), 9), ALL[1:], first=0.15),
    "packed": Case(lambda: packed(MANY, False), ALL[1:], (("lance-encoding:packed", "true"),)),
    "packed_text": Case(lambda: packed(FEW, True), ALL[3:], (("lance-encoding:packed", "true"),)),
    "bss": Case(
        lambda: pa.array(RNG.standard_normal(MANY)), ALL[2:], (("lance-encoding:bss", "on"),)
    ),
    "zstd": Case(
        lambda: strings(MANY, 12), ALL[2:], (("lance-encoding:compression", "zstd"),), first=0.08
    ),
    "vectors": Case(lambda: vectors(FEW, 512), ALL),
    "vectors_null": Case(lambda: some_null(vectors(FEW, 512)), ALL[2:]),
    "full_zip_numbers": Case(lambda: some_null(numbers(MANY)), metadata=FULL_ZIP),
    "full_zip_strings": Case(lambda: some_null(strings(MANY, 40)), metadata=FULL_ZIP),
    "long_strings": Case(lambda: some_null(strings(FEW, 2000)), share=0.05, first=0.05),
    "list_of_vectors": Case(lambda: lists(vectors(FEW, 512), 6), first=0.1, share=0.1),
    "list_of_long_strings": Case(lambda: lists(strings(FEW, 2000), 4), first=0.1, share=0.1),
    "constant_null": Case(
        lambda: some_null(pa.array([7] * MANY)), ("2.2", "2.3"), share=0.01, first=1.0
    ),
    "sparse": Case(lambda: mostly_null(MANY), ("2.3",), SPARSE, share=0.2, first=1.0),
    "sparse_vectors": Case(
        lambda: pc.if_else(pa.array(RNG.random(FEW) < 0.3), vectors(FEW, 512), None),
        ("2.3",),
        SPARSE,
        share=0.06,
        first=0.06,
    ),
    "sparse_indexed": Case(
        lambda: some_null(runs_of_long_strings(FEW)), ("2.3",), SPARSE, share=0.4, first=0.4
    ),
}
PAIRS = [(name, version) for name, case in CASES.items() for version in case.versions]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], LanceDataset]:
    """Writes a case, in one fragment and one page where the format has pages, and opens it."""
    root = tmp_path_factory.mktemp("random_access")

    @lru_cache(2)
    def made(name: str) -> pa.Array:
        RNG.bit_generator.state = SEEDED  # the values are the same whatever was made before
        return CASES[name].make()

    @cache
    def opened(name: str, version: str) -> LanceDataset:
        case, values = CASES[name], made(name)
        field = pa.field("x", values.type, metadata=dict(case.metadata))
        path = root / f"{name}-{version}"
        stored = "legacy" if version == "0.1" else version
        table = pa.table([values], schema=pa.schema([field]))
        lance.write_dataset(table, path, data_storage_version=stored)
        return lancefs.open(path)

    return opened


class Counted:
    """The rows of one column, and how many bytes its decoders ask for."""

    def __init__(self, dataset: LanceDataset) -> None:
        (data_file,) = dataset.fragments[0].files
        self.file: File = dataset.opened.files.data_file(data_file)
        self.field = dataset.manifest.fields[0]
        self.reader: FieldReader = open_data_file(self.file, data_file.columns, data_file.is_legacy)

    def read(self, ranges: list[RowRange]) -> tuple[pa.Array, int]:
        steps: Reads[pa.Array] = self.reader.read(self.field, ranges)
        data = None
        with counting() as counters:
            while True:
                try:
                    wanted = steps.send(data)  # type: ignore[arg-type]
                except StopIteration as done:
                    return done.value, counters.bytes
                data = self.file.read(wanted)


def test_layouts_that_the_corpus_lacks_are_among_these(
    tables: Callable[[str, str], LanceDataset],
) -> None:
    for name, layout in (
        ("sparse_vectors", "sparse × zipped"),
        ("sparse_indexed", "sparse × indexed"),
    ):
        dataset = tables(name, "2.3")
        (data_file,) = dataset.fragments[0].files
        assert ("2.3", "layout", layout) in of_data_file(dataset.opened.files.data_file(data_file))


@pytest.mark.parametrize(("name", "version"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_rows_cost_the_chunks_that_they_are_in(
    tables: Callable[[str, str], LanceDataset], name: str, version: str
) -> None:
    dataset, case = tables(name, version), CASES[name]
    column = Counted(dataset)
    total = dataset.count_rows()
    whole, size = Counted(dataset).read([(0, total)])
    middle = total // 2

    got, first = column.read([(middle, middle + 10)])
    assert got.equals(whole.slice(middle, 10))
    assert first <= case.first * size, f"{first} of {size} bytes for the first rows"

    got, warm = column.read([(middle + 20, middle + 30)])
    assert got.equals(whole.slice(middle + 20, 10))
    assert warm <= case.share * size, f"{warm} of {size} bytes for ten rows"

    some = sorted(np.random.default_rng(4).choice(total, 8, replace=False).tolist())
    got, scattered = column.read([(row, row + 1) for row in some])
    assert got.equals(whole.take(pa.array(some)))
    assert scattered <= 8 * case.share * size, f"{scattered} of {size} bytes for eight rows"

    got, _ = column.read([(0, 3), (middle, middle + 2), (total - 2, total)])
    assert got.equals(pa.concat_arrays([whole[:3], whole[middle : middle + 2], whole[-2:]]))


@pytest.mark.parametrize("pages", ["large", "small"])
@pytest.mark.parametrize(("name", "version"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_scattered_rows_are_those_of_a_whole_read(
    tables: Callable[[str, str], LanceDataset],
    name: str,
    version: str,
    pages: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few of them are decoded alone, more of them with what is around, unless that is much.

    Small pages are read whole, whatever is wanted of them.
    """
    limit = 0 if pages == "large" else 1 << 40
    monkeypatch.setattr(chunk_runs, "_MAX_WHOLE_BYTES", limit)
    monkeypatch.setattr(chunk_runs, "_MAX_WHOLE_VALUES", limit)
    dataset = tables(name, version)
    total = dataset.count_rows()
    whole, _ = Counted(dataset).read([(0, total)])
    column = Counted(dataset)
    both_ends = [*range(1, 60, 3), *range(total - 60, total - 1, 3)]
    one = [total // 2]
    for rows in (*(range(1, total - 1, every) for every in (1000, 97, 5)), both_ends, one):
        ranges = [(row, row + 1 + row % 2) for row in rows]
        got, _ = column.read(ranges)
        assert got.equals(pa.concat_arrays([whole[start:end] for start, end in ranges]))


@pytest.fixture
def wide(tmp_path: Path) -> tuple[CountingFileSystem, LanceDataset, pa.Table]:
    """A table of 3 fragments and some 20 MB, with deleted rows, on a store that counts."""
    rows = 90_000
    table = pa.table(
        {
            "id": np.arange(rows),
            "name": strings(rows, 20),
            "tags": lists(numbers(5 * rows), 10, nulls=False)[:rows],
            "vector": vectors(rows, 32),
        }
    )
    path = tmp_path / "wide.lance"
    lance.write_dataset(table, path, max_rows_per_file=30_000, data_storage_version="2.1")
    lance.dataset(path).delete("id < 1000 or id % 10 = 4")
    fs = CountingFileSystem()
    fs.put_tree(path, "/t.lance")
    resolved = resolve(Store(fs, "/t.lance"), Ref())
    dataset = LanceDataset(OpenVersion(resolved))
    return fs, dataset, lance.dataset(path).to_table()


def test_taken_rows_cost_what_is_around_them(
    wide: tuple[CountingFileSystem, LanceDataset, pa.Table],
) -> None:
    fs, dataset, rows = wide
    whole = sum(fs.size(path) for path in fs.find("/t.lance/data"))
    wanted = [70_000, 3, 41_000, 3]
    assert_same_table(dataset.take(wanted), rows.take(wanted))
    # The ends of three files, then some kilobytes a column and row.
    assert fs.bytes_read("/data/") < 3 * 64 * 1024 + 3 * 4 * 64 * 1024 < whole / 4
    before = fs.bytes_read("/data/")
    assert_same_table(dataset.take([41_010], columns=["id"]), rows.slice(41_010, 1).select(["id"]))
    assert fs.bytes_read("/data/") - before < 16 * 1024


def test_the_first_rows_cost_the_first_chunks(
    wide: tuple[CountingFileSystem, LanceDataset, pa.Table],
) -> None:
    fs, dataset, rows = wide
    assert_same_table(dataset.head(5), rows.slice(0, 5))
    assert fs.bytes_read("/data/") < 64 * 1024 + 4 * 64 * 1024
    assert len({path for path, *_ in fs.requests if path.endswith(".lance")}) == 1


def test_rows_far_into_the_table_cost_no_more(
    wide: tuple[CountingFileSystem, LanceDataset, pa.Table],
) -> None:
    fs, dataset, rows = wide
    got = dataset.to_table(offset=50_000, limit=5)
    assert_same_table(got, rows.slice(50_000, 5))
    assert fs.bytes_read("/data/") < 64 * 1024 + 4 * 64 * 1024


def test_a_row_of_a_million_items_is_found_in_a_moment(tmp_path: Path) -> None:
    """Items of full-zip rows are found one after the other: few rows must not mean slow."""
    items = some_null(numbers(300_000, 16))
    values = pa.ListArray.from_arrays(pa.array([0, 299_000, 299_000, 300_000], pa.int32()), items)
    field = pa.field("item", pa.int16(), metadata=dict(FULL_ZIP))
    values = values.cast(pa.list_(field))
    schema = pa.schema([pa.field("x", values.type, metadata=dict(FULL_ZIP))])
    lance.write_dataset(
        pa.table([values], schema=schema), tmp_path / "t", data_storage_version="2.1"
    )
    column = Counted(lancefs.open(local_store(tmp_path / "t").root))
    got, _ = column.read([(0, 3)])
    assert got.cast(values.type).equals(values)


def test_a_few_long_lists_without_nulls_are_read_without_the_pages_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = lists(numbers(8 * MANY, 32), 1000, nulls=False)[:900]  # later ones are all empty
    table = pa.table({"v": values})
    lance.write_dataset(table, tmp_path / "t.lance", data_storage_version="2.2")
    dataset = lancefs.open(tmp_path / "t.lance")
    rows = np.sort(RNG.choice(len(values), 200, replace=False))

    def refuse(self: MiniBlockPage, *_: object) -> None:
        raise AssertionError("a page is read by itself")

    monkeypatch.setattr(MiniBlockPage, "fetch", refuse)
    for some in (rows[:10], rows):
        assert dataset.take(some.tolist()).equals(table.take(pa.array(some)))


@pytest.mark.parametrize("name", ["full_zip_numbers", "full_zip_strings", "list_of_vectors"])
def test_many_scattered_rows_of_full_zip_pages_are_asked_for_in_few_ranges(
    tables: Callable[[str, str], LanceDataset], name: str
) -> None:
    dataset = tables(name, "2.2")
    column, asked = Counted(dataset), 0
    rows = np.arange(0, dataset.count_rows(), 3)
    steps = column.reader.read(column.field, between(rows, rows + 1))
    wanted, array = next(steps), None
    while array is None:
        asked += len(wanted)
        try:
            wanted = steps.send(column.file.read(wanted))
        except StopIteration as done:
            array = done.value
    whole = dataset.to_table()["x"].combine_chunks()
    assert array.equals(whole.take(pa.array(rows)))
    assert asked < 40
