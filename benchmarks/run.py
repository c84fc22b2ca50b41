"""Measures lancefs against other readers: `make bench`, or `python benchmarks/run.py --help`.

Each method reads in a process of its own, so that none profits from memory that another has warmed:
once to warm up, then five times, of which the median counts. Workloads that are named `new process`
are measured from the outside, the start of Python included, five times after a first one.

A ratio is the time of pylance over that of lancefs in the same run: above 1, lancefs is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import workloads
from tables import prepare
from workloads import ENVIRONMENTS, METHODS, WORKLOADS

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
RUNS = 5
TIMEOUT = 900
PACKAGES = ("lancefs", "pylance", "pyarrow", "numpy", "duckdb")


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    home = prepare(Path(options.home), options.rows)
    about = machine()
    report: dict[str, Any] = {"machine": about, "rows": options.rows, "results": {}}
    print_machine(about)
    table = Table(options.methods, about["memcpy_bytes_per_second"], options.markdown)
    for name, workload in WORKLOADS.items():
        if not re.search(options.only, name):
            continue
        report["results"][name] = results = {
            method: in_a_process(method, name, home)
            for method in options.methods
            if workloads.supports(method, workload)
        }
        table.add(name, results)
    target = Path(options.json or home / "results.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {target}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=6_000_000, help="of the largest table; fewer for a trial"
    )
    parser.add_argument("--only", default="", help="workloads whose name matches this pattern")
    parser.add_argument(
        "--methods",
        type=_methods,
        default=[method for method in METHODS if method != "lancefs-numpy"],
        help=f"of {','.join(METHODS)}; all but lancefs-numpy by default",
    )
    parser.add_argument(
        "--home", default=CHECKOUT / "build" / "bench", help="where the tables are written, once"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print the table as docs/performance.md has it"
    )
    parser.add_argument("--json", help="where results go; beside the tables by default")
    return parser.parse_args()


def _methods(text: str) -> list[str]:
    methods = text.split(",")
    if unknown := set(methods) - set(METHODS):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: none of {', '.join(METHODS)}")
    return methods


def in_a_process(method: str, name: str, home: Path) -> dict[str, Any]:
    """Run one method on one workload in a new process; what goes wrong there is in the result."""
    is_cold = WORKLOADS[name].is_cold
    script = [sys.executable, str(HERE / "once.py")]
    command = [*script, method, name, str(home), "0" if is_cold else str(RUNS)]
    times = []
    for _ in range(RUNS + 1 if is_cold else 1):
        start = time.perf_counter()
        done = _started(command, ENVIRONMENTS[method])
        times.append(time.perf_counter() - start)
        if done.returncode:
            return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if is_cold:
        found |= {"seconds": statistics.median(times[1:]), "times": times[1:]}
    return found


def _started(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": paths, **environment}
    # Installed packages are compiled: the first run compiles the checkout, for those that count.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


def machine() -> dict[str, Any]:
    """Describe the machine, and how fast it copies memory."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return {
        "cores": len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in PACKAGES},
        "memcpy_bytes_per_second": _memcpy(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def _memcpy() -> float:
    source = np.ones(64 << 20, np.uint8)
    target = source.copy()
    times = []
    for _ in range(9):
        start = time.perf_counter()
        np.copyto(target, source)
        times.append(time.perf_counter() - start)
    return len(source) / min(times)


def print_machine(about: dict[str, Any]) -> None:
    """Say what all figures depend on."""
    print(f"{about['processor']}, {about['cores']} cores, Python {about['python']};")
    print(", ".join(f"{name} {number}" for name, number in about["versions"].items()) + ";")
    print(f"memcpy {about['memcpy_bytes_per_second'] / 1e9:.1f} GB/s\n")


class Table:
    """Prints the results, a workload a line: in columns, or as Markdown.

    Times are in milliseconds; `memcpy` is the Arrow bytes that lancefs gives in a second, as a
    share of those that the machine copies; `peak MB` is the memory of its process.
    """

    def __init__(self, methods: list[str], memcpy: float, is_markdown: bool) -> None:
        self.methods = methods
        self.memcpy = memcpy
        self.is_markdown = is_markdown
        self._line(["milliseconds", *methods, "ratio", "target", "memcpy", "peak MB"])
        if is_markdown:
            self._line(["---", *["---:"] * (len(methods) + 4)])

    def add(self, name: str, results: dict[str, Any]) -> None:
        """Print one workload: times, the ratio of pylance to lancefs, the share of the limit."""
        times = [_milliseconds(results.get(method)) for method in self.methods]
        mine, theirs = results.get("lancefs", {}), results.get("pylance", {})
        ratio = share = peak = ""
        if "seconds" in mine and "seconds" in theirs:
            ratio = f"{theirs['seconds'] / mine['seconds']:.2f}"
        if mine.get("arrow_bytes") and not WORKLOADS[name].is_cold:
            share = f"{mine['arrow_bytes'] / mine['seconds'] / self.memcpy:.0%}"
        if mine.get("peak_bytes"):
            peak = f"{mine['peak_bytes'] / 1e6:.0f}"
        self._line([name, *times, ratio, str(WORKLOADS[name].target or ""), share, peak])
        for method, result in results.items():
            if "error" in result:
                print(f"  {method}: {result['error']}", file=sys.stderr)

    def _line(self, cells: list[str]) -> None:
        if self.is_markdown:
            print(f"| {' | '.join(cells)} |", flush=True)
            return
        name, *others = cells
        widths = [14] * len(self.methods) + [7, 6, 6, 7]
        aligned = [f"{cell:>{width}}" for cell, width in zip(others, widths, strict=True)]
        print(f"{name:22} {' '.join(aligned)}", flush=True)


def _milliseconds(result: dict[str, Any] | None) -> str:
    if result is None or "seconds" not in result:
        return "-"
    return f"{result['seconds'] * 1e3:,.1f}"


if __name__ == "__main__":
    main()
