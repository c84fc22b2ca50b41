"""With and without the indices of a table, and in pylance: the same rows in the same order."""

from __future__ import annotations

import logging
import pickle
import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from histories import OPERATIONS, SCHEMA, create, filters, long_steps, steps
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter
from lance.fragment import DataFile
from support import examples

import lancefs

# Columns whose values tell which rows came out, NaN left out.
COLUMNS = [name for name in SCHEMA.names if name not in ("real", "ratio", "heat")]


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable ids"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with indices, to be copied."""
    path = tmp_path_factory.mktemp("template") / "t.lance"
    create(path, request.param, "2.1")
    return path


pytestmark = pytest.mark.usefixtures("eager")


def check(dataset: lancefs.LanceDataset, filter: str) -> str:
    """Compare the rows that pass with and without indices; return what was done."""
    scanner = dataset.scanner(columns=COLUMNS, filter=filter, with_row_id=True)
    found = scanner.to_table()
    scanned = dataset.to_table(columns=COLUMNS, filter=filter, with_row_id=True, use_index=False)
    assert found.equals(scanned), f"{filter}\n{scanner.explain()}"
    assert dataset.count_rows(filter) == len(scanned), filter
    return scanner.explain()


@settings(
    max_examples=examples(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],  # a failing history takes long to shorten
)
@given(steps=steps, asked=st.lists(filters, min_size=8, max_size=8))
def test_an_index_changes_no_row_whatever_happened_to_the_table(
    template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
    steps: list[tuple[str, int]],
    asked: list[str],
) -> None:
    check_history(template, tmp_path_factory.mktemp("history"), caplog, steps, asked)


@pytest.mark.slow
@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
)
@given(steps=long_steps, asked=st.lists(filters, min_size=30, max_size=30))
def test_an_index_changes_no_row_in_a_long_history(
    template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
    steps: list[tuple[str, int]],
    asked: list[str],
) -> None:
    check_history(template, tmp_path_factory.mktemp("history"), caplog, steps, asked)


