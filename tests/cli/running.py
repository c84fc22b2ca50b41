"""Running the command line: as a process of its own, in this one, or on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from support import REPOSITORY

from lancefs.cli.main import main

COMMAND = (sys.executable, "-m", "lancefs")
# What a process needs to find the checkout, and nothing that changes what is printed.
ENVIRONMENT = {**os.environ, "COLUMNS": "160", "PYTHONPATH": str(REPOSITORY)}
_PATIENCE = 60  # seconds until a process that does not end fails a test


@dataclass(frozen=True)
class Done:
    """What a process printed, and its exit code."""

    code: int
    out: str
    err: str
    raw: bytes


def run(*arguments: str, stdin: str | None = None, env: Mapping[str, str] | None = None) -> Done:
    """Run the command as a process of its own, its output going into a pipe."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=None if stdin is None else stdin.encode(),
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=_PATIENCE,
        env={**ENVIRONMENT, **(env or {})},
        check=False,
    )
    out = done.stdout.decode(errors="replace")
    return Done(done.returncode, out, done.stderr.decode(), done.stdout)


def run_program(program: str, *arguments: str) -> Done:
    """Run Python code as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        timeout=_PATIENCE,
        env=ENVIRONMENT,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode(), done.stdout)


def run_without(module: str, *arguments: str) -> Done:
    """Run the command where a package that it may need is not installed."""
    program = (
        f"import sys; sys.modules[{module!r}] = None; "
        "from lancefs.cli.entry import main; sys.exit(main())"
    )
    return run_program(program, *arguments)


class Here:
    """Runs the command in this process, which is quicker."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Done:
        self._capture.readouterr()
        code = main(arguments)
        out, err = self._capture.readouterr()
        return Done(code, out.decode(errors="replace"), err.decode(), out)


def run_on_terminal(
    arguments: Sequence[str], typed: Sequence[tuple[str, str]] = (), columns: int = 100
) -> Done:
    """Run the command on a terminal.

    Args:
        arguments: Of the command.
        typed: What is waited for in its output, and what is then typed.
        columns: The width of the terminal.
    """
    env = {**ENVIRONMENT, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=follower, stdout=follower, stderr=follower, env=env
    ) as process:
        os.close(follower)
        text, waiting, until = "", list(typed), time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if waiting and waiting[0][0] in text:
                os.write(leader, waiting.pop(0)[1].encode())
            if not select.select([leader], [], [], 0.05)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                data = os.read(leader, 65536)
            except OSError:  # its end of the terminal was closed
                break
            if not data:
                break
            text += data.decode(errors="replace")
        else:
            process.kill()
            pytest.fail(f"the command did not end; it printed {text!r}")
        os.close(leader)
        return Done(process.wait(_PATIENCE), text, "", text.encode())


def interrupt_when_it_prints(arguments: Sequence[str]) -> Done:
    """Run the command and press Ctrl-C once it has printed something."""
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=_PATIENCE)
    out = first + rest
    return Done(process.returncode, out.decode(errors="replace"), err.decode(), out)
