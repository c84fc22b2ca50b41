"""Measures reading many small fragments of a store that takes 30 ms a request.

`python benchmarks/remote.py` reads them through s3fs, through obstore and with pylance, in turns in
one process, each time with a new filesystem and nothing cached. Times are medians without the first
round, which imports; CPU is that of this process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from obstore.fsspec import FsspecStore
from slow_store import BUCKET, slow_store

import lancefs

LATENCY = 0.03
URL = f"s3://{BUCKET}/t.lance"
LOGIN = {"access_key_id": "x", "secret_access_key": "x", "region": "us-east-1"}


def by_s3fs(server: str) -> pa.Table:
    """Read by the filesystem that fsspec has for S3."""
    options: dict[str, Any] = {"key": "x", "secret": "x", "skip_instance_cache": True}
    options["client_kwargs"] = {"endpoint_url": server}
    return lancefs.open(URL, storage_options=options).to_table()


def by_obstore(server: str) -> pa.Table:
    """Read by the filesystem of obstore."""
    http = {"allow_http": True}
    fs = FsspecStore("s3", endpoint=server, client_options=http, skip_instance_cache=True, **LOGIN)
    return lancefs.open(URL, filesystem=fs).to_table()


def by_pylance(server: str) -> pa.Table:
    """Read by pylance."""
    options = {"endpoint": server, "allow_http": "true", **LOGIN}
    return lance.dataset(URL, storage_options=options).to_table()


METHODS: dict[str, Callable[[str], pa.Table]] = {
    "s3fs": by_s3fs,
    "obstore": by_obstore,
    "pylance": by_pylance,
}


def main() -> None:
    """Write the table, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fragments", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    with tempfile.TemporaryDirectory() as folder:
        rows = pa.table({"a": range(100), "b": [str(i) for i in range(100)]})
        for number in range(arguments.fragments):
            lance.write_dataset(rows, f"{folder}/t.lance", mode="append" if number else "create")
        with slow_store(Path(folder), LATENCY) as server:
            for _ in range(arguments.rounds):
                for name, read in METHODS.items():
                    wall, cpu = time.perf_counter(), time.process_time()
                    assert read(server).num_rows == arguments.fragments * 100
                    took = time.perf_counter() - wall, time.process_time() - cpu
                    spent[name].append(took)
    for name, times in spent.items():
        wall, cpu = (statistics.median(part) for part in zip(*times[1:], strict=True))
        print(f"{name:8} {wall * 1000:6.0f} ms, {cpu * 1000:6.0f} ms of CPU")


if __name__ == "__main__":
    main()
