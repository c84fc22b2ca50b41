"""Long tables are counted by the footer of a Parquet file that holds nothing but their rows."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from roads import assert_same_rows, connect, native_rows, needs_install, run_python

from duckdb_adapter.sources import row_count_files
from duckdb_adapter.sources.row_count_files import RowCountFiles, parquet_of_rows

ROWS = 1_100_000


@example(rows=2**30)
@example(rows=2**30 + 1)
@example(rows=20 * 2**30)
@given(rows=st.integers(1, 2**40) | st.integers(1, 1000))
def test_footers_tell_rows(rows: int) -> None:
    metadata = pq.ParquetFile(io.BytesIO(parquet_of_rows(rows))).metadata
    groups = [metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)]
    assert metadata.num_rows == sum(groups) == rows
    assert max(groups) < 2**31


@pytest.mark.parametrize("rows", [1, 63, 64, 2048, 70_000, 1_000_003])
def test_arrow_and_duckdb_read_nulls(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(parquet_of_rows(rows))
    assert pq.read_table(path) == pa.table({"n": pa.nulls(rows, pa.bool_())})
    query = f"SELECT count(*), count(n), count(1) FILTER (WHERE n IS NULL) FROM '{path}'"
    assert duckdb.connect().execute(query).fetchall() == [(rows, 0, rows)]


@pytest.mark.parametrize("page_rows", [1, 3, 1000])
def test_a_file_of_nulls_has_the_rows_of_all_of_its_groups(
    page_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_count_files, "_MAX_ROWS", page_rows)
    path = tmp_path / "rows.parquet"
    path.write_bytes(parquet_of_rows(3001))
    assert pq.read_table(path) == pa.table({"n": pa.nulls(3001, pa.bool_())})
    assert duckdb.connect().execute(f"SELECT count(n IS NULL) FROM '{path}'").fetchall() == [
        (3001,)
    ]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    numbers = np.arange(ROWS) % 100
    members = pa.StructArray.from_arrays([numbers.astype(np.int8)], ["status"])
    return pa.table({"id": numbers.astype(np.int16), "request": members})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, rows: pa.Table) -> Path:
    path = tmp_path_factory.mktemp("counted") / "it's.lance"
    lance.write_dataset(rows, str(path))
    return path


@pytest.fixture(scope="module")
def native(rows: pa.Table) -> Any:
    with native_rows(rows) as connection:
        yield connection


QUERIES = [
    "SELECT count(*) FROM {t}",
    "SELECT count(*), count(id), count(request.status) + 1 FROM {t}",
    "SELECT count(request.status) FROM {t} AS l",
    "SELECT id IS NULL AS missing, count(*) FROM {t} GROUP BY ALL",
    "SELECT count(*) FROM {t} WHERE id IS NULL",
    "SELECT count(*) FROM {t} WHERE id IS NOT NULL AND 1 < 2",
    "SELECT count(*) FILTER (WHERE id IS NOT NULL) FROM {t}",
    "SELECT id IS NULL FROM {t} LIMIT 3 OFFSET 500_000",
    "SELECT count(*) OVER () FROM {t} LIMIT 2",
    "SELECT count(*) FROM (SELECT count(id) FROM {t})",
]


@needs_install
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("optimizers", ["", "statistics_propagation,column_lifetime"])
def test_queries_find_what_duckdbs_own_table_holds(
    native: Any, table: Path, query: str, optimizers: str
) -> None:
    con = connect("install")
    con.execute(f"SET disabled_optimizers = '{optimizers}'")
    name = Path(str(table).replace("'", "''"))
    assert_same_rows(con, native, name, query)


@needs_install
def test_duckdb_counts_no_rows(table: Path) -> None:
    name = str(table).replace("'", "''")
    for query in ("SELECT count(*) FROM '{t}'", "SELECT count(request.status) FROM '{t}'"):
        plan = connect("install").execute("EXPLAIN " + query.format(t=name)).fetchall()[0][1]
        assert "Column Data Scan" in plan
        assert "RANGE" not in plan


@needs_install
def test_each_version_has_its_rows(tmp_path: Path) -> None:
    path, con = tmp_path / "t.lance", connect("install")
    lance.write_dataset(pa.table({"a": pa.array(np.zeros(ROWS, np.int8))}), str(path))
    query = f"SELECT count(*) FROM '{path}'"
    con.execute(f"CREATE VIEW newest AS {query}")
    con.execute(f"PREPARE again AS {query}")
    relation = con.sql(query)
    assert con.execute(query).fetchall() == con.execute("FROM newest").fetchall() == [(ROWS,)]
    con.execute("BEGIN")
    assert con.execute(query).fetchall() == [(ROWS,)]
    lance.write_dataset(pa.table({"a": pa.array([1], pa.int8())}), str(path), mode="append")
    assert con.execute(query).fetchall() == [(ROWS,)]
    con.execute("COMMIT")
    for newest in ("FROM newest", "EXECUTE again", query):
        assert con.execute(newest).fetchall() == [(ROWS + 1,)]
    assert relation.fetchall() in ([(ROWS,)], [(ROWS + 1,)])
    assert con.execute(f"SELECT count(*) FROM '{path}@v1'").fetchall() == [(ROWS,)]
    assert "parquet" not in str(con.execute("SELECT sql FROM duckdb_views()").fetchall())


@needs_install
def test_without_local_files_duckdb_counts_a_range(table: Path) -> None:
    con = connect("install")
    con.execute("SET disabled_filesystems = 'LocalFileSystem'")
    query = "SELECT count(*) FROM lance_scan('{}')".format(str(table).replace("'", "''"))
    assert con.execute(query).fetchall() == [(ROWS,)]
    plan = con.execute(f"EXPLAIN {query}").fetchall()[0][1]
    assert "RANGE" in plan


@needs_install
def test_macros_of_the_same_name_are_not_called(table: Path) -> None:
    con = connect("install")
    con.execute("CREATE MACRO read_parquet(x) AS TABLE SELECT 1 FROM range(3)")
    name = str(table).replace("'", "''")
    assert con.execute(f"SELECT count(*) FROM '{name}'").fetchall() == [(ROWS,)]


def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RowCountFiles:
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return RowCountFiles()


def test_a_file_is_written_once_and_again_where_it_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _in_folder(tmp_path / "files", monkeypatch)
    path = Path(files.path_of(5_000_000, os.path.exists) or "")
    written = path.stat().st_mtime_ns
    assert Path(files.path_of(5_000_000, os.path.exists) or "") == path
    assert path.stat().st_mtime_ns == written
    path.unlink()
    path.parent.rmdir()
    again = files.path_of(5_000_000, os.path.exists)
    assert again is not None
    assert pq.read_metadata(again).num_rows == 5_000_000


class FullDisk(io.FileIO):
    """A file that is made, and takes no byte."""

    def write(self, data: object, /) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_file_that_a_full_disk_did_not_take_is_not_read_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _in_folder(tmp_path / "files", monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(row_count_files, "open", FullDisk, raising=False)
        assert files.path_of(ROWS, os.path.exists) is None
        assert files.path_of(ROWS, os.path.exists) is None
    path = files.path_of(ROWS, os.path.exists)
    assert path is not None
    assert pq.ParquetFile(path).metadata.num_rows == ROWS


def test_there_are_not_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_count_files, "_MAX_FILES", 3)
    files = _in_folder(tmp_path / "files", monkeypatch)
    assert [files.path_of(count, os.path.exists) is not None for count in (7, 8, 9, 10, 7)] == [
        True, True, True, False, True
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a*b", "a?b", "a[b]"])
def test_no_file_where_its_name_would_be_a_pattern(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _in_folder(tmp_path / name, monkeypatch).path_of(7, os.path.exists) is None


def test_no_file_where_there_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert RowCountFiles().path_of(7, os.path.exists) is None


_CHILD = """
import warnings
warnings.simplefilter("ignore")  # of threads, which the child needs none of
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
"""
ENDINGS = {"end": "", "end of a child": _CHILD}


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_are_removed_by_the_process_that_made_them(ending: str) -> None:
    path = run_python(
        "import os, sys\n"
        "from duckdb_adapter.sources.row_count_files import RowCountFiles\n"
        "path = RowCountFiles().path_of(7, os.path.exists)\n"
        f"{ENDINGS[ending]}\n"
        "print(path, os.path.exists(path))"
    )
    path, _, is_there = path.partition(" ")
    assert is_there == "True"
    assert not os.path.exists(os.path.dirname(path))
