"""A wide table whose columns are read one by one, as Spark reads those of `lancefs.spark.table`."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs
from lancefs.datafile.v2_1 import reader
from lancefs.datafile.v2_1.plain_columns import PlainColumns

COLUMNS = 600


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of columns of numbers, in which each number tells its column."""
    home = tmp_path_factory.mktemp("one_by_one") / "t.lance"
    source = np.arange(5 * COLUMNS).reshape(COLUMNS, 5)
    lance.write_dataset(pa.table({f"c{number}": own for number, own in enumerate(source)}), home)
    return home


def _read_one_by_one(table: Path) -> None:
    dataset = lancefs.open(table)
    for number in range(COLUMNS):
        found = dataset.to_table(columns=[f"c{number}"])["c" + str(number)]
        assert found.to_pylist() == list(range(5 * number, 5 * number + 5))


def test_a_column_costs_the_same_however_many_were_read_before(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, cost = [], PlainColumns.cost.fget
    assert cost is not None
    monkeypatch.setattr(PlainColumns, "cost", property(lambda own: asked.append(own) or cost(own)))
    _read_one_by_one(table)
    assert 0 < len(asked) < 16 * COLUMNS  # all that is kept, summed for each column, were 128 times


def test_what_is_kept_of_columns_is_forgotten_where_it_takes_much_memory(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    keep = reader._CachedLeafMetadata.keep_plain

    def keep_and_note(own: reader._CachedLeafMetadata, *given: object) -> None:
        keep(own, *given)  # type: ignore[arg-type]
        kept.append(len(own.plain))

    monkeypatch.setattr(reader._CachedLeafMetadata, "keep_plain", keep_and_note)
    monkeypatch.setattr(reader, "_MAX_TABLES", 64)
    _read_one_by_one(table)
    assert len(kept) == COLUMNS
    assert max(kept) < 32  # a column keeps 4 bytes, the table of its only chunk
