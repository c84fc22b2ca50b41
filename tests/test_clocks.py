"""Clocks that jump, of this machine or of writers: no stale and no wrong reads."""

from __future__ import annotations

import os
import time
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lancefs

HOUR = 3600


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table of three versions, with 1, 2 and 3 rows."""
    path = str(tmp_path / "t.lance")
    for version in range(3):
        mode = "append" if version else "create"
        lance.write_dataset(pa.table({"n": [version]}), path, mode=mode)
    return path


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_listing_expires_whatever_the_clock_says(
    jump: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = lancefs.LanceFileSystem(fo=path, listings_expiry_time=0.05, skip_instance_cache=True)
    before, now = fs.ls("versions"), time.time
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    lance.write_dataset(pa.table({"n": [3]}), path, mode="append")
    time.sleep(0.06)
    assert len(fs.ls("versions")) == len(before) + 3


def test_a_listing_that_is_fresh_is_kept_whatever_the_clock_says(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = lancefs.LanceFileSystem(fo=path, listings_expiry_time=1000, skip_instance_cache=True)
    before, now = fs.ls("versions"), time.time
    monkeypatch.setattr(time, "time", lambda: now() + HOUR)
    lance.write_dataset(pa.table({"n": [3]}), path, mode="append")
    assert fs.ls("versions") == before


def test_the_newest_version_is_that_of_the_highest_number_whatever_files_say(path: str) -> None:
    manifests = sorted((Path(path) / "_versions").iterdir())  # the newest one first
    for age, file in enumerate(manifests):
        os.utime(file, (time.time() + HOUR * (age - 10), time.time() + HOUR * (age - 10)))
    assert lancefs.open(path).version == 3
    with lancefs.LanceFileSystem(fo=path, skip_instance_cache=True).open("latest.arrow") as file:
        assert pa.ipc.open_file(file).read_all()["n"].to_pylist() == [0, 1, 2]


def test_a_table_that_is_made_anew_by_an_older_clock_is_read_anew(path: str) -> None:
    fs = lancefs.LanceFileSystem(fo=path, skip_instance_cache=True)
    dataset = lancefs.open(path)
    assert fs.cat("versions/1.arrow")
    assert dataset.to_table().num_rows == 3
    os.rename(path, f"{path}.old")
    lance.write_dataset(pa.table({"n": [77]}), path)
    for directory in ("data", "_versions"):
        for file in (Path(path) / directory).iterdir():
            os.utime(file, (1, 1))
    with fs.open("versions/1.arrow") as file:
        assert pa.ipc.open_file(file).read_all()["n"].to_pylist() == [77]
    assert lancefs.open(path, version=1).to_table()["n"].to_pylist() == [77]


def test_a_mapped_file_that_is_rewritten_by_an_older_clock_is_noticed(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    values = np.random.default_rng(1).integers(-(1 << 63), (1 << 63) - 1, 200_000)
    lance.write_dataset(pa.table({"n": values}), path)
    dataset = lancefs.open(path)
    dataset.to_table()
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    data = file.read_bytes()
    file.write_bytes(data.replace(values[7].tobytes(), bytes(8), 1))
    os.utime(file, (1, 1))
    assert dataset.to_table()["n"].to_pylist() == [*values[:7].tolist(), 0, *values[8:].tolist()]
