"""Searches with the same filter share the rows that it leaves, and no others."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from vector_tables import rows, write

import lancefs
from lancefs.search.row_bits import RowBits

ROWS = 5000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose index over vectors has two segments, and whose last rows no index covers."""
    path = tmp_path_factory.mktemp("filtered") / "t.lance"
    write(path, _table(0), max_rows_per_file=3000)
    lance.dataset(path).create_index("v", "IVF_FLAT", num_partitions=2)
    lance.dataset(path).create_scalar_index("text", "INVERTED")
    write(path, _table(ROWS), mode="append")
    lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
    write(path, _table(2 * ROWS).slice(0, 500), mode="append")
    lance.dataset(path).delete("id % 10 = 3")
    return str(path)


def _table(first: int) -> pa.Table:
    table = rows(ROWS, 8, seed=first, first=first)
    words = [f"fox {'tea' * (one % 3 == 0)} w{one % 50}" for one in range(ROWS)]
    return table.append_column("text", pa.array(words))


_FILTERS: list[Any] = ["small < 5", "small >= 5", pc.field("small") < 5, "small < 5 and id > 9"]


def test_rows_are_those_of_their_own_filter_however_often_it_was_asked(path: str) -> None:
    dataset, wanted = lancefs.open(path), rows(1, 8, seed=7)["v"][0].values.to_numpy()
    for filter in (*_FILTERS, _FILTERS[0]):
        near = dataset.nearest("v", wanted, k=50, filter=filter, columns=["id", "small"])
        every = dataset.nearest("v", wanted, k=50, filter=filter, use_index=False, columns=["id"])
        assert near["id"].to_pylist() == every["id"].to_pylist()
        own = dataset.filter(pc.field("id") > 6000) if isinstance(filter, str) else dataset
        of_own = own.nearest("v", wanted, k=50, filter=filter, columns=["id"])["id"]
        if own is not dataset:
            assert pc.min(of_own).as_py() > 6000
        found = dataset.search("tea", ["text"], k=20, filter=filter, select=["id"])
        expected = lance.dataset(path).to_table(
            columns=["id"], filter=filter, full_text_query="tea", prefilter=True, limit=20
        )
        assert np.allclose(found["_score"], expected["_score"], rtol=1e-5)


def test_a_filter_is_evaluated_once_for_several_searches(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[int] = []
    original = RowBits.add

    def spy(self: RowBits, ids: Any) -> None:
        added.append(len(ids))
        original(self, ids)

    monkeypatch.setattr(RowBits, "add", spy)
    dataset = lancefs.open(path)
    for seed in range(3):
        wanted = rows(1, 8, seed=seed)["v"][0].values.to_numpy()
        dataset.nearest("v", wanted, filter="small = 3 or small < 2", columns=["id"])
        dataset.search("tea", ["text"], filter="small = 3 or small < 2", select=["id"])
        if not seed:
            assert added
            added.clear()
    assert not added
