"""Measures `lancefs serve` under many clients: requests a second, latency, and what it holds.

`python benchmarks/serve.py` serves a table of a million rows, and has 64 clients ask for ranges of
a column, for a small column, documents and pages of rows, in several rounds. After each round it
prints memory, open files and threads of the server, which must not grow from round to round.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import numpy as np
import pyarrow as pa

ROWS = 1_000_000
TABLE = "t.lance"


def prepare(directory: Path) -> Path:
    """Write the table, in two versions."""
    import lance

    source = np.random.default_rng(3)
    words = pa.array([f"word {number}" for number in range(1000)])
    columns = {"id": pa.array(np.arange(ROWS)), "price": pa.array(source.normal(size=ROWS))}
    columns["flag"] = pa.array(source.random(ROWS) < 0.5)
    columns["city"] = words.take(pa.array(source.integers(0, 1000, ROWS)))
    lance.write_dataset(pa.table(columns), str(directory / TABLE), max_rows_per_file=250_000)
    lance.dataset(str(directory / TABLE)).delete("id % 100 = 7")
    return directory / TABLE


def asked(number: random.Random) -> tuple[str, dict[str, str]]:
    """Return the path and the headers of a request."""
    version, kind = number.choice((1, 2)), number.random()
    if kind < 0.7:
        start = number.randrange(7_000_000)
        ranges = {"Range": f"bytes={start}-{start + 65535}"}
        return f"versions/{version}/columns/price.arrow", ranges
    if kind < 0.8:
        return f"versions/{version}/columns/flag.arrow", {}
    if kind < 0.9:
        return f"versions/{version}/manifest.json", {}
    return f"rows?ref={version}&start={number.randrange(900_000)}", {}


class Load:
    """Clients that ask a server, each one request after the other.

    Args:
        url: The table.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.seconds: list[float] = []
        self.bytes = self.refused = 0

    async def run(self, clients: int, seconds: float) -> None:
        """Ask for some seconds."""
        until = time.monotonic() + seconds
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(self._ask(session, seed, until) for seed in range(clients)))

    async def _ask(self, session: aiohttp.ClientSession, seed: int, until: float) -> None:
        number = random.Random(seed)
        while time.monotonic() < until:
            path, headers = asked(number)
            began = time.perf_counter()
            async with session.get(self.url + path, headers=headers) as answer:
                body = await answer.read()
            self.bytes += len(body)
            self.refused += answer.status not in (200, 206)
            self.seconds.append(time.perf_counter() - began)

    def summary(self, seconds: float) -> str:
        """Return throughput and latency, of a round of some seconds."""
        ranked = statistics.quantiles(self.seconds, n=100)
        return (
            f"{len(self.seconds) / seconds:.0f} requests/s, {self.bytes / seconds / 1e6:.0f} MB/s, "
            f"median {ranked[49]:.3f} s, 99 % below {ranked[98]:.3f} s, {self.refused} refused"
        )


def left_behind(pid: int) -> str:
    """Return memory, open files and threads of a process, and its processor time."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory, threads = (re.findall(rf"{key}:\s*(\d+)", status)[0] for key in ("VmRSS", "Threads"))
    ticks = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    files, cpu = len(os.listdir(f"/proc/{pid}/fd")), ticks / os.sysconf("SC_CLK_TCK")
    return f"{int(memory) // 1024} MB, {files} open files, {threads} threads, {cpu:.1f} s of CPU"


def main() -> None:
    """Serve, ask, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = prepare(Path(folder))
        command = [sys.executable, "-m", "lancefs", "serve", str(table), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                (url,) = re.findall(r"http://\S+?/", server.stdout.readline())
                print("start:", left_behind(server.pid))
                for _ in range(arguments.rounds):
                    load = Load(f"{url}{TABLE}/")
                    asyncio.run(load.run(arguments.clients, arguments.seconds))
                    time.sleep(1)  # the server notices that its clients are gone
                    print(load.summary(arguments.seconds), left_behind(server.pid), sep="; ")
            finally:
                server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
