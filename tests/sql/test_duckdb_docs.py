"""What docs/duckdb.md shows runs as it stands there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from roads import ORDERS_ROWS, connect, needs_install, run_python
from support import ORDERS, REPOSITORY

import duckdb_adapter
import lancefs
from duckdb_adapter.functions import FUNCTIONS

TEXT = (REPOSITORY / "docs" / "duckdb.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
PYTHON = [block for block in BLOCKS if "import ibis" not in block]
IBIS = [block for block in BLOCKS if "import ibis" in block]
SQL = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the tables that the page speaks of."""
    for name in ("orders.lance", "tables/orders.lance", "tables/teas.lance"):
        shutil.copytree(ORDERS, tmp_path / name)
    shutil.make_archive(str(tmp_path / "lake"), "zip", tmp_path, "orders.lance")
    requests = [{"path": f"/{n}", "status": 200} for n in range(9)]
    lance.write_dataset(pa.table({"request": requests}), str(tmp_path / "logs.lance"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@needs_install
def test_the_python_of_the_document_runs(here: Path) -> None:
    assert len(PYTHON) >= 4
    run_python(f"import os; os.chdir({str(here)!r})\n" + "\n".join(PYTHON))


def test_ibis_reads_what_is_registered(here: Path) -> None:
    pytest.importorskip("ibis")
    (code,) = IBIS
    *lines, last = code.strip().splitlines()
    # Ibis calls what DuckDB has deprecated.
    ignore = "import os, warnings; warnings.simplefilter('ignore', DeprecationWarning)"
    code = "\n".join([ignore, f"os.chdir({str(here)!r})", *lines, f"print({last})"])
    printed = run_python(code)
    for city, orders in lancefs.sql(f"SELECT city, count(*) FROM '{ORDERS}' GROUP BY 1").fetchall():
        assert re.search(rf"{city} +{orders}\b", printed)


@needs_install
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ibis_names_paths_where_replacements_are_on(here: Path) -> None:
    ibis = pytest.importorskip("ibis")
    duckdb_adapter.install()
    con = ibis.duckdb.connect()
    con.raw_sql("SET python_enable_replacements = true")
    con.raw_sql("CREATE VIEW orders AS FROM 'orders.lance@v1'")
    assert con.table("orders").count().execute() == ORDERS_ROWS[1]


def test_the_sql_of_the_document_runs(con: Any, here: Path) -> None:
    text = "".join(SQL).replace("file://", f"file://{here}/")
    statements = con.extract_statements(text)
    assert len(statements) >= 15
    for statement in statements:
        rows = con.execute(statement).fetchall()
        assert rows or statement.type.name not in ("SELECT", "EXECUTE"), statement.query


def test_it_names_every_function_with_its_parameters() -> None:
    for function in FUNCTIONS:
        assert f"`{function.name}({', '.join(function.parameters)})`" in TEXT


def test_an_error_reads_as_it_says(here: Path) -> None:
    with pytest.raises(Exception, match="no version 9; the table has 1, 2, 3, 4"):
        connect("wrap").execute("FROM 'orders.lance@v9'")
