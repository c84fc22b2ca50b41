"""Members that were added to structs and lists later, and lie in data files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import lance
import pyarrow as pa
import pyarrow.feather
import pytest

import duckdb_adapter
import lancefs
from lancefs.errors import CorruptFile

FIRST = pa.struct([("a", pa.int32())])
SECOND = pa.struct([("b", pa.string())])
THIRD = pa.struct([("c", pa.list_(pa.int32()))])
# Structs that are null in one file, in the other one, in both and in neither.
STRUCTS = [
    pa.array([{"a": 1}, None, {"a": None}, None, {"a": 4}], FIRST),
    pa.array([{"b": "x"}, {"b": "y"}, None, None, {"b": None}], SECOND),
]
COLUMNS = {
    "struct": STRUCTS,
    "three files": [*STRUCTS, pa.array([None, None, {"c": [1]}, {"c": []}, {"c": None}], THIRD)],
    "structs in structs": [
        pa.StructArray.from_arrays([STRUCTS[0]], ["n"], mask=pa.array([False, True] + [False] * 3)),
        pa.StructArray.from_arrays([STRUCTS[1]], ["n"], mask=pa.array([False] * 4 + [True])),
    ],
    "lists": [
        pa.array([[{"a": 1}, None], None, [], [{"a": 3}], []], pa.list_(FIRST)),
        pa.array([[{"b": "p"}, {"b": "q"}], [], None, [None], []], pa.list_(SECOND)),
    ],
}


def write(path: Path, columns: list[pa.Array], rows_of_a_file: int = 1_000_000) -> str:
    """Write a table whose column comes from several writers, one after another."""
    table = pa.table({"id": range(len(columns[0])), "st": columns[0]})
    uri = str(path / "t.lance")
    options: dict[str, Any] = {"data_storage_version": "2.2", "max_rows_per_file": rows_of_a_file}
    lance.write_dataset(table, uri, **options)
    for column in columns[1:]:
        _add_members(uri, column)
    return uri


def _add_members(uri: str, column: pa.Array) -> None:
    schema = pa.schema([("st", column.type)])

    @lance.batch_udf(output_schema=schema)
    def members(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([column.take(batch["id"])], schema=schema)

    lance.dataset(uri).add_columns(members, read_columns=["id"])


@pytest.mark.parametrize("rows_of_a_file", [1_000_000, 2], ids=["one fragment", "three fragments"])
@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_a_struct_is_there_where_any_file_has_it(
    tmp_path: Path, columns: list[pa.Array], rows_of_a_file: int
) -> None:
    uri = write(tmp_path, columns, rows_of_a_file)
    expected, dataset = lance.dataset(uri).to_table().to_pylist(), lancefs.open(uri)
    assert dataset.to_table().to_pylist() == expected
    assert dataset.take([3, 1]).to_pylist() == [expected[3], expected[1]]
    with fsspec.open(f"lance://latest.arrow::file://{uri}") as file:
        assert pa.feather.read_table(file).to_pylist() == expected


@pytest.mark.parametrize("filter", ["st IS NULL", "st IS NOT NULL", "st.a IS NULL", "st.b > 'x'"])
def test_filters_see_such_a_struct_as_it_is_read(tmp_path: Path, filter: str) -> None:
    uri = write(tmp_path, STRUCTS)
    expected = lance.dataset(uri).to_table(columns=["id"], filter=filter)
    assert lancefs.open(uri).to_table(columns=["id"], filter=filter).equals(expected)
    assert lancefs.open(uri).count_rows(filter) == expected.num_rows


def test_sql_counts_such_structs(tmp_path: Path) -> None:
    uri = write(tmp_path, STRUCTS)
    query = f"SELECT count(st), count(st.a), count(st.b), count(*) FILTER (st IS NULL) FROM '{uri}'"
    with duckdb_adapter.connect() as con:
        assert con.execute(query).fetchall() == [(4, 2, 2, 1)]


def test_lists_of_other_lengths_in_another_file_are_refused(tmp_path: Path) -> None:
    longer = pa.array([[{"b": "p"}], None, [{"b": "q"}], [{"b": "r"}], []], pa.list_(SECOND))
    uri = write(tmp_path, [COLUMNS["lists"][0], longer])
    with pytest.raises(CorruptFile, match="the lists of 'st' have other lengths"):
        lancefs.open(uri).to_table()
