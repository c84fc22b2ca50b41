"""Damaged files of vector indices: a search still finds rows, and tells their exact distances.

What is changed in codes or row numbers, and still well formed, may cost a row its place: an index
is an estimate. It never makes up a row or a distance.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from vector_tables import rows, write

import lancefs
from lancefs.errors import CorruptFile
from lancefs.index.vectors.codes import matrix_of_lists
from lancefs.index.vectors.stored import ScalarCodes
from lancefs.lance_dataset import LanceDataset

KINDS = {"IVF_FLAT": {}, "IVF_PQ": {"num_sub_vectors": 4}, "IVF_SQ": {}, "IVF_RQ": {}}
K = 12


@pytest.fixture(scope="module", params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("damage") / "t.lance"
    write(path, rows(600, 8), max_rows_per_file=300)
    options = KINDS[request.param]
    lance.dataset(path).create_index("v", request.param, num_partitions=2, **options)
    return path


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "lancefs")


def mutants(file: Path, count: int, seed: int) -> Iterator[None]:
    """Write a file with some bytes changed, mutant after mutant; then as it was."""
    sound, draw = file.read_bytes(), np.random.default_rng(seed)
    # What is said of the rows comes after them.
    starts = [0, max(0, len(sound) - 1500)]
    for number in range(count):
        mutant = bytearray(sound)
        for at in draw.integers(starts[number % 2], len(sound), draw.integers(1, 4)).tolist():
            mutant[at] = draw.integers(0, 256)
        if number % 10 == 9:
            mutant = mutant[: draw.integers(0, len(sound))]
        file.write_bytes(mutant)
        yield
    file.write_bytes(sound)


def exact_distances(dataset: LanceDataset, q: np.ndarray) -> dict[int, float]:  # type: ignore[type-arg]
    found = dataset.nearest("v", q, 1000, columns=["id"], use_index=False)
    return dict(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))


def check_mutants(table: Path, count: int) -> None:
    q = np.random.default_rng(8).normal(0, 3, 8).astype(np.float32)
    distances = exact_distances(lancefs.open(table), q)
    best, kept, asked = sorted(distances, key=lambda number: distances[number])[:K], 0, 0
    for number, file in enumerate(sorted(table.glob("_indices/*/*.idx"))):
        for _ in mutants(file, count, number):
            dataset = lancefs.open(table)
            found = dataset.nearest("v", q, K, columns=["id"], nprobes=2, refine_factor=8)
            ids = found["id"].to_pylist()
            assert len(set(ids)) == K
            np.testing.assert_allclose(
                found["_distance"].to_pylist(), [distances[one] for one in ids], rtol=1e-5
            )
            assert dataset.nearest("v", q, K, columns=["id"]).num_rows == K
            kept, asked = kept + len(set(best) & set(ids)), asked + K
    assert kept >= 0.9 * asked


def test_damage_makes_up_no_row_and_no_distance(table: Path) -> None:
    check_mutants(table, 40)


@pytest.mark.slow
def test_damage_makes_up_no_row_and_no_distance_in_many_mutants(table: Path) -> None:
    check_mutants(table, 1000)  # of each of two files


@pytest.mark.parametrize("name", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize(
    "harm",
    [lambda data: bytes(len(data)), lambda data: data[::-1], lambda data: data[:100]],
    ids=["zeros", "backwards", "cut"],
)
def test_a_file_of_other_bytes_is_not_used(
    table: Path, name: str, harm: Callable[[bytes], bytes]
) -> None:
    (file,) = table.glob(f"_indices/*/{name}")
    sound = file.read_bytes()
    try:
        file.write_bytes(harm(sound))
        search = lancefs.open(table).vector_search("v", np.zeros(8), 5)
        assert search.explain().startswith("index v_idx cannot be used\nexact search")
    finally:
        file.write_bytes(sound)


@pytest.mark.parametrize("end", [10**400, 1e300, float("inf"), float("nan"), "x", None, -1])
def test_bounds_of_scalar_codes_that_no_vector_has_are_damage(end: object) -> None:
    description = json.dumps({"num_bits": 8, "bounds": {"start": 0, "end": end}})
    metadata = {"storage_metadata": json.dumps([description]).encode()}
    file: Any = SimpleNamespace(metadata=metadata, damage=CorruptFile)
    with pytest.raises(CorruptFile, match="bounds"):
        ScalarCodes(file, "l2", 8)


@pytest.mark.parametrize(("kind", "is_code"), [(pa.float32(), True), (pa.uint8(), False)])
def test_numbers_are_not_taken_for_codes_nor_codes_for_numbers(
    kind: pa.DataType, is_code: bool
) -> None:
    lists = pa.array([[1, 2]], pa.list_(kind, 2))
    assert matrix_of_lists(lists, 2, not is_code).tolist() == [[1, 2]]
    with pytest.raises(CorruptFile, match="lists of 2 numbers were expected"):
        matrix_of_lists(lists, 2, is_code)
