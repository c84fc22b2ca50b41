"""A small table that expands to gigabytes gives an error, or its rows, and takes little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import REPOSITORY

from damage.bombs import BOMBS

KERNELS = {"compiled": "", "numpy": "numpy"}  # the values of LANCEFS_KERNELS
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
    done = subprocess.run(
        [sys.executable, "-m", "damage.bomb_worker", str(path)],
        env=os.environ
        | {"LANCEFS_KERNELS": KERNELS[kernels], "PYTHONPATH": str(REPOSITORY / "tests")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert results
    for _, how, outcome, taken in results:
        assert not outcome.startswith("bug"), (how, outcome)
        assert taken < MOST, (how, outcome, f"{taken:,} bytes")
