"""A damaged table gives its rows, or a `LanceError`: no other error, no crash, no hang.

An explicit check refuses the damage: the net of `lancefs.errors.locating` catches nothing. The
format has no checksums: where plain values are damaged, other values come out. But there are never
more or fewer rows, they are valid Arrow data, and they take no more memory than rows do.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import REPOSITORY, CorpusCase, copy_table, needs_corpus

from damage.attacked_tables import movable_cases
from damage.processes import KERNELS

pytestmark = needs_corpus

VERSIONS = ("0.1", "2.0", "2.1", "2.2", "2.3")
CODECS = ("lz4", "zstd")  # of tables of all versions


@dataclass(frozen=True)
class Outcomes:
    """What came of mutations."""

    counts: Counter[str]
    unacceptable: list[str]

    def __str__(self) -> str:
        refused = sum(self.counts.values()) - self.counts["rows"] - len(self.unacceptable)
        return (
            f"{refused} refused by explicit checks, {self.counts['net']} by the net: "
            f"{dict(self.counts)}"
        )


def small_cases(version: str) -> list[CorpusCase]:
    """The small tables of a version of the data files that can be read where they are copied to."""
    return [case for case in movable_cases() if case.info["file_version"] == version]


def compressed_cases(codec: str) -> list[CorpusCase]:
    """The small tables of all versions with columns that a codec compresses."""
    return [case for case in movable_cases() if codec in case.name.partition("-")[0]]


def cases_of(group: str) -> list[CorpusCase]:
    """The small tables of a version or of a codec."""
    return compressed_cases(group) if group in CODECS else small_cases(group)


def damage(
    cases: list[CorpusCase],
    into: Path,
    mutations: int,
    seed: int,
    kernels: str = "compiled",
    memory: bool = False,
) -> Outcomes:
    """Damage copies of tables in a process of its own.

    Args:
        cases: The tables.
        into: Where the copies are put.
        mutations: Of each table.
        seed: Of what is drawn.
        kernels: Which ones decode: one of `KERNELS`.
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
        env={
            "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tests'}",
            "LANCEFS_KERNELS": KERNELS[kernels],
        },
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
    print(outcomes)
    shown = "\n".join(outcomes.unacceptable[:20])
    assert not outcomes.unacceptable, f"{len(outcomes.unacceptable)}: {outcomes}\n{shown}"
    assert outcomes.counts["net"] == 0
    # Damage that nobody notices would be no damage.
    assert outcomes.counts["rows"]
    assert outcomes.counts["CorruptFile"]


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("group", VERSIONS + CODECS)
def test_a_damaged_table_gives_rows_or_a_lance_error(
    group: str, kernels: str, tmp_path: Path
) -> None:
    cases = cases_of(group)
    chosen = cases[:: -(-len(cases) // 8)]
    _assert_acceptable(damage(chosen, tmp_path, 24 // len(chosen), seed=1, kernels=kernels))


def test_a_damaged_table_takes_no_more_memory_than_a_sound_one(tmp_path: Path) -> None:
    cases = [case for version in VERSIONS for case in small_cases(version)[5::20]]
    _assert_acceptable(damage(cases, tmp_path, 8, seed=2, memory=True))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("group", VERSIONS + CODECS)
def test_many_damaged_tables_give_rows_or_a_lance_error(
    group: str, kernels: str, tmp_path: Path
) -> None:
    cases = cases_of(group)
    _assert_acceptable(damage(cases, tmp_path, 1100 // len(cases) + 1, seed=3, kernels=kernels))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_damaged_tables_take_no_more_memory_than_sound_ones(tmp_path: Path) -> None:
    cases = [case for version in VERSIONS for case in small_cases(version)]
    _assert_acceptable(damage(cases, tmp_path, 5, seed=4, memory=True))
