"""A small table that expands to gigabytes gives an error, or its rows, and takes little memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from damage.bombs import BOMBS
from damage.forking import Forks
from damage.processes import environment

MOST = 400_000_000  # bytes that a read may take


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bombs")
    for name, build in BOMBS.items():
        build(directory / f"{name}.lance")
    return directory


@pytest.fixture(scope="module", params=["compiled", pytest.param("numpy", marks=pytest.mark.slow)])
def forks(request: pytest.FixtureRequest) -> Iterator[Forks]:
    with closing(Forks("damage.bomb_worker", environment(request.param))) as process:
        yield process


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_little_memory(tables: Path, name: str, forks: Forks) -> None:
    path = tables / f"{name}.lance"
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert size < 1_000_000
    results = [json.loads(line) for line in forks.read(str(path))]
    assert results
    for how, outcome, taken in results:
        assert not outcome.startswith("bug"), (how, outcome)
        assert taken < MOST, (how, outcome, f"{taken:,} bytes")
