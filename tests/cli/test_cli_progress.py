"""Progress bars: on a terminal, and only for work that takes long."""

from __future__ import annotations

import io
import sys
import time

import pytest

from lancefs.cli.render import progress as module
from lancefs.cli.render.progress import progress

_DEADLINE = 30  # seconds until a bar that does not appear fails a test


class Terminal(io.StringIO):
    """Looks like a terminal, and keeps what is written."""

    def isatty(self) -> bool:
        return True


def put_on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal; not in a fixture, after which pytest sets it anew."""
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


@pytest.mark.parametrize("total", [None, 1500])
def test_work_that_takes_long_shows_a_bar(
    total: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = put_on_terminal(monkeypatch)
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    with progress("reading", total, "versions") as shown:
        shown.advance(7)
        until = time.monotonic() + _DEADLINE
        while "reading" not in terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert "reading" in terminal.getvalue()
    assert ("of 1,500 versions" in terminal.getvalue()) == (total is not None)


def test_quick_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = put_on_terminal(monkeypatch)
    monkeypatch.setattr(module, "_PATIENCE", 3600.0)
    with progress("reading", 10) as shown:
        shown.advance(10)
    assert "reading" not in terminal.getvalue()


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    with progress("reading", 10) as shown:
        shown.advance(10)
    assert pipe.getvalue() == ""
