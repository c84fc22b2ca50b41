"""What the tests of the DuckDB adapter share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roads import EACH_ROAD, connect, native_rows, note_scans, with_wide_halves


@pytest.fixture(params=EACH_ROAD)
def con(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A connection on which Lance tables work, once each way."""
    connection = connect(request.param)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def native(table: Path) -> Iterator[Any]:
    """A database whose own table `native` has the rows of the Lance table of the module."""
    lance = pytest.importorskip("lance")
    with native_rows(with_wide_halves(lance.dataset(str(table)).to_table())) as connection:
        yield connection


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of the scans that begin."""
    found: list[dict[str, Any]] = []
    note_scans(monkeypatch, found.append)
    return found
