"""The tables and queries of TPC-H, made by DuckDB's own extension: `make tpch`.

Run by a DuckDB for which `duckdb-extension-tpch` is installed; any DuckDB can then be tested with
what it writes: each table as Parquet, and as a Lance table with a past: several fragments, deleted
rows, and a column that came later.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

SCALE = 0.1
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
QUERIES = "queries.json"
FORMATS = ("2.0", "2.1", "2.2")
_ROWS_OF_A_FRAGMENT = 100_000


def load_extension(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Load an extension from the package that brings it, and install nothing."""
    package = find_spec(f"duckdb_extension_{name}")
    assert package is not None, f"duckdb-extension-{name} is not installed"
    assert package.origin is not None
    (file,) = Path(package.origin).parent.rglob(f"{name}.duckdb_extension")
    connection.execute(f"LOAD '{file}'")


def make(home: Path) -> None:
    """Write all tables, and the queries last: when those are there, all is.

    Args:
        home: The directory to write into; what is in it is replaced.
    """
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with duckdb.connect() as connection:
        load_extension(connection, "tpch")
        connection.execute(f"CALL dbgen(sf = {SCALE})")
        for number, name in enumerate(TABLES):
            table = connection.execute(f"FROM {name}").to_arrow_table()
            pq.write_table(table, home / f"{name}.parquet")
            _write_lance(table, str(home / f"{name}.lance"), FORMATS[number % len(FORMATS)])
        queries = connection.execute("SELECT query FROM tpch_queries() ORDER BY query_nr")
        (home / QUERIES).write_text(json.dumps([query for (query,) in queries.fetchall()]))


def _write_lance(table: pa.Table, path: str, version: str) -> None:
    """Write a table, with rows before, between and after its own that are deleted again."""
    import lance

    key, *_, last = table.column_names
    few = table.slice(0, 10)
    stray = few.set_column(0, key, pa.array([-1] * few.num_rows, few.schema.field(0).type))
    half = table.num_rows // 2
    rows = pa.concat_tables([stray, table.slice(0, half), stray, table.slice(half), stray])
    dataset = lance.write_dataset(
        rows.drop_columns([last]).cast(_nullable(rows.drop_columns([last]).schema)),
        path,
        max_rows_per_file=_ROWS_OF_A_FRAGMENT,
        data_storage_version=version,
    )
    later = rows.select([last]).cast(_nullable(rows.select([last]).schema))
    dataset.add_columns(later.to_reader())
    dataset.delete(f"{key} = -1")


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


if __name__ == "__main__":
    make(Path(sys.argv[1]))
