"""Reads tables, each in a fork of one process, which has imported once what that takes.

`serve` runs in that process, `Forks` asks it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable

_END = "end "  # and the exit code of the fork


def serve(read: Callable[[str], None]) -> None:
    """Read the tables whose paths are asked for, until there are no more.

    Args:
        read: Reads one, and prints what came of it.
    """
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                read(line.removesuffix("\n"))
                sys.stdout.flush()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f"{_END}{code}", flush=True)


class Forks:
    """A process that serves, and another one once a read of it has failed.

    Args:
        module: What it runs.
        env: Its environment.
    """

    def __init__(self, module: str, env: dict[str, str]) -> None:
        self._module = module
        self._env = env
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: str) -> list[str]:
        """Return the lines that the fork prints that reads a table, and which must not fail."""
        try:
            return self._read(path)
        except BaseException:  # a test that takes too long, also
            self.close()
            raise

    def _read(self, path: str) -> list[str]:
        self._process = self._process or self._started()
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write(f"{path}\n")
        asked.flush()
        lines = []
        for line in told:
            if line.startswith(_END):
                assert line == f"{_END}0\n", f"{path}: {line}after {lines[-1:]}"
                return lines
            lines.append(line)
        raise AssertionError(f"{path}: the process ended after {lines[-1:]}")

    def _started(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", self._module]
        return subprocess.Popen(
            command, env=self._env, stdin=pipe, stdout=pipe, text=True, start_new_session=True
        )

    def close(self) -> None:
        """End the process, and a fork that hangs."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
