"""A small table that expands to gigabytes gives an error, or its rows, and takes little memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from damage.bombs import BOMBS
from damage.processes import run_python

MOST = 400_000_000  # bytes that a read may take


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bombs")
    for name, build in BOMBS.items():
        build(directory / f"{name}.lance")
    return directory


@pytest.mark.parametrize("kernels", ["compiled", pytest.param("numpy", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_little_memory(tables: Path, name: str, kernels: str) -> None:
    path = tables / f"{name}.lance"
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert size < 1_000_000
    lines = run_python(kernels, "-m", "damage.bomb_worker", str(path))
    results = [json.loads(line) for line in lines]
    assert results
    for _, how, outcome, taken in results:
        assert not outcome.startswith("bug"), (how, outcome)
        assert taken < MOST, (how, outcome, f"{taken:,} bytes")
