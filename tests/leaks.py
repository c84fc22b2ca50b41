"""Threads and open files that lancefs leaves behind, and a fixture that fails on threads.

A room that wants the fixture for all its tests imports it into its conftest.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Collection, Iterator

import pytest

from lancefs.views import view
from lancefs.views.arrow import known_measures, lazy_file, measures

_CACHES = (
    lazy_file._CONTENTS,
    known_measures._SHARED,
    measures._ARRAYS,
    view._BYTES,
    view._SIZES,
)


def forget_views() -> None:
    """Clear the caches of views in this process."""
    for cache in _CACHES:
        cache.clear()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail a test after which a thread of ours still runs."""
    yield
    end = time.monotonic() + 20
    while (left := own_threads()) and time.monotonic() < end:
        gc.collect()  # unfinished generators
        time.sleep(0.01)
    assert not left


def own_threads() -> list[str]:
    """Return the names of the threads of lancefs; threads of engines do not count."""
    return [one.name for one in threading.enumerate() if one.name.startswith("lancefs-")]


def own_threads_since(before: Collection[threading.Thread]) -> list[threading.Thread]:
    """Return the threads of lancefs that were not there before; other tests may have left some."""
    named = [one for one in threading.enumerate() if one.name.startswith("lancefs-")]
    return [one for one in named if one not in before]


def open_files(table: str) -> list[str]:
    """Return the paths in a table that this process has open."""
    paths = []
    for one in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{one}"))
        except OSError:  # closed since it was listed
            continue
    return [path for path in paths if path.startswith(f"{table}/")]
