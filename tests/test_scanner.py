"""The arguments of reads: what they take, what they refuse, and what a scan says it did."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support import ORDERS

import lancefs
from lancefs.errors import ColumnNotFound, InvalidFilter
from lancefs.scan.scanner import LanceScanner, ScanOptions
from lancefs.scan.settings import ScanSettings

ROWS, PER_FRAGMENT = 3000, 1000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = str(tmp_path_factory.mktemp("scanner") / "t.lance")
    numbers = np.arange(ROWS)
    table = pa.table(
        {"id": numbers, "price": numbers / 4, "city": [f"city {n % 7}" for n in numbers]}
    )
    lance.write_dataset(table, where, max_rows_per_file=PER_FRAGMENT)
    lance.dataset(where).delete("id % 10 = 3")
    return where


@pytest.fixture
def dataset(path: str) -> lancefs.LanceDataset:
    return lancefs.open(path)


# Names


def test_a_misspelled_argument_is_an_error(dataset: lancefs.LanceDataset) -> None:
    misspelled: Any = {"colums": ["city"]}
    fragment = next(dataset.get_fragments())
    reads = (
        dataset.scanner,
        dataset.to_table,
        dataset.to_batches,
        dataset.to_reader,
        dataset.to_pandas,
        dataset.to_polars,
        dataset.count_rows,
        fragment.scanner,
        fragment.to_table,
        fragment.count_rows,
    )
    for read in reads:
        with pytest.raises(TypeError, match="colums"):
            read(**misspelled)
    for read_some in (dataset.head, dataset.take, fragment.head, fragment.take):
        with pytest.raises(TypeError, match="colums"):
            read_some([1] if "take" in read_some.__name__ else 1, **misspelled)


def test_hints_of_pyarrow_are_taken(dataset: lancefs.LanceDataset) -> None:
    hints = {
        "batch_readahead": 16,
        "fragment_readahead": 4,
        "fragment_scan_options": None,
        "use_threads": False,
        "cache_metadata": True,
        "memory_pool": None,
    }
    assert dataset.to_table(["id"], **hints).num_rows == dataset.count_rows(**hints)


def test_options_are_those_that_a_scanner_takes() -> None:
    hints = set(get_type_hints(lancefs.LanceDataset.scanner))
    scanner = hints - {"return", "columns", "filter", "unknown"}
    assert set(ScanOptions.__annotations__) == scanner


def test_one_name_in_place_of_a_list_says_what_is_expected(dataset: lancefs.LanceDataset) -> None:
    with pytest.raises(TypeError, match="a column is named by 0; its name was expected"):
        dataset.head(1, columns=[0])
    with pytest.raises(TypeError, match=r"columns is 'city'; a list .*\['city'\]"):
        dataset.to_table(columns="city")
    with pytest.raises(TypeError, match="dictionary_columns is 'city'; a list"):
        dataset.to_table(dictionary_columns="city")


# Filters


def test_names_of_an_iterator_are_read_as_those_of_a_list(dataset: lancefs.LanceDataset) -> None:
    names = dataset.schema.names[:2]
    assert dataset.head(3, columns=iter(names)) == dataset.head(3, columns=names)
    scanner = dataset.scanner(columns=(name for name in names))
    assert pickle.loads(pickle.dumps(scanner)).to_table().column_names == names
    shown = dataset.take([1], columns=iter(names)).column_names
    assert shown == names
    with pytest.raises(TypeError, match=r"a column is named by .*; its name was expected"):
        dataset.to_table(columns=[pc.field(names[0])])


def test_sql_in_place_of_an_expression_says_what_is_expected(
    dataset: lancefs.LanceDataset,
) -> None:
    name = dataset.schema.names[0]
    for text in (f"{name} + 1", f"lower({name})"):
        with pytest.raises(ColumnNotFound, match=r"column '.*'; an expression is one of pyarrow"):
            dataset.to_table(columns={"x": text})
    with pytest.raises(ColumnNotFound, match=r"'none'; .* (column|did you mean)"):
        dataset.to_table(columns={"x": "none"})


def test_sql_text_filters_wherever_an_expression_does(dataset: lancefs.LanceDataset) -> None:
    text, expression = (
        "price > 700 AND city = 'city 2'",
        (pc.field("price") > 700) & (pc.field("city") == "city 2"),
    )
    expected = dataset.to_table(filter=expression)
    assert 0 < expected.num_rows < 100
    assert dataset.to_table(filter=text).equals(expected)
    assert dataset.to_reader(filter=text).read_all().equals(expected)
    assert pa.Table.from_batches(dataset.to_batches(filter=text)).equals(expected)
    assert dataset.head(5, filter=text).equals(expected[:5])
    assert dataset.take([2, 0], filter=text).equals(expected.take([2, 0]))
    assert dataset.count_rows(text) == expected.num_rows
    assert dataset.scanner(filter=text).count_rows() == expected.num_rows
    assert dataset.filter(text).to_table().equals(expected)
    parts = [fragment.to_table(filter=text) for fragment in dataset.get_fragments()]
    assert pa.concat_tables(parts).equals(expected)


def test_text_that_is_no_filter_says_where(dataset: lancefs.LanceDataset) -> None:
    with pytest.raises(InvalidFilter, match="price >"):
        dataset.to_table(filter="price >")
    with pytest.raises(ColumnNotFound, match="prize"):
        dataset.count_rows("prize > 3")


def test_text_that_fails_for_a_row_is_named(dataset: lancefs.LanceDataset) -> None:
    with pytest.raises(InvalidFilter, match="'10 / id > 1' fails for a row"):
        dataset.to_table(filter="10 / id > 1")


def test_a_filtered_dataset_is_lazy_and_filters_all_that_is_read(
    dataset: lancefs.LanceDataset,
) -> None:
    filtered = dataset.filter(pc.field("id") < 100).filter("city = 'city 2'")
    assert filtered.schema.equals(dataset.schema)
    expected = dataset.to_table(filter="id < 100 AND city = 'city 2'")
    assert filtered.to_table().equals(expected)
    assert filtered.count_rows() == expected.num_rows
    assert filtered.count_rows("id > 50") == dataset.count_rows(
        "id > 50 AND id < 100 AND city = 'city 2'"
    )
    assert filtered.take([1]).equals(expected.slice(1, 1))
    assert pa.table(filtered).equals(expected)
    assert pickle.loads(pickle.dumps(filtered)).to_table().equals(expected)
    with pytest.raises(InvalidFilter):
        dataset.filter("id <")
    assert sum(each.count_rows() for each in filtered.get_fragments()) == expected.num_rows
    with_ids = filtered.with_row_metadata()
    assert with_ids.to_table().column_names == [*dataset.schema.names, "_rowid"]
    assert with_ids.to_table().num_rows == expected.num_rows


# Fragments


def test_fragments_are_read_alone(dataset: lancefs.LanceDataset) -> None:
    first, second, third = dataset.get_fragments()
    assert [each.fragment_id for each in (first, second, third)] == [0, 1, 2]
    assert second.count_rows() == 900
    assert second.to_table().equals(dataset.to_table(filter="id >= 1000 AND id < 2000"))
    assert second.head(2, ["id"]).to_pydict() == {"id": [1000, 1001]}
    assert second.take([0, 3], ["id"]).to_pydict() == {"id": [1000, 1004]}
    assert second.count_rows("id < 1100") == 90
    assert second.scanner(["id"]).projected_schema.names == ["id"]
    assert sum(batch.num_rows for batch in second.to_batches(batch_size=100)) == 900
    assert "LanceFragment 1" in repr(second)


def test_a_scan_of_chosen_fragments(dataset: lancefs.LanceDataset) -> None:
    expected = dataset.to_table(["id"], filter="id >= 1000")
    chosen = list(dataset.get_fragments())[1:]
    for fragments in ([1, 2], chosen, [each.metadata for each in chosen]):
        scanner = dataset.scanner(["id"], fragments=fragments)
        assert scanner.to_table().equals(expected)
        assert scanner.count_rows() == expected.num_rows
        assert scanner.take([0]).to_pydict() == {"id": [1000]}
    assert dataset.to_table(["id"], fragments=[2, 1])["id"][0].as_py() == 2000
    # Row metadata is that of the table, not of the part.
    offsets = dataset.to_table(["_rowoffset"], fragments=[1])["_rowoffset"]
    assert offsets[0].as_py() == 900
    with pytest.raises(ValueError, match="has no fragment 7"):
        dataset.to_table(fragments=[7])
    with pytest.raises(TypeError, match=r"fragments is 1; a list was expected: \[1\]"):
        dataset.to_table(fragments=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fragments has 'x'"):
        dataset.to_table(fragments=["x"])


# What pyarrow's C++ sees

CPP = {
    "Scanner.from_dataset": "pads.Scanner.from_dataset(ds).to_table()",
    "Scanner.from_dataset with columns": "pads.Scanner.from_dataset(ds, columns=['id']).to_table()",
    "count_rows": "pads.Scanner.from_dataset(ds).count_rows()",
    "acero": "acero.Declaration('scan', acero.ScanNodeOptions(ds)).to_table()",
    "UnionDataset": "pads.UnionDataset(ds.schema, [ds])",
}


@pytest.mark.parametrize("call", CPP.values(), ids=CPP)
def test_what_scans_in_cpp_is_an_error_and_no_crash(path: str, call: str) -> None:
    code = f"""
