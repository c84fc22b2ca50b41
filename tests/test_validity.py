"""Reading only which values are missing: counts of nulls, and columns as their validity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import CorpusRef, corpus_cases, of_each

import lancefs
from lancefs.datafile.validity import VALIDITY
from lancefs.lance_dataset import LanceDataset

ROWS = 40_000
FORMATS = ["legacy", "2.0", "2.1", "2.2", "2.3"]
STRUCT = pa.struct([("a", pa.string()), ("b", pa.struct([("c", pa.float64())]))])


def _columns(first: int, rows: int) -> dict[str, pa.Array]:
    """Make columns of several types, without nulls."""
    numbers = np.arange(first, first + rows)
    texts = pa.array([f"text {one} of some length, which is no code" for one in numbers])
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * 2)
    items = pa.array(np.arange(2 * rows) / 7)
    return {
        "number": pa.array(numbers),
        "float": pa.array(numbers / 3),
        "flag": pa.array(numbers % 3 == 0),
        "text": texts,
        "level": pa.array(["info", "warning", "error"]).take(pa.array(numbers % 3)),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(numbers.repeat(4) / 8), 4),
        "list": pa.ListArray.from_arrays(offsets, items),
    }


def _rows(first: int, rows: int, version: str) -> pa.Table:
    """Return each column without nulls, with some, and with nulls only."""
    is_legacy, has_null_structs = version == "legacy", version not in ("legacy", "2.0")
    numbers = np.arange(first, first + rows)
    some = pa.array(numbers % 7 == 1)
    made: dict[str, pa.Array] = {"id": pa.array(numbers)}
    for name, values in _columns(first, rows).items():
        made[name] = values
        if not is_legacy or name == "text":  # other values are never null in files 0.1
            made[f"{name}_some"] = pc.if_else(some, pa.scalar(None, values.type), values)
        if not is_legacy:
            made[f"{name}_none"] = pa.nulls(rows, values.type)
    structs = [
        None
        if one % 5 == 0 and has_null_structs
        else {"a": f"a{one}" if one % 3 else None, "b": {"c": one / 3}}
        for one in numbers.tolist()
    ]
    made["struct"] = pa.array(structs, STRUCT)
    return pa.table(made)


@pytest.fixture(scope="module", params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of two fragments, with deleted rows, and columns that were added later."""
    where = str(tmp_path_factory.mktemp("tables") / f"{request.param}.lance")
    is_legacy = request.param == "legacy"
    rows = _rows(0, ROWS, request.param)
    lance.write_dataset(rows, where, data_storage_version=request.param)
    lance.write_dataset(_rows(ROWS, 5_000, request.param), where, mode="append")
    dataset = lance.dataset(where)
    dataset.delete("id % 10 = 3 or id < 5")
    if not is_legacy:
        dataset.add_columns(pa.field("later", pa.string()))
        dataset.add_columns({"computed": "nullif(id % 4, 1)"})
    return where


@pytest.fixture(scope="module")
def rows(path: str) -> pa.Table:
    """Its rows."""
    return lancefs.open(path).to_table()


def _paths(schema: pa.Schema) -> list[str]:
    names = [name for name in schema.names if name != "id"]
    return [*names, "struct.a", "struct.b", "struct.b.c"]


def _value_of(table: pa.Table, path: str) -> pa.Array:
    column, *members = path.split(".")
    array = table[column].combine_chunks()
    for member in members:
        array = pc.struct_field(array, [member])
    return array


def test_nulls_are_counted_as_pylance_counts_them(path: str) -> None:
    dataset, other = lancefs.open(path), lance.dataset(path)
    rows = other.to_table()
    for name in _paths(dataset.schema):
        expected = _value_of(rows, name).null_count
        field = pc.field(*name.split("."))
        assert dataset.count_rows(field.is_null()) == expected, name
        assert dataset.count_rows(field.is_valid()) == len(rows) - expected, name
        assert dataset.count_rows(f"{name} IS NULL") == expected, name
        assert dataset.count_rows(f"{name} IS NOT NULL") == len(rows) - expected, name


