"""Ctrl-C in a command, in every read of a file: exit code 130, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from interrupting import MOST, interrupts_of_local_files
from running import Here

from lancefs.cli.exits import INTERRUPTED


@pytest.mark.parametrize(
    "command",
    [
        ["head"],
        ["head", "-w", "id > 5", "-f", "csv"],
        ["log"],
        ["show"],
        ["du"],
        ["verify"],
        ["schema"],
    ],
    ids=" ".join,
)
def test_a_command_ends_with_130_wherever_it_is_interrupted(
    command: list[str], shop: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts = interrupts_of_local_files(monkeypatch)
    table, codes = str(shop / "teas.lance"), []
    for number in range(MOST):
        interrupts.left = number
        done = here(command[0], table, *command[1:])
        if interrupts.left is not None:
            interrupts.left = None
            assert done.code == 0
            break
        codes.append(done.code)
        assert "Traceback" not in done.err
    assert set(codes) == {INTERRUPTED}
