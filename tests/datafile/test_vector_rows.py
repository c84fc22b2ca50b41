"""A few vectors are read as rows of bytes, and are those of the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileWriter
from support import examples

import lancefs
from lancefs.datafile.v2_1.reader import StructuralReader
from lancefs.errors import LanceError, MemoryLimitExceeded

RNG = np.random.default_rng(25)
VERSIONS = ("2.1", "2.2", "2.3")
ROWS = 6000


def vectors(numbers: Any, length: int, mask: Any = None) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), length, mask=mask)


def columns(rows: int) -> dict[str, pa.Array]:
    """Vectors of several types and lengths, some with nulls, and numbers beside them."""
    missing = RNG.random(rows) < 0.1
    numbers = RNG.normal(size=rows * 100)
    return {
        "id": pa.array(np.arange(rows)),
        "float": vectors(numbers.astype("f4"), 100),
        "half": vectors(RNG.normal(size=rows * 96).astype("f2"), 96),
        "bytes": vectors(RNG.integers(0, 256, rows * 200, np.uint8), 200),
        "double": vectors(numbers, 100),
        "short": vectors(numbers[: 2 * rows], 2),
        "missing": vectors(numbers, 100, pa.array(missing)),
        "items": vectors(np.where(RNG.random(rows * 100) < 0.1, None, numbers), 100),
        "tiny": vectors(RNG.integers(0, 9, rows * 3, np.int8), 3, pa.array(missing)),
        "list": pa.ListArray.from_arrays(
            pa.array(np.r_[0, np.arange(1, rows) // 2, rows // 3 * 2], pa.int32()),
            vectors(numbers[: 4 * rows], 4),
        ),
        "member": pa.StructArray.from_arrays([vectors(numbers, 100)], ["v"]),
        "text": pa.array([f"text {number}" for number in range(rows)]),
    }


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """For each version of the format: the table as read by both, and as it was written."""
    found = {}
    for version in VERSIONS:
        path = tmp_path_factory.mktemp("vectors") / "t.lance"
        whole = pa.table(columns(ROWS))
        lance.write_dataset(whole.slice(0, 4000), path, data_storage_version=version)
        lance.write_dataset(whole.slice(4000), path, mode="append")
        found[version] = lancefs.open(path), lance.dataset(path), whole
    return found


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_taken_vectors_are_those_that_were_written(
    opened: dict[str, Any], version: str, data: st.DataObject
) -> None:
    ours, theirs, whole = opened[version]
    places = st.sampled_from([0, 3999, 4000, ROWS - 1]) | st.integers(0, ROWS - 1)
    rows = data.draw(st.lists(places, min_size=1, max_size=60))
    names = data.draw(st.lists(st.sampled_from(whole.column_names), min_size=1, unique=True))
    expected = whole.select(names).take(rows)
    assert ours.take(rows, columns=names).equals(expected)
    assert theirs.take(rows, columns=names).equals(expected)
    start = min(rows)
    part = ours.to_table(columns=names, offset=start, limit=40)
    assert part.equals(whole.select(names).slice(start, 40))


@pytest.mark.parametrize("version", VERSIONS)
def test_vectors_of_several_files_are_read_at_once(
    opened: dict[str, Any], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, _, whole = opened[version]
    long = ["id", "float", "half", "bytes", "double", "member"]
    # Lists have levels of other kinds in 2.3.
    short = ["short", "tiny", *(["list"] if version < "2.3" else [])]
    monkeypatch.setattr(StructuralReader, "fetch", lambda *_, **__: pytest.fail("page by page"))
    for names in (long, short):
        rows = [5, 77, 4001, 5999]
        assert ours.take(rows, columns=names).equals(whole.select(names).take(rows))


def test_short_vectors_beyond_the_memory_that_a_read_may_take_are_refused(tmp_path: Path) -> None:
    whole = pa.table({"v": vectors(RNG.random(4000 * 100), 100)})
    lance.write_dataset(whole, tmp_path / "t", data_storage_version="2.1")
    rows = list(range(0, 4000, 5))
    with pytest.raises(MemoryLimitExceeded):
        lancefs.open(tmp_path / "t", max_memory=100_000).take(rows)
    assert lancefs.open(tmp_path / "t").take(rows).equals(whole.take(rows))


def test_vectors_of_several_pages_are_found(tmp_path: Path, monkeypatch: Any) -> None:
    whole = pa.table({name: columns(3000)[name] for name in ("float", "id")})
    path = tmp_path / "t.lance"
    lance.write_dataset(whole.slice(0, 0), path, data_storage_version="2.1")
    file = path / "data" / "pages.lance"
    with LanceFileWriter(str(file), whole.schema, data_cache_bytes=100_000, version="2.1") as made:
        for start in range(0, 3000, 100):
            made.write_batch(whole.slice(start, 100))
    fragment = lance.fragment.FragmentMetadata.from_json(_fragment_of("pages.lance", 3000))
    append = lance.LanceOperation.Append([fragment])
    lance.LanceDataset.commit(path, append, read_version=1)
    monkeypatch.setattr(StructuralReader, "fetch", lambda *_, **__: pytest.fail("page by page"))
    rows = np.random.default_rng(1).integers(0, 3000, 200)
    assert lancefs.open(path).take(rows).equals(whole.take(rows))


def _fragment_of(name: str, rows: int) -> str:
    file = {
        "path": name,
        "fields": [0, 1],
        "column_indices": [0, 1],
        "file_major_version": 2,
        "file_minor_version": 1,
    }
    return json.dumps({"id": 0, "files": [file], "physical_rows": rows})


def test_rows_of_a_damaged_file_of_vectors_are_refused_or_of_their_type(tmp_path: Path) -> None:
    whole = pa.table({name: columns(500)[name] for name in ("id", "float")})
    lance.write_dataset(whole, tmp_path / "t", data_storage_version="2.1")
    (path,) = (tmp_path / "t" / "data").iterdir()
    content, source = path.read_bytes(), np.random.default_rng(2)
    for _ in range(200):
        damaged = bytearray(content)
        for position in source.integers(len(content) - 1500, len(content), 2):
            damaged[position] = source.integers(0, 256)
        path.unlink()
        path.write_bytes(damaged)
        try:
            found = lancefs.open(tmp_path / "t").take([3, 77, 499])
        except LanceError:
            continue
        assert found.schema == whole.schema
        assert len(found) == 3
