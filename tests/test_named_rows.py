"""Few rows that an index or a filter on row ids names are read at once, and are those of a scan."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lancefs
from lancefs.scan.settings import ScanSettings

FILTERS = [
    "id = 17",
    "id IN (3, 99, 250, 799, 4000)",
    "id IN (5, 205, 405, 605) AND word LIKE '%1%'",
    "id BETWEEN 190 AND 210",
    "id = 20 OR id = 620",
    "id = 4000",
    "id IN (100, 101) AND NOT flag",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four fragments, with an index over `id`, some deleted rows, lists, structs and nulls."""
    path = tmp_path_factory.mktemp("named") / "t.lance"
    ids = np.random.default_rng(5).permutation(800)
    lance.write_dataset(
        pa.table(
            {
                "id": ids,
                "word": pa.array([None if one % 7 == 0 else f"w{one}" for one in ids.tolist()]),
                "city": [f"c{one % 3}" for one in ids.tolist()],
                "tags": [[str(one)] * (one % 4) for one in ids.tolist()],
                "at": [{"x": one, "y": [one]} for one in ids.tolist()],
                "flag": ids % 2 == 0,
            }
        ),
        path,
        max_rows_per_file=200,
    )
    dataset = lance.dataset(path)
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id IN (99, 101, 205)")
    return path


@pytest.mark.parametrize("filter", FILTERS)
def test_named_rows_are_those_of_a_scan(table: Path, filter: str) -> None:
    dataset = lancefs.open(table)
    expected = dataset.to_table(filter=filter, use_index=False)
    scanner = dataset.scanner(filter=filter)
    assert scanner.to_table().equals(expected)
    assert scanner.stats.rows_decoded <= 21
    assert lance.dataset(table).to_table(filter=filter).equals(expected)
    streamed = dataset.scanner(filter=filter).to_reader().read_all()
    assert streamed.combine_chunks().equals(expected.combine_chunks())
    assert dataset.count_rows(filter) == len(expected)


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize(("offset", "limit"), [(0, 0), (0, 1), (1, 2), (2, None), (9, 3)])
def test_offset_and_limit_count_the_rows_that_pass(
    table: Path, filter: str, offset: int, limit: int | None
) -> None:
    dataset = lancefs.open(table)
    found = dataset.to_table(filter=filter, offset=offset, limit=limit)
    assert found.equals(dataset.to_table(filter=filter, use_index=False).slice(offset, limit))


def test_batches_are_no_longer_than_was_asked_for(table: Path) -> None:
    dataset = lancefs.open(table)
    batches = list(dataset.to_batches(filter="id BETWEEN 190 AND 210", batch_size=4))
    assert max(map(len, batches)) <= 4
    assert sum(map(len, batches)) == 20


def test_row_ids_that_a_filter_names_are_read_at_once(table: Path) -> None:
    dataset = lancefs.open(table)
    wanted = dataset.to_table(["_rowid", "id"], "id IN (1, 300, 700)", use_index=False)
    scanner = dataset.scanner(["_rowid", "id"], pc.field("_rowid").isin(wanted["_rowid"]))
    assert scanner.to_table().equals(wanted)
    assert scanner.stats.rows_decoded == 3


def test_columns_come_dictionary_encoded_where_they_are_asked_for(table: Path) -> None:
    dataset = lancefs.open(table)
    found = dataset.to_table(["city"], "id IN (3, 250, 799)", dictionary_columns=["city"])
    assert found.schema.field("city").type == pa.dictionary(pa.int32(), pa.string())
    expected = dataset.to_table(["city"], "id IN (3, 250, 799)", use_index=False)
    assert found["city"].cast(pa.string()).to_pylist() == expected["city"].to_pylist()


def test_rows_of_chosen_fragments_are_found(table: Path) -> None:
    dataset = lancefs.open(table)
    parts = [
        dataset.to_table(filter="id IN (3, 250, 799)", fragments=[number]) for number in range(4)
    ]
    expected = dataset.to_table(filter="id IN (3, 250, 799)", use_index=False)
    assert pa.concat_tables(parts).equals(expected)


def test_rows_that_take_much_memory_are_read_part_by_part(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancefs.scan.settings.DEFAULT", ScanSettings(stream_bytes=64))
    dataset = lancefs.open(table)
    batches = list(dataset.to_batches(filter="id BETWEEN 190 AND 210"))
    assert len(batches) > 1
    expected = dataset.to_table(filter="id BETWEEN 190 AND 210", use_index=False)
    assert pa.Table.from_batches(batches).equals(expected)


def test_few_rows_of_zones_that_lie_apart_are_read_without_morsels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rows = str(tmp_path / "t.lance"), 8 * 8192
    numbers = np.arange(rows)
    columns = {"day": numbers // 8192, "n": numbers, "word": [f"w{n % 50}" for n in range(rows)]}
    lance.write_dataset(pa.table(columns), path)
    lance.dataset(path).create_scalar_index("day", "ZONEMAP")
    dataset, filter = lancefs.open(path), "day IN (1, 4) AND n % 4096 = 7"
    expected = dataset.to_table(filter=filter, use_index=False)
    assert expected["n"].to_pylist() == [8199, 12295, 32775, 36871]
    monkeypatch.setattr("lancefs.scan.execution.decode_ahead", pytest.fail)
    assert dataset.to_table(filter=filter).equals(expected)
