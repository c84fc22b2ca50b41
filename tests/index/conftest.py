"""What tests of indices share."""

from __future__ import annotations

from pathlib import Path

import pytest
from histories import create

from lancefs.index import lookup


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three fragments, with an index over each column but one."""
    path = tmp_path_factory.mktemp("indices") / "t.lance"
    create(path, False, "2.1")
    return path


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are looked up in indices, too."""
    monkeypatch.setattr(lookup, "_SMALL_ROWS", 2**20)
    monkeypatch.setattr(lookup, "_SMALL_RANGES", 2**20)