import lancefs, pyarrow as pa, pyarrow.dataset as pads
from pyarrow import acero
ds = lancefs.open({path!r})
try:
    {call}
except (TypeError, pa.ArrowException) as error:
    print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout
    assert "LanceDataset" in done.stdout or "dataset.to_table" in done.stdout


def test_a_union_of_datasets_reads_both(dataset: lancefs.LanceDataset) -> None:
    assert pads.dataset([dataset, dataset.filter("id < 10")]).to_table().num_rows == 2700 + 9


def test_joins_take_datasets_on_both_sides(dataset: lancefs.LanceDataset) -> None:
    other = dataset.filter("id < 10").replace_schema(dataset.schema)
    joined = dataset.join(dataset.filter("id < 10"), "id", right_suffix=" r", join_type="inner")
    assert joined.to_table().num_rows == 9 == other.to_table().num_rows


# What a scan did


def test_a_scan_says_what_it_read(dataset: lancefs.LanceDataset, path: str) -> None:
    scanner = dataset.scanner(["id"])
    assert (scanner.stats.rows, scanner.stats.bytes) == (0, 0)
    table = scanner.to_table()
    stats = scanner.stats
    assert stats.rows == table.num_rows == 2700
    assert stats.rows_decoded == 3000
    assert (stats.fragments, stats.fragments_skipped) == (3, 0)
    assert stats.pages >= 3
    assert stats.requests == 0
    everything = lancefs.open(path).scanner()
    assert everything.to_table().num_rows == 2700
    assert 0 < stats.bytes < everything.stats.bytes
    assert stats.batches >= 1 <= stats.morsels


