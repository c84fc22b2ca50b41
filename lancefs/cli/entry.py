"""The entry of the script `lancefs`, which is there also where its libraries are not."""

from __future__ import annotations

import gc
import sys

# Objects that are made before Python looks for garbage. Modules make many and leave none behind:
# with Python's own number (700 to 2,000), that search is a fifth of the time that a command takes.
_GARBAGE = 200_000


def main() -> int:
    """Run the command line; without its libraries, say how to get them."""
    gc.set_threshold(_GARBAGE)
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