def test_validity_columns_are_null_where_the_values_are(path: str) -> None:
    dataset = lancefs.open(path)
    rows, names = dataset.to_table(), _paths(dataset.schema)
    told = dataset.to_table(names, validity_columns=names)
    told.validate(full=True)
    for name in names:
        column = told[name].combine_chunks()
        assert column.type == VALIDITY
        assert column.is_valid().equals(_value_of(rows, name).is_valid()), name
        assert column.drop_null().true_count == len(column) - column.null_count


def test_validity_columns_come_beside_values(path: str) -> None:
    dataset = lancefs.open(path)
    condition = "text_some IS NOT NULL AND id % 3 = 1 AND level IS NOT NULL"
    names = ["id", "text", "text_some", "struct.a", "list"]
    rows = dataset.to_table(names, condition)
    told = dataset.to_table(names, condition, validity_columns=["text", "struct.a", "list"])
    assert told.select(["id", "text_some"]) == rows.select(["id", "text_some"])
    for name in ("text", "struct.a", "list"):
        assert told[name].is_valid().equals(rows[name].is_valid())


def test_few_rows_as_validity(path: str) -> None:
    dataset = lancefs.open(path)
    names = _paths(dataset.schema)
    scanner = dataset.scanner(names, validity_columns=names)
    rows = dataset.scanner(names)
    wanted = [0, 6, 7, 39_000, 3, 12_345]
    for told, values in (
        (scanner.take(wanted), rows.take(wanted)),
        (scanner.head(9), rows.head(9)),
        (scanner.tail(70), rows.tail(70)),
    ):
        assert told.schema == scanner.projected_schema
        for name in names:
            assert told[name].is_valid().equals(values[name].is_valid()), name


def test_a_column_can_be_compared_and_come_as_its_validity(path: str) -> None:
    dataset = lancefs.open(path)
    for condition in ("text_some LIKE '%3%'", "level = 'error' AND struct.a IS NULL"):
        names = ["text_some", "level", "struct.a"]
        told = dataset.to_table(names, condition, validity_columns=names)
        rows = dataset.to_table(names, condition)
        for name in names:
            assert told[name].is_valid().equals(rows[name].is_valid())


# Filters that need values, beside tests for nulls.
OTHERS = [
    "text_some IS NULL OR text_some LIKE '%7%'",
    "text_some IS NULL OR number > 39000",
    "(text_some IS NULL) = (id % 2 = 0)",
    "struct IS NULL OR struct.a = 'a7'",
    "struct IS NOT NULL AND struct.a IS NULL",
    "struct.b IS NULL OR struct.b.c > 10000",
    "NOT (text_some IS NULL) AND level_some IN ('info')",
]


@pytest.mark.parametrize("condition", OTHERS)
def test_filters_that_test_for_nulls_and_compare(path: str, rows: pa.Table, condition: str) -> None:
    if "legacy" in path and "level_some" in condition:
        pytest.skip("values of dictionaries are never null in files 0.1")
    dataset = lancefs.open(path)
    expected = rows.filter(dataset.scanner(filter=condition)._request.filter.expression)
    assert dataset.to_table(["id"], condition)["id"] == expected["id"]
    assert dataset.count_rows(condition) == len(expected)


def test_nan_is_a_value_unless_a_filter_says_otherwise(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"f": [1.0, float("nan"), None]}), where)
    dataset = lancefs.open(where)
    assert dataset.count_rows(pc.field("f").is_null()) == 1
    assert dataset.count_rows(pc.field("f").is_null(nan_is_null=True)) == 2


def _large(tmp_path: Path, version: str) -> LanceDataset:
    rows = _rows(0, 200_000, version)
    where = str(tmp_path / "large.lance")
    lance.write_dataset(rows, where, data_storage_version=version)
    return lancefs.open(where)


