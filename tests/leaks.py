"""What lancefs has left behind: its threads, open files of a table, and a fixture that looks.

A room that wants the fixture for all its tests imports it into its conftest.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator

import pytest

from lancefs.views import view
from lancefs.views.arrow import lazy_file, measures

_CACHES = (
    lazy_file._CONTENTS,
    measures._KNOWN,
    measures._READ,
    view._MADE,
    view._SIZES,
)


def forget_views() -> None:
    """Forget all that is remembered of views in this process."""
    for cache in _CACHES:
        cache.clear()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail a test after which a thread of ours still runs."""
    yield
    end = time.monotonic() + 20
    while (left := own_threads()) and time.monotonic() < end:
        gc.collect()  # generators that nobody finished
        time.sleep(0.01)
    assert not left


def own_threads() -> list[str]:
    """Names of the threads of lancefs; an engine's are its own, and stay as long as it does."""
    return [one.name for one in threading.enumerate() if one.name.startswith("lancefs-")]


def open_files(table: str) -> list[str]:
    """Paths within a table that this process has open, or mapped."""
    paths = []
    for one in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{one}"))
        except OSError:  # closed since it was listed
            continue
    return [path for path in paths if path.startswith(f"{table}/")]
