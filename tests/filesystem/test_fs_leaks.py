"""No thread runs and no file is open after the last reference to a view is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import REPOSITORY

PROGRAM = """
import gc, sys, time
sys.path[:0] = sys.argv[1:3]
import fsspec, pyarrow as pa
from leaks import forget_views, open_files, own_threads
from lancefs.errors import LanceError
from lancefs.filesystem import LanceFileSystem

def whole(fs):
    fs.cat("latest.arrow")

def stream(fs):
    fs.cat("latest.arrows")

def stream_closed_early(fs):
    with fs.open("latest.arrows") as file:
        file.read(1000)

def stream_dropped(fs):
    pa.ipc.open_stream(fs.open("latest.arrows")).read_next_batch()

def file_dropped(fs):
    pa.ipc.open_file(fs.open("versions/2.arrow")).get_batch(0)

def columns(fs):
    fs.cat_ranges(["latest/columns/id.arrow"] * 2, [0, 100], [10, 5000])

def changes(fs):
    fs.cat("changes/1..3.arrow"), fs.cat("history.arrow"), fs.cat("latest/indices.json")

def walked(fs):
    [fs.info(path) for path in fs.find("versions/3")]

def failed(fs):
    for path in ("latest/columns/nope.arrow", "versions/9.arrow", "changes/3..1.arrow"):
        try:
            fs.cat(path)
        except LanceError:
            pass

for work in (whole, stream, stream_closed_early, stream_dropped, file_dropped, columns, changes,
             walked, failed):
    work(LanceFileSystem(fo=sys.argv[3]))
    LanceFileSystem.clear_instance_cache()
    forget_views()
    end = time.monotonic() + 20  # a thread of pyarrow may let go of a file a little later
    while (left := own_threads() + open_files(sys.argv[3])) and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    print(work.__name__, *left)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be seen")
def test_no_thread_and_no_open_file_is_left_behind(shared_table: str) -> None:
    arguments = [str(REPOSITORY), str(REPOSITORY / "tests"), shared_table]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 9
    assert all(len(line.split()) == 1 for line in lines), done.stdout
