"""Exit codes, and the error that ends a command with one of them.

0    done
1    done, and problems were found (`verify`)
2    wrong input: the path, ref, column, predicate or option does not exist or is not valid
3    the table is damaged or uses an unsupported feature, or its store failed
4    a package is not installed
70   an internal error of lancefs
130  Ctrl-C
141  the reader of the output closed the pipe
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

DONE = 0
PROBLEMS = 1
USAGE = 2
UNREADABLE = 3
MISSING = 4
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

_MAX_CHOICES = 10


class Failure(Exception):
    """End a command with one line on standard error.

    Args:
        message: The line.
        code: The exit code.
    """

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def wrong_input() -> Iterator[None]:
    """Have errors about arguments end the command, and none about a table, some of which are alike.

    Raises:
        Failure: A value or its type is wrong.
    """
    from lancefs.errors import LanceError

    try:
        yield
    except LanceError:
        raise
    except (TypeError, ValueError) as error:
        raise Failure(str(error)) from error


def choices_hint(name: str, choices: Collection[str]) -> str:
    """Return a hint: the valid choices that are similar to a name, or else the first ones.

    Args:
        name: The invalid input.
        choices: The valid choices.
    """
    from lancefs.arguments import similar_names  # with NumPy, which no help needs

    if near := similar_names(name, choices, cutoff=0.5):
        return f"did you mean {' or '.join(near)}?"
    shown = list(choices)[:_MAX_CHOICES]
    more = f", … ({len(choices)} in all)" if len(choices) > len(shown) else ""
    return f"choose from {', '.join(shown)}{more}" if shown else "there is none"
