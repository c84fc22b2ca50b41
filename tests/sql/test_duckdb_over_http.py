"""DuckDB's own HTTP client reads what `lancefs serve` answers."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import duckdb
import pytest
from serving import serving
from support import ORDERS
from tpch import load_extension

from lancefs.filesystem import LanceFileSystem

pytestmark = pytest.mark.skipif(
    find_spec("duckdb_extension_httpfs") is None or duckdb.__version__ != "1.5.5",
    reason="reading URLs needs DuckDB's extension httpfs, which is not here",
)


def connection() -> Any:
    con = duckdb.connect()
    load_extension(con, "httpfs")
    return con


def test_files_and_documents_are_read() -> None:
    expected = LanceFileSystem(ORDERS).cat_file("versions/2.arrow")
    fields = json.loads(LanceFileSystem(ORDERS).cat_file("versions/2/schema.json"))
    with serving(ORDERS) as server, connection() as con:
        tree = f"{server.url}orders.lance/versions/2"
        (row,) = con.execute(f"SELECT content FROM read_blob('{tree}.arrow')").fetchall()
        assert row == (expected,)
        text = con.execute(f"SELECT content FROM read_text('{tree}/schema.json')").fetchone()
        assert json.loads(text[0]) == fields


def test_a_secret_shows_the_token() -> None:
    with serving(ORDERS, token="sesame") as server, connection() as con:
        query = f"SELECT size FROM read_blob('{server.url}orders.lance/latest.arrow')"
        with pytest.raises(duckdb.HTTPException):  # DuckDB does not say which status it was
            con.execute(query)
        con.execute("CREATE SECRET tables (TYPE http, BEARER_TOKEN 'sesame')")
        expected = LanceFileSystem(ORDERS).info("latest.arrow")["size"]
        assert con.execute(query).fetchone() == (expected,)
