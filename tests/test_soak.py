"""The soak of `make soak`, for some seconds: nobody reads rows that a version does not have."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import REPOSITORY


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_readers_beside_busy_writers_read_the_rows_of_versions() -> None:
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "soak.py"), "--seconds", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.rsplit(maxsplit=5) for line in done.stdout.splitlines()]
    found = {row[0].strip(): row[1:] for row in rows if len(row) == 6}
    for name in ("dataset", "view", "DuckDB", "dataset, S3", "view, S3", "dashboard"):
        reads, wrong, *_, errors = found[name]
        assert int(reads) > 0
        assert (int(wrong), int(errors)) == (0, 0), done.stdout
