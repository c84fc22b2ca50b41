"""A process that damages tables and reads them: `python -m damage.worker < what.json`.

It says one line of JSON for each mutation before it reads, and one after: the process that started
it sees which mutation a crash or a hang was for.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import numpy as np

from damage.mutations import draw
from damage.reading import Unacceptable, judge, judge_memory, read_sound
from damage.regions import regions_of
from lancefs.datafile.v2_1 import assembly

_ADDRESS_SPACE = 8 << 30  # what the process may map at most, so that no mutation takes the machine


def main() -> None:
    """Work through what standard input says: tables, mutations of each, a seed."""
    what = json.load(sys.stdin)
    assembly.FAILS_WHERE_DECODERS_DISAGREE = True
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    for number, table in enumerate(what["tables"]):
        rng = np.random.default_rng([what["seed"], number])
        damage_table(Path(table), what["mutations"], rng, bool(what["memory"]))


def damage_table(table: Path, mutations: int, rng: np.random.Generator, memory: bool) -> None:
    """Damage a table so many times, each time one region of one file, and read it."""
    uri = str(table)
    sound = read_sound(uri)
    for known in (sound, None):  # which also imports what reading takes
        assert judge(uri, known, rng) == "rows"
    regions = regions_of(table)
    for _ in range(mutations):
        mutation = draw(regions, rng)
        _say(table=table.parent.name, mutation=str(mutation), kind=mutation.region.kind)
        before = mutation.path.read_bytes()
        # What a manifest says of its rows is what they are.
        known = None if mutation.region.kind.startswith(("manifest", "metadata")) else sound
        mutation.path.write_bytes(mutation.data)
        try:
            if memory:
                outcome = judge_memory(lambda: judge(uri, known, rng), sound.size)  # noqa: B023
            else:
                outcome = judge(uri, known, rng)
            _say(outcome=outcome)
        except Unacceptable as error:
            _say(outcome=error.outcome, error=str(error))
        finally:
            mutation.path.write_bytes(before)


def _say(**what: str) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
