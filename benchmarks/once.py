"""One method on one workload, in this process: what `run.py` starts again and again.

    python benchmarks/once.py METHOD WORKLOAD DIRECTORY RUNS

It prints JSON. With 0 runs the workload is done once, and whoever started the process takes the
time.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from workloads import WORKLOADS, prepare


def measure(method: str, name: str, home: Path, runs: int) -> dict[str, Any]:
    """Do a workload once to warm up, then so many times; tell the median and what came out."""
    read = prepare(method, WORKLOADS[name], home)
    result = read()
    found: dict[str, Any] = {"arrow_bytes": getattr(result, "nbytes", 0)}
    del result
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        result = read()
        times.append(time.perf_counter() - start)
        del result
    if times:
        found |= {"seconds": statistics.median(times), "times": times, "peak_bytes": _peak()}
    return found


def _peak() -> int:
    """Return the most memory that this process had, mapped pages of files included."""
    status = Path("/proc/self/status")
    if status.exists():  # `getrusage` would count what the process had that started this one
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    method, name, home, runs = sys.argv[1:]
    print(json.dumps(measure(method, name, Path(home), int(runs))))
