"""Compares the compiled kernels with the NumPy kernels on drawn inputs, for some seconds.

    python tests/fuzz_kernels.py SECONDS [KERNEL …]

The inputs are those of `tests/datafile/kernels`, sound and damaged, from a new seed each
time. `make fuzz` runs this under the sanitizers. It ends with 1 at the first input on which a
kernel differs from its reference, and shows the smallest such input.
"""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

sys.path.insert(0, str(Path(__file__).parent / "datafile" / "kernels"))
import kernel_inputs as kernels  # the path to it is set above

EXAMPLES = 500


def try_one(name: str) -> None:
    """Draw inputs for one kernel from a new seed, and compare what comes out."""
    reference, inputs = kernels.PAIRS[name]

    @seed(secrets.randbits(64))
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def agree(arguments: kernels.Arguments) -> None:
        found = kernels.outcome(kernels.compiled_kernel(name), arguments)
        assert found == kernels.outcome(reference, arguments), name

    agree()


def main() -> None:
    """Go round the kernels until the time is over."""
    if len(sys.argv) < 2 or not kernels.COMPILED:
        sys.exit(__doc__ if kernels.COMPILED else "there are no compiled kernels to be tried")
    names = sys.argv[2:] or list(kernels.PAIRS)
    end, rounds = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < end:
        for name in names:
            try_one(name)
        rounds += 1
    print(f"{rounds} rounds of {EXAMPLES} inputs for each of {', '.join(names)}: all agree")


if __name__ == "__main__":
    main()
