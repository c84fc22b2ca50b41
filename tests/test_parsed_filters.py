"""Filters that are asked again: the same rows each time, and each text is understood once."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lancefs
from lancefs.errors import ColumnNotFound, InvalidFilter
from lancefs.scan import parsed_filters, sql_filter
from lancefs.scan.parsed_filters import parsed_filter
from lancefs.storage.budget_cache import BudgetCache

ROWS = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = str(tmp_path_factory.mktemp("known") / "t.lance")
    rows = {
        "id": range(ROWS),
        "name": [f"n{number % 7}" for number in range(ROWS)],
        "st": [{"x": number} for number in range(ROWS)],
    }
    lance.write_dataset(pa.table(rows), where)
    lance.dataset(where).create_scalar_index("id", "BTREE")
    return where


@pytest.fixture
def dataset(path: str) -> lancefs.LanceDataset:
    return lancefs.open(path)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that were parsed."""
    texts: list[str] = []
    parse = sql_filter.parse_filter

    def noted(text: str, fields: tuple[object, ...]) -> pc.Expression:
        texts.append(text)
        return parse(text, fields)

    monkeypatch.setattr(sql_filter, "parse_filter", noted)
    return texts


def ids(dataset: lancefs.LanceDataset, filter: str | pc.Expression) -> list[int]:
    return dataset.to_table(columns=["id"], filter=filter)["id"].to_pylist()


def test_a_text_is_parsed_once_for_an_open_dataset(
    dataset: lancefs.LanceDataset, parsed: list[str]
) -> None:
    assert ids(dataset, "id = 7") == ids(dataset, "id = 7") == [7]
    assert dataset.count_rows(filter="id = 7") == 1
    assert parsed == ["id = 7"]


def test_a_text_is_parsed_once_for_a_table_that_is_opened_again(
    tmp_path: Path, parsed: list[str]
) -> None:
    where = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2]}), where)
    lance.write_dataset(pa.table({"id": [2, 3]}), where, mode="append")
    assert [ids(lancefs.open(where, version=one), "id = 2") for one in (1, 2)] == [[2], [2, 2]]
    assert ids(lancefs.open(where), "id = 2") == [2, 2]
    assert parsed == ["id = 2"]


def test_the_same_text_means_the_columns_of_its_own_table(path: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.lance")
    lance.write_dataset(pa.table({"id": ["7", "8"]}), other)
    assert ids(lancefs.open(path), "id = '7'") == [7]
    assert lancefs.open(other).to_table(filter="id = '7'")["id"].to_pylist() == ["7"]


def test_several_filters_are_kept_apart(dataset: lancefs.LanceDataset, parsed: list[str]) -> None:
    both = dataset.filter("id < 3").filter("name = 'n1'")
    alone = dataset.filter("id < 3 AND name = 'n1' OR id = 9")
    for _ in range(2):
        assert both.to_table()["id"].to_pylist() == [1]
        assert alone.to_table()["id"].to_pylist() == [1, 9]
    assert ids(dataset.filter("id < 3"), pc.field("id") > 1) == [2]


def test_expressions_are_known_by_what_they_say(dataset: lancefs.LanceDataset) -> None:
    version = dataset._version
    first, again = (parsed_filter([pc.field("id") == 7], version) for _ in range(2))
    assert again is first
    assert parsed_filter([pc.field("id") == 8], version) is not first
    assert parsed_filter(["id = 7"], version) is not first  # whose errors name the text
    assert ids(dataset, pc.field("id") == 7) == [7]
    assert ids(dataset, pc.field("id") == pa.scalar(8, pa.int8())) == [8]


@pytest.mark.parametrize("other", [7, ["id = 7"], None])
def test_what_is_no_filter_is_refused_by_what_it_is(
    dataset: lancefs.LanceDataset, other: Any
) -> None:
    with pytest.raises(TypeError, match=re.escape(f"filter is {other!r}; SQL text")):
        parsed_filter([other], dataset._version)


def test_a_wrong_filter_is_an_error_each_time(dataset: lancefs.LanceDataset) -> None:
    for _ in range(2):
        with pytest.raises(InvalidFilter, match="id ="):
            ids(dataset, "id = ")
        with pytest.raises(ColumnNotFound, match="nothing"):
            ids(dataset, "nothing = 3")


@pytest.mark.parametrize("filter", ["id IN (1, 40)", "NOT (id IN (2, 3) OR id > 9)"])
def test_sets_are_not_kept_since_their_tables_are_large(
    path: str, dataset: lancefs.LanceDataset, parsed: list[str], filter: str
) -> None:
    expected = lance.dataset(path).to_table(columns=["id"], filter=filter)["id"].to_pylist()
    assert expected
    assert ids(dataset, filter) == ids(dataset, filter) == expected
    assert parsed == [filter, filter]


def test_what_is_kept_is_bounded(dataset: lancefs.LanceDataset, parsed: list[str]) -> None:
    version = dataset._version
    most = parsed_filters._BYTES // parsed_filters._MIN_BYTES
    for number in range(2 * most):
        parsed_filter([f"id = {number}"], version)
    kept: BudgetCache[Any, Any] = parsed_filters._filters_of(version)
    assert 0 < len(kept.values()) < most
    long = "id = 7" + " " * parsed_filters._BYTES
    assert ids(dataset, long) == [7]
    assert 0 < len(kept.values()) < most
    assert kept.peek((long,)) is None


def test_filters_are_forgotten_with_their_version(path: str) -> None:
    dataset = lancefs.open(path)
    assert ids(dataset, "id = 7") == [7]
    version = weakref.ref(dataset._version)
    del dataset
    gc.collect()
    assert version() is None


_TERMS = st.sampled_from(
    [
        *("id = 7", "id > 45", "name = 'n3'", "st.x = 5", "name LIKE 'n%'", "id IN (1, 2, 90)"),
        *("7 = id", "name IS NULL", "NOT id < 40", "id BETWEEN 3 AND 5", "contains(name, '3')"),
    ]
)


@given(st.lists(_TERMS, min_size=1, max_size=3), st.sampled_from([" AND ", " OR "]))
def test_a_filter_keeps_the_rows_that_pylance_keeps_also_when_asked_again(
    path: str, terms: list[str], join: str
) -> None:
    filter = join.join(terms)
    expected = lance.dataset(path).to_table(columns=["id"], filter=filter)["id"].to_pylist()
    dataset = lancefs.open(path)
    assert [ids(dataset, filter), ids(dataset, filter)] == [sorted(expected)] * 2
