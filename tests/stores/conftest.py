"""Fixtures: one table in stores of every kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from leaks import no_thread_is_left
from protocol import registered
from store_servers import BUCKET, Counts, s3_server

from lancefs.storage import file as storage

__all__ = ["no_thread_is_left", "registered"]  # pytest finds them here

ROWS = 30_000


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """Clear the cache of remote bytes before each test."""
    storage._CACHE.clear()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `t.lance`: three fragments; version 2 has deletions, version 3 more rows."""
    directory = tmp_path_factory.mktemp("stores")
    path = str(directory / "t.lance")
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {f"n{i}": rng.integers(0, 2**60, ROWS) for i in range(10)}
    columns["text"] = [f"row {i}" if i % 9 else None for i in range(ROWS)]
    lance.write_dataset(pa.table(columns), path, max_rows_per_file=10_000)
    lance.dataset(path).delete("n0 % 5 = 0")
    lance.write_dataset(pa.table(columns).slice(0, 100), path, mode="append")
    return directory


@pytest.fixture(scope="session")
def expected(home: Path) -> pa.Table:
    """The rows of the newest version, as pylance reads them."""
    return lance.dataset(str(home / "t.lance")).to_table()


@pytest.fixture(scope="session")
def _moto() -> Iterator[tuple[str, Counts]]:
    before = dict(os.environ)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with s3_server() as (url, counts):
        yield url, counts
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def s3_options(_moto: tuple[str, Counts], home: Path) -> Iterator[dict[str, Any]]:
    """Options for s3fs; the table is `s3://lake/t.lance`."""
    options = {
        "key": "test",
        "secret": "test",
        "client_kwargs": {"endpoint_url": _moto[0], "region_name": "us-east-1"},
    }
    fs = fsspec.filesystem("s3", **options)
    fs.call_s3("create_bucket", Bucket=BUCKET)
    fs.put(str(home / "t.lance"), f"{BUCKET}/t.lance", recursive=True)
    yield options
    fs.close_session(fs.loop, fs._s3)
    type(fs).clear_instance_cache()


@pytest.fixture
def s3_counts(_moto: tuple[str, Counts], s3_options: dict[str, Any]) -> Counts:
    """Counts of the requests to the S3 server during the test."""
    fsspec.filesystem("s3", **s3_options).invalidate_cache()
    _moto[1].clear()
    return _moto[1]
