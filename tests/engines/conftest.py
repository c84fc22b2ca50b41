"""A table that engines read."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from protocol import registered

__all__ = ["registered"]  # pytest finds it here

CITIES = ["Gent", "Lyon", "Porto"]


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows in two fragments; some deleted in version 2; a column added in 3, one renamed in 4."""
    path = str(tmp_path_factory.mktemp("engines") / "cities of ours.lance")
    count = 3000
    dataset = lance.write_dataset(
        pa.table(
            {
                "id": pa.array(range(count), pa.int64()),
                "city": [CITIES[i % 3] if i % 11 else None for i in range(count)],
                "price": [i / 8 for i in range(count)],
            }
        ),
        path,
        max_rows_per_file=2000,
    )
    dataset.delete("id % 5 = 0")
    dataset.add_columns({"twice": "id * 2"})
    dataset.alter_columns({"path": "price", "name": "cost"})
    return path
