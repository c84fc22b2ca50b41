"""Files whose bytes are made once for many readers and threads; and forked processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from leaks import forget_views
from support import REPOSITORY

from lancefs.errors import MemoryLimitExceeded
from lancefs.filesystem import LanceFileSystem
from lancefs.storage.budget_cache import BudgetCache
from lancefs.views.arrow import measures


def test_values_are_read_once_for_all_readers(table: str, decoded: list[str]) -> None:
    fs = LanceFileSystem(fo=table)
    barrier = threading.Barrier(8)

    def whole(_: int) -> bytes:
        barrier.wait()
        return fs.cat_file("versions/2.arrow")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(whole, range(8)))) == 1
    fs.info("versions/2.arrow")
    fs.cat("tags/prod.arrow")
    assert Counter(decoded) == dict.fromkeys(("id", "name", "price", "a,b/c%"), 3)


def test_values_above_the_budget_are_not_cached(
    table: str, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures._ARRAYS, "budget", 1000)
    fs = LanceFileSystem(fo=table)
    one = fs.cat("versions/1/columns/id.arrow")
    assert decoded == ["id"] * 3
    size = fs.info("versions/1/columns/id.arrow")["size"]
    assert size == len(one)
    assert len(decoded) == 3  # its size is remembered nevertheless
    assert fs.cat("versions/1/columns/id.arrow") == one
    assert len(decoded) == 6


def test_a_file_is_the_same_in_every_process(table: str) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from lancefs.filesystem import LanceFileSystem\n"
        "import hashlib\n"
        "fs = LanceFileSystem(fo=sys.argv[2])\n"
        "for path in fs.find('versions/2') + ['latest.arrow', 'latest.arrows']:\n"
        "    print(fs.ukey(path), hashlib.sha256(fs.cat_file(path)).hexdigest())\n"
    )
    arguments = [sys.executable, "-c", program, str(REPOSITORY), table]
    one, other = (
        subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert one == other
    assert len(one.splitlines()) == 13


@pytest.mark.parametrize("fs", ["None", "SlowFileSystem(0.001)"], ids=["local", "remote"])
def test_a_forked_child_reads_a_table(table: str, fs: str) -> None:
    # In a process of its own, where no other thread runs.
    program = f"""
import os, sys
sys.path[:0] = sys.argv[1:3]
from store_doubles import SlowFileSystem
from lancefs.errors import MemoryLimitExceeded
from lancefs.filesystem import LanceFileSystem
from lancefs.views.arrow import measures
fs = LanceFileSystem(fo=sys.argv[3], fs={fs})
expected = fs.cat("latest.arrow")
measures._ARRAYS._lock.acquire()  # as if another thread were inside when the process forks
child = os.fork()
if child == 0:
    right = fs.cat("latest.arrow") == expected and len(fs.ls("versions")) == 9
    os._exit(0 if right and fs.cat("versions/1.arrow") != expected else 1)
measures._ARRAYS._lock.release()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    arguments = [str(REPOSITORY), str(REPOSITORY / "tests"), table]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_views_that_share_fragments_are_laid_out_at_the_same_time(table: str) -> None:
    paths = [f"versions/{n}/columns/{name}.arrow" for n in (1, 2, 3) for name in ("id", "name")]
    expected = [LanceFileSystem(fo=table).cat_file(path) for path in paths]
    for _ in range(20):
        forget_views()
        LanceFileSystem.clear_instance_cache()
        fs = LanceFileSystem(fo=table)
        with ThreadPoolExecutor(len(paths)) as pool:
            assert list(pool.map(fs.cat_file, paths)) == expected


def test_the_most_recently_used_values_stay_cached() -> None:
    cache: BudgetCache[str, str] = BudgetCache(3)
    made: list[str] = []

    def get(key: str) -> str:
        return cache.get(key, lambda: made.append(key) or key, lambda _: 1)

    for key in "abcadb":
        assert get(key) == key
    assert "".join(made) == "abcdb"
    assert (cache.peek("a"), cache.peek("c")) == ("a", None)
    cache.clear()
    assert cache.peek("a") is None


def test_a_cache_retries_a_value_that_could_not_be_made() -> None:
    cache: BudgetCache[str, int] = BudgetCache(10)
    with pytest.raises(ZeroDivisionError):
        cache.get("x", lambda: 1 // 0, lambda _: 1)
    assert cache.get("x", lambda: 7, lambda _: 1) == 7


def test_filesystems_with_other_limits_share_no_values(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    long = pa.table({"same": ["x" * 400] * 300_000})  # of which a page holds one
    lance.write_dataset(long, str(path), data_storage_version="2.1")
    view = "latest/columns/same.arrow"
    limited = LanceFileSystem(fo=str(path), max_memory=1000, skip_instance_cache=True)
    with pytest.raises(MemoryLimitExceeded, match="max_memory is 1,000"):
        limited.cat(view)
    whole = LanceFileSystem(fo=str(path), skip_instance_cache=True).cat(view)
    assert len(whole) > 300_000 * 400
    with pytest.raises(MemoryLimitExceeded, match="max_memory is 1,000"):
        limited.cat(view)
