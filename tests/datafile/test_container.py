"""The metadata of the columns of a data file, as several reads ask for it at the same time."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from support import local_store

from lancefs.datafile.container import Container
from lancefs.storage import run


@pytest.fixture
def container(tmp_path: Path) -> Container:
    values = np.random.default_rng(1).integers(0, 1 << 62, 100_000)  # incompressible
    lance.write_dataset(pa.table({"n": values}), str(tmp_path / "t.lance"))
    (data,) = (tmp_path / "t.lance" / "data").iterdir()
    return Container(local_store(data.parent).file(data.name))


def test_a_column_that_two_reads_load_at_once_is_no_damage(container: Container) -> None:
    run([(container.file, container.load([0])), (container.file, container.load([0]))])
    assert container.column(0).first_rows[-1] == 100_000