def _bytes_read(dataset: LanceDataset, **options: Any) -> int:
    """Return how many bytes are read of pages: what tells where they are is read before."""
    dataset.scanner(**options).to_table()
    scanner = dataset.scanner(**options)
    scanner.to_table()
    return scanner.stats.bytes


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_values_that_sql_casts_are_not_read_for_nulls(tmp_path: Path, version: str) -> None:
    numbers = np.arange(20_000)
    halves = pa.array((numbers % 100).astype(np.float16))
    ids = pa.array([number.to_bytes(16, "little") for number in numbers.tolist()], pa.binary(16))
    some = pa.array(numbers % 7 == 1)
    made = {"id": pa.array(numbers), "half": halves, "key": pa.uuid().wrap_array(ids)}
    made["half_some"] = pc.if_else(some, pa.scalar(None, pa.float16()), halves)
    missing = pc.if_else(some, pa.scalar(None, pa.binary(16)), ids)
    made["key_some"] = pa.uuid().wrap_array(missing)
    where = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table(made), where, data_storage_version=version)
    dataset = lancefs.open(where)
    for name in ("half", "key"):
        assert _bytes_read(dataset, columns=[], filter=f"{name} IS NULL") == 0, name
        expected = [row for row in numbers.tolist() if row % 7 == 1]
        filter = f"{name}_some IS NULL"
        assert dataset.count_rows(filter) == len(expected), name
        assert dataset.to_table(columns=["id"], filter=filter)["id"].to_pylist() == expected
        assert dataset.count_rows(f"{filter} AND id < 50") == 7, name
        assert dataset.count_rows(f"({filter}) = (id % 7 = 1)") == 20_000, name


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_values_are_not_read_for_nulls(tmp_path: Path, version: str) -> None:
    dataset = _large(tmp_path, version)
    for name in ("number", "float", "vector"):
        assert _bytes_read(dataset, columns=[], filter=f"{name} IS NULL") == 0, name
    for name in ("text", "list"):
        read = _bytes_read(dataset, columns=[], filter=f"{name} IS NULL")
        has_ends = version in ("legacy", "2.0")
        assert read <= (9 * 200_000 if has_ends else 0), name  # ends of values, or nothing
    if version == "2.0":  # bits apart from values
        for name in ("number_some", "float_some", "vector_some"):
            read = _bytes_read(dataset, columns=[], filter=f"{name} IS NULL")
            assert read <= 2 * 200_000 // 8, name


def test_pages_without_nulls_are_not_read_at_all(tmp_path: Path) -> None:
    dataset = _large(tmp_path, "2.1")
    names = ["number", "float", "flag", "text", "level", "vector", "list"]
    assert _bytes_read(dataset, columns=names, validity_columns=names) == 0


def test_fragments_without_nulls_are_passed_over(tmp_path: Path) -> None:
    dataset = _large(tmp_path, "2.1")
    lance.write_dataset(_rows(200_000, 100_000, "2.1"), dataset.uri, mode="append")
    lance.dataset(dataset.uri).delete("id % 10 = 3")
    dataset = lancefs.open(dataset.uri)
    for condition in (
        "text IS NULL",
        "struct.b.c IS NULL",
        "text_some LIKE '%7%' AND vector IS NULL",
    ):
        scanner = dataset.scanner(["id"], condition)
        rows = scanner.to_table().num_rows
        assert rows == dataset.to_table(filter=f"({condition}) IS TRUE").num_rows
        assert scanner.stats.fragments_skipped == (0 if "struct" in condition else 2)
    assert dataset.count_rows("text IS NULL OR id = 5") == 1


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_fewer_bytes_are_fetched_of_remote_tables(tmp_path: Path, version: str) -> None:
    store = fsspec.filesystem("memory")
    store.put(_large(tmp_path, version).uri, "/validity/large.lance", recursive=True)
    try:
        dataset = lancefs.open("memory://validity/large.lance")
        for name in ("float", "vector"):
            assert _bytes_read(dataset, columns=[], filter=f"{name} IS NULL") == 0, name
        read = _bytes_read(dataset, columns=["text"], validity_columns=["text"])
        assert read <= (9 * 200_000 if version == "2.0" else 0)
        expected = lance.dataset(str(tmp_path / "large.lance")).count_rows("struct.a IS NULL")
        assert dataset.count_rows("struct.a IS NULL") == expected
    finally:
        store.rm("/validity", recursive=True)


