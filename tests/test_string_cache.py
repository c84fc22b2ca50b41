"""Columns of strings that are kept in memory come as they are read from files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancefs
from lancefs.lance_dataset import LanceDataset
from lancefs.table import string_cache
from lancefs.table.string_cache import STRING_CACHE, CachedStrings, cached_string_ids

ROWS = 30_000


def _rows(seed: int, rows: int = ROWS) -> pa.Table:
    source = np.random.default_rng(seed)
    users = [f"user {n * 7919} of the table" for n in range(3000)]
    drawn = source.integers(0, len(users), rows)
    return pa.table(
        {
            "id": np.arange(rows) + seed * rows,
            "user": pa.array([users[n] for n in drawn]),
            "maybe": pa.array([users[n] if n % 5 else None for n in drawn]),
            "own": pa.array([f"row {n} of {seed}" for n in range(rows)]),
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("kept") / "t.lance")
    for seed in range(3):
        lance.write_dataset(
            _rows(seed),
            path,
            mode="append",
            data_storage_version=request.param,
            max_rows_per_file=ROWS * 2 // 3,
        )
    lance.dataset(path).delete("id % 11 = 3 or (id > 20000 and id < 21000)")
    return path


def _keeping(path: str, *columns: str) -> LanceDataset:
    dataset = lancefs.open(path)
    for column in columns:
        STRING_CACHE.of(dataset.opened)[dataset.opened.field(column).id] = CachedStrings()
    return dataset


def _encoded(dataset: LanceDataset, columns: list[str], **options: Any) -> pa.Table:
    encoded = [column for column in columns if column != "id"]
    return dataset.scanner(columns=columns, dictionary_columns=encoded, **options).to_table()


def _plain(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))


def test_columns_are_the_same_when_they_are_read_again(path: str) -> None:
    dataset = _keeping(path, "user", "maybe")
    expected = lance.dataset(path).to_table(columns=["maybe", "id", "user"])
    for _ in range(2):
        found = _encoded(dataset, ["maybe", "id", "user"])
        assert found["id"] == expected["id"]
        columns = ["maybe", "user"]
        assert _plain(found.select(columns)) == expected.select(columns)
    assert len(cached_string_ids(dataset.opened)) == 2


def test_no_file_is_read_for_columns_that_are_kept(path: str) -> None:
    dataset = _keeping(path, "user")
    scanners = [dataset.scanner(columns=["user"], dictionary_columns=["user"]) for _ in range(2)]
    tables = [_plain(scanner.to_table()) for scanner in scanners]
    assert tables[0] == tables[1]
    assert scanners[0].stats.bytes > scanners[1].stats.bytes == 0


@given(
    first=st.integers(0, 3 * ROWS),
    rows=st.integers(1, 2 * ROWS),
    filter=st.sampled_from([None, "id % 3 = 1", "id > 60000", "user > 'user 3'", "maybe is null"]),
    batch_size=st.sampled_from([None, 100, 5000]),
)
def test_any_rows_are_the_same_whatever_was_read_before(
    path: str, first: int, rows: int, filter: str | None, batch_size: int | None
) -> None:
    options = {"filter": filter, "offset": first, "limit": rows}
    expected = lance.dataset(path).to_table(columns=["user", "maybe"], **options)
    dataset = _keeping(path, "user", "maybe")
    _encoded(dataset, ["user", "maybe"], offset=first // 2, limit=rows)
    for _ in range(2):
        found = _encoded(dataset, ["user", "maybe"], batch_size=batch_size, **options)
        assert _plain(found) == expected


def test_filters_that_no_row_of_small_fragments_passes(tmp_path_factory: Any) -> None:
    path = str(tmp_path_factory.mktemp("small") / "t.lance")
    lance.write_dataset(_rows(5, 3000), path, max_rows_per_file=50)
    dataset = _keeping(path, "user", "maybe")
    for _ in range(2):
        assert _encoded(dataset, ["user", "maybe"], filter="id < 0").num_rows == 0
        assert _encoded(dataset, ["user"], filter="maybe = 'nobody'").num_rows == 0
        found = _encoded(dataset, ["user", "maybe"], filter="id % 100 = 7")
        expected = lance.dataset(path).to_table(columns=["user", "maybe"], filter="id % 100 = 7")
        assert _plain(found) == expected


@pytest.mark.parametrize("why", ["many values", "small budget", "a thread takes its memory"])
def test_a_column_that_is_not_kept_is_read(
    path: str, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    column = "own" if why == "many values" else "user"
    if why == "small budget":
        monkeypatch.setattr(string_cache, "BUDGET", 1000)
    if why == "a thread takes its memory":
        monkeypatch.setattr(string_cache._SHARED, "hold", CachedStrings.let_go)
    dataset = _keeping(path, column)
    expected = lance.dataset(path).to_table(columns=[column])
    for _ in range(2):
        assert _plain(_encoded(dataset, [column])) == expected
    assert not cached_string_ids(dataset.opened)


def test_columns_leave_memory_that_others_need(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = type(string_cache._SHARED)(lambda: 100, ROWS)
    monkeypatch.setattr(string_cache, "_SHARED", shared)
    expected = lance.dataset(path).to_table(columns=["user", "maybe"])
    datasets = [_keeping(path, "user"), _keeping(path, "maybe")]
    for _ in range(20):
        for dataset, column in zip(datasets, ("user", "maybe"), strict=True):
            assert _plain(_encoded(dataset, [column])) == expected.select([column])
        shared.let_go_half()
    assert not cached_string_ids(datasets[0].opened)


def test_threads_read_a_column_that_is_being_kept(path: str) -> None:
    dataset = _keeping(path, "user", "maybe")
    expected = lance.dataset(path).to_table(columns=["user", "maybe"])
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: _encoded(dataset, ["user", "maybe"]), range(12)))
    assert all(_plain(table) == expected for table in tables)
