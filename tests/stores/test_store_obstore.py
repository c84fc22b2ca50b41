"""Tables on S3, read through obstore's filesystem for fsspec, which is handed in."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from comparison import assert_same_table
from obstore.fsspec import FsspecStore
from store_servers import BUCKET, Counts

import lancefs
from lancefs.errors import MissingFile, NotALanceTable, ReadFailed, RefNotFound
from lancefs.filesystem import LanceFileSystem
from lancefs.views import open_tables

PATH = "lake/t.lance"


def obstore_at(s3_options: dict[str, Any]) -> FsspecStore:
    """Return a filesystem of obstore at the server of some options for s3fs."""
    return FsspecStore(
        "s3",
        endpoint=s3_options["client_kwargs"]["endpoint_url"],
        region="us-east-1",
        access_key_id=s3_options["key"],
        secret_access_key=s3_options["secret"],
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
        skip_instance_cache=True,
    )


@pytest.fixture
def store(s3_options: dict[str, Any]) -> FsspecStore:
    return obstore_at(s3_options)


@pytest.mark.parametrize("path", [PATH, f"s3://{PATH}"])
def test_a_table_reads_the_same(path: str, store: FsspecStore, expected: pa.Table) -> None:
    dataset = lancefs.open(path, filesystem=store)
    assert_same_table(dataset.to_table(), expected)
    assert repr(dataset).startswith(f"<LanceDataset s3://{PATH}@3:")
    assert lancefs.open(f"{path}@2", filesystem=store).version == 2
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.count_rows("n0 < 100") == dataset.count_rows("n0 < 100")


def test_a_manifest_is_read_once(store: FsspecStore, s3_counts: Counts) -> None:
    lancefs.open(PATH, filesystem=store)
    assert s3_counts.requests == {"LIST": 1, "GET": 1}
    lancefs.open(PATH, filesystem=store)
    assert s3_counts.requests == {"LIST": 2, "GET": 1}


def test_views_are_read(store: FsspecStore, expected: pa.Table) -> None:
    fs = LanceFileSystem(fo=PATH, fs=store)
    with fs.open("latest/columns/n4.arrow") as file:
        assert_same_table(pa.ipc.open_file(file).read_all(), expected.select(["n4"]))


def test_what_does_not_exist_is_named(store: FsspecStore) -> None:
    with pytest.raises(RefNotFound, match="no version 9; the table has 1, 2, 3"):
        lancefs.open(PATH, version=9, filesystem=store)
    with pytest.raises(NotALanceTable, match=r"s3://lake/u\.lance: there is no such directory"):
        lancefs.open("lake/u.lance", filesystem=store)


def test_what_is_refused_is_said_in_one_line(store: FsspecStore, s3_counts: Counts) -> None:
    with pytest.raises(ReadFailed, match=r"cannot be listed.*NoSuchBucket") as error:
        lancefs.open("no-bucket/t.lance", filesystem=store)
    said = str(error.value)
    assert "Debug source" not in said
    assert "RetryError" not in said
    assert said.count("s3://no-bucket/t.lance/_versions") == 1
    assert said.endswith("where the store does not let you list, name the version, as in version=7")


def test_a_bucket_is_a_folder(store: FsspecStore, s3_counts: Counts) -> None:
    assert "t.lance" in LanceFileSystem(fo=BUCKET, fs=store).ls("", detail=False)
    with pytest.raises(NotALanceTable, match=r"did you mean one of .*t\.lance"):
        lancefs.open(BUCKET, filesystem=store)


def test_a_view_of_a_table_that_is_made_anew_is_not_kept_as_the_new_one(
    s3_options: dict[str, Any],
    store: FsspecStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The listing of a moment ago may stand for a table that is gone, but not for longer."""
    s3, copy = fsspec.filesystem("s3", **s3_options), f"{BUCKET}/anew.lance"

    def make(number: int) -> None:
        local = str(tmp_path / f"{number}.lance")
        lance.write_dataset(pa.table({"n": [number] * (1000 + number)}), local)
        if s3.exists(copy):
            s3.rm(copy, recursive=True)
        s3.put(local, copy, recursive=True)

    def read() -> pa.Table:
        with fs.open("versions/1.arrow") as file:
            return pa.ipc.open_file(file).read_all()

    fs = LanceFileSystem(fo=copy, fs=store)
    monkeypatch.setattr(open_tables, "LISTED_SECONDS", 60.0)
    make(1)
    assert read()["n"].to_pylist() == [1] * 1001
    make(2)
    read()
    monkeypatch.setattr(open_tables, "LISTED_SECONDS", 0.0)
    try:
        assert read()["n"].to_pylist() == [2] * 1002
    finally:
        s3.rm(copy, recursive=True)


@pytest.mark.parametrize("which", [0, -1])
def test_of_several_files_the_missing_one_is_named(
    which: int, s3_options: dict[str, Any], store: FsspecStore
) -> None:
    s3 = fsspec.filesystem("s3", **s3_options)
    copy = f"{BUCKET}/missing.lance"
    s3.copy(f"{BUCKET}/t.lance", copy, recursive=True)
    try:
        gone = lancefs.open(copy, filesystem=store).fragments[which].files[0].path
        s3.rm_file(f"{copy}/data/{gone}")
        dataset = lancefs.open(copy, filesystem=obstore_at(s3_options))
        with pytest.raises(MissingFile, match=f"{gone}: the file is gone"):
            dataset.to_table(columns=["n1"])
    finally:
        s3.rm(copy, recursive=True)


def test_no_bytes_between_ranges_are_fetched(
    s3_options: dict[str, Any], store: FsspecStore, s3_counts: Counts, tmp_path: Path
) -> None:
    numbers = np.random.default_rng(1).random(40_000)
    rows = pa.table({f"c{i}": numbers for i in range(20)})
    lance.write_dataset(rows, str(tmp_path / "t.lance"))
    s3, copy = fsspec.filesystem("s3", **s3_options), f"{BUCKET}/columns.lance"
    s3.put(str(tmp_path / "t.lance"), copy, recursive=True)
    try:
        dataset = lancefs.open(copy, filesystem=store)
        s3_counts.clear()
        assert dataset.head(10).equals(rows.slice(0, 10))
        assert s3_counts.bytes < rows.nbytes / 10
    finally:
        s3.rm(copy, recursive=True)
