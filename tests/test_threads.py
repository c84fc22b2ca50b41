"""Work that is shared among threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lancefs.threads import in_threads


def test_results_come_in_the_order_of_the_things() -> None:
    def later(number: int) -> int:
        time.sleep(0.002 * (5 - number))
        return number * number

    assert in_threads(later, range(5), 3, "test") == [0, 1, 4, 9, 16]


@pytest.mark.parametrize(("things", "threads"), [(0, 4), (1, 4), (3, 1)])
def test_one_thing_at_a_time_takes_no_thread(things: int, threads: int) -> None:
    found = in_threads(lambda _: threading.current_thread(), range(things), threads, "test")
    assert found == [threading.current_thread()] * things


def test_the_first_failure_is_raised_and_what_waits_is_left_out() -> None:
    done = []

    def fail(number: int) -> None:
        done.append(number)
        time.sleep(0.001)
        raise ValueError(f"thing {number}")

    with pytest.raises(ValueError, match="thing 0"):
        in_threads(fail, range(1000), 2, "test")
    assert len(done) < 1000


def test_work_is_done_once_where_no_more_threads_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without memory for one: what waits for a thread is then done by one that is there."""
    start, started = threading.Thread.start, []

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        time.sleep(0.001)
        return -number

    assert in_threads(work, range(50), 4, "test") == [-number for number in range(50)]
    assert sorted(done) == list(range(50))


def test_work_is_done_by_the_caller_where_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    done: list[threading.Thread] = []
    in_threads(lambda _: done.append(threading.current_thread()), range(5), 3, "test")
    assert done == [threading.current_thread()] * 5


def test_views_are_read_also_while_the_interpreter_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"x": np.arange(200_000)}), path, max_rows_per_file=70_000)
    code = f"""
import atexit, lancefs, pyarrow as pa
fs = lancefs.LanceFileSystem(fo={path!r})
atexit.register(lambda: print(pa.ipc.open_file(fs.open("latest.arrow")).read_all().num_rows))
atexit.register(lambda: print(pa.ipc.open_stream(fs.open("latest.arrows")).read_all().num_rows))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["200000", "200000"]
    assert not done.stderr