def test_indices_answer_tests_for_nulls_as_before(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    rows = pa.table({"id": range(9000), "n": [None if i % 50 == 7 else i for i in range(9000)]})
    lance.write_dataset(rows, where, max_rows_per_file=3000)
    dataset = lance.dataset(where)
    dataset.create_scalar_index("n", "BTREE")
    lance.write_dataset(rows.slice(0, 500), where, mode="append")
    found = lancefs.open(where)
    for use_index in (True, False):
        assert found.scanner(filter="n IS NULL", use_index=use_index).count_rows() == 190
        assert found.to_table(["id"], "n IS NULL AND id > 8000", use_index=use_index).num_rows == 20
        told = found.to_table(["n"], "n IS NULL", validity_columns=["n"], use_index=use_index)
        assert told["n"].null_count == 190


def test_ranges_of_values_are_kept_by_other_filters_only(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"n": [None] * 20_000 + list(range(20_000))}), where)
    dataset = lancefs.open(where)
    assert dataset.count_rows("n IS NOT NULL") == 20_000
    assert dataset.count_rows("n > 5") == 19_994
    assert dataset.count_rows("n IS NOT NULL") == 20_000
    assert dataset.count_rows("n IS NULL") == 20_000


def test_validity_of_many_small_fragments_is_that_of_the_values(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    rows = _rows(0, 6000, "2.1")
    lance.write_dataset(rows, where, max_rows_per_file=150)
    dataset = lancefs.open(where)
    names = _paths(dataset.schema)
    told = dataset.to_table(names, validity_columns=names)
    for name in names:
        assert told[name].is_valid().to_pylist() == _value_of(rows, name).is_valid().to_pylist()
        expected = _value_of(rows, name).null_count
        assert dataset.count_rows(f"{name} IS NULL") == expected, name


def test_validity_columns_must_be_columns(tmp_path: Path) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"n": [1, None]}), where)
    dataset = lancefs.open(where)
    with pytest.raises(lancefs.LanceError):
        dataset.scanner(["n"], validity_columns=["m"])
    with pytest.raises(TypeError, match="validity_columns is 'n'"):
        dataset.scanner(["n"], validity_columns="n")
    with pytest.raises(ValueError, match="names, not expressions"):
        dataset.scanner({"m": "n"}, validity_columns=["n"])


@of_each(ref for case in corpus_cases() for ref in case.refs[-2:])
def test_validity_in_tables_of_all_releases_is_that_of_the_values(ref: CorpusRef) -> None:
    assert_validity_of_the_values(ref)


@pytest.mark.slow
@of_each(ref for case in corpus_cases() for ref in case.refs[:-2])
def test_validity_in_older_versions_is_that_of_the_values(ref: CorpusRef) -> None:
    assert_validity_of_the_values(ref)


def assert_validity_of_the_values(ref: CorpusRef) -> None:
    dataset = lancefs.open(ref.case.table(), ref=ref.ref)
    rows, names = dataset.to_table(), dataset.schema.names
    told = dataset.to_table(names, validity_columns=names)
    told.validate(full=True)
    for name in names:
        where, values = f"{name} of {ref}", rows[name]
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        is_valid = told[name].is_valid().combine_chunks()
        assert is_valid.equals(values.is_valid().combine_chunks()), where
        assert dataset.count_rows(pc.field(name).is_null()) == values.null_count, where
