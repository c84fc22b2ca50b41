"""The code in README.md runs as it stands there."""

from __future__ import annotations

import re

import pytest
from support import REPOSITORY

BLOCKS = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)


def test_its_examples_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert len(BLOCKS) >= 5
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
