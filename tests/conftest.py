"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from support import examples

from lancefs.datafile.v2_1 import assembly
from lancefs.scan import fragment_ranges
from lancefs.scan import settings as settings_module
from lancefs.table.fragment_reader import FragmentReader

# A shared or busy machine makes single examples slow, which says nothing about the code; the
# timeout of a whole test still holds.
# CI draws the same examples each time, so that it fails for what was changed; people draw new ones.
settings.register_profile(
    "lancefs",
    settings.default,
    max_examples=examples(100),
    deadline=None,
    derandomize="CI" in os.environ,
)
settings.load_profile("lancefs")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# Joined decoding that refuses sound pages is an error here, where users get a warning.
assembly.FAILS_WHERE_DECODERS_DISAGREE = True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the garbage collector from the thousands of tests, which all stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts to read that tests can wait for."""
    monkeypatch.setattr("lancefs.storage.retries.PAUSE", 0.001)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    """Scans that have seen nothing of the columns that they filter by."""
    fragment_ranges.forget()


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes what scans are tuned by; each call adds to the calls before it."""

    def tune(**changes: Any) -> None:
        monkeypatch.setattr(settings_module, "DEFAULT", settings_module.DEFAULT._replace(**changes))

    return tune


@pytest.fixture
def threaded(tuned: Callable[..., None]) -> None:
    """Scans of small tables that use threads as those of large ones do."""
    tuned(inline_seconds=0)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns whose values are decoded during a test, once for each batch."""
    return _noted(monkeypatch, outlines=False)


@pytest.fixture
def outlined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns of which outlines are read during a test, once for each batch."""
    return _noted(monkeypatch, outlines=True)


def _noted(monkeypatch: pytest.MonkeyPatch, outlines: bool) -> list[str]:
    seen: list[str] = []
    read = FragmentReader.read

    def noted(self: FragmentReader, fields: Any, *arguments: Any) -> list[pa.Array]:
        seen.extend(field.name for field in fields if field.is_outline == outlines)
        return read(self, fields, *arguments)

    monkeypatch.setattr(FragmentReader, "read", noted)
    return seen


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; in CI one that must be there."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        if os.environ.get("LANCEFS_BROWSER") == "required":
            pytest.fail("LANCEFS_BROWSER=required, and there is no Chromium: make chromium")
        pytest.skip("there is no Chromium: `make chromium` installs one")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()
