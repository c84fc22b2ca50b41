"""The two ways to Lance tables in DuckDB, for tests that run on both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import _duckdb
import duckdb
import pytest

import duckdb_adapter

REPOSITORY = Path(__file__).resolve().parents[2]
# The table of the demo: 1200 orders; without the tests among them; with a column `total`, tagged
# `prod`; with three more.
ORDERS = str(REPOSITORY / "examples" / "data" / "orders.lance")
ORDERS_ROWS = {1: 1200, 2: 1188, 3: 1188, 4: 1191}

HAS_EXTENSIONS = int(duckdb.__version__.split(".")[0]) >= 2

needs_install = pytest.mark.skipif(
    not HAS_EXTENSIONS, reason="this DuckDB has no interface for extensions from Python"
)

ROADS = ["install", "wrap"] if HAS_EXTENSIONS else ["wrap"]


def connect(road: str, *args: Any, **kwargs: Any) -> Any:
    """Open a database on which Lance tables work."""
    if road == "install":
        duckdb_adapter.install()
        return duckdb.connect(*args, **kwargs)
    # Once installed, databases know our names by themselves, which is not what is to be tested.
    registration = getattr(_duckdb, "_lancefs_registration", None)
    if registration is None:
        return duckdb_adapter.connect(*args, **kwargs)
    registration.active = False
    try:
        return duckdb_adapter.connect(*args, **kwargs)
    finally:
        registration.active = True


def run_python(code: str, *, expect: int = 0) -> str:
    """Run code in a process of its own and return what it printed.

    The names `duckdb`, `duckdb_adapter` and `ORDERS` are there.
    """
    head = f"import duckdb, duckdb_adapter\nORDERS = {ORDERS!r}\n"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", head + code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.strip()