def check_history(
    template: Path,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    steps: list[tuple[str, int]],
    asked: list[str],
) -> None:
    """Change a copy of a table step by step, and compare what filters find in it."""
    path = folder / "t.lance"
    shutil.copytree(template, path)
    for name, number in steps:
        OPERATIONS[name](path, number)
    with caplog.at_level(logging.WARNING, "lancefs"):
        dataset = lancefs.open(path)
        for filter in asked:
            check(dataset, filter)
    assert not caplog.records
    for filter in asked[: len(asked) // 4]:
        check_with_pylance(path, dataset, filter)
    shutil.rmtree(path)


def test_zones_of_rewritten_rows_may_stay_beside_the_new_ones(
    template: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As pylance leaves them in BLOOMFILTER indices: of these rows, both say what there may be."""
    path = tmp_path / "t.lance"
    shutil.copytree(template, path)
    for name, number in [("rewrite", 12), ("optimize", 11)]:
        OPERATIONS[name](path, number)
    dataset = lancefs.open(path)
    found = [check(dataset, filter) for filter in ("key = 'k47'", "key IN ('k1', 'k12')")]
    assert all("key_idx (BloomFilter)" in each for each in found)
    assert dataset.count_rows("level IS NULL") == dataset.to_table(filter="level IS NULL").num_rows
    assert not caplog.records


def check_with_pylance(path: Path, dataset: lancefs.LanceDataset, filter: str) -> None:
    # pylance takes NaN for the largest number, and has other literals of decimals and times.
    if any(name in filter for name in ("real", "ratio", "heat", "price", "at ")):
        return
    # What is in at most one of two lists is true for pylance also where it is missing.
    if filter.count(" IN (") > 1:
        return
    oracle = lance.dataset(path).to_table(columns=["id"], filter=filter, use_scalar_index=False)
    ours = dataset.to_table(columns=["id"], filter=filter)
    assert sorted(ours["id"].to_pylist()) == sorted(oracle["id"].to_pylist()), filter


@pytest.mark.parametrize(
    "filter",
    [
        "id = 17",
        "id IN (1, 17, 299, 5000)",
        "id >= 10 AND id < 20",
        "NOT (id < 290)",
        "real > 19",
        "real = 0",
        "real IS NULL",
        "name = 'n007é'",
        "name LIKE 'n01%'",
        "starts_with(name, 'n02')",
        "day = date '2020-01-15'",
        "price BETWEEN 1 AND 1.5",
        "at < timestamp '2024-01-01T03:00:00Z'",
        "small = 3",
        "cat != 'c1'",
        "cat IN ('c0', 'c9')",
        "cat IS NULL",
        "NOT flag",
        "id = 17 OR name = 'n007é'",
        "plain = 3 AND id < 100",
        "NOT (id != 17)",
        "level = 3",
        "level IS NULL",
        "level IN (3, 70, 5000)",
        "level < 2 OR id = 17",
        "ratio > 74",
        "word = 'wwé2'",
        "word LIKE 'wwwé%'",
        "array_has(tags, 't3')",
        "array_has(marks, 4) AND NOT array_has(marks, 5)",
        "list_contains(tags, 'rare 17')",
        "array_has_any(tags, ['t1', 'none'])",
        "array_has_all(tags, ['t1', 't2'])",
        "array_has_all(marks, [1, 7])",
        "array_has(marks, 99)",
        "tags IS NULL",
        "contains(text, 'green')",
        "text LIKE '%Earl%ab-abc%'",
        "text ILIKE '%GREEN%'",
        "starts_with(text, 'Earl')",
        "ends_with(text, 'abc7')",
        "text = 'green tea7'",
        "text IS NULL",
        "contains(text, 'tea') OR text IS NULL",
        "code = 17",
        "code IN (17, 90, 5000)",
        "code IS NULL",
        "key = 'k40'",
        "heat = 0",
        "heat = 0.1",
    ],
)
def test_these_filters_are_answered_by_an_index(template: Path, filter: str) -> None:
    dataset = lancefs.open(template)
    explained = check(dataset, filter)
    assert "index " in explained
    assert "no index" not in explained


@pytest.mark.parametrize(
    "filter",
    [
        "plain = 3",
        "id = 17 OR plain = 3",
        "id + 1 = 18",
        "NOT (real > 19)",
        "id = plain",
        "NOT array_has(tags, 't3')",
        "array_has_all(tags, [])",
        "array_has(tags, text)",
        "array_length(tags) = 2",
        "contains(text, 'ab')",
        "contains(text, 'b-a')",
        "NOT contains(text, 'green')",
        "text ILIKE '%ist%'",
        "code > 17",
        "code != 17",
        "code BETWEEN 17 AND 18",
    ],
)
def test_these_filters_are_scanned(template: Path, filter: str) -> None:
    assert "no index limits the rows" in check(lancefs.open(template), filter)


def test_a_look_up_reads_the_row_and_no_other(template: Path) -> None:
    scanner = lancefs.open(template).scanner(columns=["name"], filter="id = 17")
    assert scanner.to_table().num_rows == 1
    assert scanner.stats.fragments == 1


def test_a_count_of_one_value_reads_no_column(template: Path, decoded: list[str]) -> None:
    dataset = lancefs.open(template)
    assert dataset.count_rows("cat = 'c2'") > 0
    assert dataset.count_rows("cat != 'c2' OR cat IS NULL") > 0
    assert decoded == []


def test_a_count_reads_deletions_and_rows_that_no_index_covers(
    template: Path, tmp_path: Path, decoded: list[str]
) -> None:
    path = copied(template, tmp_path)
    OPERATIONS["append"](path, 3)
    OPERATIONS["delete"](path, 2)
    dataset = lancefs.open(path)
    for filter in ("cat = 'c2'", "cat IS NULL", "cat = 'c2' AND plain < 30", "cat = 'c2' AND NULL"):
        assert dataset.count_rows(filter) == dataset.count_rows(filter, use_index=False)


def test_appended_rows_are_found_without_being_indexed(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path)
    OPERATIONS["append"](path, 3)
    dataset = lancefs.open(path)
    explained = check(dataset, "id = 4001 OR id = 17")
    assert "and of 1 fragment that no index covers" in explained
    assert dataset.count_rows("id = 4001 OR id = 17") == 2


def test_a_delta_segment_is_used(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path)
    OPERATIONS["append"](path, 3)
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    explained = check(lancefs.open(path), "id = 4001 OR id = 17")
    assert "2 of 2 segments used" in explained
    assert "no index covers" not in explained


@pytest.mark.parametrize("is_stable", [False, True])
def test_values_of_an_overlay_are_found_whether_an_index_knows_them_or_not(
    tmp_path: Path, is_stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_ENABLE_UNSTABLE_DATA_OVERLAY_FILES", "1")
    path = tmp_path / "t.lance"
    create(path, is_stable, "2.1")
    with LanceFileWriter(
        str(path / "data/overlay.lance"), pa.schema([("id", pa.int64())]), version="2.1"
    ) as writer:
        writer.write_batch(pa.table({"id": [7000, 7001]}))
    overlay = lance.LanceOperation.DataOverlayFile(
        DataFile("overlay.lance", [0], [0], 2, 1), [3, 7]
    )
    group = lance.LanceOperation.DataOverlayGroup(1, [overlay])
    version = lance.dataset(path).version
    old = lancefs.open(path).take([103, 107], ["id"])["id"].to_pylist()
    lance.LanceDataset.commit(path, lance.LanceOperation.DataOverlay([group]), read_version=version)
    filters = [f"id = {old[0]}", "id >= 6000", f"id IN ({old[1]}, 7000)", "cat = 'c1'"]
    for filter in filters:
        check(lancefs.open(path), filter)
    assert "1 fragment that no index covers" in check(lancefs.open(path), filters[0])
    assert "no index covers" not in check(lancefs.open(path), "cat = 'c1'")
    assert lancefs.open(path).count_rows("id >= 6000") == 2
    lance.dataset(path).create_scalar_index("id", "BTREE", replace=True)
    for filter in filters:
        assert "no index covers" not in check(lancefs.open(path), filter)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_lists_that_were_rewritten_in_place_are_found(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t.lance"
    create(path, False, version)
    old = lancefs.open(path).to_table(["id", "tags"], limit=30)
    new = [["new"]] * len(old)
    dataset = lance.dataset(path)
    changed, fields = dataset.get_fragments()[0].update_columns(
        pa.table({"id": old["id"], "tags": pa.array(new, pa.list_(pa.string()))}),
        left_on="id",
        right_on="id",
    )
    update = lance.LanceOperation.Update(updated_fragments=[changed], fields_modified=fields)
    lance.LanceDataset.commit(path, update, read_version=dataset.version)
    check(lancefs.open(path), "array_has(tags, 'new')")
    assert lancefs.open(path).count_rows("array_has(tags, 'new')") == len(old)
    assert "1 fragment that no index covers" in check(lancefs.open(path), "array_has(tags, 't1')")
    assert "no index covers" not in check(lancefs.open(path), "cat = 'c1'")
    assert "no index covers" not in check(lancefs.open(path), "array_has(marks, 4)")


def test_rows_that_a_deferred_compaction_moved_are_found(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    create(path, False, "2.1")
    lance.dataset(path).delete("id % 5 = 1")
    OPERATIONS["compact deferred"](path, 0)
    dataset = lancefs.open(path)
    assert any(index.reuse is not None for index in dataset.indices())
    explained = check(dataset, "id < 40")
    assert "no index covers" not in explained
    check(dataset, "cat = 'c2'")


def test_rows_that_lance_loses_in_a_second_compaction_are_scanned(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    create(path, False, "2.1")
    OPERATIONS["compact deferred"](path, 0)
    lance.dataset(path).delete("id % 7 = 0")
    OPERATIONS["compact"](path, 0)
    assert "no index limits the rows" in check(lancefs.open(path), "id < 40")


def test_pyarrow_expressions_are_looked_up_too(template: Path) -> None:
    dataset = lancefs.open(template)
    for expression in (
        pc.field("id") == 17,
        pc.field("id").isin([3, 4]),
        pc.field("id").isin(pa.array([3, 4], pa.int16())),
        ~(pc.field("id") > 5),
        (pc.field("real") > 18) | pc.is_nan(pc.field("real")),
        pc.field("cat").isin(["c1", None]),
        pc.field("cat").is_null(),
        pc.field("flag"),
        pc.starts_with(pc.field("name"), "n00"),
        pc.if_else(
            pc.field("id").is_valid(), pc.field("id").isin([3, 4]), pa.scalar(None, pa.bool_())
        ),
    ):
        scanner = dataset.scanner(columns=COLUMNS, filter=expression)
        assert "index " in scanner.explain()
        without: Any = dataset.to_table(columns=COLUMNS, filter=expression, use_index=False)
        assert scanner.to_table().equals(without)


def copied(template: Path, tmp_path: Path) -> Path:
    path = tmp_path / "t.lance"
    shutil.copytree(template, path)
    return path


def test_binary_values_that_begin_with_a_prefix_are_found(tmp_path: Path) -> None:
    # So many of each that pages of the index begin with bytes that are in no text.
    values = [b"a", b"ab", b"ab\xff", b"ab\xff\x01", b"ab\xff\xff", b"ac", b"b"] * 5000
    path = str(tmp_path / "t.lance")
    written = lance.write_dataset(pa.table({"b": pa.array(values, pa.binary())}), path)
    written.create_scalar_index("b", "BTREE")
    scanner = lancefs.open(path).scanner(filter=pc.starts_with(pc.field("b"), "ab"))
    assert "index b_idx" in scanner.explain()
    assert scanner.to_table()["b"].to_pylist() == [one for one in values if one[:2] == b"ab"]


def test_a_pickled_scanner_uses_no_index_if_it_used_none(template: Path) -> None:
    scanner = lancefs.open(template).scanner(filter="id = 5", use_index=False)
    assert "use_index is False" in pickle.loads(pickle.dumps(scanner)).explain()


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_values_in_scattered_pages_are_found(tmp_path: Path, version: str) -> None:
    draw = np.random.default_rng(11)
    ids = draw.permutation(120_000) // 2  # each twice, also in two pages
    words = pa.array([None if one % 50 == 0 else f"w{one:06}" for one in ids.tolist()])
    lance.write_dataset(
        pa.table({"id": ids, "word": words}),
        tmp_path / "t.lance",
        data_storage_version=version,
    )
    indexed = lance.dataset(tmp_path / "t.lance")
    indexed.create_scalar_index("id", "BTREE")
    indexed.create_scalar_index("word", "BTREE")
    dataset = lancefs.open(tmp_path / "t.lance")
    for values in ([1, 30_000], range(0, 60_000, 6_000), [*range(20_000, 20_010), 59_999, 2_048]):
        filter = pc.field("id").isin(list(values))
        expected = dataset.to_table(filter=filter, use_index=False)
        assert "id_idx" in dataset.scanner(filter=filter).explain()
        assert dataset.to_table(filter=filter).equals(expected)
        assert len(expected) == 2 * len(values)
        texts = pc.field("word").isin([f"w{one:06}" for one in values])
        assert dataset.to_table(filter=texts).equals(
            dataset.to_table(filter=texts, use_index=False)
        )
