"""What the tests of the DuckDB adapter share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roads import EACH_ROAD, connect, native_rows, note_scans, with_wide_halves

from duckdb_adapter.sources import (
    column_values,
    extremes,
    groups,
    joined_keys,
    kept_rows,
    limits,
    top_n,
    unpushed_filters,
    value_counts,
)
from lancefs.scan import selectivity
from lancefs.storage.budget_cache import BudgetCache
from lancefs.table.per_version import PerVersion


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


@pytest.fixture(autouse=True)
def no_rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for any table is done for short ones that are named again, too."""
    monkeypatch.setattr(kept_rows, "MAX_ROWS", 0)


@pytest.fixture
def any_table_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done for long tables is done for short ones, too."""
    monkeypatch.setattr(column_values, "MIN_ROWS", 10)
    for module in (unpushed_filters, groups, joined_keys, top_n):
        monkeypatch.setattr(module, "_MIN_ROWS", 10)
    monkeypatch.setattr(limits, "_MIN_SKIPPED", 10)


@pytest.fixture
def any_table_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are taken of short tables, too."""
    monkeypatch.setattr(selectivity, "_MIN_ROWS", 100)
    monkeypatch.setattr(selectivity, "_MIN_FRAGMENT_ROWS", 100)


@pytest.fixture
def no_first_rows_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that other tests have found are looked for again."""
    monkeypatch.setattr(top_n, "_FOUND", PerVersion(lambda _: BudgetCache(1_000_000)))


@pytest.fixture
def no_values_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have counted, within limits of their own, is counted again."""
    monkeypatch.setattr(column_values, "_COUNTS", PerVersion(lambda _: {}))
    monkeypatch.setattr(column_values, "_ASKED", PerVersion(lambda _: set()))
    monkeypatch.setattr(value_counts, "_ROWS", PerVersion(lambda _: {}))
    monkeypatch.setattr(extremes, "_EXTREMES", PerVersion(lambda _: {}))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, no_first_rows_are_known: None) -> list[list[str]]:
    """The columns of each scan, in order; tables of any length are long."""
    seen: list[list[str]] = []
    note_scans(monkeypatch, lambda options: seen.append(list(options["columns"])))
    monkeypatch.setattr(top_n, "_MIN_ROWS", 10)
    return seen


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of the scans that begin."""
    found: list[dict[str, Any]] = []
    note_scans(monkeypatch, found.append)
    return found
