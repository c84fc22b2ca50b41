"""Attacks lancefs with damaged tables: `python -m damage.attack 100000`, run by `make attack`.

    make attack MUTANTS=5000

Each mutant has a number, its seed, and can be made again by it:

    make attack ATTACK_ARGS="--seed 4711"      # through all doors
    make attack ATTACK_ARGS="--first 40000"    # goes on where a run was stopped

Seed and table say what is done to the table. One mutant in eight is read with the NumPy kernels.
The report counts outcomes by door, and lists each violation with its seed, table and door.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from damage.attacked_tables import attacked_tables

_TESTS = Path(__file__).resolve().parent.parent
_BUILD = _TESTS.parent / "build" / "attack"
# Seconds without a word from a worker, after which it counts as hung.
_PATIENCE = 120.0
_SEEDS_OF_A_PROCESS = 400
_NUMPY_EVERY = 8


@dataclass
class Report:
    """What came of mutants."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)  # by door and outcome
    violations: list[dict[str, Any]] = field(default_factory=list)
    mutants: int = 0

    def add(self, found: dict[str, Any]) -> None:
        """Count a mutant."""
        self.mutants += 1
        for door, outcome in found["outcomes"].items():
            self.outcomes[door, outcome] += 1
        for door, message in found["violations"].items():
            kept = {key: found[key] for key in ("seed", "table", "what")}
            outcome = found["outcomes"].get(door, message)
            self.violations.append({**kept, "door": door, "kind": outcome, "error": message})

    def __str__(self) -> str:
        doors = sorted({door for door, _ in self.outcomes})
        kinds = sorted({kind for _, kind in self.outcomes}, key=lambda kind: (kind != "rows", kind))
        width = max([len(kind) for kind in kinds], default=0)
        lines = [f"{self.mutants} mutants, {len(self.violations)} violations", ""]
        lines.append(" " * width + "".join(f"{door:>14}" for door in doors))
        for kind in kinds:
            counts = "".join(f"{self.outcomes[door, kind]:>14,}" for door in doors)
            lines.append(f"{kind:<{width}}{counts}")
        for one in self.violations:
            lines += ["", f"seed {one['seed']}, {one['table']}, door {one['door']}: {one['kind']}"]
            lines += [f"    {what[:300]}" for what in one["what"]]
            lines.append(f"    → {one['error'][:600]}")
        return "\n".join(lines)


def attack(seeds: Sequence[int], doors: int, workers: int, tables: dict[str, Path]) -> Report:
    """Make and read the mutants of seeds.

    Args:
        seeds: Their numbers.
        doors: Doors that each is read through.
        workers: Processes at a time.
        tables: What is damaged.
    """
    report, lock = Report(), threading.Lock()

    def work(chunk: Sequence[int]) -> None:
        for found in _read_all(chunk, doors, tables):
            with lock:
                report.add(found)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, _chunks(seeds)))
    report.violations.sort(key=lambda one: (one["kind"], one["seed"]))
    return report


def _chunks(seeds: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield seeds for one process each, all of them for the same kernels."""
    for numpy in (True, False):
        chosen = [seed for seed in seeds if _takes_numpy(seed) == numpy]
        for start in range(0, len(chosen), _SEEDS_OF_A_PROCESS):
            yield chosen[start : start + _SEEDS_OF_A_PROCESS]


def _takes_numpy(seed: int) -> bool:
    return seed % _NUMPY_EVERY == _NUMPY_EVERY - 1


def _read_all(
    seeds: Sequence[int], doors: int, tables: dict[str, Path]
) -> Iterator[dict[str, Any]]:
    """Yield what came of each seed; a process that dies or hangs is followed by another."""
    left = list(seeds)
    while left:
        finished = 0
        for found in _run_worker(left, doors, tables):
            yield found
            finished += 1
        if not finished:
            raise RuntimeError("a worker that could not begin; see its message above")
        left = left[finished:]


def _run_worker(
    seeds: Sequence[int], doors: int, tables: dict[str, Path]
) -> Iterator[dict[str, Any]]:
    environment = {**os.environ, "PYTHONPATH": f"{_TESTS.parent}:{_TESTS}"}
    # A caller may have chosen the kernels, for instance those that sanitizers watch.
    if _takes_numpy(seeds[0]):
        environment.setdefault("LANCEFS_KERNELS", "numpy")
    with subprocess.Popen(
        [sys.executable, "-m", "damage.attack_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_TESTS,
        env=environment,
    ) as worker:
        assert worker.stdin is not None
        paths = {name: str(path) for name, path in tables.items()}
        json.dump({"tables": paths, "seeds": seeds, "doors": doors}, worker.stdin)
        worker.stdin.close()
        begun: int | None = None
        try:
            for line in _lines(worker):
                found = json.loads(line)
                if "outcomes" in found:
                    begun = None
                    yield found
                else:
                    begun = found["seed"]
            code: int | str = worker.wait()
        except TimeoutError:
            code = "hang"
        finally:
            worker.kill()
    if begun is not None:
        end = code if code == "hang" else f"crash ({code})"
        died: dict[str, Any] = {"seed": begun, "table": "", "what": [], "outcomes": {"all": end}}
        yield {**died, "violations": {"all": str(end)}}


def _lines(worker: subprocess.Popen[str]) -> Iterator[str]:
    """Yield the lines of a worker.

    Raises:
        TimeoutError: It says nothing for too long.
    """
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=_PATIENCE)
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        yield line


def main() -> None:
    """Attack as the command line says; exit with 1 where something is violated."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("mutants", type=int, nargs="?", default=100_000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first mutant")
    parser.add_argument("--seed", type=int, action="append", help="only this mutant, by all doors")
    parser.add_argument("--doors", type=int, help="doors for each mutant (3; with --seed all)")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    _BUILD.mkdir(parents=True, exist_ok=True)
    seeds = given.seed or range(given.first, given.first + given.mutants)
    doors = given.doors or (99 if given.seed else 3)
    report = attack(seeds, doors, given.workers, attacked_tables(_BUILD))
    print(report)
    (_BUILD / "violations.json").write_text(json.dumps(report.violations, indent=1))
    sys.exit(bool(report.violations))


if __name__ == "__main__":
    main()
