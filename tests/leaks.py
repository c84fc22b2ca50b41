"""A fixture that sees whether tests leave threads behind; a room imports it into its conftest."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from lancefs.views import lazy_file, measures, view

_CACHES = (
    lazy_file._BODIES,
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
    end = time.monotonic() + 2
    while (left := _threads()) and time.monotonic() < end:
        gc.collect()  # generators that nobody finished
        time.sleep(0.01)
    assert not left


def _threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("lancefs-")]
