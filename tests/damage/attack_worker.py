"""A process that makes mutants and reads them: `python -m damage.attack_worker < what.json`.

It says one line of JSON before it reads a mutant and one after, so that the process that started it
sees which mutant a crash or a hang was for. Each mutant lies in a directory of its own, so that no
cache knows it.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lancefs
from damage.doors import DOORS, Known, Violation, judge
from damage.mutants import Mutant, SoundTable, draw_mutant, read_table
from lancefs.datafile.v2_1 import assembly

# What the process may map at most, beyond what it has mapped before.
_ADDRESS_SPACE = 6 << 30


def main() -> None:
    """Work through what standard input says: tables, seeds, and the doors for each."""
    what = json.load(sys.stdin)
    assembly.FAILS_WHERE_DECODERS_DISAGREE = True
    warnings.simplefilter("ignore")
    # Doors may print; only what is said of mutants goes to the process that waits for it.
    said = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with tempfile.TemporaryDirectory(prefix="attack-") as directory:
        attack = _Attack(what["tables"], Path(directory))
        attack.warm_up()
        _limit_memory()
        for seed in what["seeds"]:
            said.write(json.dumps({"seed": seed}) + "\n")
            said.write(json.dumps(attack.run(seed, what["doors"])) + "\n")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + _ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


class _Attack:
    """Mutants of tables, each made in a directory of its own and read there.

    Args:
        tables: Paths of the tables, by name.
        directory: Where mutants are made.
    """

    def __init__(self, tables: dict[str, str], directory: Path) -> None:
        self._tables = tables
        self._names = list(tables)
        self._directory = directory

    def warm_up(self) -> None:
        """Read a table through all doors, which imports what reading takes."""
        known = self._known(self._names[-1])
        for door in DOORS:
            judge(door, known, np.random.default_rng(0))

    def run(self, seed: int, doors: int) -> dict[str, Any]:
        """Make the mutant of a seed, and read it through some doors.

        Returns:
            The table, what was done to it, the outcome of each door, and violations by door.
        """
        rng = np.random.default_rng(seed)
        name = self._names[rng.integers(len(self._names))]
        chosen = rng.permutation(len(DOORS))[:doors]
        mutant = draw_mutant(_sound(self._tables[name]), rng)
        place = self._directory / str(seed) / "t.lance"
        _write(mutant, place)
        known = self._damaged(name, mutant, place)
        outcomes, violations = {}, {}
        for number in sorted(chosen):
            door = list(DOORS)[number]
            # A door draws the same whichever other doors are tried.
            try:
                outcomes[door] = judge(door, known, np.random.default_rng([seed, number]))
            except Violation as error:
                outcomes[door] = error.kind
                violations[door] = str(error)
        shutil.rmtree(place.parent)
        pa.default_memory_pool().release_unused()
        found = {"seed": seed, "table": name, "what": mutant.what, "outcomes": outcomes}
        return {**found, "violations": violations}

    def _damaged(self, name: str, mutant: Mutant, place: Path) -> Known:
        sound = self._known(name)
        rows = sound.rows if mutant.has_sound_manifests else None
        table = sound.table if mutant.has_sound_rows else None
        return Known(str(place), rows, table, sound.columns)

    @cache  # noqa: B019  # there is one attack in a process
    def _known(self, name: str) -> Known:
        url = self._tables[name]
        dataset = lancefs.open(url)
        table = dataset.to_table()
        # NaN equals nothing, so that such tables cannot be compared.
        is_comparable = table.equals(dataset.to_table())
        names = tuple(table.schema.names)
        return Known(url, table.num_rows, table if is_comparable else None, names)


@cache
def _sound(path: str) -> SoundTable:
    return read_table(Path(path))


def _write(mutant: Mutant, place: Path) -> None:
    for name, data in mutant.files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    main()
