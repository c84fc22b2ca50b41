"""Damages the messages of real manifests, field by field, for some seconds.

    python tests/fuzz_manifests.py SECONDS [SEED]

A manifest must be read, or refused, as protobuf alone reads or refuses it. `make fuzz` runs this
under the sanitizers. A message that is read differently ends it, with the seed by which it is made
again.
"""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "datafile" / "kernels"))
import kernel_inputs as kernels  # the path to it is set above
from manifest_messages import check_as_protobuf_reads_it, mutant, real_messages


def try_one(sound: list[bytes], seed: int) -> None:
    """Make the mutant of a seed, and read it."""
    check_as_protobuf_reads_it(mutant(sound, np.random.default_rng(seed)))


def main() -> None:
    """Try mutants until the time is over, or the one of a seed."""
    if len(sys.argv) < 2 or not kernels.COMPILED:
        sys.exit(__doc__ if kernels.COMPILED else "there are no compiled kernels to be tried")
    sound = real_messages()
    first = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbits(48)
    end, count = time.monotonic() + float(sys.argv[1]), 0
    while not count or (time.monotonic() < end and len(sys.argv) < 3):
        try:
            try_one(sound, first + count)
        except BaseException:
            print(f"the mutant of the seed {first + count}", file=sys.stderr)
            raise
        count += 1
    print(f"{count} mutants of {len(sound)} manifests: all are read as protobuf reads them")


if __name__ == "__main__":
    main()
