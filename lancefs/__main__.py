"""Entry of `python -m lancefs`, for when the script `lancefs` is not on the path."""

from __future__ import annotations

import sys

from lancefs.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
