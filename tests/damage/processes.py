"""Processes that read what may end a process, with both kinds of kernels."""

from __future__ import annotations

import os
import subprocess
import sys

from support import REPOSITORY

KERNELS = {"compiled": "", "numpy": "numpy"}  # the values of LANCEFS_KERNELS


def environment(kernels: str) -> dict[str, str]:
    """Return the environment of a process that finds the package, and the modules of the tests."""
    paths = f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'tests'}"
    return os.environ | {"LANCEFS_KERNELS": KERNELS[kernels], "PYTHONPATH": paths}


def run_python(kernels: str, *arguments: str, timeout: int = 120) -> list[str]:
    """Run Python in a process of its own, which must not fail; return the lines that it prints.

    Args:
        kernels: One of `KERNELS`.
        *arguments: Those of Python; see `environment`.
        timeout: Seconds that it may take.
    """
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment(kernels),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
