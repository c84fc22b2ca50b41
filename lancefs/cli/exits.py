"""Exit codes, and the errors that a command ends with.

0    done
1    done, and the answer is that something is wrong (`verify`)
2    what was asked for does not exist or makes no sense: path, ref, column, predicate, option
3    the table is damaged, or needs what this release does not read; or its store failed
4    something is not installed on this machine
70   an error of lancefs itself
130  Ctrl-C
141  whoever read the output went away
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

DONE = 0
PROBLEMS = 1
USAGE = 2
UNREADABLE = 3
MISSING = 4
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

_SHOWN = 10


class Failure(Exception):
    """Ends a command with one line.

    Args:
        message: The line.
        code: The exit code.
    """

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


def nearest(name: str, choices: Collection[str]) -> str:
    """Say which of the valid choices was probably meant, or what they are.

    Args:
        name: What was given.
        choices: What would have been valid.
    """
    lower = {choice.lower(): choice for choice in choices}
    near = [lower[found] for found in difflib.get_close_matches(name.lower(), lower, 3, 0.5)]
    if near:
        return f"did you mean {' or '.join(near)}?"
    shown = list(choices)[:_SHOWN]
    more = f", … ({len(choices)} in all)" if len(choices) > len(shown) else ""
    return f"choose from {', '.join(shown)}{more}" if shown else "there is none"
