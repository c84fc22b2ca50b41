"""Indices of parts of texts, of items of lists, and of values by their hashes."""

from __future__ import annotations

from pathlib import Path

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.indices import IndexConfig
from store_doubles import SlowFileSystem

import lancefs
from lancefs.index import bloomfilter
from lancefs.index.xxhash import xxh64
from lancefs.lance_dataset import LanceDataset
from lancefs.storage import Store
from lancefs.table.open_version import OpenVersion
from lancefs.table.refs import resolve

pytestmark = pytest.mark.usefixtures("eager")


def written(path: Path, column: pa.Array, kind: str | IndexConfig) -> lancefs.LanceDataset:
    rows = pa.table({"value": column, "id": range(len(column))})
    lance.write_dataset(rows, path).create_scalar_index("value", kind)
    return lancefs.open(path)


def same(dataset: lancefs.LanceDataset, filter: str | pc.Expression) -> list[int]:
    """The ids of the rows, by an index that was asked and by a scan."""
    scanner = dataset.scanner(columns=["id"], filter=filter)
    assert "index " in scanner.explain()
    assert "no index" not in scanner.explain()
    scanned = dataset.to_table(columns=["id"], filter=filter, use_index=False)
    assert scanner.to_table().equals(scanned)
    return scanned["id"].to_pylist()


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_a_hash_is_that_of_everybody(data: bytes, number: int) -> None:
    assert xxh64(data) == number


@pytest.mark.parametrize(
    "data_type",
    [
        *(pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float32(), pa.float64(), pa.string()),
        *(pa.large_string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.time64("ns")),
    ],
    ids=str,
)
def test_each_value_is_found_by_its_hash(tmp_path: Path, data_type: pa.DataType) -> None:
    if data_type in (pa.string(), pa.large_string(), pa.binary()):
        column = pa.array(["x" * number for number in range(100)], data_type)
    else:
        stored = pa.int32() if data_type == pa.date32() else pa.int64()
        column = pa.array(range(100), stored).cast(data_type)
    config = IndexConfig(index_type="bloomfilter", parameters={"number_of_items": 16})
    dataset = written(tmp_path / "t.lance", column, config)
    for number in (0, 7, 31, 32, 33, 64, 99):
        assert same(dataset, pc.field("value") == column[number]) == [number]


def test_filters_that_are_too_large_to_be_kept_are_read_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bloomfilter, "_KEPT_BYTES", 0)
    monkeypatch.setattr(bloomfilter, "_BYTES_AT_ONCE", 600)
    config = IndexConfig(index_type="bloomfilter", parameters={"number_of_items": 16})
    dataset = written(tmp_path / "t.lance", pa.array(range(1000)), config)
    assert same(dataset, "value = 777") == [777]
    assert same(dataset, "value IN (3, 500, 5000)") == [3, 500]


def test_numbers_in_lists_are_equal_as_in_a_scan(tmp_path: Path) -> None:
    lists = [[0.0], [-0.0, 1.5], [float("nan")], None, [], [None, 2.0], [1.5, 2.0]]
    dataset = written(tmp_path / "t.lance", pa.array(lists, pa.list_(pa.float64())), "LABEL_LIST")
    assert same(dataset, "array_has(value, 0)") == [0, 1]
    assert same(dataset, "array_has_all(value, [1.5, 2])") == [6]
    assert same(dataset, "array_has_any(value, [2, 7])") == [5, 6]
    assert same(dataset, "array_has_any(value, [2, -0.0, 7, NULL])") == [0, 1, 5, 6]
    others = dataset.to_table(columns=["id"], filter="NOT array_has_any(value, [0, 2])")
    assert others["id"].to_pylist() == [2, 4]
    assert same(dataset, "value IS NULL") == [3]
    assert same(dataset, "array_has(value, 1.5) AND NOT value IS NULL") == [1, 6]


