"""A damaged table gives its rows, or a `LanceError`: no other error, no crash, no hang.

The format has no checksums: where plain values are damaged, other values come out. But there are
never more or fewer rows, they are valid Arrow data, and they take no more memory than rows do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import REPOSITORY, CorpusCase, copy_table, corpus_cases, needs_corpus

pytestmark = needs_corpus

VERSIONS = ("0.1", "2.0", "2.1", "2.2", "2.3")
_SMALL = 150_000  # bytes of a table that is read quickly


@dataclass(frozen=True)
class Outcomes:
    """What came of mutations."""

    counts: Counter[str]
    unacceptable: list[str]


def small_cases(version: str) -> list[CorpusCase]:
    """The small tables of a version of the data files that can be read where they are copied to."""
    return [
        case
        for case in corpus_cases()
        if case.info["file_version"] == version
        and "relocate" not in case.info
        and "overlay" not in case.name
        and _size(case) < _SMALL
    ]


def _size(case: CorpusCase) -> int:
    table = case.directory / "table.lance"
    return sum(path.stat().st_size for path in table.rglob("*") if path.is_file())


def damage(
    cases: list[CorpusCase], into: Path, mutations: int, seed: int, memory: bool = False
) -> Outcomes:
    """Damage copies of tables in a process of its own.

    Args:
        cases: The tables.
        into: Where the copies are put.
        mutations: Of each table.
        seed: Of what is drawn.
        memory: Whether memory is measured, which takes time.
    """
    tables = []
    for case in cases:
        (into / case.name).mkdir()
        tables.append(str(copy_table(case, into / case.name)))
    what = {"tables": tables, "mutations": mutations, "seed": seed, "memory": memory}
    done = subprocess.run(
        [sys.executable, "-m", "damage.worker"],
        input=json.dumps(what),
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY / "tests",
        env={"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}"},
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        raise AssertionError(f"died with {done.returncode} after {said[-1:]}: {done.stderr}")
    return _outcomes(said)


def _outcomes(said: list[dict[str, str]]) -> Outcomes:
    counts: Counter[str] = Counter()
    unacceptable = []
    for mutation, found in zip(said[::2], said[1::2], strict=True):
        counts[found["outcome"]] += 1
        if "error" in found:
            place = f"{mutation['table']}: {mutation['mutation']}"
            unacceptable.append(f"{place}: {found['error']}")
    return Outcomes(counts, unacceptable)


def _assert_acceptable(outcomes: Outcomes) -> None:
    print(dict(outcomes.counts))
    shown = "\n".join(outcomes.unacceptable[:20])
    assert not outcomes.unacceptable, f"{len(outcomes.unacceptable)} of {outcomes.counts}:\n{shown}"
    # Damage that nobody notices would be no damage.
    assert outcomes.counts["rows"]
    assert outcomes.counts["CorruptFile"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_table_gives_rows_or_a_lance_error(version: str, tmp_path: Path) -> None:
    cases = small_cases(version)
    _assert_acceptable(damage(cases[:: len(cases) // 8], tmp_path, 12, seed=1))


def test_a_damaged_table_takes_no_more_memory_than_a_sound_one(tmp_path: Path) -> None:
    cases = [case for version in VERSIONS for case in small_cases(version)[5::20]]
    _assert_acceptable(damage(cases, tmp_path, 8, seed=2, memory=True))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_many_damaged_tables_give_rows_or_a_lance_error(version: str, tmp_path: Path) -> None:
    cases = small_cases(version)
    _assert_acceptable(damage(cases, tmp_path, 2200 // len(cases) + 1, seed=3))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_damaged_tables_take_no_more_memory_than_sound_ones(tmp_path: Path) -> None:
    cases = [case for version in VERSIONS for case in small_cases(version)]
    _assert_acceptable(damage(cases, tmp_path, 5, seed=4, memory=True))
