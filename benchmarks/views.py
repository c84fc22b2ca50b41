"""Measures the views of `lance://` on a wide table: `python benchmarks/views.py --help`.

The table has 100 columns: numbers, of which ten have nulls, and ten of text. Each measurement
runs in a process of its own, once, from local files, or from a store that takes 50 ms a request.
Against it stand pylance, and the same rows as a Parquet file, read by pandas.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from slow_store import BUCKET, slow_store

HERE = Path(__file__).resolve().parent
LATENCY = 0.05
MEMORY = 8 << 30  # bytes, more than any measurement takes
COLUMN = "c03"
COLUMNS = 100
TABLE = "wide.lance"
PARQUET = "wide.parquet"


def prepare(directory: Path, rows: int) -> Path:
    """Write the table as Lance and as Parquet, unless it is there."""
    import lance

    home = directory / f"views-{rows}"
    if (home / "done").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    table = wide(rows)
    lance.write_dataset(table, str(home / TABLE), max_rows_per_file=500_000)
    pq.write_table(table, home / PARQUET)
    (home / "done").touch()
    return home


def wide(rows: int) -> pa.Table:
    """Return 100 columns."""
    source = np.random.default_rng(11)
    words = pa.array([f"word {i}" * (i % 4 + 1) for i in range(50_000)])
    columns: dict[str, pa.Array] = {}
    for number in range(COLUMNS):
        if number % 10 == 9:
            column = words.take(pa.array(source.integers(0, len(words), rows)))
        elif number % 10 == 8:
            column = pa.array(source.standard_normal(rows), mask=source.random(rows) < 0.1)
        elif number % 2:
            column = pa.array(source.integers(0, 1 << 40, rows))
        else:
            column = pa.array(source.standard_normal(rows))
        columns[f"c{number:02}"] = column
    return pa.table(columns)


class Place:
    """Where the table is: a directory, or behind a server.

    Args:
        home: The directory.
        server: The address of the server; None where there is none.
    """

    def __init__(self, home: Path, server: str | None) -> None:
        self.home = home
        self.server = server

    def url(self, name: str) -> str:
        """Return the address of a file, or of the table."""
        return f"s3://{BUCKET}/{name}" if self.server else str(self.home / name)

    @property
    def fsspec(self) -> dict[str, Any]:
        """Options of s3fs."""
        if self.server is None:
            return {}
        return {"anon": True, "client_kwargs": {"endpoint_url": self.server}}

    @property
    def pylance(self) -> dict[str, str]:
        """Options of pylance."""
        if self.server is None:
            return {}
        return {
            "aws_endpoint": self.server,
            "aws_region": "us-east-1",
            "aws_skip_signature": "true",
            "allow_http": "true",
        }

    def filesystem(self) -> Any:
        """Return the filesystem of views."""
        from lancefs.filesystem import LanceFileSystem

        protocol = "file" if self.server is None else "s3"
        options = self.fsspec
        return LanceFileSystem(self.url(TABLE), target_protocol=protocol, target_options=options)


def feather(place: Place, columns: list[str] | None) -> int:
    """Read a view with pandas."""
    import pandas as pd

    with place.filesystem().open("latest.arrow") as file:
        return len(pd.read_feather(file, columns=columns))


def of_column(place: Place) -> int:
    """Read the view of a column with pandas."""
    import pandas as pd

    with place.filesystem().open(f"latest/columns/{COLUMN}.arrow") as file:
        return len(pd.read_feather(file))


def info(place: Place) -> int:
    """Find out the size of a view."""
    return int(place.filesystem().info("latest.arrow")["size"])


def first_batch(place: Place) -> int:
    """Read the first batch of a stream."""
    with place.filesystem().open("latest.arrows") as file:
        return int(pa.ipc.open_stream(file).read_next_batch().num_rows)


def pylance(place: Place, columns: list[str] | None) -> int:
    """Read with pylance, into pandas."""
    import lance

    dataset = lance.dataset(place.url(TABLE), storage_options=place.pylance or None)
    return len(dataset.to_table(columns=columns).to_pandas())


def parquet(place: Place, columns: list[str] | None) -> int:
    """Read the Parquet file with pandas."""
    import pandas as pd

    options = place.fsspec or None
    return len(pd.read_parquet(place.url(PARQUET), columns=columns, storage_options=options))


WORK: dict[str, Callable[[Place], int]] = {
    "1 column, view": lambda place: feather(place, [COLUMN]),
    "1 column, view of it": of_column,
    "1 column, pylance": lambda place: pylance(place, [COLUMN]),
    "1 column, parquet": lambda place: parquet(place, [COLUMN]),
    "all, view": lambda place: feather(place, None),
    "all, pylance": lambda place: pylance(place, None),
    "all, parquet": lambda place: parquet(place, None),
    "open and info": info,
    "first batch of stream": first_batch,
}


def measure(name: str, home: Path, server: str | None) -> dict[str, Any]:
    """Run a measurement in this process."""
    import lance  # noqa: F401  # what is imported is not measured
    import pandas  # noqa: F401

    import lancefs.filesystem  # noqa: F401

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    WORK[name](Place(home, server))
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": seconds, "peak_mb": (after - before) / 1024}


def in_a_process(name: str, home: Path, server: str | None) -> dict[str, Any]:
    """Run a measurement in a process of its own."""
    arguments = [sys.executable, str(HERE / "views.py"), "--one", name, "--in", str(home)]
    if server:
        arguments += ["--server", server]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if server:
        with urllib.request.urlopen(f"{server}/counts") as answer:
            found |= json.load(answer)
    return found


def show(name: str, found: dict[str, Any]) -> None:
    """Print one line of the table."""
    if "error" in found:
        print(f"{name:24} {found['error']}", flush=True)
        return
    line = f"{name:24} {found['seconds']:8.2f} s {found['peak_mb']:8.0f} MB of memory"
    if "requests" in found:
        line += f" {found['bytes'] / 1e6:9.1f} MB in {found['requests']} requests"
    print(line, flush=True)


def touch_memory() -> None:
    """Write to memory before it is measured: virtual machines are slow to get it the first time.

    A process of its own does it, since the peaks of those that this one starts begin at its own.
    """
    subprocess.run(
        [sys.executable, "-c", f"import numpy; numpy.ones({MEMORY}, numpy.uint8)"], check=True
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--home", type=Path, default=HERE.parent / "build" / "bench")
    parser.add_argument("--only", choices=("write", "local", "slow"), help="leave out the rest")
    parser.add_argument("--match", default="", help="measure only what this pattern is found in")
    parser.add_argument("--one", choices=list(WORK), help=argparse.SUPPRESS)
    parser.add_argument("--in", dest="inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.inside, options.server)))
        return
    home = prepare(options.home, options.rows)
    touch_memory()
    names = [name for name in WORK if re.search(options.match, name)]
    if options.only in (None, "local"):
        print("local")
        for name in names:
            show(name, in_a_process(name, home, None))
    if options.only in (None, "slow"):
        print(f"{LATENCY * 1000:.0f} ms a request")
        with slow_store(home, LATENCY) as server:
            for name in names:
                show(name, in_a_process(name, home, server))


if __name__ == "__main__":
    main()
