"""The protocol `lance`, as a fixture: a room that wants it for all its tests imports it."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pytest

from lancefs.filesystem import LanceFileSystem


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The filesystem under its protocol, as the entry point of an installed lancefs puts it."""
    fsspec.register_implementation("lance", LanceFileSystem, clobber=True)
    yield
    LanceFileSystem.clear_instance_cache()