def test_rows_of_known_ids_skip_the_other_fragments(dataset: lancefs.LanceDataset) -> None:
    scanner = dataset.scanner(["id"], filter=pc.field("_rowaddr") == (1 << 32) + 7)
    assert scanner.to_table().to_pydict() == {"id": [1007]}
    assert (scanner.stats.fragments, scanner.stats.fragments_skipped) == (1, 2)


def test_requests_of_a_remote_table_are_counted(path: str) -> None:
    fs = MemoryFileSystem()
    fs.put(path, "/scanner-stats.lance", recursive=True)
    try:
        scanner = lancefs.open("memory://scanner-stats.lance").scanner(["id"])
        rows = scanner.to_table().num_rows
    finally:
        fs.rm("/scanner-stats.lance", recursive=True)
    assert (scanner.stats.rows, rows) == (2700, 2700)
    assert scanner.stats.requests >= 3


def test_lancefs_dataset_is_another_name_of_open(path: str) -> None:
    assert lancefs.dataset is lancefs.open
    assert isinstance(lancefs.dataset(path).scanner(), LanceScanner)
    assert isinstance(lancefs.dataset(path), pads.Dataset)


def test_a_parquet_writer_takes_it(dataset: lancefs.LanceDataset, tmp_path: Path) -> None:
    pads.write_dataset(dataset, tmp_path / "out", format="parquet")
    assert pads.dataset(tmp_path / "out").count_rows() == dataset.count_rows()


def test_a_filter_of_long_texts_is_explained() -> None:
    """Arrow cuts long texts in the middle of a character, and then cannot show them."""
    long = ["w" * number + "é" for number in range(60, 400)]
    explained = lancefs.open(ORDERS).scanner(filter=pc.field("city").isin(long)).explain()
    assert "filter " in explained
    for number in range(100):
        text = "x" * number + "éé" * 200
        scanner = lancefs.open(ORDERS).scanner(filter=pc.field("city").isin([text, "é"]))
        assert "city" in scanner.explain()


def test_members_and_functions_of_lists_are_explained_by_their_names(tmp_path: Path) -> None:
    rows = pa.table({"user": [{"age": 3, "tags": ["a"]}]})
    lance.write_dataset(rows, tmp_path / "t.lance")
    dataset = lancefs.open(tmp_path / "t.lance")
    told = dataset.scanner(filter="user.age > 3 and array_has(user.tags, 'a')").explain()
    assert 'filter ((user.age > 3) and array_has(user.tags, "a"))' in told


# Scans for engines


def test_a_scan_for_an_engine_gives_the_same_rows(dataset: lancefs.LanceDataset) -> None:
    filter = pc.field("price") > 40
    scanner = dataset.scanner(["city", "id"], filter=filter).for_engine()
    assert pa.Table.from_batches(scanner.to_batches()) == dataset.to_table(["city", "id"], filter)


def test_an_engine_is_given_longer_morsels_of_several_columns_within_the_users_limit() -> None:
    plain = ScanSettings()
    sizes = [plain.for_engine(columns, is_long=False).stream_bytes for columns in (1, 3, 5, 8, 500)]
    assert sizes == sorted(sizes)
    assert sizes[0] == plain.stream_bytes < sizes[2] < sizes[-1] == sizes[-2]
    assert plain.with_max_memory(10**6).for_engine(9, is_long=True) == plain.with_max_memory(10**6)


@pytest.mark.parametrize("option", ["limit", "offset", "batch_size", "max_memory"])
def test_numbers_of_a_scan_are_whole(option: str, path: str) -> None:
    with pytest.raises(TypeError, match=f"{option} is 2.5; a whole number was expected"):
        lancefs.open(path).scanner(**{option: 2.5})
    with pytest.raises(TypeError, match="num_rows is '3'; a whole number was expected"):
        lancefs.open(path).head("3")