def test_letters_that_others_are_folded_to_lose_no_row(tmp_path: Path) -> None:
    texts = [
        "xİstanbul",
        "XISTANBUL",
        "x\u0131stanbul",
        "ﬁnder",
        "finder",
        "straße 12",
        "K2 \u212a2x",
        None,
    ]
    dataset = written(tmp_path / "t.lance", pa.array(texts), "NGRAM")
    assert same(dataset, "value ILIKE '%xistanbul%'") == [0, 1]
    assert same(dataset, "contains(value, 'finder')") == [4]
    assert same(dataset, "value LIKE '%nder'") == [3, 4]
    assert same(dataset, "contains(value, 'straße')") == [5]
    assert same(dataset, "value ILIKE '%k2x%'") == [6]
    assert same(dataset, "value = 'finder'") == [4]
    assert same(dataset, "value IN ('finder', 'XISTANBUL')") == [1, 4]


@pytest.mark.parametrize(
    ("pattern", "rows"), [(r"%a%bcd%", [0]), (r"%100!%x_z%", [1]), (r"_bc%", [2]), ("abcd", [])]
)
def test_wildcards_part_the_texts_of_a_pattern(
    tmp_path: Path, pattern: str, rows: list[int]
) -> None:
    dataset = written(tmp_path / "t.lance", pa.array(["a bcd", "100%xyzzy", "ybc", None]), "NGRAM")
    filter = f"value LIKE '{pattern}' ESCAPE '!'"
    assert dataset.to_table(["id"], filter)["id"].to_pylist() == rows
    assert dataset.to_table(["id"], filter, use_index=False)["id"].to_pylist() == rows


def test_engines_that_push_no_functions_find_the_same_rows(table: Path) -> None:
    import polars as pl

    import duckdb_adapter

    dataset = lancefs.open(table)
    tagged = same(dataset, "array_has(tags, 't3')")
    green = same(dataset, "contains(text, 'green')")
    known = same(dataset, "code = 17")
    with duckdb_adapter.connect() as connection:

        def found(condition: str) -> list[int]:
            query = f"SELECT id FROM '{table}' WHERE {condition}"
            return [number for (number,) in connection.execute(query).fetchall()]

        assert found("list_contains(tags, 't3')") == tagged
        assert found("contains(text, 'green')") == green
        assert found("text LIKE '%green%'") == green
        assert found("code = 17") == known
    frame = pl.scan_pyarrow_dataset(dataset)
    for condition, ids in (
        (pl.col("tags").list.contains("t3"), tagged),
        (pl.col("text").str.contains("green", literal=True), green),
        (pl.col("code") == 17, known),
    ):
        assert frame.filter(condition).select("id").collect()["id"].to_list() == ids
    assert duckdb.__version__


def test_arrow_expressions_look_for_parts_of_texts(table: Path) -> None:
    dataset = lancefs.open(table)
    for expression in (
        pc.match_substring(pc.field("text"), "green"),
        pc.match_like(pc.utf8_lower(pc.field("text")), "%green%"),
        pc.ends_with(pc.field("text"), "abc7"),
        pc.field("tags").is_null(),
    ):
        same(dataset, expression)


@pytest.mark.parametrize(
    "filter", ["array_has(tags, 'tag 77')", "contains(text, 'word77x')", "key = 'key 1234'"]
)
def test_the_first_look_up_of_a_remote_table_takes_four_rounds(
    filter: str, remote_table: Path
) -> None:
    fs = SlowFileSystem(0.005)
    dataset = LanceDataset(OpenVersion(resolve(Store(fs, str(remote_table)))))
    scanner = dataset.scanner(columns=["id"], filter=filter)
    before = fs.rounds
    assert "no index" not in scanner.explain()
    assert fs.rounds - before <= 4
    assert len(scanner.to_table()) == len(dataset.to_table(["id"], filter, use_index=False)) > 0


@pytest.fixture(scope="module")
def remote_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote parts") / "t.lance"
    draw = np.random.default_rng(0).integers(0, 2000, (30_000, 2)).tolist()
    rows = pa.table(
        {
            "id": range(30_000),
            "tags": [[f"tag {number}" for number in pair] for pair in draw],
            "text": [" ".join(f"word{number}x" for number in pair) for pair in draw],
            "key": [f"key {number}" for number in range(30_000)],
        }
    )
    lance.write_dataset(rows, path, data_storage_version="2.1")
    for column, kind in (("tags", "LABEL_LIST"), ("text", "NGRAM"), ("key", "BLOOMFILTER")):
        lance.dataset(path).create_scalar_index(column, kind)
    return path
