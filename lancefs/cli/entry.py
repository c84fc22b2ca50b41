"""Entry of the script `lancefs`, which is installed even when the libraries of `[cli]` are not."""

from __future__ import annotations

import atexit
import gc
import sys

# Allocations between two garbage collections. Importing modules allocates many objects and leaves
# no garbage: with Python's default (700 to 2,000), collections take a fifth of a command's time.
_GC_THRESHOLD = 200_000


def main() -> int:
    """Run the command line, or print how to install its libraries.

    Returns:
        The exit code.
    """
    gc.set_threshold(_GC_THRESHOLD)
    # Python's last collections would take another fifth; all that holds files closes them itself.
    atexit.register(gc.freeze)
    try:
        from lancefs.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        print(
            f"lancefs: the command line needs {error.name}, which is not installed: "
            "pip install 'lancefs[cli]'",
            file=sys.stderr,
        )
        return 4
    return run()
