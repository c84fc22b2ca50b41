"""Lance tables in DuckDB: `SELECT … FROM 's3://bucket/t.lance@v7'`.

>>> import duckdb, duckdb_adapter
>>> duckdb_adapter.install()
>>> duckdb.sql("SELECT count(*) FROM 'data/t.lance'")  # doctest: +SKIP

`install` is for DuckDB 2.0 and databases that are opened after it. `connect` and `wrap` are for any
DuckDB from 1.4 on, and for databases that are open. Nothing of DuckDB is imported before one of
them is called.
"""

from __future__ import annotations

from duckdb_adapter.attach import attach
from duckdb_adapter.extension import install
from duckdb_adapter.releases import UnsupportedDuckDB
from duckdb_adapter.wrap import LanceConnection, connect, wrap

__all__ = [
    "LanceConnection",
    "UnsupportedDuckDB",
    "attach",
    "connect",
    "install",
    "wrap",
]
