"""Processes with little memory, processes that are spawned, and processes that end half-way."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support import ORDERS, REPOSITORY

import lancefs

# How the C library itself ends a process that has no memory for the variables of a thread.
_NO_THREAD_LOCALS = "cannot allocate memory for thread-local data: ABORT"
PRICE = "price > 3 AND city IS NOT NULL"


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of many batches: 160 MB of values, in four fragments."""
    path = str(tmp_path_factory.mktemp("tables") / "long.lance")
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {f"n{i}": rng.integers(0, 1 << 62, 1_000_000) for i in range(18)}
    columns["text"] = pa.array([f"row {n}" for n in range(1_000_000)])
    lance.write_dataset(pa.table(columns), path, max_rows_per_file=250_000)
    return path


# What a process does that may take so many megabytes of address space beyond what it has.
LIMITED = """
import resource, sys
import numpy as np, pyarrow as pa, pyarrow.compute, pyarrow.dataset, pyarrow.acero
import lancefs
path, megabytes, door = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lancefs.open(sys.argv[4]).to_table()  # what is loaded at the first read
def whole():
    return lancefs.open(path).to_table().num_rows
def batches():
    return sum(batch.num_rows for batch in lancefs.open(path).to_batches())
def taken():
    return len(lancefs.open(path).take(range(0, 1_000_000, 3))) * 3 - 2
def view():
    with lancefs.LanceFileSystem(fo=path).open("latest.arrow") as file:
        return pa.ipc.open_file(file).read_all().num_rows
def stream():
    with lancefs.LanceFileSystem(fo=path).open("latest.arrows") as file:
        return pa.ipc.open_stream(file).read_all().num_rows
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + megabytes * 2**20,) * 2)
try:
    print(globals()[door]())
except MemoryError as error:
    print(type(error).__name__)
except pa.ArrowException as error:
    # Arrow itself has no memory for a thread of its own.
    print("MemoryError" if "Failed to launch worker thread" in str(error) else repr(error))
"""


@pytest.mark.parametrize("door", ["whole", "batches", "taken", "view", "stream"])
@pytest.mark.parametrize("megabytes", [8, 64])
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_lack_of_memory_is_told_as_such(megabytes: int, door: str, long: str) -> None:
    command = [sys.executable, "-c", LIMITED, long, str(megabytes), door, ORDERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if _NO_THREAD_LOCALS in done.stderr:
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("1000000", "MemoryError", "ArrowMemoryError")


def spawn(work: Callable[[Any], Any], argument: Any) -> Any:
    """Call a function in a process that was spawned; its argument and result are pickled."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, argument).result(100)


def _rows(readable: Any) -> pa.Table:
    return readable.to_table()


def _filtered(argument: tuple[lancefs.LanceDataset, pc.Expression]) -> pa.Table:
    dataset, expression = argument
    return dataset.to_table(filter=expression)


def _file(fs: lancefs.LanceFileSystem) -> pa.Table:
    with fs.open("versions/2.arrow") as file:
        return pa.ipc.open_file(file).read_all()


def _next_bytes(file: Any) -> bytes:
    return bytes(file.read())


def test_a_spawned_process_reads_what_it_is_sent() -> None:
    dataset = lancefs.open(ORDERS, tag="prod")
    fs = lancefs.LanceFileSystem(fo=ORDERS)
    file = fs.open("tags/prod.arrow")
    file.seek(1000)
    expression = (pc.field("price") > 3) & pc.field("city").is_valid()
    sent: list[tuple[Callable[[Any], Any], Any]] = [
        (_rows, dataset),
        (_rows, dataset.filter(PRICE)),
        (_rows, dataset.with_row_metadata("_rowaddr")),
        (_filtered, (dataset, expression)),
        (_filtered, (dataset, PRICE)),
        (_rows, dataset.scanner(columns=["city", "price"], filter=PRICE, limit=7)),
        (_rows, dataset.scanner(filter=expression)),
        (_rows, next(iter(dataset.get_fragments()))),
        (_file, fs),
    ]
    with file:
        assert spawn(_next_bytes, file) == fs.cat("tags/prod.arrow")[1000:]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        for work, argument in sent:
            assert pool.submit(work, argument).result(100).equals(work(argument)), argument


HALF_READ = {
    "batches": "batches = lancefs.open(path).to_batches(); next(batches)",
    "reader": "reader = lancefs.open(path).to_reader(); reader.read_next_batch()",
    "C stream": (
        "reader = pa.RecordBatchReader.from_stream(lancefs.open(path)); reader.read_next_batch()"
    ),
    "file": (
        "file = fs.open('latest.arrow'); reader = pa.ipc.open_file(file); "
        "batch = reader.get_batch(0)"
    ),
    "stream": (
        "file = fs.open('latest.arrows'); reader = pa.ipc.open_stream(file); "
        "batch = reader.read_next_batch()"
    ),
    "bytes": "file = fs.open('latest.arrows'); data = file.read(100_000)",
    "polars": (
        "import polars; frame = polars.scan_pyarrow_dataset(lancefs.open(path)); "
        "rows = frame.head(3).collect()"
    ),
    "DuckDB": (
        "import duckdb_adapter; con = duckdb_adapter.connect(); "
        "result = con.execute(f\"FROM '{path}'\"); row = result.fetchone()"
    ),
    "DuckDB over a dataset": (
        "import duckdb; dataset = lancefs.open(path); con = duckdb.connect(); "
        "result = con.execute('FROM dataset'); row = result.fetchone()"
    ),
    "a scan of pyarrow's own, which was refused": (
        "import pyarrow.dataset as pads\n"
        "try:\n    pads.Scanner.from_dataset(lancefs.open(path)).to_table()\n"
        "except TypeError:\n    pass"
    ),
    "a thread": (
        "import threading; threading.Thread(target=lambda: lancefs.open(path).to_table()).start()"
    ),
    "a daemon": (
        "import threading, time\n"
        "work = lambda: [lancefs.open(path).to_table() for _ in range(100)]\n"
        "threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.3)"
    ),
}
ENDS = {"ends": "", "exits": "sys.exit(0)", "keeps it": "sys.modules['kept'] = dict(globals())"}


@pytest.mark.parametrize("state", HALF_READ)
@pytest.mark.parametrize(
    "end", ["ends", *(pytest.param(end, marks=pytest.mark.slow) for end in ("exits", "keeps it"))]
)
def test_a_process_that_ends_half_way_ends_quietly(state: str, end: str, long: str) -> None:
    program = f"""
import sys
import pyarrow as pa, lancefs
path = {long!r}
fs = lancefs.LanceFileSystem(fo=path)
{HALF_READ[state]}
{ENDS[end]}
"""
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
